"""What an engine reports of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.engine.feedback.guards import Guard
from headrace.engine.shedding.shedders import ShedSeen
from headrace.engine.statistics import QueueStatistics, VertexCounts
from headrace.graph.graph import VertexId


@dataclass(frozen=True, slots=True)
class Observed:
    """Counts since the last look, the guards in force, and those that have `ended` since."""

    vertices: dict[VertexId, VertexCounts]
    bounds: dict[VertexId, int]  # of the ends of the graph
    guards: Sequence[Guard]
    ended: Sequence[Guard]
    purged: int  # rows of state that feedback removed
    shed: Sequence[ShedSeen]
    queues: QueueStatistics


@dataclass(frozen=True, slots=True)
class Backlog:
    """Work that could be done now: the number of tuples, and for each end of the graph when the oldest one arrived."""

    tuples: int
    since: dict[VertexId, int]


NO_BACKLOG: Final = Backlog(0, {})
