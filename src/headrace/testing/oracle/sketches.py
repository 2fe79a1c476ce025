"""What approximate aggregates say of large groups, value by value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import polars as pl

from headrace.model.sketch import DIFFERENT_VALUES, DIGITS, INDEX_BITS, estimate
from headrace.model.types import DataType, DecimalType
from headrace.operators.expressions.hashing import hash_columns
from headrace.testing.oracle.values import identity


def approximated(value: Any, type_: DataType) -> Any:
    """Return the middle of the values with the same first binary digits."""
    if isinstance(type_, DecimalType):
        return Decimal(_whole(int(value.scaleb(type_.scale)))).scaleb(-type_.scale)
    if isinstance(value, int):
        return _whole(value)
    if value == 0 or not math.isfinite(value):
        return value
    mantissa, exponent = math.frexp(abs(value))
    middle = (math.floor(mantissa * 2**DIGITS) + 0.5) / 2**DIGITS
    return math.copysign(math.ldexp(middle, exponent), value)


def _whole(value: int) -> int:
    shift = max(0, abs(value).bit_length() - DIGITS)
    middle = (abs(value) >> shift << shift) + (1 << shift) // 2
    return -middle if value < 0 else middle


def count_approximately(values: Sequence[Any]) -> int:
    """Return the number of different values, or what a HyperLogLog says of it."""
    different = {identity(value): value for value in values}
    if len(different) <= DIFFERENT_VALUES:
        return len(different)
    registers: dict[int, int] = {}
    for hashed in hash_columns([pl.Series(list(different.values()))]).tolist():
        bits = f"{hashed >> 2:062b}"
        index, rest = int(bits[:INDEX_BITS], 2), bits[INDEX_BITS:]
        registers[index] = max(registers.get(index, 0), f"{rest}1".index("1") + 1)
    ranks = [0] * (62 - INDEX_BITS + 2)
    for rank in registers.values():
        ranks[rank] += 1
    return estimate(ranks, 2**INDEX_BITS)
