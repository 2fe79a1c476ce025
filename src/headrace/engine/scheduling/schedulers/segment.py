"""Segments: the run of operators that frees memory fastest; strategies differ in how they cut paths into segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.engine.scheduling.schedulers.scheduler import Candidate, Choice, Turn, UnitKind


@dataclass(frozen=True, slots=True)
class Segment:
    """Greedy, memory-optimal or simplified, by the kind of unit."""

    kinds: tuple[UnitKind, ...]
    gated: bool = False

    def choose(self, candidates: Sequence[Candidate], turn: Turn) -> Choice:
        return Choice(min(candidates, key=lambda candidate: (-candidate.release, candidate.unit)).unit, turn)
