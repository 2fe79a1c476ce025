"""Earliest deadline first: the path whose oldest tuple is due soonest, by the latency promises of its queries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.engine.scheduling.schedulers.scheduler import Candidate, Choice, Turn, UnitKind


@dataclass(frozen=True, slots=True)
class EarliestDeadline:
    """A scheduler that keeps every promise if any order does; paths without a promise come last, oldest first."""

    kinds: tuple[UnitKind, ...] = ("path",)
    gated: bool = False

    def choose(self, candidates: Sequence[Candidate], turn: Turn) -> Choice:
        return Choice(min(candidates, key=_urgency).unit, turn)


def _urgency(candidate: Candidate) -> tuple[float, int, int]:
    return math.inf if candidate.deadline is None else candidate.deadline, candidate.oldest, candidate.unit
