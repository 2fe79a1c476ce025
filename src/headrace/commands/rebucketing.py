"""Divides the keys of running queries among other buckets: more, or fewer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from headrace.commands.allotments import Allotment
from headrace.commands.command import Command, UseBuckets
from headrace.commands.parcel_groups import ParcelGroup, parcel_groups
from headrace.commands.running import Running


def rebucketing(running: Running, first: Sequence[int], buckets: Sequence[int]) -> list[Command]:
    """Return the commands by which keys are divided among these `buckets`; none if they are already.

    What cannot move stays in its buckets, which stay as long as it does. `first` are the buckets with which the
    checkpoint began.
    """
    if running.in_use(first) == tuple(buckets):
        return []
    use = UseBuckets(tuple(buckets), running.in_use(first))
    moves = [
        group.redealt(moves, buckets)
        for number, group in enumerate(parcel_groups(running.after(use), buckets))
        if group.hindrance is None and ((moves := dealt(group.allotment, buckets, number)) or group.allotment.splits)
    ]
    return [use, *moves]


def held_back(running: Running, first: Sequence[int], buckets: Sequence[int]) -> dict[str, str]:
    """Return the queries that stay in the buckets that they have, of which some are not used by others, and why."""
    return {
        ", ".join(group.queries): group.hindrance
        for group in parcel_groups(running, first)
        if group.hindrance is not None and _stays(group, {*buckets})
    }


def _stays(group: ParcelGroup, buckets: set[int]) -> bool:
    """Return whether a group that cannot move keeps buckets that go, or uses none that are new."""
    used = group.allotment.used()
    return bool(used - buckets) or (group.is_keyed and used != buckets)


def dealt(allotment: Allotment, buckets: Sequence[int], turn: int = 0) -> dict[int, int]:
    """Return the parcels that must move so that each bucket has as many as the others, as few as possible.

    `turn` says with which bucket to begin, so that groups of few parcels do not all go to the same.
    """
    least, more = divmod(allotment.parcels, len(buckets))
    order = [*buckets[turn % len(buckets) :], *buckets[: turn % len(buckets)]]
    had = Counter(allotment.bucket(parcel) for parcel in range(allotment.parcels))
    # those that have most already keep one more if the parcels cannot be divided evenly
    richest = sorted(order, key=lambda bucket: -had[bucket])
    room = {bucket: least + (place < more) for place, bucket in enumerate(richest)}
    leaving: list[int] = []
    for parcel in range(allotment.parcels):
        bucket = allotment.bucket(parcel)
        if room.get(bucket, 0) > 0:
            room[bucket] -= 1
        else:
            leaving.append(parcel)
    free = [bucket for bucket in richest for _ in range(room[bucket])]
    return dict(zip(leaving, free, strict=True))
