"""Checks and binds the arguments of aggregates."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headrace.catalog.definitions import Aggregate
from headrace.errors import TypeFault
from headrace.model.expressions.expression import (
    TRUE,
    Call,
    Case,
    Cast,
    Expr,
    Literal,
)
from headrace.model.expressions.functions import AGGREGATES
from headrace.model.types import DataType, StructType, Type, common_type
from headrace.plan.binding.expressions.coerce import coerce
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.span import place

#: Aggregates that take one row, and whose value may be NULL.
ENDS = ("first", "last")


def fold_arguments(own: Aggregate, call: exp.Expr, binder: ExpressionBinder) -> dict[str, Expr]:
    """Return the arguments of an aggregate in SQL, by the names that its statements use."""
    nodes: list[exp.Expr] = call.expressions
    if len(nodes) != len(own.params) or any(isinstance(node, exp.Star | exp.Distinct) for node in nodes):
        raise TypeFault(
            f"{own.name} is declared with another number of arguments"
            if len(nodes) != len(own.params)
            else f"{own.name} cannot have * or DISTINCT",
            span=place(call),
            hint=f"{own.name}({own.arguments})",
        )
    args: dict[str, Expr] = {}
    for node, param in zip(nodes, own.params, strict=True):
        args[f".{param.name}"] = fitted(binder.bind(node), param.type, own.name, call)
    return args


def check_number(name: str, call: exp.Expr, args: list[exp.Expr]) -> None:
    """Refuse a call with another number of arguments than the aggregate takes."""
    if name == "shed_error" and args:
        raise TypeFault(
            "shed_error takes no argument", span=place(call), hint="write shed_error(): it is the error of count(*)"
        )
    entry = AGGREGATES.get(name)
    least, most = (1, 1) if entry is None or name == "count" else (entry.least, entry.most or entry.least)
    most = 2 if name in ENDS else most  # first(x, true) leaves NULL out
    if name != "shed_error" and (not least <= len(args) <= most or any(isinstance(arg, exp.Star) for arg in args)):
        takes = (
            "one argument" if most == 1 else f"{least} arguments" if least == most else f"{least} to {most} arguments"
        )
        raise TypeFault(
            f"{call.name} takes {takes}, not {len(args)}",
            span=place(call),
            hint="count one value, such as concat(a, b)"
            if name in ("count", "count_distinct")
            else f"{name}: {entry.help}"
            if entry is not None and most > 1
            else None,
        )


def fraction(expr: Expr, node: exp.Expr, name: str) -> Literal:
    """Return the fraction that an argument of an aggregate is."""
    while isinstance(expr, Cast):
        expr = expr.arg
    value = expr.value if isinstance(expr, Literal) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise TypeFault(
            f"the fraction of {name} must be a number from 0 to 1", span=place(node), hint="write for example 0.9"
        )
    return Literal(float(value), Type.DOUBLE)


def counted(arg: Expr, more: tuple[Expr, ...], condition: Expr | None) -> tuple[Expr, ...]:
    """Return the condition under which a row counts for first or last; `more` says whether NULL does not."""
    if more == (TRUE,):
        known = Call("not", (Call("is_null", (arg,), Type.BOOLEAN),), Type.BOOLEAN)
        condition = known if condition is None else Call("and", (condition, known), Type.BOOLEAN)
    if condition is None:
        return ()
    return (Call("<=>", (condition, TRUE), Type.BOOLEAN),)


def whole_row(values: Sequence[Expr]) -> Expr:
    """Return several values as one, which is NULL if one of them is."""
    args = [part for i, value in enumerate(values) for part in (Literal(f"col{i}", Type.STRING), value)]
    type_ = StructType(tuple((f"col{i}", value.type) for i, value in enumerate(values)))
    branches = tuple((Call("is_null", (value,), Type.BOOLEAN), Literal(None, type_)) for value in values)
    return Case(branches, Call("named_struct", tuple(args), type_), type_)


def fitted(arg: Expr, type_: DataType, name: str, call: exp.Expr) -> Expr:
    """Return the argument of a user's aggregate in the type it declares."""
    if common_type(arg.type, type_) is None:
        raise TypeFault(
            f"{name} takes {type_.value}, not {arg.type.value}",
            span=place(call),
            hint=f"write CAST(... AS {type_.value})",
        )
    return coerce(arg, type_)
