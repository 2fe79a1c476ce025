"""The order of the values of an aggregate such as string_agg(x, ',' ORDER BY y DESC).

The call has the expressions of ORDER BY as further arguments, and after them a text that says how each is ordered.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.model.expressions.expression import Expr, Literal
from headrace.model.expressions.text import format_expr
from headrace.model.rank import RankOrder, format_order
from headrace.model.types import Type
from headrace.model.window import AggregateCall


def ordered_arguments(order: Sequence[RankOrder]) -> tuple[Expr, ...]:
    """Return the further arguments of a call whose values come in an order; none if it is that of time."""
    if not order:
        return ()
    ways = (f"{'DESC' if term.descending else 'ASC'} NULLS {'FIRST' if term.nulls_first else 'LAST'}" for term in order)
    return (*(term.expr for term in order), Literal(", ".join(ways), Type.STRING))


def order_of(call: AggregateCall) -> tuple[RankOrder, ...]:
    """Return the order of the values of a call; empty if it is that of time."""
    if call.function != "collect_list" or not call.more:
        return ()
    *exprs, ways = call.more
    assert isinstance(ways, Literal)
    return tuple(
        RankOrder(expr, way.startswith("DESC"), way.endswith("FIRST"))
        for expr, way in zip(exprs, str(ways.value).split(", "), strict=True)
    )


def format_arguments(call: AggregateCall) -> str:
    """Write the arguments of a call as they stand in SQL."""
    order = order_of(call)
    if order and call.arg is not None:
        return f"{format_expr(call.arg)} ORDER BY {format_order(order)}"
    return ", ".join(map(format_expr, call.args))
