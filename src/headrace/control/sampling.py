"""How often a value is sampled: seldom while it changes little, often while it changes much."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from msgspec import Struct


class Sampling(Struct, frozen=True):
    """A sampling period (microseconds) within limits, and the last values."""

    shortest: int
    longest: int
    period: int
    values: tuple[float, ...] = ()

    def after(self, value: float) -> Sampling:
        """Return the sampling with one more value.

        The period doubles if the last ones are close together, else it halves.
        """
        values = (*self.values, value)[-_WINDOW:]
        if len(values) < _WINDOW:
            return Sampling(self.shortest, self.longest, self.period, values)
        period = self.period * 2 if _is_steady(values) else self.period // 2
        return Sampling(self.shortest, self.longest, min(max(period, self.shortest), self.longest), values)


#: The number of values that are compared, and their largest deviation relative to the mean.
_WINDOW, _STEADY = 4, 0.1


def _is_steady(values: Sequence[float]) -> bool:
    mean = statistics.fmean(values)
    return statistics.pstdev(values) <= _STEADY * abs(mean)
