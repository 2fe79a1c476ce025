"""When plans are looked at before their time: memory runs short, or tuples wait in ever greater numbers.

A single jump of what waits is no reason: shedding reacts to it, and a plan that is best for a moment is not worth a
change.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from msgspec import Struct

from headrace.model.time import SECOND

#: A share of a memory limit that is near the limit.
NEAR = 0.8
#: How often in a row what waits must have grown, and the least time between two values.
GROWTHS, APART = 5, SECOND


class Waiting(Struct, frozen=True):
    """How much waited at the last looks (tuples or seconds), each at least a second apart."""

    values: tuple[float, ...] = ()
    time: int = 0

    def after(self, value: float, time: int) -> Waiting:
        """Return the values with a newer one; it is left out if it comes too soon after the last."""
        if self.values and time - self.time < APART:
            return self
        return Waiting((*self.values, value)[-(GROWTHS + 1) :], time)

    @property
    def is_ramp(self) -> bool:
        """Return whether more waited each time: a steady rise, not a jump."""
        return len(self.values) > GROWTHS and grows(self.values)


def grows(values: Sequence[float]) -> bool:
    """Return whether each value is larger than the one before it."""
    return all(earlier < later for earlier, later in itertools.pairwise(values))


def is_near(memory: float, limit: float) -> bool:
    """Return whether memory comes near its limit."""
    return memory > NEAR * limit
