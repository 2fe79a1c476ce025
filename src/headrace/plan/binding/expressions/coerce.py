"""Brings expressions to a type: constants are converted here, all else by a Cast."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import Span, TypeFault
from headrace.model.expressions.expression import Cast, Expr, Literal
from headrace.model.time import DAY, parse_duration, parse_instant
from headrace.model.types import Type, can_cast, common_type

TEMPORAL = (Type.TIMESTAMP, Type.DATE, Type.INTERVAL)


def coerce(expr: Expr, target: Type) -> Expr:
    """Convert a value to the type `target`; ValueError for a constant that cannot be converted."""
    if expr.type is target:
        return expr
    if isinstance(expr, Literal):
        constant = _constant(expr, target)
        if constant is not None:
            return constant
    return Cast(expr, target)


def check_cast(expr: Expr, span: Span | None) -> Expr:
    """Return an expression; raise a fault if it is a CAST between types that have nothing in common."""
    if isinstance(expr, Cast) and not can_cast(expr.arg.type, expr.type):
        hint = "INTERVAL 5 SECONDS is an interval" if expr.type is Type.INTERVAL else "cast to STRING first"
        raise TypeFault(f"cannot cast {expr.arg.type.value} to {expr.type.value}", span=span, hint=hint)
    return expr


def unify(exprs: Sequence[Expr]) -> tuple[Expr, ...] | None:
    """Convert expressions to their common type; None if they have none."""
    common = unified_type(exprs)
    return None if common is None else tuple(coerce(expr, common) for expr in exprs)


def unified_type(exprs: Sequence[Expr]) -> Type | None:
    """Return the common type, where a text constant beside a date, time or interval counts as one of these."""
    plain = [expr.type for expr in exprs if not is_text(expr)]
    result: Type | None = Type.NULL
    for type_ in plain:
        result = None if result is None else common_type(result, type_)
    texts = [expr for expr in exprs if is_text(expr)]
    if not texts or result is None:
        return result
    if result in TEMPORAL:
        with_time = result is Type.DATE and any(
            len(str(expr.value)) > len("2026-01-01") for expr in texts if isinstance(expr, Literal)
        )
        return Type.TIMESTAMP if with_time else result
    return common_type(result, Type.STRING)


def is_text(expr: Expr) -> bool:
    """Return whether this is a text constant."""
    return isinstance(expr, Literal) and expr.type is Type.STRING and expr.value is not None


def _constant(literal: Literal, target: Type) -> Literal | None:
    value = literal.value
    if value is None:
        return Literal(None, target)
    if isinstance(value, str) and literal.type is Type.STRING:
        match target:
            case Type.TIMESTAMP:
                return Literal(_instant(value, target), target)
            case Type.DATE:
                return Literal(_instant(value, target) // DAY, target)
            case Type.INTERVAL:
                return Literal(parse_duration(value), target)
            case _:
                return None
    if isinstance(value, int) and literal.type.is_integer:
        if target is Type.BIGINT or (target is Type.INT and -(2**31) <= value < 2**31):
            return Literal(value, target)
        if target is Type.DOUBLE:
            return Literal(float(value), target)
    if isinstance(value, int) and literal.type is Type.DATE and target is Type.TIMESTAMP:
        return Literal(value * DAY, target)
    return None


def _instant(text: str, target: Type) -> int:
    try:
        return parse_instant(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a {target.value}") from error
