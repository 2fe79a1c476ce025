"""From the commands in force to schedulers: which vertices each runs, and how much it counts."""

from __future__ import annotations

from headrace.commands.running import Running
from headrace.engine.scheduling.master import Share
from headrace.engine.scheduling.schedulers import NONE, SCHEDULERS, scheduler_named
from headrace.engine.scheduling.schedulers.fairness import Eligibility, Fairness
from headrace.engine.scheduling.units import Part, Standing
from headrace.graph.graph import Graph, VertexId
from headrace.model.qos import Qos, Strictness
from headrace.operators.specs import Exchange, Output

#: What runs the queries without a scheduler beside those that have one.
BESIDE = "fifo"


def shares_of(running: Running, graph: Graph) -> tuple[Share, ...]:
    """The schedulers in force over a keyed graph; none if all is left to the cycle."""
    inner = [vertex.id for vertex in graph if vertex.inputs and not isinstance(vertex.spec, Output | Exchange)]
    schedulers = {query: chosen.name for query, chosen in running.schedulers.items()}
    chosen: dict[VertexId, str] = dict.fromkeys(inner, schedulers.get(None, NONE))
    for query, scheduler in schedulers.items():
        if query is not None:
            chosen |= {name: scheduler for name in running.own(query) if name in chosen}
    if all(name == NONE for name in chosen.values()):
        return ()
    owners = {query.query: {vertex.id for vertex in query.graph} for query in running.queries}
    standings = standings_of(running)
    groups: dict[str, set[VertexId]] = {}
    for vertex, name in chosen.items():
        groups.setdefault(BESIDE if name == NONE else name, set()).add(vertex)
    found = []
    for name, vertices in groups.items():
        plans = [mine & vertices for mine in owners.values() if mine & vertices]
        weight = max((standings[vertex].weight for vertex in vertices if vertex in standings), default=1.0)
        part = Part(graph, frozenset(vertices), running.costs, standings, plans)
        found.append(Share(name, scheduler_named(name) or SCHEDULERS[BESIDE], part, weight))
    return tuple(found)


def fairness_of(running: Running) -> Fairness:
    """Who may have a turn, and what keeps schedulers from starving anybody."""
    said, may = running.fairness, running.eligibility
    return Fairness(
        None if said.mode == "none" else float(said.period), said.mode == "dynamic", Eligibility(may.tuples, may.waited)
    )


def standings_of(running: Running) -> dict[VertexId, Standing]:
    """Whose each vertex is: of several queries, the one that counts most and the one that promises to be quickest."""
    found: dict[VertexId, Standing] = {}
    for query in running.queries:
        weight = weight_of(query.qos)
        latency = query.qos.latency
        # what nobody cares about has no deadline, or it would be the most urgent of all once it is late
        promise = None if latency is None or latency.strictness is Strictness.DONT_CARE else round(latency.curve.least)
        for vertex in query.graph:
            known = found.get(vertex.id, Standing(weight, promise))
            quickest = min((one for one in (known.promise, promise) if one is not None), default=None)
            found[vertex.id] = Standing(max(known.weight, weight), quickest)
    return found


def urgent_in(running: Running) -> frozenset[VertexId]:
    """The vertices of the queries whose latency is meant most strictly, if there are others: a budget is for what those do."""
    for strictness in (Strictness.MUST, Strictness.BEST_EFFORT):
        urgent = [
            query
            for query in running.queries
            if query.qos.latency is not None and query.qos.latency.strictness is strictness
        ]
        if urgent:
            return (
                frozenset(vertex.id for query in urgent for vertex in query.graph)
                if len(urgent) < len(running.queries)
                else frozenset()
            )
    return frozenset()


def weight_of(qos: Qos) -> float:
    """How much a query counts: as its strictest promise, times its priority; one that promises nothing does its best."""
    given = [promise.strictness.weight for promise in (qos.latency, qos.memory, qos.throughput) if promise is not None]
    return max(given, default=Strictness.BEST_EFFORT.weight) * max(1, qos.priority or 1)
