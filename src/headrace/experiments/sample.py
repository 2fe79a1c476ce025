"""A measurement repeated with several seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """One value for each seed."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)

    @property
    def error(self) -> float:
        """Return the standard error of the mean; 0 for a single value, which says nothing about its spread."""
        return statistics.stdev(self.values) / math.sqrt(len(self.values)) if len(self.values) > 1 else 0.0


def sample(measure: Callable[[int], float], seeds: Iterable[int]) -> Sample:
    """Measure with each seed."""
    return Sample(tuple(measure(seed) for seed in seeds))
