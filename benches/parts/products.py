"""Aggregates in Python for the bench of aggregates."""

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


class Peaks:
    """The last of the numbers that no later one exceeds."""

    def zero(self) -> list[float]:
        return []

    def add(self, state: list[float], values: Sequence[float]) -> list[float]:
        for value in values:
            state = [peak for peak in state if peak >= value]
            state.append(value)
        return state

    def merge(self, state: list[float], other: list[float]) -> list[float]:
        return [peak for peak in state if peak >= other[0]] + other if other else state

    def finish(self, state: list[float]) -> float | None:
        return state[-1] if state else None


class Cheap:
    """How many numbers are zero, of the counts of all numbers."""

    def zero(self) -> dict[int, int]:
        return {}

    def add(self, state: dict[int, int], values: Sequence[int]) -> dict[int, int]:
        for value in values:
            state[value] = state.get(value, 0) + 1
        return state

    def merge(self, state: dict[int, int], other: dict[int, int]) -> dict[int, int]:
        for value, count in other.items():
            state[value] = state.get(value, 0) + count
        return state

    def finish(self, state: dict[int, int]) -> int | None:
        return state.get(0)
