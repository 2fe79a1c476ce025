"""Looks at the counters after each micro-batch: how fast streams come, what operators cost, how queries do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from headrace.control.machine import Machine
from headrace.control.observation import QueryObservation
from headrace.elements.time import SECOND
from headrace.graph.graph import VertexId
from headrace.graph.running import Running
from headrace.runtime.statistics import Statistics
from headrace.runtime.wire import Report

#: Rates are means over this time (microseconds); at least two looks are kept.
_WINDOW = 2 * SECOND
#: How much the newest micro-batch counts in what operators cost, and how many tuples it must have had.
_NEWEST, _FEW = 0.2, 50
#: Bytes of a tuple that waits before an operator.
_WAITING = 64


class VertexCost(Struct, frozen=True):
    """What a vertex takes and gives for one tuple: seconds, and tuples."""

    service: float
    selectivity: float


class Observation(Struct, frozen=True):
    """What is known after a micro-batch. Rates are tuples a second, `work` the busy seconds a second that all tasks spent."""

    time: int
    machine: Machine
    rates: Mapping[str, float]
    costs: Mapping[VertexId, VertexCost]
    reading: float  # seconds to read and route a tuple
    queries: Mapping[str, QueryObservation]
    unread: int = 0


class _Look(Struct, frozen=True):
    time: int
    streams: dict[str, int]
    results: dict[str, int]


class Monitor:
    """Remembers what is needed to tell rates and costs; `look` is called once after each micro-batch."""

    def __init__(self) -> None:
        self.machine = Machine()
        self._looks: list[_Look] = []
        self._costs: dict[VertexId, VertexCost] = {}
        self._counts: dict[VertexId, tuple[int, int, int]] = {}
        self._reading = 0.0

    def look(self, seen: Statistics, reports: Sequence[Report], running: Running, now: int) -> Observation:
        """After a micro-batch that was planned when its reports say, and delivered now."""
        planned = max((report.time for report in reports), default=now)
        busy = sum(report.busy_ns + report.ingest_ns for report in reports) / 1e9
        self.machine = self.machine.after(max(0.0, (now - planned) / SECOND), busy)
        self._cost(seen)
        self._read(reports)
        look = _Look(now, {name: counts.tuples for name, counts in seen.streams.items()}, {name: q.results for name, q in seen.queries.items()})
        self._looks.append(look)
        while len(self._looks) > 2 and now - self._looks[1].time >= _WINDOW:
            self._looks.pop(0)
        first = self._looks[0]
        rates = _per_second(first.streams, look.streams, now - first.time)
        results = _per_second(first.results, look.results, now - first.time)
        queries = {query.query: _query(query.query, running, seen, results) for query in running.queries}
        unread = sum(counts.queued for counts in seen.vertices.values())
        return Observation(now, self.machine, rates, dict(self._costs), self._reading, queries, unread)

    def _cost(self, seen: Statistics) -> None:
        for name, counts in seen.vertices.items():
            before = self._counts.get(name, (0, 0, 0))
            taken, made, busy = counts.tuples_in - before[0], counts.tuples_out - before[1], counts.busy_ns - before[2]
            if taken < _FEW:
                continue
            self._counts[name] = counts.tuples_in, counts.tuples_out, counts.busy_ns
            fresh, old = VertexCost(busy / 1e9 / taken, made / taken), self._costs.get(name)
            if old is None:
                self._costs[name] = fresh
            else:
                service = old.service + _NEWEST * (fresh.service - old.service)
                self._costs[name] = VertexCost(service, old.selectivity + _NEWEST * (fresh.selectivity - old.selectivity))
        self._costs = {name: cost for name, cost in self._costs.items() if name in seen.vertices}

    def _read(self, reports: Sequence[Report]) -> None:
        tuples = sum(counts.tuples for report in reports for streams in report.streams for counts in streams.values())
        if tuples < _FEW:
            return
        operators = sum(counts.busy_ns for report in reports for vertices in report.ingest for counts in vertices.values())
        fresh = max(0, sum(report.ingest_ns for report in reports) - operators) / 1e9 / tuples
        self._reading = self._reading + _NEWEST * (fresh - self._reading) if self._reading else fresh


def _per_second(before: Mapping[str, int], after: Mapping[str, int], elapsed: int) -> dict[str, float]:
    return {name: (count - before.get(name, 0)) * SECOND / elapsed for name, count in after.items()} if elapsed > 0 else {}


def _query(name: str, running: Running, seen: Statistics, results: Mapping[str, float]) -> QueryObservation:
    known = seen.queries.get(name)
    vertices = [seen.vertices[vertex] for vertex in running.own(name) if vertex in seen.vertices]
    memory = float(sum(counts.state_bytes + counts.queued * _WAITING for counts in vertices))
    latency = None if known is None or known.latency_ms is None else known.latency_ms / 1e3
    return QueryObservation(name, latency, memory, results.get(name))
