"""Filter as early as possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from headrace.model.events.event import Primitive, primitives
from headrace.model.events.output import key_columns
from headrace.model.events.rewrite import own_names
from headrace.model.events.rewrite import rebuild as rebuild_event
from headrace.model.expressions.expression import (
    Column,
    Expr,
    columns,
    conjunction,
    conjuncts,
    depth,
    size,
    substitute,
    walk,
)
from headrace.model.limits import EXPRESSION_DEPTH, EXPRESSION_PARTS
from headrace.model.schema import HIDDEN, TS
from headrace.model.types import Type
from headrace.model.window import Cumulative, Extent, Landmark, Range, Rows, Session, Sliding, While, Window
from headrace.optimizer.narrowing import is_narrowed_scan
from headrace.plan import nodes
from headrace.plan.nodes import Node
from headrace.plan.traversal import Rebuild, descend, replace_inputs

Terms = tuple[Expr, ...]

_INEXACT = (Type.FLOAT, Type.DOUBLE)
#: A term that would become larger than this stays where it is; some levels remain for the conjunction that it joins.
_PUSHED_PARTS = EXPRESSION_PARTS // 10
_PUSHED_DEPTH = EXPRESSION_DEPTH - 40


def push_down_filters(plan: Node) -> Node:
    """Move each term of each predicate down to where it first can be decided.

    Before: Filter a.price > 10 AND a.x < b.x       After: Filter a.x < b.x
              Join inner ...                                 Join inner ...
                Scan a                                         Filter price > 10
                Scan b                                           Scan a
                                                               Scan b
    """
    nothing: Terms = ()
    return descend(plan, nothing, _push)


def _push(node: Node, terms: Terms) -> tuple[tuple[Terms, ...], Rebuild]:
    """Decide which terms above and within a node go to its inputs, and how the node is rebuilt."""
    match node:
        case nodes.Scan():
            return (), _keep(node, terms)
        case nodes.Filter(predicate=predicate):
            return ((*conjuncts(predicate), *terms),), lambda new: new[0]
        case nodes.Project():
            if is_narrowed_scan(node):  # narrowing comes with reading; below it a filter saves nothing
                return ((),), _keep(node, terms)
            by = dict(node.columns)
            down, kept = _split(terms, lambda term: _stays_small(term, by))
            return (tuple(substitute(term, by) for term in down),), _keep(node, kept)
        case nodes.Union(inputs=parts):
            return (terms,) * len(parts), _keep(node, ())
        case nodes.Pace(inputs=parts):  # a tuple that were dropped before would not make others late
            return ((),) * len(parts), _keep(node, terms)
        case nodes.Order():
            return (terms,), _keep(node, ())
        case nodes.Distinct():
            # Equal tuples pass or fail together, but their timestamps differ.
            down, kept = _split(terms, lambda term: columns(term).isdisjoint(HIDDEN))
            return (down,), _keep(node, kept)
        case nodes.Aggregate():
            return _push_into_aggregate(node, terms)
        case nodes.Condense(keys=kept_):
            down, kept = _split(terms, lambda term: columns(term) <= set(kept_))
            return (down,), _keep(node, kept)
        case nodes.Unnest(names=names, place=place_):
            down, kept = _split(terms, lambda term: columns(term).isdisjoint({*names, place_}))
            return (down,), _keep(node, kept)
        case nodes.Impute(name=name) | nodes.Membership(name=name):
            down, kept = _split(terms, lambda term: name not in columns(term))
            return (down,), _keep(node, kept)
        case nodes.TableJoin():
            return _push_into_table_join(node, terms)
        case nodes.Join():
            return _push_into_join(node, terms)
        case nodes.MultiJoin(inputs=parts):  # its joins were optimized before they were gathered
            return ((),) * len(parts), _keep(node, terms)
        case nodes.SequenceJoin():
            return _push_into_sequence(node, terms)
        case (
            nodes.Rank(by=by)
            | nodes.WindowOver(by=by)
            | nodes.Deduplicate(by=by)
            | nodes.Over(by=by)
            | nodes.MatchRows(by=by)
        ):
            keys = frozenset(expr.name for expr in by if isinstance(expr, Column))
            down, kept = _split(terms, lambda term: bool(columns(term)) and columns(term) <= keys)
            return (down,), _keep(node, kept)
        case nodes.Punctuate(keys=delimited):  # a mark has the keys of what it ends
            down, kept = _split(terms, lambda term: bool(columns(term)) and columns(term) <= {*delimited})
            return (down,), _keep(node, kept)
        case nodes.Suppress() | nodes.Limit() | nodes.Changes():
            return ((),), _keep(node, terms)  # what is filtered early would not count
        case nodes.Detect():
            return _push_into_detect(node, terms)


def _push_into_detect(node: nodes.Detect, terms: Terms) -> tuple[tuple[Terms, ...], Rebuild]:
    """Push terms over keys, which drop whole histories; other early filters would change what replaces or prevents.

    Masks are decided before tuples are sent to where they meet, unless another part needs the same tuples anyway.
    """
    parts = {part.name: part for part in primitives(node.event)}
    keyed = key_columns(node.event, node.keys, node.outputs)
    down, kept = _split(terms, lambda term: bool(columns(term)) and columns(term) <= keyed.keys())
    masks = {
        part.name: part.mask
        for part in parts.values()
        if part.mask is not None and _all_masked(node, part.port, parts.values())
    }

    def below(port: int) -> Terms:
        own = tuple(substitute(term, {name: node.keys[port][place] for name, place in keyed.items()}) for term in down)
        masked = [
            own_names(term) for name, mask in masks.items() if parts[name].port == port for term in conjuncts(mask)
        ]
        return (*own, *masked)

    def rebuild(new: tuple[Node, ...]) -> Node:
        event = rebuild_event(
            node.event,
            lambda part: replace(part, mask=None) if isinstance(part, Primitive) and part.name in masks else part,
        )
        return _keep(replace(node, event=event), kept)(new)

    return tuple(below(port) for port in range(len(node.parts))), rebuild


def _all_masked(node: nodes.Detect, port: int, parts: Iterable[Primitive]) -> bool:
    """Return whether a port is one part's, and no part reads the same input without a mask."""
    alike = [part for part in parts if node.parts[part.port] == node.parts[port]]
    return sum(part.port == port for part in alike) == 1 and all(part.mask is not None for part in alike)


def _push_into_aggregate(node: nodes.Aggregate, terms: Terms) -> tuple[tuple[Terms, ...], Rebuild]:
    """Push terms over keys, which drop whole groups, unless a window counts tuples of several groups."""
    decidable = frozenset(name for name, expr in node.keys if splits_windows(node.window, expr))
    by = dict(node.keys)
    down, kept = _split(terms, lambda term: columns(term) <= decidable and _stays_small(term, by))
    return (tuple(substitute(term, by) for term in down),), _keep(node, kept)


def splits_windows(window: Window, key: Expr) -> bool:
    """Return whether tuples that differ in `key` are never in the same window, nor decide on each other's."""
    match window:
        case Range() | Sliding() | Session() | Landmark() | Cumulative():
            return True
        case Rows(by=by) | While(by=by):
            return key in by or columns(key) <= {expr.name for expr in by if isinstance(expr, Column)}


def _push_into_table_join(node: nodes.TableJoin, terms: Terms) -> tuple[tuple[Terms, ...], Rebuild]:
    """Push terms above the join to its input; a left join preserves it, so terms of its own condition stay.

    What an inner join need not make, it had better not make: terms that read the table become part of its condition.
    """
    visible = frozenset((*node.input.schema.names, TS))  # a result has the timestamp of its tuple
    if node.kind == "left":
        down, kept = _split(terms, lambda term: columns(term) <= visible)
        return (down,), _keep(node, kept)
    own: Terms = () if node.residual is None else conjuncts(node.residual)
    down, kept = _split((*own, *terms), lambda term: columns(term) <= visible)
    return (down,), _keep(node if kept == own else replace(node, residual=conjunction(kept)), ())


def _push_into_join(node: nodes.Join, terms: Terms) -> tuple[tuple[Terms, ...], Rebuild]:
    """Push terms that read one side to it, if that side can lose the tuples.

    A term above the join may go to a side whose every tuple comes out by itself or paired (the preserved side, or
    either side of an inner join). A term of the condition may go to a side that is not preserved: its tuples come out
    only if the condition holds. The timestamp above is that of the pair, so what reads it stays. A window of the last n
    rows must see all rows.
    """
    right_by: Mapping[str, Expr] = {
        name: Column(field.name, field.type) for name, field in zip(node.right_names, node.right.schema, strict=True)
    }
    left_names, right_names = frozenset(node.left.schema.names), frozenset(right_by)
    left_free, right_free = not counts_rows(node.left_extent), not counts_rows(node.right_extent)

    above_left, terms = _split(
        terms, lambda term: left_free and node.kind in ("inner", "left") and columns(term) <= left_names
    )
    above_right, terms = _split(
        terms, lambda term: right_free and node.kind in ("inner", "right") and columns(term) <= right_names
    )
    own: Terms = () if node.residual is None else conjuncts(node.residual)
    own_left, own = _split(
        own, lambda term: left_free and node.kind in ("inner", "right") and columns(term) <= left_names
    )
    own_right, own = _split(
        own, lambda term: right_free and node.kind in ("inner", "left") and columns(term) <= right_names
    )

    to_right = tuple(substitute(term, right_by) for term in (*own_right, *above_right))
    rest = replace(node, residual=conjunction(own)) if own_left or own_right else node
    return ((*own_left, *above_left), to_right), _keep(rest, terms)


def _push_into_sequence(node: nodes.SequenceJoin, terms: Terms) -> tuple[tuple[Terms, ...], Rebuild]:
    """Push terms that decide on a match to the side they read; terms on finished pairs mostly stay.

    Without a left tuple another one would be the newest or the earliest, and without a right tuple a left one would not
    be used up. But terms over keys drop both sides of all pairs of these keys, and a right tuple of 'recent' takes
    nothing from the others. A result has its right tuple's timestamp, of 'consuming' that of the later one.
    """
    right_by: Mapping[str, Expr] = {
        name: Column(field.name, field.type) for name, field in zip(node.right_names, node.right.schema, strict=True)
    }
    time = () if node.mode == "consuming" else (TS,)
    left_names, right_names = frozenset(node.left.schema.names), frozenset((*right_by, *time))
    key_left, key_right = _equal_columns(node)

    above_keys, terms = _split(terms, lambda term: not node.padded and columns(term) <= key_left.keys())
    above_right, terms = _split(terms, lambda term: node.mode == "recent" and columns(term) <= right_names)
    own: Terms = () if node.residual is None else conjuncts(node.residual)
    own_left, own = _split(own, lambda term: columns(term) <= left_names)
    own_right, own = _split(own, lambda term: not node.padded and columns(term) <= right_names)

    to_left = (*own_left, *(substitute(term, key_left) for term in above_keys))
    to_right = (
        *(substitute(term, right_by) for term in (*own_right, *above_right)),
        *(substitute(term, key_right) for term in above_keys),
    )
    rest = replace(node, residual=conjunction(own)) if own_left or own_right else node
    return (to_left, to_right), _keep(rest, terms)


def _equal_columns(node: nodes.SequenceJoin) -> tuple[Mapping[str, Expr], Mapping[str, Expr]]:
    """Return the output columns equal on both sides of every pair, as columns of the left and the right input."""
    renamed = {field.name: name for name, field in zip(node.right_names, node.right.schema, strict=True)}
    left: dict[str, Expr] = {}
    right: dict[str, Expr] = {}
    for mine, theirs in node.keys:
        # equal floats need not be the same: 0.0 and -0.0
        if (
            isinstance(mine, Column)
            and isinstance(theirs, Column)
            and TS not in (mine.name, theirs.name)
            and mine.type not in _INEXACT
        ):
            for name in (mine.name, renamed[theirs.name]):
                left[name], right[name] = mine, theirs
    return left, right


def counts_rows(extent: Extent | None) -> bool:
    """Return whether a join keeps the newest rows of an input."""
    return extent is not None and extent.rows is not None


def _split(terms: Terms, goes: Callable[[Expr], bool]) -> tuple[Terms, Terms]:
    return tuple(term for term in terms if goes(term)), tuple(term for term in terms if not goes(term))


def _stays_small(term: Expr, by: Mapping[str, Expr]) -> bool:
    """Return whether a term is worth its size after substitution: what it reads twice is computed twice."""
    read = Counter(part.name for part in walk(term) if isinstance(part, Column) and part.name in by)
    parts = size(term) + sum(count * size(by[name]) for name, count in read.items())
    return parts <= _PUSHED_PARTS and depth(term) + max((depth(by[name]) for name in read), default=0) <= _PUSHED_DEPTH


def _keep(node: Node, kept: Terms) -> Rebuild:
    """Rebuild the node with the terms that could not go below as a filter on top, each once."""

    def rebuild(new: tuple[Node, ...]) -> Node:
        predicate = conjunction(tuple(dict.fromkeys(kept)))
        rebuilt = replace_inputs(node, new)
        return rebuilt if predicate is None else nodes.Filter(rebuilt, predicate)

    return rebuild
