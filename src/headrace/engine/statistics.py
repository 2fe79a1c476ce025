"""What was seen of a running deployment: counts and times per vertex, stream and query, summed over buckets."""

from __future__ import annotations

from msgspec import Struct, field


class VertexStatistics(Struct):
    """Totals of one vertex since it started."""

    tuples_in: int = 0
    tuples_out: int = 0
    pages_in: int = 0
    busy_ns: int = 0
    queued: int = 0  # tuples waiting in its input buffers now
    held: int = 0  # tuples in its state now
    state_bytes: int = 0
    late: int = 0  # tuples that a pace left out

    @property
    def selectivity(self) -> float | None:
        return self.tuples_out / self.tuples_in if self.tuples_in else None

    @property
    def service_us(self) -> float | None:
        """Mean time per tuple, microseconds."""
        return self.busy_ns / 1000 / self.tuples_in if self.tuples_in else None


class StreamStatistics(Struct):
    """Totals of one stream since it started."""

    tuples: int = 0
    bad: int = 0
    late: int = 0
    skipped: int = 0  # records that nobody needed and that were not read
    skipped_bytes: int = 0
    oldest: int | None = None  # the oldest timestamp of the last micro-batch, microseconds
    newest: int | None = None  # the newest timestamp seen, microseconds
    punctual: bool | None = (
        None  # whether every tuple of the last micro-batch came within the skew of its timestamp by our clock
    )
    frontier: int | None = None  # no tuple below it counts any more, microseconds


class QueryStatistics(Struct):
    """Totals of one query since it started; latency is the longest that a tuple of the last micro-batch can have waited for delivery."""

    results: int = 0
    shed: int = 0  # tuples that were dropped on the way to its results
    latency_ms: float | None = None


class RuleStatistics(Struct):
    """Totals of one rule since the session started."""

    detections: int = 0
    ignored: int = 0  # detections while it was disabled
    calls: int = 0  # to be made for them
    done: int = 0
    given_up: int = 0
    failed: int = 0  # all that is in <rule>.failed: calls that were given up, and other actions

    @property
    def waiting(self) -> int:
        """Calls that have not been made yet."""
        return max(0, self.calls - self.done - self.given_up)


class GuardStatistics(Struct):
    """What feedback drops at one place."""

    until: int | None
    saved: int = 0  # tuples so far
    active: bool = True
    ended: bool = False  # where streams are read: for good, though some task may not have heard of it yet


class ShedStatistics(Struct):
    """What is dropped on one arc, to keep promises."""

    queries: tuple[str, ...]  # whose results come of its tuples
    kind: str
    share: float  # to be dropped
    seen: int = 0  # tuples so far
    dropped: int = 0
    active: bool = True


class Statistics(Struct):
    """One look at a deployment."""

    batch: int = -1
    batch_ms: float | None = None
    asked: int = 0  # bounds that silent streams were asked for, because an operator waited
    vertices: dict[str, VertexStatistics] = field(default_factory=dict)
    streams: dict[str, StreamStatistics] = field(default_factory=dict)
    queries: dict[str, QueryStatistics] = field(default_factory=dict)
    rules: dict[str, RuleStatistics] = field(default_factory=dict)
    guards: dict[tuple[str, str], GuardStatistics] = field(default_factory=dict)  # by reader and pattern
    purged: int = 0  # rows of state that feedback removed
    shed: dict[tuple[str, int], ShedStatistics] = field(default_factory=dict)  # by arc: reader and port
