"""Everybody in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from headrace.engine.scheduling.schedulers.scheduler import Candidate, Choice, Turn, UnitKind

#: A unit is served at most so often in a row, however much it counts.
MOST = 100


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """One after the other, each with all that was there when its turn came. With `kinds` of plans this is push-up."""

    kinds: tuple[UnitKind, ...] = ("operator",)
    gated: bool = True

    def choose(self, candidates: Sequence[Candidate], turn: Turn) -> Choice:
        unit = _following(candidates, turn.last)
        return Choice(unit, msgspec.structs.replace(turn, last=unit, served=1))


@dataclass(frozen=True, slots=True)
class WeightedRoundRobin:
    """One after the other, page by page, each as often in a row as it counts more than the least of those that wait."""

    kinds: tuple[UnitKind, ...] = ("operator",)
    gated: bool = False

    def choose(self, candidates: Sequence[Candidate], turn: Turn) -> Choice:
        least = min(candidate.weight for candidate in candidates)
        again = next((candidate for candidate in candidates if candidate.unit == turn.last), None)
        if again is not None and turn.served < min(MOST, round(again.weight / least)):
            return Choice(again.unit, msgspec.structs.replace(turn, served=turn.served + 1))
        unit = _following(candidates, turn.last)
        return Choice(unit, msgspec.structs.replace(turn, last=unit, served=1))


def _following(candidates: Sequence[Candidate], last: int) -> int:
    """Return the unit that follows the last one, in a circle."""
    return min(candidates, key=lambda candidate: (candidate.unit <= last, candidate.unit)).unit
