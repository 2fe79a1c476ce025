"""Correct aggregates for tuples that were shed at random: every tuple carries the number of tuples it stands for.

A scan gives each tuple the weight 1. A shedder that drops the share p multiplies the weights of the remaining tuples by
1 / (1 - p). Counts and sums over weights then have the expected value that they would have without shedding (Horvitz
and Thompson). Before and after:

    Aggregate count(*) AS n                Project n := CAST(round(w) AS BIGINT)
      Scan t (k)                             Aggregate sum(__weight) AS w
                                               Scan t (k, __weight)

Weights pass through operators that treat each tuple by itself, and are multiplied where tuples are paired. Some results
depend on the number of tuples in a way that weights cannot correct (ROWS, sessions, outer joins, DISTINCT, LIMIT,
events): these stay as they are. So do min, max and other aggregates that are not sums.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from headrace.model.expressions.expression import Call, Case, Cast, Column, Expr, Literal
from headrace.model.schema import WEIGHT, Field, Schema
from headrace.model.streams import is_system_stream
from headrace.model.types import Type
from headrace.model.window import AggregateCall, Panes, Sliding
from headrace.plan import nodes
from headrace.plan.nodes import Node, inputs
from headrace.plan.traversal import replace_inputs

_W = Column(WEIGHT, Type.DOUBLE)
_Total: TypeAlias = Callable[[Expr], Column]
_SCALED = ("count", "sum", "avg", "shed_error")


def weigh_aggregates(plan: Node) -> Node:
    """Return the plan with aggregates over weights, which stay right if their input is shed at random."""
    if (
        isinstance(plan, nodes.Aggregate)
        and isinstance(plan.window, Panes | Sliding)
        and any(call.function in _SCALED for call in plan.calls)
    ):
        below = _weigh(plan.input)
        if below is not None:
            return _aggregate(plan, below)
    return replace_inputs(plan, tuple(map(weigh_aggregates, inputs(plan))))


def _weigh(node: Node) -> Node | None:
    """Return the node with one more column, the last: the weight of each tuple; None if it cannot have one."""
    match node:
        case nodes.Scan():
            if is_system_stream(node.name):
                return None
            return nodes.Scan(node.name, Schema((*node.schema.fields, Field(WEIGHT, Type.DOUBLE))))
        case nodes.Filter() | nodes.Punctuate():
            below = _weigh(node.input)
            return None if below is None else replace(node, input=below)
        case nodes.Project():
            below = _weigh(node.input)
            return None if below is None else nodes.Project(below, (*node.columns, (WEIGHT, _W)))
        case nodes.Unnest(kept=kept):
            below = _weigh(node.input)
            kept = None if kept is None else (*kept, WEIGHT)
            return None if below is None else _last(replace(node, input=below, kept=kept), node.schema, _W)
        case nodes.TableJoin() | nodes.Membership() | nodes.Impute():
            below = _weigh(node.input)
            return None if below is None else _last(replace(node, input=below), node.schema, _W)
        case nodes.Union():
            weighed = [_weigh(origin) for origin in node.inputs]
            if all(part is None for part in weighed):
                return None
            pairs = zip(weighed, node.inputs, strict=True)
            return nodes.Union(tuple(part or _ones(weigh_aggregates(origin)) for part, origin in pairs))
        case nodes.Join():
            return _join(node)
        case (
            nodes.Aggregate()
            | nodes.Condense()
            | nodes.Distinct()
            | nodes.Changes()
            | nodes.MultiJoin()
            | nodes.SequenceJoin()
            | nodes.Detect()
            | nodes.Pace()
            | nodes.Order()
            | nodes.Limit()
            | nodes.Suppress()
            | nodes.Rank()
            | nodes.Deduplicate()
            | nodes.Over()
            | nodes.WindowOver()
            | nodes.MatchRows()
        ):
            return None


def _join(node: nodes.Join) -> Node | None:
    """Give each pair the product of the weights of its two tuples."""
    if node.kind != "inner" or any(
        extent is not None and extent.rows is not None for extent in (node.left_extent, node.right_extent)
    ):
        return None
    left, right = _weigh(node.left), _weigh(node.right)
    if left is None and right is None:
        return None
    other = WEIGHT if left is None else f"{WEIGHT}_right"
    pair = replace(
        node,
        left=weigh_aggregates(node.left) if left is None else left,
        right=weigh_aggregates(node.right) if right is None else right,
        right_names=node.right_names if right is None else (*node.right_names, other),
    )
    both = Call("*", (_W, Column(other, Type.DOUBLE)), Type.DOUBLE)
    return _last(pair, node.schema, _W if left is None or right is None else both)


def _last(node: Node, schema: Schema, weight: Expr) -> Node:
    """Project the columns of a schema, then the weight."""
    return nodes.Project(node, (*((field.name, Column(field.name, field.type)) for field in schema), (WEIGHT, weight)))


def _ones(node: Node) -> Node:
    """Give every tuple the weight 1."""
    return _last(node, node.schema, Literal(1.0, Type.DOUBLE))


def _aggregate(node: nodes.Aggregate, below: Node) -> Node:
    calls: dict[tuple[str, tuple[Expr, ...]], AggregateCall] = {}
    taken = set(node.schema.names)

    def total(arg: Expr) -> Column:
        """Return the column of the aggregate that holds the sum of `arg` over the group."""
        if ("sum", (arg,)) not in calls:
            name = next(name for number in range(len(taken) + 1) if (name := f"w{number}") not in taken)
            taken.add(name)
            calls["sum", (arg,)] = AggregateCall(name, "sum", arg, Type.DOUBLE)
        return Column(calls["sum", (arg,)].name, Type.DOUBLE)

    columns: list[tuple[str, Expr]] = [(name, Column(name, expr.type)) for name, expr in node.keys]
    for call in node.calls:
        if call.function in _SCALED:
            columns.append((call.name, _scaled(call, total)))
        else:
            calls[call.function, call.args] = call
            columns.append((call.name, Column(call.name, call.type)))
    columns += [(field.name, Column(field.name, field.type)) for field in node.schema.fields[-2:]]
    return nodes.Project(replace(node, input=below, calls=tuple(calls.values())), tuple(columns))


def _scaled(call: AggregateCall, total: _Total) -> Expr:
    """Return the aggregate call over weights; `total` makes a column for the sum of an expression over the group."""
    counting = _W if call.arg is None else Case(((_is_there(call.arg), _W),), None, Type.DOUBLE)
    match call.function:
        case "count":
            return Call("coalesce", (_whole(total(counting)), Literal(0, Type.BIGINT)), Type.BIGINT)
        case "sum":
            return _whole(total(_times(call.arg))) if call.type is Type.BIGINT else total(_times(call.arg))
        case "avg":
            return Call("/", (total(_times(call.arg)), total(counting)), Type.DOUBLE)
        case _:  # shed_error: the standard error of the count, as a share of it
            spread = Call("*", (_W, Call("-", (_W, Literal(1.0, Type.DOUBLE)), Type.DOUBLE)), Type.DOUBLE)
            return Call("/", (Call("sqrt", (total(spread),), Type.DOUBLE), total(_W)), Type.DOUBLE)


def _times(arg: Expr | None) -> Expr:
    assert arg is not None
    return Call("*", (Cast(arg, Type.DOUBLE) if arg.type is not Type.DOUBLE else arg, _W), Type.DOUBLE)


def _is_there(arg: Expr) -> Expr:
    return Call("not", (Call("is_null", (arg,), Type.BOOLEAN),), Type.BOOLEAN)


def _whole(expr: Expr) -> Expr:
    return Cast(Call("round", (expr,), Type.DOUBLE), Type.BIGINT)
