"""Brings expressions to a type: constants are converted here, all else by a Cast."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal

from headrace.errors import Span, TypeFault
from headrace.model.decimals import arithmetic_type, operands, written_type
from headrace.model.expressions.expression import Call, Cast, Expr, Literal
from headrace.model.time import DAY, parse_instant, parse_interval
from headrace.model.types import DataType, DecimalType, Type, can_cast, common_type, is_nested

TEMPORAL = (Type.TIMESTAMP, Type.DATE, Type.INTERVAL)
#: What to write instead of arithmetic of INTERVALs.
SPAN_HINT = "write timestampdiff(SECOND, start, end), which is a number, for the time between two instants"
#: Texts of numbers.
_WHOLE, _POINT = re.compile(r"[+-]?\d{1,19}"), re.compile(r"[+-]?\d{1,19}\.\d{0,19}")
#: Texts of times that are read alike as constants and in columns.
_ISO = re.compile(
    r"(?!0000)\d{4}-\d\d-\d\d([T ]([01]\d|2[0-3]):\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)?)?", re.ASCII
)
#: Arithmetic of constants that is exact beside a DECIMAL.
_ARITHMETIC = ("+", "-", "*", "/", "%")


def coerce(expr: Expr, target: DataType) -> Expr:
    """Convert a value to the type `target`; ValueError for a constant that cannot be converted."""
    if expr.type == target:
        return expr
    if isinstance(expr, Literal):
        constant = _constant(expr, target)
        if constant is not None:
            return constant
    return Cast(expr, target)


def cast(expr: Expr, target: DataType) -> Expr:
    """Convert a value as CAST does: a text that is no time gives NULL, whether it is a constant or in a column.

    A number that is cast to DOUBLE is no DECIMAL any more, whatever stands beside it.
    """
    is_time = target is Type.DATE or target is Type.TIMESTAMP
    if isinstance(expr, Literal) and is_text(expr) and is_time and not _ISO.fullmatch(str(expr.value)):
        return Cast(expr, target)
    is_number = isinstance(expr, Literal) and expr.type.is_numeric and expr.value is not None
    if is_number and target in (Type.FLOAT, Type.DOUBLE):
        return Cast(expr, target)  # beside a DECIMAL, a number that is written alone would be one
    try:
        return coerce(expr, target)
    except ValueError:
        if not is_time:
            raise
        return Cast(expr, target) if is_text(expr) else Literal(None, target)


def check_cast(expr: Expr, span: Span | None) -> Expr:
    """Return an expression; raise a fault if it is a CAST between types that have nothing in common."""
    if isinstance(expr, Cast) and not can_cast(expr.arg.type, expr.type):
        hint = "INTERVAL 5 SECONDS is an interval" if expr.type is Type.INTERVAL else "cast to STRING first"
        if expr.arg.type is Type.INTERVAL:
            hint = SPAN_HINT
        if is_nested(expr.type) or is_nested(expr.arg.type):
            hint = "read it with from_json, write it with to_json, or make it with array, map or struct"
        raise TypeFault(f"cannot cast {expr.arg.type.value} to {expr.type.value}", span=span, hint=hint)
    return expr


def unify(exprs: Sequence[Expr]) -> tuple[Expr, ...] | None:
    """Convert expressions to their common type; None if they have none."""
    common = unified_type(exprs)
    return None if common is None else tuple(coerce(expr, common) for expr in exprs)


def unified_type(exprs: Sequence[Expr]) -> DataType | None:
    """Return the common type, where a text constant beside a date, time or interval counts as one of these."""
    plain = [expr.type for expr in exprs if not is_text(expr)]
    result: DataType | None = Type.NULL
    for type_ in plain:
        result = None if result is None else common_type(result, type_)
    if isinstance(result, DecimalType):
        exprs = beside_decimal(exprs)
        plain = [expr.type for expr in exprs if not is_text(expr)]
        result = Type.NULL
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


def beside_decimal(exprs: Sequence[Expr]) -> tuple[Expr, ...]:
    """Take constant numbers for DECIMALs, with the digits that are written, if there is a DECIMAL beside them."""
    if not any(isinstance(expr.type, DecimalType) for expr in exprs):
        return tuple(exprs)
    return tuple(_as_decimal(expr) for expr in exprs)


def beside_number(exprs: Sequence[Expr]) -> tuple[Expr, ...]:
    """Take text constants for the numbers that they are, if they are compared with a number: `id = '7'`."""
    if not any(expr.type.is_numeric for expr in exprs):
        return tuple(exprs)
    return tuple(_as_number(expr) if is_text(expr) else expr for expr in exprs)


def _as_number(text: Expr) -> Expr:
    written = str(text.value).strip() if isinstance(text, Literal) else ""
    if _WHOLE.fullmatch(written) and -(2**63) <= int(written) < 2**63:
        return Literal(int(written), Type.INT if -(2**31) <= int(written) < 2**31 else Type.BIGINT)
    return Literal(float(written), Type.DOUBLE) if _POINT.fullmatch(written) else text


def is_text(expr: Expr) -> bool:
    """Return whether this is a text constant."""
    return isinstance(expr, Literal) and expr.type is Type.STRING and expr.value is not None


def _as_decimal(expr: Expr) -> Expr:
    """Take a number, or arithmetic of numbers such as 0.06 - 0.01, for a DECIMAL; return anything else as it is."""
    match expr:
        case Literal():
            return _written(expr)
        case Call(function="neg", args=(arg,)) if isinstance((exact := _as_decimal(arg)).type, DecimalType):
            return Call("neg", (exact,), exact.type)
        case Call(function=function, args=(left, right), type=Type.DOUBLE) if function in _ARITHMETIC:
            args = tuple(_as_decimal(arg) for arg in (left, right))
            has_point = any(isinstance(arg.type, DecimalType) and arg.type.scale for arg in args)
            if not has_point or not all(isinstance(arg.type, DecimalType) for arg in args):
                return expr
            both = operands([arg.type for arg in args])
            return expr if both is None else Call(function, args, arithmetic_type(function, both[0], both[1]))
        case _:
            return expr


def _written(literal: Literal) -> Literal:
    value = literal.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not literal.type.is_numeric:
        return literal
    text = str(value) if isinstance(value, int) else f"{Decimal(repr(value)):f}"
    type_ = written_type(text.removesuffix(".0")) if math.isfinite(value) else None
    return literal if type_ is None else Literal(text.removesuffix(".0"), type_)


def _constant(literal: Literal, target: DataType) -> Literal | None:
    value = literal.value
    if value is None:
        return Literal(None, target)
    if isinstance(target, DecimalType) and literal.type.is_numeric and not isinstance(value, bool):
        return _decimal(str(value) if isinstance(value, str | int) else repr(value), target)
    if isinstance(value, str) and literal.type is Type.STRING:
        match target:
            case Type.TIMESTAMP:
                return Literal(_instant(value, target), target)
            case Type.DATE:
                return Literal(_instant(value, target) // DAY, target)
            case Type.INTERVAL:
                return Literal(parse_interval(value), target)
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


def _decimal(text: str, target: DecimalType) -> Literal:
    """Return a number as a constant of a type: rounded, NULL if it has too many digits."""
    try:
        value = Decimal(text).quantize(Decimal(1).scaleb(-target.scale), ROUND_HALF_UP, Context(prec=400))
    except ArithmeticError:
        return Literal(None, target)
    fits = value.is_finite() and abs(value) < Decimal(10) ** (target.precision - target.scale)
    return Literal(f"{value:f}" if fits else None, target)


def _instant(text: str, target: DataType) -> int:
    try:
        return parse_instant(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a {target.value}") from error
