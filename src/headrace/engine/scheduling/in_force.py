"""From the commands in force to schedulers: which vertices each runs, and its weight."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.commands.running import Running
from headrace.engine.scheduling.master import Share
from headrace.engine.scheduling.schedulers import NONE, SCHEDULERS, scheduler_named
from headrace.engine.scheduling.schedulers.fairness import Eligibility, Fairness
from headrace.engine.scheduling.units import Part, Stakes
from headrace.graph.graph import Graph, VertexId
from headrace.model.qos import Qos, Strictness
from headrace.operators.specs import Exchange, Output

#: The scheduler of queries without one, beside queries that have one.
BESIDE = "fifo"


def shares_of(running: Running, graph: Graph) -> tuple[Share, ...]:
    """Return the schedulers in force over a keyed graph; none if the cycle chooses everywhere."""
    chosen = _scheduler_by_vertex(running, graph)
    if all(name == NONE for name in chosen.values()):
        return ()
    parts: dict[str, set[VertexId]] = {}
    for vertex, name in chosen.items():
        parts.setdefault(BESIDE if name == NONE else name, set()).add(vertex)
    stakes = stakes_of(running)
    return tuple(_share(name, frozenset(vertices), running, graph, stakes) for name, vertices in parts.items())


def _scheduler_by_vertex(running: Running, graph: Graph) -> dict[VertexId, str]:
    """Return the name of each operator's scheduler; that of a query overrides that of the whole graph."""
    schedulers = {query: chosen.name for query, chosen in running.schedulers.items()}
    inner = [vertex.id for vertex in graph if vertex.inputs and not isinstance(vertex.spec, Output | Exchange)]
    chosen = dict.fromkeys(inner, schedulers.pop(None, NONE))
    for query, scheduler in schedulers.items():
        chosen |= {name: scheduler for name in running.own(query) if name in chosen}
    return chosen


def _share(
    name: str, vertices: frozenset[VertexId], running: Running, graph: Graph, stakes: Mapping[VertexId, Stakes]
) -> Share:
    plans = [vertices & {vertex.id for vertex in query.graph} for query in running.queries]
    weight = max((stakes[vertex].weight for vertex in vertices if vertex in stakes), default=1.0)
    part = Part(graph, vertices, running.costs, stakes, [plan for plan in plans if plan])
    return Share(name, scheduler_named(name) or SCHEDULERS[BESIDE], part, weight)


def fairness_of(running: Running) -> Fairness:
    """Return which units may have a turn, and what keeps schedulers from starving the others."""
    fairness, eligibility = running.fairness, running.eligibility
    period = None if fairness.mode == "none" else float(fairness.period)
    return Fairness(period, fairness.mode == "dynamic", Eligibility(eligibility.tuples, eligibility.waited))


def stakes_of(running: Running) -> dict[VertexId, Stakes]:
    """Return the stakes of each vertex: the greatest weight and the shortest latency promise of its queries."""
    stakes: dict[VertexId, Stakes] = {}
    for query in running.queries:
        weight = weight_of(query.qos)
        latency = query.qos.latency
        # a DONT_CARE latency is no deadline, or its query would be the most urgent one as soon as it is late
        promise = None if latency is None or latency.strictness is Strictness.DONT_CARE else round(latency.curve.least)
        for vertex in query.graph:
            known = stakes.get(vertex.id, Stakes(weight, promise))
            quickest = min((latest for latest in (known.promise, promise) if latest is not None), default=None)
            stakes[vertex.id] = Stakes(max(known.weight, weight), quickest)
    return stakes


def urgent_in(running: Running) -> frozenset[VertexId]:
    """Return the vertices of the queries with the strictest latency promise, if a budget limits others."""
    for strictness in (Strictness.MUST, Strictness.BEST_EFFORT):
        urgent = [
            query
            for query in running.queries
            if query.qos.latency is not None and query.qos.latency.strictness is strictness
        ]
        if urgent:
            is_all = len(urgent) == len(running.queries)
            return frozenset() if is_all else frozenset(vertex.id for query in urgent for vertex in query.graph)
    return frozenset()


def weight_of(qos: Qos) -> float:
    """Return the weight of a query: that of its strictest promise (if none, BEST_EFFORT), times its priority."""
    given = [promise.strictness.weight for promise in (qos.latency, qos.memory, qos.throughput) if promise is not None]
    return max(given, default=Strictness.BEST_EFFORT.weight) * max(1, qos.priority or 1)
