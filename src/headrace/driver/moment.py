"""A deployment as it is after a micro-batch, for those who watch it: a value that does not change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.commands.running import Running
from headrace.control.decision_log import Numbered
from headrace.control.observation import Observation
from headrace.engine.statistics import Statistics
from headrace.graph.place import Placement
from headrace.worker.wire import BucketNote


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """References to values that nobody changes, so that taking it costs nothing."""

    now: int  # microseconds
    cores: int
    ended: bool  # whether a draining deployment has delivered everything
    statistics: Statistics
    observation: Observation
    began: Mapping[str, int]  # when each query was first seen, microseconds
    running: Running
    placement: Placement
    buckets: Sequence[BucketNote]
    decisions: Numbered
