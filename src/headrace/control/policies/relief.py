"""The target duration of micro-batches for MUST latencies, and the correction of the predicted load."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from headrace.analysis.forecast.priorities import MIN_MULTIPLE_OF_FIXED
from headrace.model.qos import Qos
from headrace.model.time import SECOND

#: A tuple waits up to a micro-batch until it is read, and one more for its results; the rest is a reserve.
SHARE_OF_PROMISE = 0.42
#: The correction rises by so much while a promise is broken, and falls while it is kept with this slack, up to a limit.
RAISE, LOWER, SLACK, MAX_PRESSURE = 0.1, 0.03, 0.35, 1.0
#: Shares are rounded up to this step, and changed only if they differ by more: a change costs part of a micro-batch.
SHARE_STEP = 0.02


class Pressure(Struct, frozen=True):
    """The share by which the load is higher than computed, judged by broken promises.

    It falls while they keep `slack`.
    """

    value: float = 0.0
    slack: float = SLACK

    def after(self, *, is_broken: bool, slack: float) -> Pressure:
        """Return the pressure after one more check of the promises."""
        if is_broken:
            return Pressure(min(MAX_PRESSURE, self.value + RAISE), self.slack)
        return Pressure(max(0.0, self.value - LOWER), self.slack) if slack > self.slack else self


def target(promises: Iterable[tuple[Qos, int]], fixed: float) -> float | None:
    """Return how long a micro-batch may take (seconds); None if there is no MUST latency.

    `promises` are those of queries, each with the time it has run.
    """
    strict = [
        qos.latency.curve.at(elapsed) for qos, elapsed in promises if qos.latency is not None and qos.latency.is_must
    ]
    return max(SHARE_OF_PROMISE * min(strict) / SECOND, MIN_MULTIPLE_OF_FIXED * fixed) if strict else None


def rounded(share: float) -> float:
    """Return a share rounded up to the next step."""
    return min(1.0, -(-share // SHARE_STEP) * SHARE_STEP)
