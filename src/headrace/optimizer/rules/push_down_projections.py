"""Carry only the columns that somebody reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from headrace.model.events.event import divided_by, linked_columns, primitives
from headrace.model.events.output import read_columns
from headrace.model.expressions.expression import Expr, columns
from headrace.model.python_target import is_python_target
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
from headrace.optimizer.narrowing import is_base, narrow, pick
from headrace.plan import nodes
from headrace.plan.nodes import Node
from headrace.plan.traversal import Rebuild, descend, replace_inputs, window_expressions

Names = frozenset[str]


def push_down_projections(plan: Node) -> Node:
    """Leave out, from the streams on, the columns and aggregates that nothing above reads.

    Before: Project a                  After: Project a
              Filter b > 1                      Filter b > 1
                Scan s (a, b, c)                  Project a, b
                                                    Scan s (a, b, c)

    Whatever compares whole tuples keeps them whole: Distinct, and whatever orders the tuples of a derived stream, whose
    ties are broken by content.
    """
    return descend(plan, frozenset(plan.schema.names), _narrow)


def _narrow(node: Node, needed: Names) -> tuple[tuple[Names, ...], Rebuild]:
    """Decide what a node needs of its inputs, and how it is rebuilt with the needed columns, in their order."""
    match node:
        case nodes.Scan(schema=schema):
            return (), lambda _: narrow(node, pick(schema, needed))
        case nodes.Filter(predicate=predicate):
            return (needed | columns(predicate),), lambda new: replace_inputs(node, new)
        case nodes.Project():
            return _narrow_project(node, needed)
        case nodes.Condense(input=below):
            return (frozenset(below.schema.names),), lambda new: replace_inputs(node, new)
        case nodes.Unnest(input=below, of=of):
            kept = tuple(name for name in below.schema.names if name in needed)
            return (frozenset(kept) | columns(of),), lambda new: replace(node, input=new[0], kept=kept)
        case nodes.Union(inputs=parts) | nodes.Pace(inputs=parts):
            names = pick(node.schema, needed)
            return (frozenset(names),) * len(parts), lambda new: replace_inputs(
                node, tuple(narrow(part, names) for part in new)
            )
        case nodes.Punctuate(mark=mark, keys=delimited):
            return (needed | {mark, *delimited},), lambda new: replace_inputs(node, new)
        case nodes.Suppress():
            return _narrow_suppress(node, needed)
        case nodes.Distinct(input=below):
            return (frozenset(below.schema.names),), lambda new: replace_inputs(node, new)
        case nodes.Rank(input=below, name=name, by=by, order=order):
            if name not in needed:  # the rank is not read
                return (needed,), lambda new: new[0]
            read = _reads(needed - {name}, (*by, *(term.expr for term in order)))
            return (_whole_unless_base(below, read),), lambda new: replace_inputs(node, new)
        case nodes.Deduplicate(input=below, by=by):
            return (_whole_unless_base(below, _reads(needed, by)),), lambda new: replace_inputs(node, new)
        case nodes.Over() | nodes.WindowOver():
            return _narrow_over(node, needed)
        case nodes.MatchRows():
            return _narrow_match(node, needed)
        case nodes.Order(input=below) | nodes.Limit(input=below):
            return (_whole_unless_base(below, needed),), lambda new: replace_inputs(node, new)
        case nodes.Aggregate():
            return _narrow_aggregate(node, needed)
        case nodes.Impute(input=below, name=name, value=value, keys=looked_up):
            if name not in needed:  # the imputed column is not read
                return (needed,), lambda new: new[0]
            return (_reads(needed - {name}, (value, *looked_up)),), lambda new: replace_inputs(node, new)
        case nodes.Changes(keys=groups, calls=calls):
            read = _reads(frozenset(), (expr for _, expr in groups), *(arg for call in calls for arg in call.args))
            return (read,), lambda new: replace_inputs(node, new)
        case nodes.Membership(input=below, name=name):
            if name not in needed:  # nobody asks
                return (needed,), lambda new: new[0]
            read = _reads(needed - {name}, (mine for mine, _ in (*node.keys, *node.compared)), node.residual)
            return (read.intersection(below.schema.names),), lambda new: replace_inputs(node, new)
        case nodes.TableJoin(input=below, keys=keys, residual=residual):
            read = _reads(needed, (expr for expr, _ in keys), residual)
            return (read.intersection(below.schema.names),), lambda new: replace_inputs(node, new)
        case nodes.Join():
            return _narrow_join(node, needed)
        case nodes.MultiJoin(inputs=parts):  # its joins were optimized before they were gathered
            return tuple(frozenset(part.schema.names) for part in parts), lambda new: replace_inputs(node, new)
        case nodes.SequenceJoin():
            return _narrow_sequence(node, needed)
        case nodes.Detect():
            return _narrow_detect(node, needed)


def _narrow_over(node: nodes.Over | nodes.WindowOver, needed: Names) -> tuple[tuple[Names, ...], Rebuild]:
    calls = tuple(call for call in node.calls if call.name in needed)
    if not calls:  # nothing of it is read
        return (needed,), lambda new: new[0]
    own = needed - {call.name for call in node.calls}
    order = tuple(term.expr for term in node.order) if isinstance(node, nodes.WindowOver) else ()
    read = _reads(own, (*node.by, *order), *(arg for call in calls for arg in call.args))
    return (_whole_unless_base(node.input, read),), lambda new: replace_inputs(replace(node, calls=calls), new)


def _narrow_match(node: nodes.MatchRows, needed: Names) -> tuple[tuple[Names, ...], Rebuild]:
    lookups = tuple(lookup for lookup in node.lookups if lookup.name in needed)
    folds = tuple(fold for fold in node.folds if fold.call.name in needed)
    arguments = [arg for fold in folds for arg in fold.call.args]
    read = _reads(node.pattern.read, (*node.by, *node.order, *(lookup.of for lookup in lookups), *arguments))
    below = _whole_unless_base(node.input, read.intersection(node.input.schema.names))
    return (below,), lambda new: replace_inputs(replace(node, lookups=lookups, folds=folds), new)


def _narrow_project(node: nodes.Project, needed: Names) -> tuple[tuple[Names, ...], Rebuild]:
    names = pick(node.schema, needed)
    kept = tuple((name, expr) for name, expr in node.columns if name in names)

    def rebuild(new: tuple[Node, ...]) -> Node:
        # This projection narrows a stream itself: another one in between would only be merged away again.
        below = node.input if isinstance(node.input, nodes.Scan) else new[0]
        return nodes.Project(below, kept)

    return (_reads(frozenset(), (expr for _, expr in kept)),), rebuild


def _narrow_aggregate(node: nodes.Aggregate, needed: Names) -> tuple[tuple[Names, ...], Rebuild]:
    calls = tuple(call for call in node.calls if call.name in needed)
    read = _reads(
        frozenset(),
        (expr for _, expr in node.keys),
        *(arg for call in calls for arg in call.args),
        *window_expressions(node.window),
    )
    if depends_on_order(node.window, calls):
        read = _whole_unless_base(node.input, read)
    return (read,), lambda new: nodes.Aggregate(new[0], node.window, node.keys, calls)


def _narrow_suppress(node: nodes.Suppress, needed: Names) -> tuple[tuple[Names, ...], Rebuild]:
    """Keep what is read of the newest or the oldest tuple, and what the suppressor tests."""
    names = node.input.schema.names
    older = {old: name for old, name in zip(node.old_names, names, strict=False) if old in needed}
    decides = (*node.by, *((node.rule.action,) if isinstance(node.rule, Standing) else ()))
    read = _whole_unless_base(node.input, _reads(needed.intersection(names).union(older.values()), decides))
    kept = pick(node.input.schema, read)
    old_names = (*(old for old, name in zip(node.old_names, names, strict=False) if name in kept), node.old_names[-1])
    return (frozenset(kept),), lambda new: nodes.Suppress(narrow(new[0], kept), node.by, node.rule, old_names)


def _narrow_join(node: nodes.Join, needed: Names) -> tuple[tuple[Names, ...], Rebuild]:
    """Join inputs are narrowed exactly, because a join remembers them."""
    above = _reads(needed, (), node.residual)
    right_named = {name: field.name for name, field in zip(node.right_names, node.right.schema, strict=True)}
    left = _reads(above.intersection(node.left.schema.names), (mine for mine, _ in node.keys), *_by(node.left_extent))
    right = _reads(
        frozenset(right_named[name] for name in above & right_named.keys()),
        (theirs for _, theirs in node.keys),
        *_by(node.right_extent),
    )
    if node.left_extent is not None and node.left_extent.rows is not None:
        left = _whole_unless_base(node.left, left)
    if node.right_extent is not None and node.right_extent.rows is not None:
        right = _whole_unless_base(node.right, right)
    return _narrow_sides(node, right_named, left, right)


def _narrow_sequence(node: nodes.SequenceJoin, needed: Names) -> tuple[tuple[Names, ...], Rebuild]:
    """Keep what orders left tuples, which decides which one is taken; where each is taken once, also right tuples."""
    above = _reads(needed, (), node.residual)
    right_named = {name: field.name for name, field in zip(node.right_names, node.right.schema, strict=True)}
    left = _whole_unless_base(
        node.left, _reads(above.intersection(node.left.schema.names), (mine for mine, _ in node.keys))
    )
    right = _reads(
        frozenset(right_named[name] for name in above & right_named.keys()), (theirs for _, theirs in node.keys)
    )
    if node.mode in ("chronicle", "consuming"):
        right = _whole_unless_base(node.right, right)
    return _narrow_sides(node, right_named, left, right)


def _narrow_detect(node: nodes.Detect, needed: Names) -> tuple[tuple[Names, ...], Rebuild]:
    """Keep what a detection returns, tests and divides by, and the starts of its parts; its inputs are ordered."""
    outputs = tuple(output for output in node.outputs if output.name in needed) or node.outputs[-1:]
    masks = (part.mask for part in primitives(node.event) if part.mask is not None)
    read = _reads(
        frozenset[str]().union(*map(read_columns, outputs)),
        (*node.conditions, *masks),
    )
    read |= frozenset(linked_columns(node.event))
    read |= frozenset(divided_by(node.event, node.context))
    read |= {f"{part.name}.{part.start}" for part in primitives(node.event) if part.start is not None}
    below: list[tuple[str, ...]] = []
    for port, part in enumerate(node.parts):
        names = {primitive.name for primitive in primitives(node.event) if primitive.port == port}
        own = frozenset(column for name, _, column in (qualified.partition(".") for qualified in read) if name in names)
        below.append(pick(part.schema, _whole_unless_base(part, _reads(own, node.keys[port]))))

    def rebuild(new: tuple[Node, ...]) -> Node:
        return replace(node, parts=tuple(map(narrow, new, below)), outputs=outputs)

    return tuple(map(frozenset, below)), rebuild


def _narrow_sides(
    node: nodes.Join | nodes.SequenceJoin, right_named: Mapping[str, str], left: Names, right: Names
) -> tuple[tuple[Names, ...], Rebuild]:
    left_names, right_names = pick(node.left.schema, left), pick(node.right.schema, right)

    def rebuild(new: tuple[Node, ...]) -> Node:
        renamed = tuple(name for name, old in right_named.items() if old in right_names)
        return replace(node, left=narrow(new[0], left_names), right=narrow(new[1], right_names), right_names=renamed)

    return (frozenset(left_names), frozenset(right_names)), rebuild


def _reads(needed: Names, exprs: Iterable[Expr], *more: Expr | None) -> Names:
    return needed.union(*map(columns, exprs), *(columns(expr) for expr in more if expr is not None))


def _by(extent: Extent | None) -> tuple[Expr, ...]:
    return () if extent is None else extent.by


def _whole_unless_base(below: Node, read: Names) -> Names:
    """Return all columns where content orders simultaneous tuples and that order matters."""
    return read if is_base(below) else read.union(below.schema.names)


def depends_on_order(window: Window, calls: tuple[AggregateCall, ...]) -> bool:
    """Return whether tuples in another order, or ties broken otherwise, could change what is computed."""
    match window:
        case Sliding() | Rows() | While():
            return True
        case Range() | Session() | Landmark() | Cumulative():
            return any(call.function in ("first", "last") or is_python_target(call.function) for call in calls)
