"""How long operators and tuples wait, and how unevenly results come: measures over many micro-batches.

What is queued, and who waits for a bound, is known after each micro-batch. It lasts until the next one is delivered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from msgspec.structs import replace

from headrace.engine.statistics import QueryStatistics, VertexStatistics
from headrace.model.time import SECOND

#: So many seconds of results are compared.
SECONDS = 60


class WaitingTimes:
    """Adds up times between micro-batches; `delivered` is when one was delivered, in microseconds."""

    def __init__(self) -> None:
        self._since: int | None = None

    def add(
        self, before: Mapping[str, VertexStatistics], after: Mapping[str, VertexStatistics], delivered: int
    ) -> dict[str, VertexStatistics]:
        """Return the statistics after a micro-batch with the times since the one before."""
        passed = 0 if self._since is None else max(0, delivered - self._since)
        self._since = delivered
        return {name: _with_times(before.get(name), counts, passed) for name, counts in after.items()}


def _with_times(before: VertexStatistics | None, after: VertexStatistics, passed: int) -> VertexStatistics:
    if before is None:
        return after
    return replace(
        after,
        observed_us=before.observed_us + passed,
        idle_us=before.idle_us + (passed if before.waits else 0),
        queue_us=before.queue_us + before.queued * passed,
    )


class Burstiness:
    """Results of each query by second."""

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        self._seconds: dict[str, deque[tuple[int, int]]] = {}

    def add(
        self, queries: Mapping[str, QueryStatistics], results: Mapping[str, int], delivered: int
    ) -> dict[str, QueryStatistics]:
        """Count the results of a micro-batch; return the statistics of the queries with their burstiness."""
        now = delivered // SECOND
        for name in [name for name in self._first if name not in queries]:
            del self._first[name], self._seconds[name]
        for name in queries:
            self._first.setdefault(name, now)
            seconds = self._seconds.setdefault(name, deque())
            seconds.append((now, results.get(name, 0)))
            while seconds[0][0] < now - SECONDS:
                seconds.popleft()
        return {name: replace(total, burstiness=self._of(name, now)) for name, total in queries.items()}

    def _of(self, name: str, now: int) -> float | None:
        """Return the burstiness over the seconds that are over; None below two, or without results."""
        first = max(self._first[name] + 1, now - SECONDS)
        bins = dict.fromkeys(range(first, now), 0)
        for second, count in self._seconds[name]:
            if second in bins:
                bins[second] += count
        total = sum(bins.values())
        return (max(bins.values()) - min(bins.values())) * len(bins) / total if len(bins) > 1 and total else None
