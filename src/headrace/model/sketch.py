"""How exact approximate aggregates are, and what a HyperLogLog says."""

from __future__ import annotations

import math
from collections.abc import Sequence

from headrace.model.types import DataType, DecimalType, Type

#: Groups of so many values have an exact approx_percentile.
VALUES = 1024
#: Binary digits that are kept of a value in larger groups: the middle of what begins alike is at most 1/128 away.
DIGITS = 7
#: Groups of so many different values have an exact approx_count_distinct; larger ones 2**12 registers, whose standard
#: error is 1.04 / sqrt(2**12) = 1.6 %.
DIFFERENT_VALUES = 4096
INDEX_BITS = 12
#: DECIMALs of more digits do not fit into 64 bits.
_MOST_DIGITS = 18


def has_sketch(type_: DataType) -> bool:
    """Return whether percentiles of a type can be approximated."""
    if isinstance(type_, DecimalType):
        return type_.precision <= _MOST_DIGITS
    return type_ in (Type.INT, Type.BIGINT, Type.FLOAT, Type.DOUBLE)


def estimate(ranks: Sequence[int], registers: int) -> int:
    """Return how many different values there were; `ranks[k]` registers that were used hold k.

    The improved estimator of O. Ertl, New cardinality estimation algorithms for HyperLogLog sketches (2017), which
    needs no correction for small and middle numbers.
    """
    last = len(ranks) - 1
    unused = registers - sum(ranks)
    z = registers * _tau(1 - ranks[last] / registers)
    for k in range(last - 1, 0, -1):
        z = 0.5 * (z + ranks[k])
    z += registers * _sigma(unused / registers)
    return round(registers * registers / (2 * math.log(2) * z))


def _sigma(x: float) -> float:
    if x == 1.0:
        return math.inf
    y, z = 1.0, x
    while True:
        x *= x
        before, z, y = z, z + x * y, y + y
        if z == before:
            return z


def _tau(x: float) -> float:
    if x in (0.0, 1.0):
        return 0.0
    y, z = 1.0, 1 - x
    while True:
        x = math.sqrt(x)
        before, y = z, 0.5 * y
        z -= (1 - x) ** 2 * y
        if z == before:
            return z / 3
