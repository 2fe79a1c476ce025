"""When a parcel is too heavy for one bucket, and when no longer: pure thresholds on its load.

The fair share of a processor is the load of all parcels, divided by the number of processors. As long as no parcel has
more than that, moving parcels makes processors even. A heavier one, usually with one heavy key, has to be in several
buckets. What processors do beside that does not count: it is the same for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from headrace.control.policies.rebalance import BUSY, PAUSE, Look, Movables
from headrace.model.time import SECOND

#: A parcel is split if its load is this many times the fair share of a processor,
HEAVY = 1.2
#: and gathered if it has become this small: then a bucket has room for it whatever else it has.
LIGHT = 0.4
#: A bucket must have at most this part of the tuples of a parcel that is split.
LESS = 0.65
#: If the fair share is less load than this, it says nothing.
IDLE = 0.02
#: Both must last so long (microseconds).
SPLIT_AFTER, GATHERED_AFTER = 2 * SECOND, 10 * SECOND


def is_worth_splitting(rates: Sequence[float], buckets: int) -> bool:
    """Return whether a parcel may be split, given the tuples of each input: the most of one are dealt, others copied.

    The copies must be no more than its tuples are, and each bucket must have far fewer.
    """
    total, dealt = sum(rates), max(rates)
    copied = total - dealt
    return (buckets - 1) * copied <= total and dealt / buckets + copied <= LESS * total


class Heavy(Struct, frozen=True):
    """What is remembered: since when parcels have been heavy, or split and light, and when one changed last."""

    since: Mapping[tuple[str, int], int] = {}
    changed: int | None = None


class Change(Struct, frozen=True):
    """A parcel of a group that is to be split or gathered, its load, and the fair share of a processor."""

    name: str
    parcel: int
    is_split: bool  # from now on
    load: float
    share: float


def heavy_keys(memory: Heavy, look: Look) -> tuple[Heavy, Change | None]:
    """Return what to remember, and the parcel to split or to gather now: one at a time, the heaviest first."""
    loads = [processor.load for processor in look.processors]
    share = sum(map(_load, look.groups.values())) / max(1, len(loads))
    if len(loads) < 2 or share < IDLE:
        return Heavy({}, memory.changed), None
    is_busy = max(loads) >= BUSY
    due: list[Change] = []
    since: dict[tuple[str, int], int] = {}
    for name, group in look.groups.items():
        candidates = group.splittable if is_busy else ()
        heavy = {parcel: group.loads[parcel] for parcel in candidates if group.loads[parcel] >= HEAVY * share}
        light = {parcel: load for parcel, load in group.split.items() if load <= LIGHT * share}
        for parcel, load in (heavy | light).items():
            began = since[name, parcel] = memory.since.get((name, parcel), look.time)
            if look.time - began >= (SPLIT_AFTER if parcel in heavy else GATHERED_AFTER):
                due.append(Change(name, parcel, parcel in heavy, load, share))
    pausing = memory.changed is not None and look.time - memory.changed < PAUSE
    if not due or pausing or not look.is_settled:
        return Heavy(since, memory.changed), None
    chosen = max(due, key=lambda change: (change.load, change.name, -change.parcel))
    return Heavy(since, look.time), chosen


def _load(group: Movables) -> float:
    return sum(group.loads.values()) + sum(group.split.values())
