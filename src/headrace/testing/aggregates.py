"""User-defined aggregates for tests: one that works and some that fail."""

from __future__ import annotations

import math
import os


class GeometricMean:
    """The n-th root of the product of n positive numbers."""

    def zero(self) -> list[float]:
        return [0.0, 0.0]

    def add(self, state: list[float], values: list[float]) -> list[float]:
        return [state[0] + sum(map(math.log, values)), state[1] + len(values)]

    def merge(self, left: list[float], right: list[float]) -> list[float]:
        return [left[0] + right[0], left[1] + right[1]]

    def finish(self, state: list[float]) -> float | None:
        return math.exp(state[0] / state[1]) if state[1] else None


class Broken(GeometricMean):
    """Fails on the first value."""

    def add(self, state: list[float], values: list[float]) -> list[float]:
        raise RuntimeError("broken on purpose")


class Fussy(GeometricMean):
    """Fails on the first value that is not positive."""

    def add(self, state: list[float], values: list[float]) -> list[float]:
        if min(values) <= 0:
            raise RuntimeError("not positive, on purpose")
        return super().add(state, values)


class Deadly:
    """Counts paths, and ends the process without a word if there is a file at one of them."""

    def zero(self) -> int:
        return 0

    def add(self, state: int, values: list[str]) -> int:
        if any(map(os.path.exists, values)):
            os._exit(1)
        return state + len(values)

    def merge(self, left: int, right: int) -> int:
        return left + right

    def finish(self, state: int) -> int:
        return state
