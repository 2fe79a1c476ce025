"""Figures of a deployment from its counters at two moments: rates, shares of the processor, the bottleneck. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from headrace.commands.running_graph import names_in, whole_of
from headrace.control.promise_checks import promise_checks
from headrace.control.situation import reading_work, work_in
from headrace.driver.moment import Moment
from headrace.engine.statistics import QueryStatistics, StreamStatistics, VertexStatistics
from headrace.graph.graph import Graph, VertexId
from headrace.graph.naming import Names
from headrace.model.qos import METRICS
from headrace.model.time import SECOND
from headrace.operators.specs import Scan
from headrace.server.views.figures import QueryFigures, StandingView, StreamFigures, VertexFigures
from headrace.session.stints import state_of

#: The processor is spare below this load, and then nothing is a bottleneck, unless its queue has grown for a while.
BUSY = 0.8
#: For so long (microseconds).
GROWING = 10 * SECOND


@dataclass(frozen=True, eq=False)
class Figures:
    """The figures after a micro-batch; `before` is an earlier moment, from which rates are computed."""

    moment: Moment
    before: Moment
    older: Sequence[Moment] = ()  # for queues that grow
    watchers: Mapping[str, int] = field(default_factory=dict)  # followers of each query

    @cached_property
    def graph(self) -> Graph:
        """Return the graph of all that runs."""
        return whole_of(self.moment.running)

    @cached_property
    def names(self) -> Names:
        """Return the readable names of vertices."""
        return names_in(self.moment.running)

    @cached_property
    def seconds(self) -> float:
        """Return the time between the two moments."""
        return max(0.0, (self.moment.now - self.before.now) / SECOND)

    @cached_property
    def load(self) -> float | None:
        """Return the share of the processor that everything needs which arrives; None until it is measured."""
        observation, running = self.moment.observation, self.moment.running
        if observation.is_first or not running.queries:
            return None
        needed = sum(self.work.values()) + reading_work(observation, running)
        return needed / observation.machine.speed if observation.machine.speed > 0 else None

    @cached_property
    def work(self) -> dict[VertexId, float]:
        """Return the busy seconds per second that each operator needs."""
        return work_in(self.moment.observation, self.moment.running)

    @cached_property
    def taken(self) -> dict[VertexId, float]:
        """Return the busy seconds per second that each operator took; reading a stream is the work of its scans.

        It is measured, not computed from rates and selectivities as `work` is: feedback may drop most of what an
        operator would get, and one that gets few tuples may work on each of them for long.
        """
        if self.seconds <= 0:
            return {}
        now, before = self.moment.statistics.vertices, self.before.statistics.vertices
        nothing = VertexStatistics()
        taken = {
            vertex.id: self.rate(now.get(vertex.id, nothing).busy_ns, before.get(vertex.id, nothing).busy_ns) / 1e9
            for vertex in self.graph
        }
        scans: dict[str, list[VertexId]] = {}
        for vertex in self.graph:
            if isinstance(vertex.spec, Scan):
                scans.setdefault(vertex.spec.stream, []).append(vertex.id)
        observation = self.moment.observation
        for stream, readers in scans.items():
            for reader in readers:
                taken[reader] += observation.reading * observation.rates.get(stream, 0.0) / len(readers)
        return taken

    @cached_property
    def bottleneck(self) -> VertexId | None:
        """Return the operator that needs the largest share of the processor, if there is a shortage.

        One whose queue grows, because others come first, needs more than it took.
        """
        taken = self.taken
        # the first micro-batches say nothing about what arrives, but they may keep the processor busy for long
        needed = self.load if self.load is not None else sum(taken.values()) / max(1, self.moment.cores)
        candidates = list(taken) if needed > BUSY else [name for name in taken if self._is_growing(name)]
        most = max(candidates, key=lambda name: taken[name] * self._held_up(name), default=None)
        return most if most is not None and taken[most] > 0 else None

    def _held_up(self, vertex: VertexId) -> float:
        """Return how many times as many tuples came to an operator as it took."""
        nothing = VertexStatistics()
        now = self.moment.statistics.vertices.get(vertex, nothing)
        before = self.before.statistics.vertices.get(vertex, nothing)
        took = now.tuples_in - before.tuples_in
        return 1 + max(0, now.queued - before.queued) / took if took > 0 else 1.0

    def _is_growing(self, vertex: VertexId) -> bool:
        looks = [*self.older, self.moment]
        if looks[-1].now - looks[0].now < GROWING:
            return False
        queued = [look.statistics.vertices[vertex].queued for look in looks if vertex in look.statistics.vertices]
        return (
            len(queued) == len(looks) and all(b >= a for a, b in pairwise(queued)) and
            queued[-1] > 2 * queued[0] + 1000
        )  # fmt: skip

    def rate(self, after: int, before: int) -> float:
        """Return how much a counter grows in a second."""
        return max(0, after - before) / self.seconds if self.seconds > 0 else 0.0

    def stream(self, name: str) -> StreamFigures:
        """Return the figures of a stream."""
        counts = self.moment.statistics.streams.get(name, StreamStatistics())
        before = self.before.statistics.streams.get(name, StreamStatistics())
        frontier = counts.frontier
        is_instant = frontier is not None and abs(frontier) < 2**60
        return StreamFigures(
            name=name,
            rate=self.rate(counts.tuples, before.tuples),
            tuples=counts.tuples,
            late=counts.late,
            bad=counts.bad,
            skipped=counts.skipped,
            frontier=frontier // 1000 if frontier is not None and is_instant else None,
            lag_ms=(self.moment.now - frontier) / 1000 if frontier is not None and is_instant else None,
            behind_ms=counts.behind / 1000,
            unread=counts.unread,
            unread_unit=counts.unread_unit,
        )

    def query(self, name: str) -> QueryFigures:
        """Return the figures of a query."""
        running = self.moment.running
        counts = self.moment.statistics.queries.get(name, QueryStatistics())
        before = self.before.statistics.queries.get(name, QueryStatistics())
        observed = self.moment.observation.queries.get(name)
        failed = next((failed for failed in running.failed if failed.query == name), None)
        known = next((query for query in running.known if query.query == name), None)
        state = "off" if known is None else state_of(known, running, self.moment.now)
        return QueryFigures(
            name=name,
            state=state if failed is None else f"failed: {failed.reason}",
            rate=self.rate(counts.results, before.results),
            results=counts.results,
            failed=counts.failed,
            latency_ms=counts.latency_ms,
            waiting=0 if observed is None else observed.waiting,
            state_bytes=0 if observed is None or observed.memory is None else round(observed.memory),
            shed=counts.shed,
            watchers=self.watchers.get(name, 0),
        )

    def standings(self, name: str | None = None) -> tuple[StandingView, ...]:
        """Return the promises of a query, or of all, beside what is observed."""
        standings = []
        for query in self.moment.running.queries:
            if name not in (None, query.query):
                continue
            observed = self.moment.observation.queries.get(query.query)
            elapsed = self.moment.now - self.moment.began.get(query.query, self.moment.now)
            checks = {} if observed is None else {
                check.measure: check for check in promise_checks(query.qos, observed, elapsed)
            }  # fmt: skip
            for measure in METRICS:
                promise, check = query.qos.promise(measure), checks.get(measure)
                if promise is None:
                    continue
                standings.append(
                    StandingView(
                        query=query.query,
                        measure=measure,
                        strictness=promise.strictness.value,
                        promised=promise.curve.at(elapsed),
                        observed=None if check is None else check.observed,
                        kept=None if check is None else check.is_kept,
                        slack=None if check is None else check.slack,
                    )
                )
        return tuple(standings)

    def vertices(self, query: str | None) -> tuple[VertexFigures, ...]:
        """Return the figures of the operators of a query, or of all."""
        saved: dict[VertexId, int] = {}
        for (reader, _), guard in self.moment.statistics.guards.items():
            saved[reader] = saved.get(reader, 0) + guard.saved
        shed: dict[VertexId, int] = {}
        for (reader, _), arc in self.moment.statistics.shed.items():
            shed[reader] = shed.get(reader, 0) + arc.dropped
        own = self.own(query)
        return tuple(
            self._vertex(vertex.id, saved.get(vertex.id, 0), shed.get(vertex.id, 0))
            for vertex in self.graph
            if own is None or vertex.id in own
        )

    def own(self, query: str | None) -> set[VertexId] | None:
        """Return the vertices of a query; None for all."""
        if query is None:
            return None
        working = (each for each in self.moment.running.working if each.query == query)
        return {vertex.id for each in working for vertex in each.graph}

    def _vertex(self, name: VertexId, saved: int, shed: int) -> VertexFigures:
        counts = self.moment.statistics.vertices.get(name, VertexStatistics())
        before = self.before.statistics.vertices.get(name, VertexStatistics())
        rate_in = self.rate(counts.tuples_in, before.tuples_in)
        came = counts.tuples_in - before.tuples_in
        busy = max(0, counts.busy_ns - before.busy_ns)
        cost = self.moment.observation.costs.get(name)
        service = busy / 1000 / came if came > 0 else None if cost is None else cost.service * 1e6
        went = counts.tuples_out - before.tuples_out
        return VertexFigures(
            id=name,
            rate_in=rate_in,
            rate_out=self.rate(counts.tuples_out, before.tuples_out),
            busy=min(1.0, self.taken.get(name, 0.0) / max(1, self.moment.cores)),
            service_us=service,
            selectivity=went / came if came > 0 else counts.selectivity,
            queued=counts.queued,
            peak=counts.peak,
            wait_ms=_wait(counts.queued, rate_in),
            idle=counts.idle_share,
            held=counts.held,
            state_bytes=counts.state_bytes,
            saved=saved,
            shed=shed,
            late=counts.late,
        )


def _wait(queued: int, rate: float) -> float | None:
    """Return how long a tuple waits, by Little's law."""
    if not queued:
        return 0.0
    return queued / rate * 1000 if rate > 0 else None
