"""How much must be shed so that micro-batches stay short enough for what must hold, and how far the prediction was off so far."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from headrace.model.qos import Qos
from headrace.model.time import SECOND

#: A tuple waits up to a micro-batch until it is read, and one more until its results are there; a little is kept in reserve.
SHARE_OF_PROMISE = 0.42
#: A micro-batch is not asked to be shorter than this many times what it takes anyway.
MIN_MULTIPLE_OF_FIXED = 1.4
#: How the correction follows what is observed: up by so much while a promise is broken, down while it is kept with so much slack.
RAISE, LOWER, SLACK, MOST = 0.1, 0.03, 0.35, 1.0
#: Shares are rounded up to this, and changed only if they differ by more: a change costs a part of a micro-batch.
SHARE_STEP = 0.02


class Pressure(Struct, frozen=True):
    """By which share the load seems higher than it is computed, since promises are broken all the same; `slack` is how much of them must be left."""

    value: float = 0.0
    slack: float = SLACK

    def after(self, *, is_broken: bool, slack: float) -> Pressure:
        if is_broken:
            return Pressure(min(MOST, self.value + RAISE), self.slack)
        return Pressure(max(0.0, self.value - LOWER), self.slack) if slack > self.slack else self


def target(promises: Iterable[tuple[Qos, int]], fixed: float) -> float | None:
    """How long a micro-batch may take (seconds), given what queries promise and how long they have run; None if no latency must hold."""
    strict = [
        qos.latency.curve.at(elapsed) for qos, elapsed in promises if qos.latency is not None and qos.latency.is_must
    ]
    return max(SHARE_OF_PROMISE * min(strict) / SECOND, MIN_MULTIPLE_OF_FIXED * fixed) if strict else None


def rounded(share: float) -> float:
    """A share as it is ordered."""
    return min(1.0, -(-share // SHARE_STEP) * SHARE_STEP)
