"""When to look again: seldom while little changes, often while much does."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from msgspec import Struct


class Sampling(Struct, frozen=True):
    """How often a value is looked at (microseconds), and the last values seen."""

    shortest: int
    longest: int
    period: int
    values: tuple[float, ...] = ()

    def after(self, value: float) -> Sampling:
        """With one more value; the period doubles if the last ones lie close together, and halves if they do not."""
        values = (*self.values, value)[-_WINDOW:]
        if len(values) < _WINDOW:
            return Sampling(self.shortest, self.longest, self.period, values)
        period = self.period * 2 if _is_steady(values) else self.period // 2
        return Sampling(self.shortest, self.longest, min(max(period, self.shortest), self.longest), values)


#: So many values are compared, and so little they may deviate, relative to their mean.
_WINDOW, _STEADY = 4, 0.1


def _is_steady(values: Sequence[float]) -> bool:
    mean = statistics.fmean(values)
    return statistics.pstdev(values) <= _STEADY * abs(mean)
