"""How much a micro-batch may do and read, so that what must be quick does not wait for what may wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.control.machine import Machine
from headrace.control.policies.relief import MIN_MULTIPLE_OF_FIXED
from headrace.model.qos import Qos, Strictness
from headrace.model.time import SECOND

#: The mean result is one and a half micro-batches late; with this share of the promise for one, it keeps its promise.
SHARE_OF_PROMISE = 0.55
#: What is observed is the longest that a tuple took, two micro-batches if it came when the one before began; the mean is this share of it.
MEAN_OF_LONGEST = 0.75
#: While promises are kept with this share to spare, what may wait gets more again.
SLACK = 0.1
#: A bucket may always do so much (nanoseconds), or nothing that waits would ever be done.
MIN_BUDGET_NS = 2_000_000
#: Streams are left unread while more tuples than this wait for those who read them, and are read again when half of them are gone.
MAX_WAITING = 500_000


def is_strict(qos: Qos) -> bool:
    """Whether anybody cares how late a query's results are."""
    return qos.latency is not None and qos.latency.strictness is not Strictness.DONT_CARE


def classes(promises: Iterable[Qos]) -> set[Strictness | None]:
    """How strictly the latencies of queries are meant; None for queries that promise none."""
    return {None if qos.latency is None else qos.latency.strictness for qos in promises}


def budget(
    promises: Mapping[str, tuple[Qos, int]], machine: Machine, committed: float, buckets: int, *, pressure: float = 0.0
) -> int | None:
    """Nanoseconds of work for each bucket on what may wait, if anything may wait for something else.

    `committed` are the busy seconds a second of all that may not wait, `pressure` by which share micro-batches took longer than they were meant to.
    """
    strict = [
        qos.latency.curve.at(elapsed)
        for qos, elapsed in promises.values()
        if qos.latency is not None and is_strict(qos)
    ]
    if not strict or len(classes(qos for qos, _ in promises.values())) < 2:
        return None
    seconds = max(SHARE_OF_PROMISE * min(strict) / SECOND, MIN_MULTIPLE_OF_FIXED * machine.fixed)
    room = machine.room(seconds) - committed * seconds
    return max(MIN_BUDGET_NS, round(room * (1.0 - pressure) / buckets * 1e9))


def left_unread(
    readers: Mapping[str, frozenset[str]], waiting: Mapping[str, int], may_wait: frozenset[str], before: frozenset[str]
) -> frozenset[str]:
    """Streams that are better left where they are: all who read them may wait, and one has more than enough already."""
    return frozenset(
        stream
        for stream, queries in readers.items()
        if queries <= may_wait
        and max(waiting.get(query, 0) for query in queries) > (MAX_WAITING / 2 if stream in before else MAX_WAITING)
    )
