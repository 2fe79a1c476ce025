"""The situation that the controller judges: an observation, the queries in force, and which of their promises hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from headrace.analysis.forecast.facts import Facts, VertexFacts
from headrace.commands.running import Running
from headrace.commands.running_graph import whole_of
from headrace.control.observation import Observation, VertexCost
from headrace.control.policies.relief import Pressure
from headrace.control.promise_checks import PromiseCheck, promise_checks
from headrace.graph.graph import VertexId
from headrace.model.qos import Metric, Qos, Strictness
from headrace.model.time import SECOND
from headrace.operators.specs import Scan

#: Promises are checked as they will be so much later (microseconds).
LOOKAHEAD = SECOND
#: A stream of which records have waited for longer than this (seconds) is not read as fast as it comes.
BEHIND = 3.0


class Situation(Struct, frozen=True):
    """An observation beside what runs; `elapsed` is the time since each query began, in microseconds."""

    observation: Observation
    running: Running
    elapsed: Mapping[str, int]
    checks: Mapping[str, tuple[PromiseCheck, ...]]

    @property
    def promises(self) -> dict[str, tuple[Qos, int]]:
        """Return the promises of each query, and how long it has run."""
        return {query.query: (query.qos, self.elapsed[query.query]) for query in self.running.queries}


def short_of_results(situation: Situation) -> dict[str, PromiseCheck]:
    """Return the queries with too few results for a throughput that MUST be kept, although they have input to read.

    Without more input, nothing would give them more results.
    """
    short = {}
    for query in situation.running.queries:
        check = must(situation, query.query, "throughput")
        delay = max((_delay(situation.observation, stream.name) for stream in query.streams), default=0.0)
        waits = situation.observation.queries[query.query].waiting > 0
        if check is not None and not check.is_kept and (waits or delay > BEHIND):
            short[query.query] = check
    return short


def _delay(observation: Observation, stream: str) -> float:
    """Return by how many seconds a stream is behind: by the age of unread records, or by the time to read them."""
    rows, rate = observation.unread_rows.get(stream, 0), observation.rates.get(stream, 0.0)
    return max(observation.behind.get(stream, 0.0), rows / rate if rate > 0 else 0.0)


def must(situation: Situation, query: str, measure: Metric) -> PromiseCheck | None:
    """Return a promise of a query that MUST hold, beside what is observed; None if it makes none."""
    checks = situation.checks.get(query, ())
    return next((check for check in checks if check.measure == measure and check.strictness is Strictness.MUST), None)


def situation_of(observation: Observation, running: Running, began: Mapping[str, int]) -> Situation:
    """Check the promises of the queries that run."""
    elapsed = {query.query: observation.time - began[query.query] for query in running.queries}
    checks = {
        query.query: promise_checks(query.qos, observation.queries[query.query], elapsed[query.query], LOOKAHEAD)
        for query in running.queries
    }
    return Situation(observation, running, elapsed, checks)


def facts_of(observation: Observation, running: Running) -> Facts:
    """Return an observation in the form that the analysis takes."""
    streams = {stream.name: stream for query in running.queries for stream in query.streams}
    return Facts(
        dict(observation.rates),
        vertices={name: VertexFacts(cost.service, cost.selectivity) for name, cost in observation.costs.items()},
        schemas={name: stream.schema for name, stream in streams.items()},
        skews={name: stream.skew / SECOND for name, stream in streams.items()},
        reading=observation.reading,
        elsewhere=observation.machine.fixed,
    )


def work_in(observation: Observation, running: Running) -> dict[VertexId, float]:
    """Return the busy seconds per second that each operator needs for everything that arrives."""
    rates: dict[VertexId, float] = {}
    work: dict[VertexId, float] = {}
    for vertex in whole_of(running):
        cost = observation.costs.get(vertex.id, VertexCost(0.0, 1.0))
        into = (
            observation.rates.get(vertex.spec.stream, 0.0)
            if isinstance(vertex.spec, Scan)
            else sum(rates.get(name, 0.0) for name in vertex.inputs)
        )
        rates[vertex.id] = into if isinstance(vertex.spec, Scan) else into * cost.selectivity
        work[vertex.id] = into * cost.service
    return work


def reading_work(observation: Observation, running: Running) -> float:
    """Return the busy seconds per second that reading takes."""
    streams = {stream.name for query in running.queries for stream in query.streams}
    return observation.reading * sum(observation.rates.get(name, 0.0) for name in streams)


def pressed(pressure: Pressure, situation: Situation, classes: Iterable[Strictness], *, share: float = 1.0) -> Pressure:
    """Adjust a pressure by the latencies of these classes; `share` is the part of an observed latency that counts."""
    strict = frozenset(classes)
    latencies = [
        replace(check, observed=share * check.observed)
        for checks in situation.checks.values()
        for check in checks
        if check.measure == "latency" and check.strictness in strict
    ]
    if not latencies:
        return pressure
    is_broken = any(not check.is_kept for check in latencies)
    return pressure.after(is_broken=is_broken, slack=min(check.slack for check in latencies))
