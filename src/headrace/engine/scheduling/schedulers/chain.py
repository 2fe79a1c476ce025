"""Chain: operator by operator, those first that lie on the steepest stretch of their path's progress chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.engine.scheduling.schedulers.scheduler import Candidate, Choice, Turn, UnitKind


@dataclass(frozen=True, slots=True)
class Chain:
    """Near the least memory; tuples may be left in the middle of a stretch, and results come in bursts."""

    kinds: tuple[UnitKind, ...] = ("envelope",)
    gated: bool = False

    def choose(self, candidates: Sequence[Candidate], turn: Turn) -> Choice:
        return Choice(
            min(candidates, key=lambda candidate: (-candidate.release, candidate.oldest, candidate.unit)).unit, turn
        )
