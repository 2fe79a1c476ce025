"""Add up tuples of one instant before they are joined, if only aggregates read what comes out of the join."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

from msgspec.structs import replace

from headrace.model.expressions.expression import Call, Case, Cast, Column, Expr, Literal, columns, substitute
from headrace.model.schema import HIDDEN
from headrace.model.types import DataType, Type
from headrace.model.window import AggregateCall, Panes
from headrace.optimizer.gathering import KEYS
from headrace.plan import nodes
from headrace.plan.nodes import Node, inputs
from headrace.plan.traversal import replace_inputs

_INTEGERS = (Type.INT, Type.BIGINT)


def condense_joins(plan: Node, streams: Collection[str]) -> Node:
    """Condense the tuples of these streams before joins whose results are only counted, summed or compared.

    Before: Aggregate count(*), sum(v)          After: Project count := coalesce(n, 0), sum := s
              Join a with b ON a.k = b.k                 Aggregate sum(na * nb) AS n, sum(na * sb) AS s
                Scan a (k)                                 Join a with b ON a.k = b.k
                Scan b (k, v)                                Condense k, count(*) AS na
                                                               Scan a (k)
                                                             Condense k, count(*) AS nb, sum(v) AS sb
                                                               Scan b (k, v)

    Tuples are alike if they agree in timestamp and in all columns that are read but for the arguments of aggregates.
    """
    if isinstance(plan, nodes.Aggregate):
        found = _condensed(plan, streams)
        if found is not None:
            return found
    return replace_inputs(plan, tuple(condense_joins(each, streams) for each in inputs(plan)))


#: Returns the column of an aggregate above the join, by its function and argument.
_Total: TypeAlias = Callable[[str, Expr], Column]


@dataclass(slots=True)
class _Side:
    """An input of a join: its node, the names of its columns in the output, and those that must stay."""

    node: Node
    names: Mapping[str, str]  # of the output, by that of the input
    kept: list[str]
    count: Expr | None = None  # how many tuples a row stands for; None: one
    calls: dict[tuple[str, str], AggregateCall] | None = None  # by function and column

    def add(self, function: str, name: str, type_: DataType, taken: set[str]) -> Column:
        """Return the column of an aggregate of condensed tuples."""
        assert self.calls is not None
        if (function, name) not in self.calls:
            own = next(f for f in self.node.schema if f.name == name) if name else None
            arg = None if own is None else Column(own.name, own.type)
            unique = f"{function}_{name}" if name else "alike"
            while unique in taken:
                unique += "_"
            taken.add(unique)
            self.calls[function, name] = AggregateCall(unique, function, arg, type_)
        call = self.calls[function, name]
        return Column(call.name, call.type)


def _condensed(node: nodes.Aggregate, streams: Collection[str]) -> Node | None:
    if not isinstance(node.window, Panes) or not all(map(_is_sum, node.calls)):
        return None
    below: Node = node.input
    by: dict[str, Expr] = {}
    if isinstance(below, nodes.Project) and all(isinstance(expr, Column) for _, expr in below.columns):
        by, below = dict(below.columns), below.input
    sides = _sides(below)
    keys = tuple((name, substitute(expr, by)) for name, expr in node.keys)
    args = [None if call.arg is None else substitute(call.arg, by) for call in node.calls]
    if sides is None or any(not columns(expr).isdisjoint(HIDDEN) for _, expr in keys):
        return None
    read = {name for _, expr in keys for name in columns(expr)}
    taken = {name for side in sides for name in (*side.names, *side.names.values())} | set(node.schema.names)
    for side in sides:
        types = {field.name: field.type for field in side.node.schema}
        side.kept += [own for own, name in side.names.items() if name in read and own not in side.kept]
        if _stream(side.node) in streams and all(types[name] in KEYS for name in side.kept):
            side.calls = {}
            side.count = side.add("count", "", Type.BIGINT, taken)
    if all(side.calls is None for side in sides):
        return None
    totals: dict[tuple[str, Expr], AggregateCall] = {}

    def total(function: str, arg: Expr) -> Column:
        if (function, arg) not in totals:
            unique = f"total{len(totals)}"
            while unique in taken:
                unique += "_"
            taken.add(unique)
            totals[function, arg] = AggregateCall(unique, function, arg, arg.type)
        return Column(totals[function, arg].name, arg.type)

    shown: list[tuple[str, Expr]] = [(name, Column(name, expr.type)) for name, expr in keys]
    for call, arg in zip(node.calls, args, strict=True):
        shown.append((call.name, _value(call, arg, sides, total, taken)))
    shown += [(field.name, Column(field.name, field.type)) for field in node.schema.fields[-2:]]
    aggregate = replace(node, input=_rebuilt(below, sides), keys=keys, calls=tuple(totals.values()))
    return nodes.Project(aggregate, tuple(shown))


def _is_sum(call: AggregateCall) -> bool:
    """Return whether an aggregate can be made of counts, sums, least and greatest values of parts, exactly."""
    if call.more or call.fold is not None or not isinstance(call.arg, Column | None):
        return False
    match call.function:
        case "count":
            return True
        case "sum" | "avg":
            return call.arg is not None and call.arg.type in _INTEGERS
        case "min" | "max":
            return call.arg is not None and call.arg.type in KEYS
        case _:
            return False


def _sides(join: Node) -> list[_Side] | None:
    """Return the inputs of an inner join over windows of time, with the columns that the join itself reads."""
    match join:
        case nodes.MultiJoin(inputs=parts, names=names, classes=classes, terms=terms, extents=extents):
            if any(extent is None for extent in extents):
                return None
            read = {name for term in terms for name in columns(term)}
            sides = []
            for port, (part, own) in enumerate(zip(parts, names, strict=True)):
                by = dict(zip(part.schema.names, own, strict=True))
                exprs = [members[port] for members in classes]
                used = {name for expr in exprs if expr is not None for name in columns(expr)}
                used |= {name for name, shown in by.items() if shown in read}
                sides.append(_Side(part, by, [name for name in by if name in used]))
            return sides
        case nodes.Join(left=left, right=right, kind="inner", manner="plain", keys=keys, residual=residual):
            extents = join.left_extent, join.right_extent
            if any(extent is None or extent.rows is not None for extent in extents):
                return None
            read = set[str]() if residual is None else set(columns(residual))
            if not read.isdisjoint(HIDDEN) or any(
                not columns(expr).isdisjoint(HIDDEN) for pair in keys for expr in pair
            ):
                return None
            sides = []
            shown = (left.schema.names, join.right_names)
            for place, part in enumerate((left, right)):
                by = dict(zip(part.schema.names, shown[place], strict=True))
                used = {name for pair in keys for name in columns(pair[place])}
                used |= {name for name, output in by.items() if output in read}
                sides.append(_Side(part, by, [name for name in by if name in used]))
            return sides
        case _:
            return None


def _stream(node: Node) -> str | None:
    """Return the stream whose tuples a node passes on, each by itself."""
    while isinstance(node, nodes.Filter | nodes.Project):
        node = node.input
    return node.name if isinstance(node, nodes.Scan) else None


def _value(call: AggregateCall, arg: Expr | None, sides: Sequence[_Side], total: _Total, taken: set[str]) -> Expr:
    """Return an aggregate of tuples as one of rows that stand for several."""
    if arg is None:
        return _or_zero(total("sum", _product([side.count for side in sides])))
    assert isinstance(arg, Column)
    own = next(side for side in sides if arg.name in side.names.values())
    name = next(name for name, shown in own.names.items() if shown == arg.name)
    is_folded = own.calls is not None and name not in own.kept
    counts = [side.count for side in sides if not is_folded or side is not own]
    if call.function in ("min", "max"):
        return total(call.function, own.add(call.function, name, call.type, taken) if is_folded else arg)

    def counted() -> Column:
        if is_folded:
            return total("sum", _product([own.add("count", name, Type.BIGINT, taken), *counts]))
        is_there = Call("not", (Call("is_null", (arg,), Type.BOOLEAN),), Type.BOOLEAN)
        return total("sum", Case(((is_there, _product(counts)),), None, Type.BIGINT))

    if call.function == "count":
        return _or_zero(counted())
    value = own.add("sum", name, Type.BIGINT, taken) if is_folded else _wide(arg)
    summed = total("sum", _product([value, *counts]))
    if call.function == "sum":
        return summed
    parts = (Cast(summed, Type.DOUBLE), Cast(counted(), Type.DOUBLE))
    return Call("/", parts, Type.DOUBLE)


def _product(parts: Iterable[Expr | None]) -> Expr:
    known = [part for part in parts if part is not None]
    return reduce(lambda one, other: Call("*", (one, other), Type.BIGINT), known) if known else Literal(1, Type.BIGINT)


def _wide(expr: Expr) -> Expr:
    return expr if expr.type is Type.BIGINT else Cast(expr, Type.BIGINT)


def _or_zero(expr: Expr) -> Expr:
    return Call("coalesce", (expr, Literal(0, Type.BIGINT)), Type.BIGINT)


def _rebuilt(join: Node, sides: Sequence[_Side]) -> Node:
    parts, names = list[Node](), list[tuple[str, ...]]()
    for side in sides:
        if side.calls is None:
            parts.append(side.node)
            names.append(tuple(side.names.values()))
        else:
            parts.append(nodes.Condense(side.node, tuple(side.kept), tuple(side.calls.values())))
            own = [side.names[name] for name in side.kept]
            names.append((*own, *(call.name for call in side.calls.values())))
    if isinstance(join, nodes.MultiJoin):
        return replace(join, inputs=tuple(parts), names=tuple(names))
    assert isinstance(join, nodes.Join)
    return replace(join, left=parts[0], right=parts[1], right_names=names[1])
