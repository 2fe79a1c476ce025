"""Whether promises hold: what was promised beside what is predicted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from headrace.analysis.forecast.solver import Forecast, QueryForecast
from headrace.model.qos import Promise, Qos
from headrace.model.time import SECOND

Measure: TypeAlias = Literal["latency", "memory", "throughput"]
MEASURES: tuple[Measure, ...] = ("latency", "memory", "throughput")


@dataclass(frozen=True, slots=True)
class Check:
    """One promise of a query beside what is predicted: seconds, bytes or results a second."""

    query: str
    measure: Measure
    promise: Promise
    promised: float
    predicted: float

    @property
    def holds(self) -> bool:
        return self.predicted >= self.promised if self.measure == "throughput" else self.predicted <= self.promised

    @property
    def margin(self) -> float:
        """Return how much of the promised value remains, as a share of it; negative if the promise is broken."""
        if math.isinf(self.predicted):
            return -math.inf
        room = self.predicted - self.promised if self.measure == "throughput" else self.promised - self.predicted
        return room / self.promised if self.promised else room


def verify(forecast: Forecast, query: str, qos: Qos) -> tuple[Check, ...]:
    """Compare each promise of a query, at its strictest instant, with the forecast."""
    predicted = forecast.queries[query]
    given = {"latency": qos.latency, "memory": qos.memory, "throughput": qos.throughput}
    return tuple(
        check_of(predicted, measure, promise) for measure in MEASURES if (promise := given[measure]) is not None
    )


def check_of(predicted: QueryForecast, measure: Measure, promise: Promise) -> Check:
    """Compare one promise, at its strictest instant, with a forecast."""
    match measure:
        case "latency":
            latency = predicted.latency * _of_mean(promise.percentile)
            return Check(predicted.name, measure, promise, promise.curve.least / SECOND, latency)
        case "memory":
            return Check(predicted.name, measure, promise, promise.curve.least, predicted.memory)
        case "throughput":
            return Check(predicted.name, measure, promise, promise.curve.most, predicted.throughput)


def _of_mean(percentile: float | None) -> float:
    """Return how long the latency at a percentile is beside the mean.

    A tuple waits for up to a micro-batch, each time equally likely, and then for the one that processes it.
    """
    return 1.0 if percentile is None else (1 + percentile) / 1.5
