"""User-defined aggregates.

    CREATE AGGREGATE geo_mean(DOUBLE) RETURNS DOUBLE FROM PYTHON 'means:Geometric';

`headrace run` finds the module beside the script: ./headrace run examples/means.sql --once
"""

from __future__ import annotations

import math
from collections.abc import Sequence


class Geometric:
    """The n-th root of the product of n numbers above 0; a state is [n, sum of logarithms]."""

    def zero(self) -> list[float]:
        return [0, 0.0]

    def add(self, state: list[float], values: Sequence[float]) -> list[float]:
        return [state[0] + len(values), state[1] + sum(map(math.log, values))]

    def merge(self, state: list[float], other: list[float]) -> list[float]:
        return [state[0] + other[0], state[1] + other[1]]

    def finish(self, state: list[float]) -> float | None:
        return math.exp(state[1] / state[0]) if state[0] else None


class Longest:
    """The longest of some texts, of equally long ones the first in the alphabet."""

    def zero(self) -> str:
        return ""

    def add(self, state: str, values: Sequence[str]) -> str:
        return min([state, *values], key=lambda text: (-len(text), text))

    def merge(self, state: str, other: str) -> str:
        return self.add(state, [other])

    def finish(self, state: str) -> str:
        return state
