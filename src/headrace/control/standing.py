"""What is observed of running queries, and which of their promises hold."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from headrace.analysis.forecast.verification import MEASURES, Measure
from headrace.model.qos import Promise, Qos, Strictness


class QueryObservation(Struct, frozen=True):
    """How a query does now: seconds that its slowest result took, bytes that it holds, results a second, tuples that wait; None: nothing was seen."""

    query: str
    latency: float | None = None
    memory: float | None = None
    throughput: float | None = None
    waiting: int = 0

    def value(self, measure: Measure) -> float | None:
        match measure:
            case "latency":
                return self.latency
            case "memory":
                return self.memory
            case "throughput":
                return self.throughput


class Standing(Struct, frozen=True):
    """One promise beside what is observed, in the unit of the promise (microseconds, bytes, results a second)."""

    measure: Measure
    strictness: Strictness
    expected: float
    observed: float

    @property
    def is_kept(self) -> bool:
        return self.observed >= self.expected if self.measure == "throughput" else self.observed <= self.expected

    @property
    def slack(self) -> float:
        """How far from being broken, as a share of what was promised: 1 is as good as can be, 0 only just kept."""
        if not self.expected:
            return 0.0
        left = (self.expected - self.observed) / self.expected  # (10.2)
        return max(0.0, min(1.0, -left if self.measure == "throughput" else left))

    def __str__(self) -> str:
        return f"{self.measure} {_write(self.measure, self.observed)} of {_write(self.measure, self.expected)} {self.strictness.value}"


def promise_of(qos: Qos, measure: Measure) -> Promise | None:
    """What a query promises of a measure."""
    match measure:
        case "latency":
            return qos.latency
        case "memory":
            return qos.memory
        case "throughput":
            return qos.throughput


def standings(qos: Qos, seen: QueryObservation, elapsed: int, lookahead: int = 0) -> tuple[Standing, ...]:
    """Each promise of a query that can be judged; `elapsed` is the time since it began, the promise taken is that of `lookahead` later."""
    found = []
    for measure in MEASURES:
        promise, value = promise_of(qos, measure), seen.value(measure)
        if promise is not None and value is not None:
            observed = value * 1e6 if measure == "latency" else value
            found.append(Standing(measure, promise.strictness, promise.curve.at(elapsed + lookahead), observed))
    return tuple(found)


def stretch(qos: Qos, elapsed: int) -> int:
    """In which stretch of its promises a query is: how many of their points lie behind."""
    promises = (promise_of(qos, measure) for measure in MEASURES)
    return sum(instant <= elapsed for promise in promises if promise is not None for instant, _ in promise.curve.points)


def _write(measure: Measure, value: float) -> str:
    match measure:
        case "latency":
            return f"{value / 1e3:.0f} ms"
        case "memory":
            return f"{value / 2**20:.1f} MB"
        case "throughput":
            return f"{value:.1f}/s"


Observations = Mapping[str, QueryObservation]
