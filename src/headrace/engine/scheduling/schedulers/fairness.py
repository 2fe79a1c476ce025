"""Who may run, and what keeps those from starving whom a strategy would never choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from headrace.engine.scheduling.schedulers.scheduler import Candidate, Choice, Scheduler, Turn

#: What a unit's priority falls to at most, as a share, beside one that is older and longer.
_LEAST = 1e-6


@dataclass(frozen=True, slots=True)
class Eligibility:
    """A unit is worth switching to if more than so many tuples wait for each of its operators, or if they have waited so long (microseconds)."""

    tuples: int = 0
    waited: int = 0

    def among(self, candidates: Sequence[Candidate], now: int) -> Sequence[Candidate]:
        """Those that may run; all, if there would be nothing to do otherwise."""
        if not self.tuples:
            return candidates
        found = [
            one for one in candidates if one.queued > self.tuples * one.operators or now - one.oldest >= self.waited
        ]
        return found or candidates


@dataclass(frozen=True, slots=True)
class Fairness:
    """`period` nanoseconds of work apart the unit with the oldest tuple has a turn; `dynamic` lets capacities count more with age and queue."""

    period: float | None = None
    dynamic: bool = False
    eligibility: Eligibility = Eligibility()

    def choose(self, scheduler: Scheduler, candidates: Sequence[Candidate], turn: Turn, now: int) -> Choice:
        """What the scheduler chooses, or in its place who has waited longest."""
        if self.period is not None and turn.since >= self.period:
            oldest = min(candidates, key=lambda one: (one.oldest, one.unit))
            return Choice(oldest.unit, msgspec.structs.replace(turn, since=0.0))
        may = self.eligibility.among(candidates, now)
        return scheduler.choose(_raised(may, now) if self.dynamic else may, turn)


def _raised(candidates: Sequence[Candidate], now: int) -> list[Candidate]:
    """With priorities that grow with the age of the oldest tuple and the length of the queue, both as shares of the greatest."""
    age = max(1, *(now - one.oldest for one in candidates))
    longest = max(1, *(one.queued for one in candidates))
    found = []
    for one in candidates:
        factor = max(_LEAST, max(0, now - one.oldest) / age * one.queued / longest)
        # what frees nothing has no priority that could be raised: it competes by age alone
        found.append(
            replace(
                one,
                capacity=one.capacity * factor,
                release=one.release * factor if one.release > 0 else factor * _LEAST,
            )
        )
    return found
