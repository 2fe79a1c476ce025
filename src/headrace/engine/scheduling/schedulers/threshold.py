"""Threshold: path capacity while there is memory, memory-optimal segments when there is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from headrace.engine.scheduling.schedulers.path_capacity import PathCapacity
from headrace.engine.scheduling.schedulers.scheduler import Candidate, Choice, Turn, UnitKind
from headrace.engine.scheduling.schedulers.segment import Segment

#: Bytes that may wait in a bucket if nobody says otherwise.
MEMORY = 64.0 * 2**20
#: How much the newest look counts in the mean.
_SMOOTHING = 0.01
_PATHS, _SEGMENTS = PathCapacity(), Segment(("memory-optimal",))


@dataclass(frozen=True, slots=True)
class Threshold:
    """Switches at two levels apart from each other, so that it does not swing; `share` of the memory is as far as it goes."""

    memory: float = MEMORY
    share: float = 0.9
    kinds: tuple[UnitKind, ...] = ("path", "memory-optimal")
    gated: bool = False

    def levels(self, mean: float) -> tuple[float, float]:
        """From which use on memory is saved, and at which that ends, if so much is used in the mean."""
        most = min((1 + mean / self.memory) / 2 * self.memory, self.share * self.memory)  # (6.8)
        return most, min(mean, self.share * most)

    def choose(self, candidates: Sequence[Candidate], turn: Turn) -> Choice:
        paths = [one for one in candidates if one.kind == "path"]
        segments = [one for one in candidates if one.kind != "path"]
        used = sum(one.bytes for one in segments)  # an operator is in one segment, but may be on several paths
        mean = turn.mean + (used - turn.mean) * _SMOOTHING
        most, least = self.levels(mean)
        tight = used > least if turn.tight else used >= most
        turn = msgspec.structs.replace(turn, tight=tight, mean=mean)
        chosen, others = (_SEGMENTS, paths) if tight else (_PATHS, segments)
        return chosen.choose((segments if tight else paths) or others, turn)
