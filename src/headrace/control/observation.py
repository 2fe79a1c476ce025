"""The observation after a micro-batch: rates, costs, and the state of each query."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from headrace.control.machine import Machine
from headrace.control.service_line import ServiceLine
from headrace.engine.sizes import ASSUMED_BYTES
from headrace.graph.graph import VertexId
from headrace.model.qos import Metric
from headrace.operators.multijoin.seen import BoxSeen


class QueryObservation(Struct, frozen=True):
    """The state of a query; None where there is no observation.

    Latency of its slowest result, or at the percentile that it promises (seconds), bytes of state, results per second,
    tuples that wait, and how uneven the rate of results is.
    """

    query: str
    latency: float | None = None
    memory: float | None = None
    throughput: float | None = None
    waiting: int = 0
    smoothness: float | None = None

    def value(self, measure: Metric) -> float | None:
        """Return the observation of a measure."""
        match measure:
            case "latency":
                return self.latency
            case "memory":
                return self.memory
            case "throughput":
                return self.throughput
            case "smoothness":
                return self.smoothness


class VertexCost(Struct, frozen=True):
    """The cost of a vertex per input tuple: seconds of work, and output tuples; and the bytes of both.

    `line` tells the work of a page and that of a tuple apart.
    """

    service: float
    selectivity: float
    size_in: float = ASSUMED_BYTES
    size_out: float = ASSUMED_BYTES
    line: ServiceLine = ServiceLine()

    @property
    def parts(self) -> tuple[float, float]:
        """The seconds per page, and per tuple."""
        return self.line.parts() if self.line.pages else (0.0, self.service)

    def toward(self, newer: VertexCost, weight: float) -> VertexCost:
        """Return the cost moved toward a newer one by this share of the difference."""
        return VertexCost(
            self.service + weight * (newer.service - self.service),
            self.selectivity + weight * (newer.selectivity - self.selectivity),
            self.size_in + weight * (newer.size_in - self.size_in),
            self.size_out + weight * (newer.size_out - self.size_out),
            self.line.plus(newer.line),
        )


class Usual(Struct, frozen=True):
    """Means of the last half minute, for forecasts.

    Rates include side streams, `fixed` is the fixed part of a micro-batch.
    """

    rates: Mapping[str, float]
    costs: Mapping[VertexId, VertexCost]
    reading: float
    fixed: float


class Observation(Struct, frozen=True):
    """What is known after a micro-batch; rates are tuples per second."""

    time: int
    machine: Machine
    rates: Mapping[str, float]
    costs: Mapping[VertexId, VertexCost]
    reading: float  # seconds to read and route a tuple
    queries: Mapping[str, QueryObservation]
    unread: int
    usual: Usual
    buckets: int
    is_first: bool  # one of the first micro-batches, which start processes and read what came before
    boxes: Mapping[VertexId, BoxSeen] = {}  # what joins of several inputs did in the micro-batch
    apart: Mapping[int, Mapping[VertexId, BoxSeen]] = {}  # the same by bucket, if buckets may run different trees
    unread_rows: Mapping[str, int] = {}  # streams with unread records: how many, where that is known
    behind: Mapping[str, float] = {}  # streams with unread records: for how long at most these have been there, seconds
