"""Schedulers by the name that a user writes."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.engine.scheduling.schedulers.chain import Chain
from headrace.engine.scheduling.schedulers.edf import EarliestDeadline
from headrace.engine.scheduling.schedulers.fifo import Fifo
from headrace.engine.scheduling.schedulers.path_capacity import PathCapacity, PathCapacityOutput
from headrace.engine.scheduling.schedulers.round_robin import RoundRobin, WeightedRoundRobin
from headrace.engine.scheduling.schedulers.scheduler import Scheduler
from headrace.engine.scheduling.schedulers.segment import Segment
from headrace.engine.scheduling.schedulers.threshold import Threshold
from headrace.errors import NameFault
from headrace.model.qos import parse_size

#: Leave the choice to the query-graph cycle.
NONE = "none"

SCHEDULERS: Mapping[str, Scheduler] = {
    "fifo": Fifo(),
    "round-robin": RoundRobin(),
    "weighted-round-robin": WeightedRoundRobin(),
    "push-up": RoundRobin(("plan",)),
    "chain": Chain(),
    "path-capacity": PathCapacity(),
    "path-capacity-output": PathCapacityOutput(),
    "segment": Segment(("greedy",)),
    "memory-optimal": Segment(("memory-optimal",)),
    "simplified": Segment(("simplified",)),
    "threshold": Threshold(),
    "edf": EarliestDeadline(),
}


def scheduler_named(name: str) -> Scheduler | None:
    """Return the scheduler of a name, such as `threshold 10 MB`; None for `none`; NameFault if unknown."""
    word, _, rest = name.strip().lower().partition(" ")
    if word == NONE and not rest:
        return None
    if word == "threshold" and rest:
        try:
            return Threshold(parse_size(rest))
        except ValueError as error:
            raise NameFault(f"no scheduler {name!r}: {error}", hint="write 'threshold 64 MB'") from error
    if word in SCHEDULERS and not rest:
        return SCHEDULERS[word]
    raise NameFault(f"no scheduler {name!r}", hint=f"choose one of {', '.join((NONE, *SCHEDULERS))}")
