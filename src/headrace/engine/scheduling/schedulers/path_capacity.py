"""Path capacity: the path that takes the most tuples a second, from its leaf to its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.engine.scheduling.schedulers.scheduler import Candidate, Choice, Turn, UnitKind


@dataclass(frozen=True, slots=True)
class PathCapacity:
    """A scheduler with the least mean time in the system over all tuples that enter."""

    kinds: tuple[UnitKind, ...] = ("path",)
    gated: bool = False

    def choose(self, candidates: Sequence[Candidate], turn: Turn) -> Choice:
        return Choice(min(candidates, key=lambda candidate: (-candidate.capacity, candidate.unit)).unit, turn)


@dataclass(frozen=True, slots=True)
class PathCapacityOutput:
    """Path capacity by results per second: tuples that lead to no result need not be quick."""

    kinds: tuple[UnitKind, ...] = ("path",)
    gated: bool = False

    def choose(self, candidates: Sequence[Candidate], turn: Turn) -> Choice:
        return Choice(
            min(candidates, key=lambda candidate: (-candidate.capacity * candidate.selectivity, candidate.unit)).unit,
            turn,
        )
