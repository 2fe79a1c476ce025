"""The promises of a query, each compared with what is observed."""

from __future__ import annotations

from msgspec import Struct

from headrace.control.observation import QueryObservation
from headrace.model.qos import METRICS, Metric, Qos, Strictness, format_percentile


class PromiseCheck(Struct, frozen=True):
    """One promise beside what is observed, in the unit of the promise: microseconds, bytes, results per second or 1."""

    measure: Metric
    strictness: Strictness
    expected: float
    observed: float
    percentile: float | None = None  # which latency it is; None: the longest

    @property
    def is_kept(self) -> bool:
        """Return whether the promise holds."""
        return self.observed >= self.expected if self.measure == "throughput" else self.observed <= self.expected

    @property
    def slack(self) -> float:
        """Return how far the promise is from being broken, as a share of it: from 0 (only just kept) to 1."""
        if not self.expected:
            return 0.0
        margin = (self.expected - self.observed) / self.expected  # (10.2)
        return max(0.0, min(1.0, -margin if self.measure == "throughput" else margin))

    def __str__(self) -> str:
        observed, expected = _format(self.measure, self.observed), _format(self.measure, self.expected)
        which = "" if self.percentile is None else f" {format_percentile(self.percentile)}"
        return f"{self.measure}{which} is {observed}, promised {expected} {self.strictness.value}"


def promise_checks(
    qos: Qos, observation: QueryObservation, elapsed: int, lookahead: int = 0
) -> tuple[PromiseCheck, ...]:
    """Check each promise of a query for which there is an observation.

    `elapsed` is the time since the query began. The promise is taken `lookahead` later, so that a change can come in
    time.
    """
    checks = []
    for measure in METRICS:
        promise, value = qos.promise(measure), observation.value(measure)
        if promise is not None and value is not None:
            observed = value * 1e6 if measure == "latency" else value
            expected = promise.curve.at(elapsed + lookahead)
            checks.append(PromiseCheck(measure, promise.strictness, expected, observed, promise.percentile))
    return tuple(checks)


def promise_phase(qos: Qos, elapsed: int) -> int:
    """Return the phase that the promises of a query are in: the number of points of their curves that have passed."""
    promises = map(qos.promise, METRICS)
    return sum(instant <= elapsed for promise in promises if promise is not None for instant, _ in promise.curve.points)


def _format(measure: Metric, value: float) -> str:
    match measure:
        case "latency":
            return f"{value / 1e3:.0f} ms"
        case "memory":
            return f"{value / 2**20:.1f} MB"
        case "throughput":
            return f"{value:.1f}/s"
        case "smoothness":
            return f"{value:.2f}"
