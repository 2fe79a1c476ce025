"""The monitor: derives rates, costs and the state of queries from the counters after each micro-batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from headrace.commands.running import Running
from headrace.control.latencies import Latencies
from headrace.control.machine import Machine, Work, work_of
from headrace.control.observation import Observation, QueryObservation, Usual, VertexCost
from headrace.control.service_line import ServiceLine
from headrace.engine.sizes import ASSUMED_BYTES
from headrace.engine.statistics import Statistics
from headrace.graph.graph import VertexId
from headrace.model.streams import bad_stream, late_stream
from headrace.model.time import SECOND
from headrace.operators.multijoin.seen import merged_boxes
from headrace.worker.wire import Report

#: The first micro-batches start processes and read a backlog; their durations are not learned from.
STARTING = 3
#: Recent rates are means over the first of these times (microseconds), usual ones over the second; at least two looks
#: are kept.
_RECENT, _USUAL = 2 * SECOND, 30 * SECOND
#: What is new has a usual rate after this time.
_YOUNG = 4 * SECOND
#: The weight of the newest micro-batch in the costs of operators, and the tuples it must have had.
_NEWEST, _FEW = 0.2, 50
#: The shortest time between two micro-batches grows by this factor until a shorter one is seen.
_FADING = 1.05


class _Batches(Struct, frozen=True):
    """Sums over all micro-batches: their number, seconds, spans of work, seconds of reading, and tuples."""

    number: int = 0
    seconds: float = 0.0
    span: float = 0.0
    reading: float = 0.0
    tuples: int = 0


class _Counted(NamedTuple):
    """What a vertex has done so far."""

    tuples_in: int = 0
    tuples_out: int = 0
    pages_in: int = 0
    busy_ns: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


class _Look(Struct, frozen=True):
    """The counters at a time."""

    time: int
    streams: dict[str, int]  # side streams too
    results: dict[str, int]
    vertices: dict[VertexId, _Counted]
    batches: _Batches


class Monitor:
    """Keeps the counters that rates and costs are computed from; `look` is called once after each micro-batch."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.looks = 0
        self._batches = _Batches()
        self._ended = 0  # when the last micro-batch was delivered
        self._between = 0.05  # seconds from one micro-batch to the next that has something to read
        self._recent: list[_Look] = []
        self._older: list[_Look] = []  # a second apart
        self._costs: dict[VertexId, VertexCost] = {}
        self._counts: dict[VertexId, _Counted] = {}
        self._reading = 0.0
        self._latencies: dict[str, Latencies] = {}  # of queries that promise a percentile

    def look(
        self, statistics: Statistics, reports: Sequence[Report], running: Running, now: int, cores: int
    ) -> Observation:
        """Observe a micro-batch that was planned at the time in its reports and delivered now."""
        self.looks += 1
        self._batch(reports, now, cores)
        latest = _look(statistics, now, self._batches)
        self._cost(latest)
        _remember(self._recent, latest, _RECENT)
        if self.looks > STARTING and (not self._older or now - self._older[-1].time >= SECOND):
            _remember(self._older, latest, _USUAL)
        first = self._recent[0]
        looks = self._older if len(self._older) > 1 else self._recent  # windows give their results in bursts
        rates = _per_second(first.streams, latest.streams, now - first.time)
        results = _rates([look.results for look in looks], latest.results, [look.time for look in looks], now)
        queries = {query.query: _query(query.query, running, statistics, results) for query in running.queries}
        queries |= self._at_percentiles(queries, running, reports, now)
        unread = sum(counts.queued for counts in statistics.vertices.values())
        return Observation(
            time=now,
            machine=self.machine,
            rates=rates,
            costs=dict(self._costs),
            reading=self._reading,
            queries=queries,
            unread=unread,
            usual=self._usual(rates),
            buckets=sum(len(report.buckets) for report in reports),
            is_first=self.looks <= STARTING,
            boxes=merged_boxes(report.boxes for report in reports),
            apart={bucket: boxes for report in reports for bucket, boxes in report.apart.items()},
            unread_rows={
                name: stream.unread
                for name, stream in statistics.streams.items()
                if stream.unread and stream.unread_unit == "rows"
            },
            behind={name: stream.behind / SECOND for name, stream in statistics.streams.items() if stream.behind},
        )

    def _at_percentiles(
        self, queries: Mapping[str, QueryObservation], running: Running, reports: Sequence[Report], now: int
    ) -> dict[str, QueryObservation]:
        """Return the queries that promise a percentile of their latency, with that of the last minute."""
        promised = {
            query.query: (query, query.qos.latency.percentile)
            for query in running.queries
            if query.qos.latency is not None and query.qos.latency.percentile is not None
        }
        self._latencies = {name: known for name, known in self._latencies.items() if name in promised}
        tuples: dict[str, int] = {}
        for task in (task for report in reports for task in report.tasks):
            for stream, counts in task.streams.items():
                tuples[stream] = tuples.get(stream, 0) + counts.tuples
        found = {}
        for name, (query, percentile) in promised.items():
            known, latency = self._latencies.setdefault(name, Latencies()), queries[name].latency
            if latency is not None:
                known.add(now, latency, sum(tuples.get(read.name, 0) for read in query.streams))
            found[name] = msgspec.structs.replace(queries[name], latency=known.percentile(percentile))
        return found

    def _batch(self, reports: Sequence[Report], now: int, cores: int) -> None:
        """Learn from the duration of a micro-batch."""
        planned = max((report.time for report in reports), default=now)
        self._between = min(max(0.0, (planned - self._ended) / SECOND), self._between * _FADING)
        self._ended = now
        seconds = max(0.0, (now - planned) / SECOND) + self._between
        work = _work(reports, cores)
        if self.looks > STARTING:
            self.machine = self.machine.after(seconds, work)
        tasks = [task for report in reports for task in report.tasks]
        tuples = sum(counts.tuples for task in tasks for counts in task.streams.values())
        operators = sum(counts.busy_ns for task in tasks for counts in task.vertices.values())
        reading = max(0, sum(task.busy_ns for task in tasks) - operators) / 1e9
        if tuples >= _FEW:
            self._reading = (
                self._reading + _NEWEST * (reading / tuples - self._reading) if self._reading else reading / tuples
            )
        so_far = self._batches
        self._batches = _Batches(
            so_far.number + 1,
            so_far.seconds + seconds,
            so_far.span + work.span,
            so_far.reading + reading,
            so_far.tuples + tuples,
        )

    def _usual(self, rates: Mapping[str, float]) -> Usual:
        """Return means over the longest time that is kept; the recent ones if there is no more."""
        if len(self._older) < 2:
            return Usual(rates, dict(self._costs), self._reading, self.machine.fixed)
        first, latest = self._older[0], self._older[-1]
        costs = {
            name: _from_to(first.vertices.get(name, _Counted()), counts) for name, counts in latest.vertices.items()
        }
        usual = {name: cost for name, cost in costs.items() if cost is not None}
        before, after = first.batches, latest.batches
        number, tuples = after.number - before.number, after.tuples - before.tuples
        seconds, span = after.seconds - before.seconds, after.span - before.span
        times, streams = [look.time for look in self._older], [look.streams for look in self._older]
        return Usual(
            {**rates, **_rates(streams, latest.streams, times, latest.time)},
            self._costs | usual,
            (after.reading - before.reading) / tuples if tuples >= _FEW else self._reading,
            max(0.0, seconds - self.machine.cost * span) / number,
        )

    def _cost(self, latest: _Look) -> None:
        for name, counts in latest.vertices.items():
            before, old = self._counts.get(name, _Counted()), self._costs.get(name)
            fresh = _from_to(before, counts)
            if fresh is None:
                continue
            self._counts[name] = counts
            self._costs[name] = fresh if old is None else old.toward(fresh, _NEWEST)
        self._costs = {name: cost for name, cost in self._costs.items() if name in latest.vertices}
        self._counts = {name: counts for name, counts in self._counts.items() if name in latest.vertices}


def _work(reports: Sequence[Report], cores: int) -> Work:
    """Return the work of reading and operators.

    The other work of a bucket (state, bounds, reports) is the same each time.
    """
    ingest = [task.busy_ns / 1e9 for report in reports for task in report.tasks]
    buckets = [note.operators_ns / 1e9 for report in reports for note in report.buckets]
    return work_of((ingest, buckets), cores)


def _look(statistics: Statistics, now: int, batches: _Batches) -> _Look:
    streams: dict[str, int] = {}
    for name, counts in statistics.streams.items():
        streams |= (
            {name: counts.tuples, late_stream(name): counts.late, bad_stream(name): counts.bad} if counts.tuples else {}
        )
    results = {name: query.results for name, query in statistics.queries.items()}
    vertices = {
        name: _Counted(
            counts.tuples_in,
            counts.tuples_out,
            counts.pages_in,
            counts.busy_ns,
            counts.bytes_in,
            counts.bytes_out,
        )
        for name, counts in statistics.vertices.items()
    }
    return _Look(now, streams, results, vertices, batches)


def _remember(looks: list[_Look], latest: _Look, window: int) -> None:
    looks.append(latest)
    while len(looks) > 2 and latest.time - looks[1].time >= window:
        looks.pop(0)


def _from_to(before: _Counted, after: _Counted) -> VertexCost | None:
    """Return the cost of a tuple between two looks; None if there were too few tuples."""
    new = _Counted(*(now - then for then, now in zip(before, after, strict=True)))
    if new.tuples_in < _FEW:
        return None
    busy = new.busy_ns / 1e9
    return VertexCost(
        busy / new.tuples_in,
        new.tuples_out / new.tuples_in,
        new.bytes_in / new.tuples_in if new.bytes_in else ASSUMED_BYTES,
        new.bytes_out / new.tuples_out if new.bytes_out else ASSUMED_BYTES,
        ServiceLine.of(new.pages_in, new.tuples_in, busy),
    )


def _rates(
    before: Sequence[Mapping[str, int]], after: Mapping[str, int], times: Sequence[int], now: int
) -> dict[str, float]:
    """Return the rates since the first look that knows each name: what is new has not had the whole time.

    What is very new has no rate: its first micro-batch says little.
    """
    rates = {}
    for name, count in after.items():
        first = next((place for place, counts in enumerate(before) if name in counts), None)
        if first is not None and (first == 0 or now - times[first] >= _YOUNG) and now > times[first]:
            rates[name] = (count - before[first][name]) * SECOND / (now - times[first])
    return rates


def _per_second(before: Mapping[str, int], after: Mapping[str, int], elapsed: int) -> dict[str, float]:
    return (
        {name: (count - before.get(name, 0)) * SECOND / elapsed for name, count in after.items()} if elapsed > 0 else {}
    )


def _query(name: str, running: Running, statistics: Statistics, results: Mapping[str, float]) -> QueryObservation:
    known = statistics.queries.get(name)
    vertices = [statistics.vertices[vertex] for vertex in running.own(name) if vertex in statistics.vertices]
    memory = float(sum(counts.state_bytes for counts in vertices))  # what waits before them is part of their state
    latency = None if known is None or known.latency_ms is None else known.latency_ms / 1e3
    waiting = sum(counts.queued for counts in vertices)
    burstiness = None if known is None else known.burstiness
    return QueryObservation(name, latency, memory, results.get(name), waiting, burstiness)
