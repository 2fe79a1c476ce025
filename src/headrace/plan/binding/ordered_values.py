"""ORDER BY and LIMIT among the arguments of an aggregate, as in array_agg(x ORDER BY y DESC LIMIT 3)."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headrace.errors import NotSupported, TypeFault
from headrace.model.expressions.functions import AGGREGATES
from headrace.model.rank import RankOrder
from headrace.model.types import is_nested
from headrace.plan.binding.composed_aggregates import call_of
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.span import place

#: Aggregates that list values, which LIMIT may cut.
_LISTS = ("collect_list", "collect_set", "string_agg")
#: Aggregates of which the order of the tuples decides nothing that could be asked for.
_UNORDERED = ("max_by", "min_by", "shed_error")


@dataclass(frozen=True, slots=True)
class Ordering:
    """The terms of ORDER BY among the arguments of an aggregate, and its LIMIT."""

    nodes: tuple[exp.Ordered, ...]
    most: int | None

    def terms(self, binder: ExpressionBinder) -> tuple[RankOrder, ...]:
        """Bind the terms over the tuples of a group."""
        terms = []
        for node in self.nodes:
            key = binder.bind(node.this)
            if is_nested(key.type):
                raise TypeFault(
                    f"ORDER BY cannot compare values of {key.type.value}",
                    span=place(node),
                    hint="order by a field or an element, or by to_json(x)",
                )
            terms.append(RankOrder(key, bool(node.args.get("desc")), bool(node.args.get("nulls_first"))))
        return tuple(terms)

    def is_descending(self, arg: exp.Expr, binder: ExpressionBinder) -> bool:
        """Return whether different values come in descending order; refuse another order than their own."""
        value = binder.bind(arg)
        for node in self.nodes[:1]:
            if binder.bind(node.this) == value and not is_nested(value.type):
                return bool(node.args.get("desc"))
            raise NotSupported(
                "with DISTINCT, ORDER BY can only name the values themselves: a value that occurs several times has "
                "no single place by something else",
                span=place(node),
                hint="leave ORDER BY out, or group by the values in a sub-query and order by max(y) or min(y)",
            )
        return False


def without_order(name: str, node: exp.Expr) -> tuple[exp.Expr, Ordering | None]:
    """Return a call of an aggregate without ORDER BY and LIMIT among its arguments, and what these say."""
    if not any(isinstance(arg, exp.Order | exp.Limit) for arg in call_of(node).expressions):
        return node, None
    node = node.copy()
    call = call_of(node)
    nodes: tuple[exp.Ordered, ...] = ()
    most: int | None = None
    args: list[exp.Expr] = []
    for arg in call.expressions:
        if isinstance(arg, exp.Limit):
            most = _most(name, call, arg)
            arg = arg.this
        if isinstance(arg, exp.Order):
            nodes = tuple(arg.expressions)
            arg = arg.this
        args.append(arg)
    if (nodes and name not in AGGREGATES) or name in _UNORDERED:
        raise NotSupported(
            f"{call.name} cannot have ORDER BY",
            span=place(nodes[0] if nodes else call),
            hint="leave it out; array_agg(x ORDER BY y), string_agg(x, ',' ORDER BY y) and first(x ORDER BY y) have it",
        )
    call.set("expressions", args)
    return node, Ordering(nodes, most)


def _most(name: str, call: exp.Expr, limit: exp.Limit) -> int:
    count = limit.expression
    if name not in _LISTS:
        raise NotSupported(
            f"{call.name} cannot have LIMIT",
            span=place(count),
            hint="array_agg(x ORDER BY y LIMIT 3) takes three",
        )
    if not isinstance(count, exp.Literal) or count.is_string or not count.name.isdigit():
        raise NotSupported("LIMIT needs a constant", span=place(count) or place(call), hint="write for example LIMIT 3")
    return int(count.name)
