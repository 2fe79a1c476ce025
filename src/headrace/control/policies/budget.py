"""The work budget of micro-batches, so that queries with strict latency promises do not wait for others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.analysis.forecast.priorities import MIN_MULTIPLE_OF_FIXED, SHARE_OF_PROMISE, classes, is_strict
from headrace.control.machine import Machine
from headrace.model.qos import Qos
from headrace.model.time import SECOND

#: The observed latency is the longest, two micro-batches; the mean is this share of it.
MEAN_OF_LONGEST = 0.75
#: With a scheduler that a user chose and no latency promise, a micro-batch has about so much time (seconds).
SCHEDULED_S = 1.0
#: While promises are kept with this share to spare, the budget grows again.
SLACK = 0.1
#: The smallest budget of a bucket (nanoseconds), so that waiting work always proceeds.
MIN_BUDGET_NS = 2_000_000
#: A stream is not read while more of its tuples than this wait for a query; it is read again when half of them are
#: gone.
MAX_WAITING = 500_000
#: While waiting work is to be done in portions, a micro-batch has about so much time (seconds).
PORTION_S = 2.0


def differ(promises: Iterable[Qos]) -> bool:
    """Return whether some queries may wait for others, whose latency promises are stricter."""
    known = list(promises)
    return any(map(is_strict, known)) and len(classes(known)) > 1


def budget(
    promises: Mapping[str, tuple[Qos, int]],
    machine: Machine,
    committed: float,
    buckets: int,
    *,
    pressure: float = 0.0,
    is_scheduled: bool = False,
) -> int | None:
    """Return the nanoseconds of deferrable work for each bucket; None if no query may wait for another.

    `committed` are the busy seconds per second of all other work, `pressure` is the share by which micro-batches took
    longer than planned. `is_scheduled`: a user chose a scheduler, which has an effect under a budget only.
    """
    strict = [
        qos.latency.curve.at(elapsed)
        for qos, elapsed in promises.values()
        if qos.latency is not None and is_strict(qos)
    ]
    if not is_scheduled and not differ(qos for qos, _ in promises.values()):
        return None
    target = SHARE_OF_PROMISE * min(strict) / SECOND if strict else SCHEDULED_S
    seconds = max(target, MIN_MULTIPLE_OF_FIXED * machine.fixed)
    room = machine.room(seconds) - committed * seconds
    return max(MIN_BUDGET_NS, round(room * (1.0 - pressure) / buckets * 1e9))


def portion(machine: Machine, committed: float, buckets: int) -> int:
    """Return the nanoseconds of waiting work for each bucket, if it is to be done soon but not all at once."""
    room = machine.room(max(PORTION_S, MIN_MULTIPLE_OF_FIXED * machine.fixed)) - committed * PORTION_S
    return max(MIN_BUDGET_NS, round(room / buckets * 1e9))


def overfull(waiting: Mapping[str, int], may_wait: frozenset[str], before: frozenset[str]) -> frozenset[str]:
    """Return the queries for which more tuples wait than may, until half of them are gone."""
    return frozenset(
        query for query in may_wait if waiting.get(query, 0) > (MAX_WAITING / 2 if query in before else MAX_WAITING)
    )


def left_unread(
    readers: Mapping[str, frozenset[str]], waiting: Mapping[str, int], may_wait: frozenset[str], before: frozenset[str]
) -> frozenset[str]:
    """Return the streams to leave unread: all their queries may wait, and one of them has a large backlog."""
    return frozenset(
        stream
        for stream, queries in readers.items()
        if queries <= may_wait
        and max(waiting.get(query, 0) for query in queries) > (MAX_WAITING / 2 if stream in before else MAX_WAITING)
    )
