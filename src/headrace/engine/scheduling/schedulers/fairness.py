"""Who may run, and what keeps those from starving whom a strategy would never choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from headrace.engine.scheduling.schedulers.scheduler import Candidate, Choice, Scheduler, Turn

#: The least share of its priority that a unit keeps beside one with an older and longer queue.
_MIN_FACTOR = 1e-6


@dataclass(frozen=True, slots=True)
class Eligibility:
    """The least queue of a unit that may have a turn: tuples for each of its operators, or microseconds of waiting."""

    tuples: int = 0
    waited: int = 0

    def among(self, candidates: Sequence[Candidate], now: int) -> Sequence[Candidate]:
        """Return the candidates that may run; all of them if none may."""
        if not self.tuples:
            return candidates
        eligible = [
            unit
            for unit in candidates
            if unit.queued > self.tuples * unit.operators or now - unit.oldest >= self.waited
        ]
        return eligible or candidates


@dataclass(frozen=True, slots=True)
class Fairness:
    """The protection of units from starving.

    After every `period` nanoseconds of work the unit with the oldest tuple has a turn. With `dynamic`, capacities count
    more the older and longer a queue is.
    """

    period: float | None = None
    dynamic: bool = False
    eligibility: Eligibility = Eligibility()

    def choose(self, scheduler: Scheduler, candidates: Sequence[Candidate], turn: Turn, now: int) -> Choice:
        """Return the choice of the scheduler, or in its place the unit that has waited longest."""
        if self.period is not None and turn.since >= self.period:
            oldest = min(candidates, key=lambda unit: (unit.oldest, unit.unit))
            return Choice(oldest.unit, msgspec.structs.replace(turn, since=0.0))
        may = self.eligibility.among(candidates, now)
        return scheduler.choose(_raised(may, now) if self.dynamic else may, turn)


def _raised(candidates: Sequence[Candidate], now: int) -> list[Candidate]:
    """Return candidates with priorities that grow with the age and length of their queues, relative to the greatest."""
    age = max(1, *(now - unit.oldest for unit in candidates))
    longest = max(1, *(unit.queued for unit in candidates))
    raised = []
    for unit in candidates:
        factor = max(_MIN_FACTOR, max(0, now - unit.oldest) / age * unit.queued / longest)
        # a unit that frees nothing has no priority that could be raised: it competes by age alone
        release = unit.release * factor if unit.release > 0 else factor * _MIN_FACTOR
        raised.append(replace(unit, capacity=unit.capacity * factor, release=release))
    return raised
