"""The recursion over plans: everything that visits or rebuilds a plan does it through these functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from msgspec.structs import replace

from headrace.model.expressions.expression import Expr
from headrace.model.row_pattern import Fold, Lookup
from headrace.model.suppression import Standing
from headrace.model.window import (
    AggregateCall,
    Cumulative,
    Extent,
    Landmark,
    Range,
    Rows,
    Session,
    Sliding,
    While,
    Window,
)
from headrace.plan import nodes
from headrace.plan.nodes import Node, inputs

C = TypeVar("C")
Rebuild = Callable[[tuple[Node, ...]], Node]


def walk(node: Node) -> Iterator[Node]:
    """Return the node and all below it, each before its inputs."""
    return (part for _, part in outline(node))


def outline(node: Node, depth: int = 0) -> Iterator[tuple[int, Node]]:
    """Return the node and all below it, each before its inputs and with its depth."""
    yield depth, node
    for child in inputs(node):
        yield from outline(child, depth + 1)


def transform(node: Node, change: Callable[[Node], Node]) -> Node:
    """Rebuild bottom-up, passing every rebuilt node through `change`."""
    return change(replace_inputs(node, tuple(transform(child, change) for child in inputs(node))))


def descend(node: Node, context: C, visit: Callable[[Node, C], tuple[tuple[C, ...], Rebuild]]) -> Node:
    """Rebuild with something that travels from above to below.

    `visit` sees a node and its context; it answers the contexts of the node's inputs and how to rebuild the node on its
    new inputs.
    """
    contexts, rebuild = visit(node, context)
    return rebuild(tuple(descend(child, below, visit) for child, below in zip(inputs(node), contexts, strict=True)))


def replace_inputs(node: Node, new: tuple[Node, ...]) -> Node:
    """Return the node on other inputs; the node itself if they are its own."""
    if all(old is fresh for old, fresh in zip(inputs(node), new, strict=True)):
        return node
    match node:
        case nodes.Scan():
            return node
        case nodes.Union():
            return nodes.Union(new)
        case nodes.Detect():
            return replace(node, parts=new)
        case nodes.Pace() | nodes.MultiJoin():
            return replace(node, inputs=new)
        case nodes.Join() | nodes.SequenceJoin():
            return replace(node, left=new[0], right=new[1])
        case (
            nodes.Filter()
            | nodes.Project()
            | nodes.Condense()
            | nodes.Unnest()
            | nodes.TableJoin()
            | nodes.Membership()
            | nodes.Impute()
            | nodes.Aggregate()
            | nodes.Changes()
            | nodes.Distinct()
            | nodes.Deduplicate()
            | nodes.Punctuate()
            | nodes.Over()
            | nodes.MatchRows()
            | nodes.Suppress()
            | nodes.Rank()
            | nodes.WindowOver()
            | nodes.Order()
            | nodes.Limit()
        ):
            return replace(node, input=new[0])


def replace_expressions(node: Node, change: Callable[[Expr], Expr]) -> Node:
    """Return the node with all its expressions, also those of its window, passed through `change`."""

    def optional(expr: Expr | None) -> Expr | None:
        return None if expr is None else change(expr)

    def extent(old: Extent | None) -> Extent | None:
        return None if old is None else replace(old, by=tuple(map(change, old.by)))

    match node:
        case nodes.Scan() | nodes.Union() | nodes.Pace() | nodes.Distinct() | nodes.Order() | nodes.Limit():
            return node
        case nodes.Condense() | nodes.Punctuate():  # they read columns only
            return node
        case nodes.Detect(keys=parts, conditions=conditions):
            changed_keys = tuple(tuple(map(change, part)) for part in parts)
            return replace(node, keys=changed_keys, conditions=tuple(map(change, conditions)))
        case nodes.Filter(input=below, predicate=predicate):
            return nodes.Filter(below, change(predicate))
        case nodes.Project(input=below, columns=columns):
            return nodes.Project(below, tuple((name, change(expr)) for name, expr in columns))
        case nodes.Unnest(of=of):
            return replace(node, of=change(of))
        case nodes.Join(keys=keys, residual=residual, left_extent=left, right_extent=right):
            pairs = tuple((change(mine), change(theirs)) for mine, theirs in keys)
            return replace(
                node, keys=pairs, residual=optional(residual), left_extent=extent(left), right_extent=extent(right)
            )
        case nodes.MultiJoin(classes=classes, terms=terms_):
            changed_classes = tuple(tuple(map(optional, members)) for members in classes)
            return replace(node, classes=changed_classes, terms=tuple(map(change, terms_)))
        case nodes.SequenceJoin(keys=keys, residual=residual):
            pairs = tuple((change(mine), change(theirs)) for mine, theirs in keys)
            return replace(node, keys=pairs, residual=optional(residual))
        case nodes.Impute(value=value, keys=looked_up):
            return replace(node, value=change(value), keys=tuple(map(change, looked_up)))
        case nodes.Suppress(by=by, rule=rule):
            ruled = replace(rule, action=change(rule.action)) if isinstance(rule, Standing) else rule
            return replace(node, by=tuple(map(change, by)), rule=ruled)
        case nodes.Deduplicate(by=by):
            return replace(node, by=tuple(map(change, by)))
        case nodes.Over(by=by, calls=calls):
            return replace(
                node, by=tuple(map(change, by)), calls=tuple(_replace_in_call(call, change) for call in calls)
            )
        case nodes.WindowOver(by=by, order=order, calls=calls):
            return replace(
                node,
                by=tuple(map(change, by)),
                order=tuple(replace(term, expr=change(term.expr)) for term in order),
                calls=tuple(_replace_in_call(call, change) for call in calls),
            )
        case nodes.MatchRows():
            return _replace_in_match(node, change)
        case nodes.Rank(by=by, order=order):
            terms = tuple(replace(term, expr=change(term.expr)) for term in order)
            return replace(node, by=tuple(map(change, by)), order=terms)
        case nodes.TableJoin(keys=table_keys, residual=residual):
            return replace(
                node, keys=tuple((change(expr), name) for expr, name in table_keys), residual=optional(residual)
            )
        case nodes.Membership(keys=of_row, compared=compared, residual=residual):
            return replace(
                node,
                keys=tuple((change(mine), change(theirs)) for mine, theirs in of_row),
                compared=tuple((change(mine), change(theirs)) for mine, theirs in compared),
                residual=optional(residual),
                calls=tuple(_replace_in_call(call, change) for call in node.calls),
                value=optional(node.value),
            )
        case nodes.Changes(keys=groups, calls=calls, columns=shown, condition=condition):
            return replace(
                node,
                keys=tuple((name, change(expr)) for name, expr in groups),
                calls=tuple(_replace_in_call(call, change) for call in calls),
                columns=tuple((name, change(expr)) for name, expr in shown),
                condition=optional(condition),
            )
        case nodes.Aggregate(input=below, window=window, keys=groups, calls=calls):
            named = tuple((name, change(expr)) for name, expr in groups)
            changed = tuple(_replace_in_call(call, change) for call in calls)
            return nodes.Aggregate(below, _replace_in_window(window, change), named, changed)


def _replace_in_match(node: nodes.MatchRows, change: Callable[[Expr], Expr]) -> Node:
    """Columns of partitions and of the order stay: they are columns of the result, or no expressions."""

    def lookups(old: tuple[Lookup, ...]) -> tuple[Lookup, ...]:
        return tuple(replace(lookup, of=change(lookup.of)) for lookup in old)

    def folds(old: tuple[Fold, ...]) -> tuple[Fold, ...]:
        return tuple(replace(fold, call=_replace_in_call(fold.call, change)) for fold in old)

    variables = tuple(replace(known, condition=change(known.condition)) for known in node.pattern.variables)
    pattern = replace(
        node.pattern, variables=variables, lookups=lookups(node.pattern.lookups), folds=folds(node.pattern.folds)
    )
    return replace(node, pattern=pattern, lookups=lookups(node.lookups), folds=folds(node.folds))


def _replace_in_call(call: AggregateCall, change: Callable[[Expr], Expr]) -> AggregateCall:
    arg = None if call.arg is None else change(call.arg)
    return replace(call, arg=arg, more=tuple(map(change, call.more)))


def expressions(node: Node) -> list[Expr]:
    """Return all expressions of a node, also those of its window."""
    collected: list[Expr] = []

    def take(expr: Expr) -> Expr:
        collected.append(expr)
        return expr

    replace_expressions(node, take)
    return collected


def window_expressions(window: Window) -> tuple[Expr, ...]:
    """Return the expressions by which a window looks at a tuple."""
    match window:
        case Rows(by=by):
            return by
        case While(predicate=predicate, by=by):
            return (predicate, *by)
        case Range() | Sliding() | Session() | Landmark() | Cumulative():
            return ()


def _replace_in_window(window: Window, change: Callable[[Expr], Expr]) -> Window:
    match window:
        case Rows(by=by):
            return replace(window, by=tuple(map(change, by)))
        case While(predicate=predicate, by=by):
            return While(change(predicate), tuple(map(change, by)))
        case Range() | Sliding() | Session() | Landmark() | Cumulative():
            return window
