"""How much work a micro-batch may do, so that what must be quick does not wait for what may wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.control.machine import Machine
from headrace.control.policies.relief import LEAST
from headrace.elements.promise import Qos, Strictness
from headrace.elements.time import SECOND

#: The mean result is one and a half micro-batches late; with this share of the promise for one, it keeps its promise.
SHARE_OF_PROMISE = 0.55
#: A bucket may always do so much (nanoseconds), or nothing that waits would ever be done.
LEAST_NS = 2_000_000


def classes(promises: Iterable[Qos]) -> set[Strictness | None]:
    """How strictly the latencies of queries are meant; None for queries that promise none."""
    return {None if qos.latency is None else qos.latency.strictness for qos in promises}


def budget(promises: Mapping[str, tuple[Qos, int]], machine: Machine, ingest: float, buckets: int) -> int | None:
    """Nanoseconds of work for each bucket, if anything may wait for something else; `ingest` are the busy seconds a second that reading takes."""
    given = [(qos.latency, elapsed) for qos, elapsed in promises.values() if qos.latency is not None]
    strict = [latency.curve.at(elapsed) for latency, elapsed in given if latency.strictness is not Strictness.DONT_CARE]
    if not strict or len(classes(qos for qos, _ in promises.values())) < 2:
        return None
    seconds = max(SHARE_OF_PROMISE * min(strict) / SECOND, LEAST * machine.fixed)
    room = machine.room(seconds) - ingest * seconds
    return max(LEAST_NS, round(room / buckets * 1e9))
