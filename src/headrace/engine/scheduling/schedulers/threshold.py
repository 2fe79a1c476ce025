"""Threshold: path capacity while there is memory, memory-optimal segments when there is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from headrace.engine.scheduling.schedulers.path_capacity import PathCapacity
from headrace.engine.scheduling.schedulers.scheduler import Candidate, Choice, Turn, UnitKind
from headrace.engine.scheduling.schedulers.segment import Segment

#: Bytes that may wait in a bucket by default.
MEMORY = 64.0 * 2**20
#: The weight of the newest value in the mean.
_SMOOTHING = 0.01
_PATHS, _SEGMENTS = PathCapacity(), Segment(("memory-optimal",))


@dataclass(frozen=True, slots=True)
class Threshold:
    """A scheduler with two modes; the levels of memory use at which it changes differ, so that it does not oscillate.

    Both levels are at most `share` of the memory.
    """

    memory: float = MEMORY
    share: float = 0.9
    kinds: tuple[UnitKind, ...] = ("path", "memory-optimal")
    gated: bool = False

    def levels(self, mean: float) -> tuple[float, float]:
        """Return the use of memory at which saving begins, and at which it ends, given the mean use."""
        most = min((1 + mean / self.memory) / 2 * self.memory, self.share * self.memory)  # (6.8)
        return most, min(mean, self.share * most)

    def choose(self, candidates: Sequence[Candidate], turn: Turn) -> Choice:
        paths = [unit for unit in candidates if unit.kind == "path"]
        segments = [unit for unit in candidates if unit.kind != "path"]
        used = sum(unit.bytes for unit in segments)  # an operator is in one segment, but may be on several paths
        mean = turn.mean + (used - turn.mean) * _SMOOTHING
        most, least = self.levels(mean)
        tight = used > least if turn.tight else used >= most
        turn = msgspec.structs.replace(turn, tight=tight, mean=mean)
        chosen, others = (_SEGMENTS, paths) if tight else (_PATHS, segments)
        return chosen.choose((segments if tight else paths) or others, turn)
