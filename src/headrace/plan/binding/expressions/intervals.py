"""INTERVAL in expressions, and the dates that whole days before or after another give."""

from __future__ import annotations

import re

from sqlglot import exp

from headrace.errors import NotSupported, SyntaxFault
from headrace.model.expressions.expression import Cast, Expr, Literal
from headrace.model.time import DAY, parse_interval
from headrace.model.types import Type
from headrace.plan.binding.expressions.function import apply
from headrace.plan.binding.expressions.standard_forms import span_of_fields
from headrace.plan.binding.span import place

_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_WHOLE = re.compile(r"-?\d{1,9}")
_DAYS = re.compile(r"\s*-?(\s*\d+\s*(d|days?|weeks?))+\s*", re.IGNORECASE)


def other_day(operator: str, node: exp.Expr, left: Expr, right: Expr) -> Expr | None:
    """Return a DATE plus or minus an INTERVAL of days, which is a DATE, as in Spark; None if this is something else."""
    if (left.type, right.type) == (Type.DATE, Type.INTERVAL) and _is_of_days(node.expression):
        date, days = left, right
    elif operator == "+" and (left.type, right.type) == (Type.INTERVAL, Type.DATE) and _is_of_days(node.this):
        date, days = right, left
    else:
        return None
    if isinstance(days, Literal) and isinstance(days.value, int):
        number = days.value // DAY if operator == "+" else -(days.value // DAY)
        return apply("date_add", (date, whole(number)), place(node))
    return Cast(apply(operator, (left, right), place(node)), Type.DATE)


def other_month(operator: str, node: exp.Expr, date: Expr) -> Expr | None:
    """Return a DATE plus or minus an INTERVAL of months or years, which is a DATE; None if this is something else."""
    written = node.expression
    unit = str(written.args["unit"].name).lower().removesuffix("s") if _has_unit(written) else ""
    if date.type is not Type.DATE or unit not in _MONTHS:
        return None
    amount = written.this
    sign = -1 if (operator == "-") != isinstance(amount, exp.Neg) else 1
    number = (amount.this if isinstance(amount, exp.Paren | exp.Neg) else amount).name
    if not _WHOLE.fullmatch(number):
        return None
    return apply("add_months", (date, whole(sign * int(number) * _MONTHS[unit])), place(node))


def _has_unit(node: exp.Expr) -> bool:
    return isinstance(node, exp.Interval) and isinstance(node.args.get("unit"), exp.Var)


def whole(number: int) -> Literal:
    """Return an integer constant."""
    return Literal(number, Type.INT if -(2**31) <= number < 2**31 else Type.BIGINT)


def _is_of_days(node: exp.Expr) -> bool:
    """Return whether an INTERVAL is written in days and weeks."""
    match node:
        case exp.Interval(this=amount, args=args):
            number = amount.this if isinstance(amount, exp.Paren | exp.Neg) else amount
            unit = args.get("unit")
            return _DAYS.fullmatch(number.name if unit is None else f"{number.name} {unit.name}") is not None
        case exp.Paren() | exp.Neg():
            return _is_of_days(node.this)
        case exp.Add() | exp.Sub():
            return _is_of_days(node.this) and _is_of_days(node.expression)
        case exp.Case():
            results = [branch.args["true"] for branch in node.args["ifs"]]
            results += [node.args["default"]] if node.args.get("default") is not None else []
            return all(isinstance(result, exp.Null) or _is_of_days(result) for result in results)
        case _:
            return False


def interval(node: exp.Interval) -> Expr:
    """Bind an INTERVAL."""
    amount = node.this
    negative = isinstance(amount, exp.Neg)
    amount = amount.this if isinstance(amount, exp.Neg | exp.Paren) else amount
    unit = node.args.get("unit")
    if isinstance(amount, exp.Literal) and isinstance(unit, exp.IntervalSpan):
        span = span_of_fields(amount.name, unit, place(node))
        return Literal(-span if negative else span, Type.INTERVAL)
    if not isinstance(amount, exp.Literal):
        raise NotSupported(
            "INTERVAL needs a constant and one unit",
            span=place(node),
            hint="write INTERVAL 5 MINUTES or INTERVAL '1 h 30 min'",
        )
    text = amount.name.strip()
    negative, text = negative != text.startswith("-"), text.removeprefix("-")
    if unit is not None and str(unit.name).lower() in ("month", "months", "year", "years", "quarter", "quarters"):
        raise NotSupported(
            "INTERVAL cannot be in months or years, which have no fixed length",
            span=place(node),
            hint="write days or weeks; add_months(d, 1) gives the day a month later",
        )
    try:
        span = parse_interval(f"{text} {unit.name}" if unit is not None else text)
    except ValueError as error:
        raise SyntaxFault(str(error), span=place(node), hint="write INTERVAL 5 MINUTES") from error
    return Literal(-span if negative else span, Type.INTERVAL)
