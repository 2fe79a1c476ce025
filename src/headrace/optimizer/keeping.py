"""Plans of a new query with parts of an old one in them, so that the state of these parts can be kept.

A part of the old plan covers a part of the new one if a filter and a projection on top of it give the same tuples. An
optimizer would rather filter and narrow below what keeps state; here they stay above, where the state does not notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headrace.model.expressions.expression import Column, Expr, columns, conjunction, conjuncts, rebuilt, substitute
from headrace.model.schema import HIDDEN
from headrace.optimizer.narrowing import is_base
from headrace.optimizer.rules.push_down_filters import counts_rows, splits_windows
from headrace.optimizer.rules.push_down_projections import depends_on_order
from headrace.plan import nodes
from headrace.plan.nodes import Node
from headrace.plan.traversal import replace_expressions, replace_inputs, walk

Terms: TypeAlias = tuple[Expr, ...]
#: Nodes whose operators keep state.
_STATEFUL = (
    nodes.Join,
    nodes.SequenceJoin,
    nodes.Aggregate,
    nodes.Distinct,
    nodes.Suppress,
    nodes.Rank,
    nodes.Deduplicate,
    nodes.Over,
    nodes.WindowOver,
    nodes.MatchRows,
    nodes.Order,
    nodes.Limit,
    nodes.Pace,
    nodes.Punctuate,
    nodes.Detect,
)
_WINDOW_BOUNDS = ("window_start", "window_end")


@dataclass(frozen=True, slots=True)
class Cover:
    """How the tuples of a new part follow from those of an old one: `terms` select them, `columns` compute theirs.

    Both are over the columns of the old part.
    """

    terms: Terms
    columns: dict[str, Expr]


class _UncoveredError(Exception):
    """An expression reads what the old part does not offer."""


def keep(new: Node, old: Iterable[Node]) -> Node:
    """Return an equal plan that contains as large parts of the old plans as possible."""
    return _keep(new, [part for plan in old for part in stateful_parts(plan)])


def stateful_parts(plan: Node) -> list[Node]:
    """Return the parts of a plan whose operators keep state."""
    return [part for part in walk(plan) if isinstance(part, _STATEFUL)]


def _keep(new: Node, offered: Sequence[Node]) -> Node:
    if isinstance(new, _STATEFUL) and new not in offered:
        for part in offered:
            covered = cover(new, part)
            if covered is not None:
                return _on_top(part, covered, new.schema.names)
    if new in offered:
        return new
    return replace_inputs(new, tuple(_keep(child, offered) for child in nodes.inputs(new)))


def _on_top(part: Node, covered: Cover, names: Iterable[str]) -> Node:
    predicate = conjunction(tuple(dict.fromkeys(covered.terms)))
    filtered = part if predicate is None else nodes.Filter(part, predicate)
    return nodes.Project(filtered, tuple((name, covered.columns[name]) for name in names))


def cover(new: Node, old: Node) -> Cover | None:
    """Return how a new part follows from an old one; None if it does not, or if that cannot be seen."""
    try:
        return _cover(new, old)
    except _UncoveredError:
        return None


def _cover(new: Node, old: Node) -> Cover:
    """Compare two parts; what is stateless in the old one comes off first, then what is stateless in the new one."""
    if new == old:
        return Cover((), {field.name: Column(field.name, field.type) for field in old.schema})
    match old:
        case nodes.Filter(input=below, predicate=predicate):
            covered = _cover(new, below)
            return Cover(_beyond(conjuncts(predicate), covered.terms), covered.columns)
        case nodes.Project(input=below, columns=computed):
            covered = _cover(new, below)
            return _over(covered, {expr: Column(name, expr.type) for name, expr in computed})
        case _:
            pass
    match new:
        case nodes.Filter(input=below, predicate=predicate):
            covered = _cover(below, old)
            more = tuple(substitute(term, covered.columns) for term in conjuncts(predicate))
            return Cover((*covered.terms, *more), covered.columns)
        case nodes.Project(input=below, columns=computed):
            covered = _cover(below, old)
            return Cover(covered.terms, {name: substitute(expr, covered.columns) for name, expr in computed})
        case _:
            pass
    match new, old:
        case nodes.Union(), nodes.Union():
            return _cover_union(new, old)
        case nodes.Join(), nodes.Join():
            return _cover_join(new, old)
        case nodes.SequenceJoin(), nodes.SequenceJoin():
            return _cover_sequence(new, old)
        case nodes.TableJoin(), nodes.TableJoin():
            return _cover_table_join(new, old)
        case nodes.Membership(), nodes.Membership():
            return _cover_membership(new, old)
        case nodes.Aggregate(), nodes.Aggregate():
            return _cover_aggregate(new, old)
        case nodes.Distinct(), nodes.Distinct():
            return _cover_distinct(new, old)
        case nodes.Order(), nodes.Order():
            return _cover_order(new, old)
        case _:
            raise _UncoveredError


def _cover_union(new: nodes.Union, old: nodes.Union) -> Cover:
    _require(len(new.inputs) == len(old.inputs))
    covers = [_cover(mine, theirs) for mine, theirs in zip(new.inputs, old.inputs, strict=True)]
    _require(all(other == covers[0] for other in covers))
    return covers[0]


def _cover_join(new: nodes.Join, old: nodes.Join) -> Cover:
    """Lift the terms of a side that is preserved, or of both sides of an inner join; padded columns are as they are."""
    _require(not new.change and not old.change)
    for mine, theirs, extent in ((new.left, old.left, old.left_extent), (new.right, old.right, old.right_extent)):
        _require(not counts_rows(extent) or mine == theirs)  # a window of rows must see the same rows
    left, right = _cover(new.left, old.left), _cover(new.right, old.right)
    _require(not left.terms or old.kind in ("inner", "left"))
    _require(not right.terms or old.kind in ("inner", "right"))
    _require(old.kind in ("inner", "left") or _is_plain(left))
    _require(old.kind in ("inner", "right") or _is_plain(right))
    keys = tuple((substitute(mine, left.columns), substitute(theirs, right.columns)) for mine, theirs in new.keys)
    extents = (new.left_extent, new.right_extent)  # those of rows are over equal inputs
    _require((new.kind, new.manner, *extents) == (old.kind, old.manner, old.left_extent, old.right_extent))
    _require(frozenset(keys) == frozenset(old.keys))
    renamed = _renaming(old.right, old.right_names)
    offered = left.columns | _offered_right(new, right, renamed)
    terms = (*left.terms, *(substitute(term, renamed) for term in right.terms))
    _require_timeless(terms)
    own = _beyond(_terms(old.residual), tuple(substitute(term, offered) for term in _terms(new.residual)))
    _require(old.kind == "inner" or not own)
    return Cover((*terms, *own), offered)


def _cover_sequence(new: nodes.SequenceJoin, old: nodes.SequenceJoin) -> Cover:
    """Lift the terms of the right side of 'recent', where a tuple takes nothing from the others."""
    for mine, theirs in ((new.left, old.left), (new.right, old.right)):  # where content breaks ties
        _require(mine.schema == theirs.schema or (is_base(mine) and is_base(theirs)))
    left, right = _cover(new.left, old.left), _cover(new.right, old.right)
    _require(not left.terms and (not right.terms or old.mode == "recent"))
    _require(not old.padded or _is_plain(left))
    _require_timeless(right.terms)
    keys = frozenset((substitute(mine, left.columns), substitute(theirs, right.columns)) for mine, theirs in new.keys)
    settings = (new.mode, new.inclusive, new.span, new.padded, new.right_span)
    _require(settings == (old.mode, old.inclusive, old.span, old.padded, old.right_span))
    renamed = _renaming(old.right, old.right_names)
    offered = left.columns | _offered_right(new, right, renamed)
    residual = frozenset(substitute(term, offered) for term in _terms(new.residual))
    _require((keys, residual) == (frozenset(old.keys), frozenset(_terms(old.residual))))
    return Cover(tuple(substitute(term, renamed) for term in right.terms), offered)


def _cover_membership(new: nodes.Membership, old: nodes.Membership) -> Cover:
    covered = _cover(new.input, old.input)
    renamed = {
        name: Column(other, field.type)
        for name, other, field in zip(new.table_names, old.table_names, old.table_schema, strict=True)
    }
    offered = {**covered.columns, **renamed}

    def pairs(of: tuple[tuple[Expr, Expr], ...]) -> frozenset[tuple[Expr, Expr]]:
        return frozenset((substitute(mine, covered.columns), theirs) for mine, theirs in of)

    terms = frozenset(substitute(term, offered) for term in _terms(new.residual))
    same = (new.table, new.table_schema, pairs(new.keys), pairs(new.compared), terms)
    others = (frozenset(old.keys), frozenset(old.compared), frozenset(_terms(old.residual)))
    _require(same == (old.table, old.table_schema, *others))
    _require((new.calls, new.value) == (old.calls, old.value))
    return Cover(covered.terms, {**covered.columns, new.name: Column(old.name, old.type)})


def _cover_table_join(new: nodes.TableJoin, old: nodes.TableJoin) -> Cover:
    covered = _cover(new.input, old.input)
    keys = tuple((substitute(expr, covered.columns), name) for expr, name in new.keys)
    same = (new.table, new.table_schema, new.kind, frozenset(keys))
    _require(same == (old.table, old.table_schema, old.kind, frozenset(old.keys)))
    renamed = {
        name: Column(other, field.type)
        for name, other, field in zip(new.table_names, old.table_names, old.table_schema, strict=True)
    }
    offered = {**covered.columns, **renamed}
    own = _beyond(_terms(old.residual), tuple(substitute(term, offered) for term in _terms(new.residual)))
    _require(old.kind == "inner" or not own)
    return Cover((*covered.terms, *own), offered)


def _cover_aggregate(new: nodes.Aggregate, old: nodes.Aggregate) -> Cover:
    """Find the groups and aggregates of the new part among the old ones; terms over keys select whole groups."""
    covered = _cover(new.input, old.input)
    if depends_on_order(new.window, new.calls):
        _require(new.input == old.input or (is_base(new.input) and is_base(old.input)))
    mapped = replace_expressions(new, lambda expr: substitute(expr, covered.columns))
    assert isinstance(mapped, nodes.Aggregate)
    groups = {expr: Column(name, expr.type) for name, expr in old.keys}
    _require(mapped.window == old.window and {expr for _, expr in mapped.keys} == groups.keys())
    computed = {(call.function, call.arg, call.more): Column(call.name, call.type) for call in old.calls}
    offered: dict[str, Expr] = {name: groups[expr] for name, expr in mapped.keys}
    for call in mapped.calls:
        _require((call.function, call.arg, call.more) in computed)
        offered[call.name] = computed[call.function, call.arg, call.more]
    for field in old.schema:
        if field.name in _WINDOW_BOUNDS:
            offered[field.name] = Column(field.name, field.type)
    decidable = {expr: column for expr, column in groups.items() if splits_windows(old.window, expr)}
    terms = tuple(_expressed(term, decidable) for term in covered.terms)
    _require_timeless(terms)
    return Cover(terms, offered)


def _cover_distinct(new: nodes.Distinct, old: nodes.Distinct) -> Cover:
    covered = _cover(new.input, old.input)
    _require(new.span == old.span and _is_whole(covered, old.input))
    _require_timeless(covered.terms)
    return covered


def _cover_order(new: nodes.Order, old: nodes.Order) -> Cover:
    """Compare orders; where content breaks ties, the columns must be the same."""
    covered = _cover(new.input, old.input)
    _require(new.merge == old.merge)
    _require(new.input.schema == old.input.schema or (is_base(new.input) and is_base(old.input)))
    return covered


def _offered_right(new: nodes.Join | nodes.SequenceJoin, right: Cover, renamed: Mapping[str, Expr]) -> dict[str, Expr]:
    """Return the right columns of a new join, as it calls them, over those of the old one."""
    return {
        name: substitute(right.columns[field.name], renamed)
        for name, field in zip(new.right_names, new.right.schema, strict=True)
    }


def _renaming(side: Node, names: Sequence[str]) -> dict[str, Expr]:
    """Return the columns of a side of a join as they are called above it."""
    return {field.name: Column(name, field.type) for name, field in zip(names, side.schema, strict=True)}


def _beyond(old: Terms, new: Terms) -> Terms:
    """Return the new terms that the old part does not test; those that it tests must be among the new ones."""
    _require(set(old) <= set(new))
    return tuple(term for term in new if term not in old)


def _over(covered: Cover, offered: Mapping[Expr, Column]) -> Cover:
    """Express a cover over the columns of a projection."""
    return Cover(
        tuple(_expressed(term, offered) for term in covered.terms),
        {name: _expressed(expr, offered) for name, expr in covered.columns.items()},
    )


def _expressed(expr: Expr, offered: Mapping[Expr, Column]) -> Expr:
    """Return an expression over columns that hold the values of other expressions."""
    if expr in offered:
        return offered[expr]
    _require(not isinstance(expr, Column) or expr.name in HIDDEN)
    return rebuilt(expr, lambda part: _expressed(part, offered))


def _terms(predicate: Expr | None) -> Terms:
    return () if predicate is None else conjuncts(predicate)


def _is_plain(covered: Cover) -> bool:
    """Return whether each column is one of the old columns, which NULL pads as well as the new one."""
    return all(isinstance(expr, Column) for expr in covered.columns.values())


def _is_whole(covered: Cover, old: Node) -> bool:
    """Return whether tuples are equal in the new columns exactly if they are equal in the old ones."""
    taken = [expr.name for expr in covered.columns.values() if isinstance(expr, Column)]
    return _is_plain(covered) and set(taken) == set(old.schema.names)


def _require_timeless(terms: Terms) -> None:
    """Require that terms do not read the timestamp, which is another one above."""
    _require(all(columns(term).isdisjoint(HIDDEN) for term in terms))


def _require(condition: bool) -> None:
    if not condition:
        raise _UncoveredError
