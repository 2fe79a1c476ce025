"""An aggregate in Python for the bench of aggregates."""

from __future__ import annotations

from collections.abc import Sequence


class Product:
    """The product of numbers."""

    def zero(self) -> float:
        return 1.0

    def add(self, state: float, values: Sequence[float]) -> float:
        for value in values:
            state *= value
        return state

    def merge(self, state: float, other: float) -> float:
        return state * other

    def finish(self, state: float) -> float:
        return state
