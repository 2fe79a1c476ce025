"""First in, first out: the path with the oldest tuple, which is carried through to the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.engine.scheduling.schedulers.scheduler import Candidate, Choice, Turn, UnitKind


@dataclass(frozen=True, slots=True)
class Fifo:
    """Fair and smooth; what waits, waits where streams come in."""

    kinds: tuple[UnitKind, ...] = ("path",)
    gated: bool = False

    def choose(self, candidates: Sequence[Candidate], turn: Turn) -> Choice:
        return Choice(min(candidates, key=lambda candidate: (candidate.oldest, candidate.unit)).unit, turn)
