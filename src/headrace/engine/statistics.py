"""What is counted of a running deployment.

`VertexCounts` and `StreamCounts` change while a task counts. `Statistics` and its parts are the totals, summed over
buckets and micro-batches: values that never change, so that any thread may read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from headrace.model.streams import is_exchange_stream
from headrace.storage.requests import Requests


class VertexCounts(Struct, array_like=True):
    """What one vertex did, and what it holds now; on the wire without names, for there are many of them."""

    tuples_in: int = 0
    tuples_out: int = 0
    pages_in: int = 0
    busy_ns: int = 0
    queued: int = 0  # tuples waiting in its input buffers now
    held: int = 0  # tuples in its state now
    state_bytes: int = 0
    late: int = 0  # tuples that a pace left out
    bytes_in: int = 0  # of the tuples that it took
    bytes_out: int = 0
    queued_bytes: int = 0  # of the tuples that wait now
    peak: int = 0  # the most tuples that waited before it at once
    waits: int = 0  # buckets in which only a bound can release what it holds

    def add(self, other: VertexCounts) -> None:
        """Add what was counted elsewhere."""
        self.tuples_in += other.tuples_in
        self.tuples_out += other.tuples_out
        self.pages_in += other.pages_in
        self.busy_ns += other.busy_ns
        self.queued += other.queued
        self.held += other.held
        self.state_bytes += other.state_bytes
        self.late += other.late
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.queued_bytes += other.queued_bytes
        self.peak += other.peak
        self.waits += other.waits

    def total(self) -> VertexStatistics:
        """Return the counts as a value that does not change."""
        return msgspec.convert(self, VertexStatistics, from_attributes=True)


class Aside(Struct, frozen=True, omit_defaults=True):
    """A late or bad record, as people read it; it may be shortened."""

    side: Literal["late", "bad"]
    record: str
    reason: str
    at: int  # the time of the micro-batch, microseconds
    origin: str = ""


#: So many late records of a stream are kept for people to look at, and as many bad ones.
KEPT_ASIDE = 20


class StreamCounts(Struct):
    """What was read of one stream."""

    tuples: int = 0
    bad: int = 0
    late: int = 0
    skipped: int = 0  # records that no query needs and that were not read
    skipped_bytes: int = 0
    oldest: int | None = None  # the oldest timestamp of the micro-batch, microseconds
    newest: int | None = None  # the newest timestamp seen, microseconds
    punctual: bool | None = None  # whether every tuple of the micro-batch came within the skew of its timestamp
    frontier: int | None = None  # a lower bound on the timestamps still to come, microseconds
    lanes: dict[str, int] = {}  # if there are several: such a bound for each that had tuples
    aside: list[Aside] = []  # the newest records that were set aside

    def add(self, other: StreamCounts) -> None:
        """Add what was counted elsewhere; what concerns a single micro-batch is not added."""
        self.tuples += other.tuples
        self.bad += other.bad
        self.late += other.late
        self.skipped += other.skipped
        self.skipped_bytes += other.skipped_bytes
        if other.newest is not None and other.frontier is not None:
            self.newest = other.newest if self.newest is None else max(self.newest, other.newest)
            self.frontier = other.frontier if self.frontier is None else max(self.frontier, other.frontier)
        if other.lanes:
            self.lanes = greatest(self.lanes, other.lanes)
            self.frontier = min(self.lanes.values())
        if other.aside:
            self.set_aside(other.aside, KEPT_ASIDE)

    def set_aside(self, records: Sequence[Aside], most: int) -> None:
        """Keep the newest records that were set aside, `most` of each side."""
        known = [*self.aside, *records]
        self.aside = [each for side in ("late", "bad") for each in [one for one in known if one.side == side][-most:]]

    def forget_times(self) -> None:
        """Forget how far the stream had come: its frontier was reset."""
        self.newest = self.frontier = None
        self.lanes = {}

    def total(self) -> StreamStatistics:
        """Return the counts as a value that does not change."""
        return msgspec.convert(self, StreamStatistics, from_attributes=True)


def greatest(mine: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """Return the greater of two bounds for each name."""
    return {**mine, **{name: max(bound, mine.get(name, bound)) for name, bound in other.items()}}


class QueueStatistics(Struct, frozen=True):
    """What waits between operators after a micro-batch, and the most that waited at once during it.

    A tuple that several operators read counts once, until the last of them has taken it.
    """

    tuples: int = 0
    bytes: int = 0
    peak_tuples: int = 0
    peak_bytes: int = 0

    def plus(self, other: QueueStatistics) -> QueueStatistics:
        """Return the sum over two buckets; their peaks need not have been at the same time."""
        return QueueStatistics(
            self.tuples + other.tuples,
            self.bytes + other.bytes,
            self.peak_tuples + other.peak_tuples,
            self.peak_bytes + other.peak_bytes,
        )


class SentStatistics(Struct, frozen=True):
    """What the tasks of the last micro-batch sent to the driver."""

    tasks: int = 0
    notes: int = 0  # bytes of reports, and of the names of files that tasks wrote
    pages: int = 0  # bytes of results and exchanged pages
    bytes: int = 0  # of both on the way, partly compressed


class VertexStatistics(Struct, frozen=True):
    """Totals of one vertex since it started."""

    tuples_in: int = 0
    tuples_out: int = 0
    pages_in: int = 0
    busy_ns: int = 0
    queued: int = 0  # tuples waiting in its input buffers now
    held: int = 0  # tuples in its state now
    state_bytes: int = 0
    late: int = 0  # tuples that a pace left out
    bytes_in: int = 0  # of the tuples that it took
    bytes_out: int = 0
    queued_bytes: int = 0  # of the tuples that wait now
    peak: int = 0  # the most tuples that waited before it at once
    waits: int = 0  # buckets in which only a bound can release what it holds
    observed_us: int = 0  # for how long it has been looked at
    idle_us: int = 0  # of that, while it held something that only a bound can release
    queue_us: int = 0  # for how long tuples waited before it between micro-batches, added up over tuples

    @property
    def idle_share(self) -> float | None:
        """Share of the time in which it waited for a bound."""
        return self.idle_us / self.observed_us if self.observed_us else None

    @property
    def queue_ms(self) -> float | None:
        """Mean time that a tuple waited before it, by Little's law, milliseconds."""
        return self.queue_us / 1000 / self.tuples_in if self.tuples_in else None

    @property
    def selectivity(self) -> float | None:
        return self.tuples_out / self.tuples_in if self.tuples_in else None

    @property
    def service_us(self) -> float | None:
        """Mean time per tuple, microseconds."""
        return self.busy_ns / 1000 / self.tuples_in if self.tuples_in else None


class StreamStatistics(Struct, frozen=True):
    """Totals of one stream since it started."""

    tuples: int = 0
    bad: int = 0
    late: int = 0
    skipped: int = 0  # records that no query needs and that were not read
    skipped_bytes: int = 0
    newest: int | None = None  # the newest timestamp seen, microseconds
    frontier: int | None = None  # a lower bound on the timestamps still to come, microseconds
    behind: int = 0  # for how long at most records that are not read yet have been there, microseconds
    unread: int = 0  # how much that is
    unread_unit: str = "rows"  # or bytes
    aside: tuple[Aside, ...] = ()  # the newest records that were set aside

    @property
    def backlog(self) -> str:
        """Return how much is not read, as people write it; '-' if nothing is known to be."""
        if not self.unread:
            return "-"
        if self.unread_unit == "rows":
            return f"{self.unread:,} rows"
        return f"{self.unread / 2**20:,.1f} MB" if self.unread >= 2**20 else f"{self.unread / 2**10:,.1f} kB"


class QueryStatistics(Struct, frozen=True):
    """Totals of one query since it started."""

    results: int = 0
    failed: int = 0  # rows of <query>.failed: results that a sink cannot hold
    shed: int = 0  # tuples that were dropped on the way to its results
    latency_ms: float | None = None  # the longest that a tuple of the last micro-batch can have waited for delivery
    subscriber_errors: int = 0  # how often a function that takes its results raised an error
    burstiness: float | None = None  # (most - least) / mean of the results per second, over the last minute


class RuleStatistics(Struct, frozen=True):
    """Totals of one rule since the session started."""

    detections: int = 0
    ignored: int = 0  # detections while it was disabled
    calls: int = 0  # to be made for them
    done: int = 0
    given_up: int = 0
    failed: int = 0  # rows of <rule>.failed: calls that were given up, and other actions

    @property
    def waiting(self) -> int:
        """Calls that have not been made yet."""
        return max(0, self.calls - self.done - self.given_up)


class GuardStatistics(Struct, frozen=True):
    """What feedback drops at one place."""

    until: int | None
    saved: int = 0  # tuples so far
    active: bool = True
    ended: bool = False  # for good, where streams are read; some task may not know it yet


class ShedStatistics(Struct, frozen=True):
    """What is dropped on one arc, to keep promises."""

    queries: tuple[str, ...]  # whose results are made of its tuples
    kind: str
    share: float  # to be dropped
    seen: int = 0  # tuples so far
    dropped: int = 0
    active: bool = True


class Statistics(Struct, frozen=True):
    """The totals of a deployment after one micro-batch."""

    batch: int = -1
    batch_ms: float | None = None
    asked: int = 0  # bounds that silent streams were asked for, because an operator waited
    queues: QueueStatistics = QueueStatistics()  # of the buckets
    peak_tuples: int = 0  # the most that waited at once in any micro-batch
    peak_bytes: int = 0
    vertices: Mapping[str, VertexStatistics] = {}
    streams: Mapping[str, StreamStatistics] = {}
    queries: Mapping[str, QueryStatistics] = {}
    rules: Mapping[str, RuleStatistics] = {}
    guards: Mapping[tuple[str, str], GuardStatistics] = {}  # by reader and pattern
    purged: int = 0  # rows of state that feedback removed
    shed: Mapping[tuple[str, int], ShedStatistics] = {}  # by arc: reader and port
    sent: SentStatistics = SentStatistics()
    stores: Mapping[str, Requests] = {}  # requests of tasks, by store

    def of_users(self) -> Statistics:
        """Return the totals without streams that only bring tuples from one micro-batch to the next."""
        streams = {name: counts for name, counts in self.streams.items() if not is_exchange_stream(name)}
        return self if len(streams) == len(self.streams) else msgspec.structs.replace(self, streams=streams)
