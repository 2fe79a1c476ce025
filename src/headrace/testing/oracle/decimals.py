"""DECIMALs as the oracle computes them, with Python's decimal."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Any

from headrace.model.types import DataType, DecimalType

#: Enough digits for every product, and for the first digits of every quotient.
CONTEXT = decimal.Context(prec=400, traps=[])


def fitted(value: Decimal, type_: DecimalType, rounding: str = ROUND_HALF_UP) -> Decimal | None:
    """Return a number as a value of a type: rounded, None if it needs more digits."""
    if not value.is_finite() or value.adjusted() > 300:
        return None
    rounded = value.quantize(Decimal(1).scaleb(-type_.scale), rounding=rounding, context=CONTEXT)
    return rounded if abs(rounded) < Decimal(10) ** (type_.precision - type_.scale) else None


def as_number(value: Any) -> Decimal:
    """Return an exact number, or a DOUBLE as it is written, as a Decimal."""
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def decimal_sum(values: Sequence[Decimal], type_: DataType) -> Decimal | None:
    """Add up values, exactly."""
    total = Decimal(0)
    for value in values:
        total = CONTEXT.add(total, value)
    assert isinstance(type_, DecimalType)
    return fitted(total, type_)


def decimal_mean(values: Sequence[Decimal], type_: DataType) -> Decimal | None:
    """Return the mean of values."""
    total = Decimal(0)
    for value in values:
        total = CONTEXT.add(total, value)
    assert isinstance(type_, DecimalType)
    return fitted(CONTEXT.divide(total, Decimal(len(values))), type_)


def _divide(x: Decimal, y: Decimal) -> Decimal | None:
    return None if y == 0 else CONTEXT.divide(x, y)


def _remainder(x: Decimal, y: Decimal) -> Decimal | None:
    return None if y == 0 else CONTEXT.remainder(x, y)


def _pmod(x: Decimal, y: Decimal) -> Decimal | None:
    rest = _remainder(x, y)
    return rest + y if rest is not None and rest < 0 < y else rest


def _floor(x: Decimal) -> Decimal:
    return x.to_integral_value(decimal.ROUND_FLOOR, CONTEXT)


def _ceil(x: Decimal) -> Decimal:
    return x.to_integral_value(decimal.ROUND_CEILING, CONTEXT)


def _rounded(rounding: str) -> Callable[..., Decimal]:
    def function(x: Decimal, digits: Decimal = Decimal(0)) -> Decimal:
        return x.quantize(Decimal(1).scaleb(-int(digits)), rounding=rounding, context=CONTEXT)

    return function


_OPERATIONS: dict[str, Callable[..., Decimal | None]] = {
    "+": CONTEXT.add,
    "-": CONTEXT.subtract,
    "*": CONTEXT.multiply,
    "/": _divide,
    "%": _remainder,
    "pmod": _pmod,
    "neg": CONTEXT.minus,
    "abs": CONTEXT.abs,
    "floor": _floor,
    "ceil": _ceil,
    "round": _rounded(ROUND_HALF_UP),
    "bround": _rounded(ROUND_HALF_EVEN),
}


def is_exact(function: str, type_: DataType) -> bool:
    """Return whether a call computes a DECIMAL of its own."""
    return isinstance(type_, DecimalType) and function in _OPERATIONS


def compute(function: str, args: Sequence[Any], type_: DataType) -> Decimal | None:
    """Apply a function to numbers; NULL gives NULL."""
    assert isinstance(type_, DecimalType)
    if any(arg is None for arg in args):
        return None
    value = _OPERATIONS[function](*map(as_number, args))
    return None if value is None else fitted(value, type_)
