"""The first two moments of a time, which is all that the formulas ask of it."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Moments:
    """E[X] and E[X^2] of a time in seconds."""

    mean: float
    square: float

    @property
    def variance(self) -> float:
        return max(0.0, self.square - self.mean**2)

    def faster(self, speed: float) -> Moments:
        """Return the same work on a processor that is `speed` times as fast."""
        return Moments(self.mean / speed, self.square / speed**2)

    def transform(self, s: float) -> float:
        """Return E[exp(-sX)] of the gamma distribution with these moments: exact if constant or exponential."""
        if self.mean == 0.0 or s == 0.0:
            return 1.0
        spread = self.variance / self.mean
        if spread <= 1e-9 * self.mean:
            return math.exp(-s * self.mean)
        return math.exp(-self.mean / spread * math.log1p(s * spread))


def constant(value: float) -> Moments:
    """Return the moments of a time that is always the same."""
    return Moments(value, value**2)


def exponential(mean: float) -> Moments:
    """Return the moments of an exponentially distributed time."""
    return Moments(mean, 2 * mean**2)


def deciding_tests(tests: tuple[tuple[float, float], ...], *, overhead: float = 0.0) -> Moments:
    """Return the service time of a select with several conditions: (probability that it decides, cost), in test order.

    A tuple for which no earlier test decided ends with the last one.
    """
    reach, cost, mean, square = 1.0, overhead, 0.0, 0.0
    for index, (decides, own) in enumerate(tests):
        cost += own
        here = reach if index == len(tests) - 1 else reach * decides
        mean += here * cost
        square += here * cost**2
        reach -= here
    return Moments(mean, square)
