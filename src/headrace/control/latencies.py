"""The latencies of a query over the last minute, for promises about a percentile."""

from __future__ import annotations

from collections import deque

from headrace.model.time import SECOND

#: For how long a micro-batch counts (microseconds).
SPAN = 60 * SECOND


class Latencies:
    """The longest latency of each micro-batch of the last minute, and how many tuples it had."""

    def __init__(self) -> None:
        self._batches: deque[tuple[int, float, int]] = deque()

    def add(self, now: int, latency: float, tuples: int) -> None:
        """Note a micro-batch that was delivered now; one without a tuple says nothing."""
        while self._batches and now - self._batches[0][0] >= SPAN:
            self._batches.popleft()
        if tuples > 0:
            self._batches.append((now, latency, tuples))

    def percentile(self, share: float) -> float | None:
        """Return the least latency that this share of the tuples had at most; None if there was none."""
        wanted = share * sum(tuples for _, _, tuples in self._batches)
        so_far = 0
        for _, latency, tuples in sorted(self._batches, key=lambda batch: batch[1]):
            so_far += tuples
            if so_far >= wanted:
                return latency
        return None
