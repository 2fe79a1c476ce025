"""When plans are looked at before their time: memory runs short, tuples wait in ever greater numbers, or data drift.

A single jump of what waits is no reason: shedding reacts to it, and a plan that is best for a moment is not worth a
change.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from headrace.model.time import SECOND
from headrace.operators.multijoin.seen import BoxSeen

#: A share of a memory limit that is near the limit.
NEAR = 0.8
#: How often in a row what waits must have grown, and the least time between two values.
GROWTHS, APART = 5, SECOND
#: How many times as much, or as little, is a drift; and how many tuples must have been counted to tell.
DRIFT, COUNTED = 1.5, 100
#: So many standard deviations are no chance, of tuples and of matches; these come in clusters, as a tuple finds many
#: partners or none.
TUPLES, MATCHES = 3, 6


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


class Drift(Struct, frozen=True):
    """What a join counted when its plan was looked at: the shares of its inputs, and the matches of a search."""

    shares: tuple[float, ...] = ()
    matches: Mapping[str, float] = {}

    @staticmethod
    def since(seen: BoxSeen) -> Drift:
        """Return what was counted in one micro-batch; of steps with few searches nothing."""
        taken = [port.taken for port in seen.ports]
        total = sum(taken)
        return Drift(
            tuple(count / total for count in taken) if total >= COUNTED else (),
            {name: step.matched / step.searched for name, step in seen.steps.items() if step.searched >= COUNTED},
        )

    def with_more(self, other: Drift) -> Drift:
        """Return this, with what the other has counted and this one has not."""
        return Drift(self.shares or other.shares, {**other.matches, **self.matches})

    def is_over(self, seen: BoxSeen) -> bool:
        """Return whether a micro-batch differs by far more than chance allows."""
        total = sum(port.taken for port in seen.ports)
        if total >= COUNTED and self.shares:
            for share, port in zip(self.shares, seen.ports, strict=True):
                if _differs(port.taken, share * total, TUPLES):
                    return True
        return any(
            step.searched >= COUNTED
            and name in self.matches
            and _differs(step.matched, self.matches[name] * step.searched, MATCHES)
            for name, step in seen.steps.items()
        )


def _differs(count: float, expected: float, deviations: int) -> bool:
    chance = deviations * math.sqrt(expected + 1)
    return count > DRIFT * expected + chance or count < expected / DRIFT - chance


def is_near(memory: float, limit: float) -> bool:
    """Return whether memory comes near its limit."""
    return memory > NEAR * limit
