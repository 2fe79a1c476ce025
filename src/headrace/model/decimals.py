"""Which DECIMAL the arithmetic of DECIMALs gives, as in Spark (`spark.sql.decimalOperations.allowPrecisionLoss`).

A result that would need more than 38 digits gives up digits after the point, down to six, and then those before it:
a value that does not fit becomes NULL.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.model.types import MOST_DIGITS, DataType, DecimalType, Type, bounded

#: Digits after the point that a result keeps even if digits before it may be missing.
_LEAST_SCALE = 6


def as_decimal(type_: DataType) -> DecimalType | None:
    """Return the DECIMAL that holds all values of a type, for one that is exact."""
    match type_:
        case DecimalType():
            return type_
        case Type.INT:
            return DecimalType(10, 0)
        case Type.BIGINT:
            return DecimalType(20, 0)
        case _:
            return None


def operands(types: Sequence[DataType]) -> list[DecimalType] | None:
    """Return the operands of arithmetic as DECIMALs if one is a DECIMAL and all are exact numbers or NULL."""
    exact = [as_decimal(type_) for type_ in types]
    first = next((type_ for type_ in types if isinstance(type_, DecimalType)), None)
    if first is None or any(
        known is None and type_ is not Type.NULL for known, type_ in zip(exact, types, strict=True)
    ):
        return None
    return [first if known is None else known for known in exact]


def arithmetic_type(function: str, left: DecimalType, right: DecimalType) -> DecimalType:
    """Return the type of a sum, product, quotient or remainder."""
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    match function:
        case "*":
            return _adjusted(p1 + p2 + 1, s1 + s2)
        case "/":
            scale = max(_LEAST_SCALE, s1 + p2 + 1)
            return _adjusted(p1 - s1 + s2 + scale, scale)
        case "%" | "pmod":
            scale = max(s1, s2)
            return _adjusted(min(p1 - s1, p2 - s2) + scale, scale)
        case _:
            scale = max(s1, s2)
            return _adjusted(max(p1 - s1, p2 - s2) + scale + 1, scale)


def rounded_type(type_: DecimalType, digits: int) -> DecimalType:
    """Return the type of round(x, digits): rounding may need one more digit before the point."""
    whole = type_.precision - type_.scale + 1
    if digits < 0:
        return bounded(max(whole, 1 - digits), 0)
    scale = min(type_.scale, digits)
    return bounded(whole + scale, scale)


def sum_type(type_: DecimalType) -> DecimalType:
    """Return the type of a sum of values."""
    return bounded(type_.precision + 10, type_.scale)


def mean_type(type_: DecimalType) -> DecimalType:
    """Return the type of a mean of values."""
    return bounded(type_.precision + 4, type_.scale + 4)


def written_type(text: str) -> DecimalType | None:
    """Return the type of a number as it is written, such as DECIMAL(3,2) for 1.25; None if it has too many digits."""
    whole, _, fraction = text.lstrip("+-").partition(".")
    whole = whole.lstrip("0")
    precision = max(len(whole) + len(fraction), 1)
    if not (whole + fraction).isdigit() and whole + fraction:
        return None
    return DecimalType(precision, len(fraction)) if precision <= MOST_DIGITS else None


def _adjusted(precision: int, scale: int) -> DecimalType:
    if precision <= MOST_DIGITS:
        return DecimalType(precision, scale)
    whole = precision - scale
    return DecimalType(MOST_DIGITS, max(MOST_DIGITS - whole, min(scale, _LEAST_SCALE)))
