"""The graph of all running queries together: its placement, its invariants, and the effect of feedback on it."""

from __future__ import annotations

from msgspec.structs import replace

from headrace.commands.command import AddQuery
from headrace.commands.running import Running
from headrace.commands.settings import (
    Balancing,
    Breaks,
    Budget,
    Eligibility,
    Ets,
    Fairness,
    Grid,
    LocalPlans,
    MemoryLimit,
    Optimizer,
    Plan,
    Scheduler,
    Strategy,
)
from headrace.commands.tables import with_versions
from headrace.graph.feedback import Spread, invariants_of, spread_all
from headrace.graph.graph import Graph, VertexId, merge
from headrace.graph.naming import Names
from headrace.graph.place import Placement, place
from headrace.graph.stints import entrances, has_exchange
from headrace.operators.feedback.invariants import Invariants
from headrace.operators.feedback.reach import REACHES

#: Settings that only buckets and the driver know about.
_OF_BUCKETS = (
    Strategy,
    Scheduler,
    Breaks,
    Fairness,
    Eligibility,
    Budget,
    Ets,
    Plan,
    Optimizer,
    MemoryLimit,
    Balancing,
    LocalPlans,
    Grid,
)


def whole_of(running: Running) -> Graph:
    """Return the graphs of all queries as one, with the graphs that start or stop queries."""
    watched = (graph for query in running.known for graph in query.activation.watched)
    return with_versions(merge((*(query.graph for query in running.working), *watched)), running.tables)


def names_in(running: Running) -> Names:
    """Return the readable names of all vertices that run."""
    return Names(whole_of(running))


def closed_in(running: Running) -> frozenset[VertexId]:
    """Return where tuples of ending stints would enter the keyed stage; they enter no more."""
    return frozenset(name for query in running.ending for name in entrances(query.graph, running.allotted))


def sharing_in_transit(query: AddQuery, running: Running) -> str | None:
    """Return a query that shares operators whose tuples may be between two micro-batches; it hinders a stop."""
    allotted = running.allotted
    if query.stint is not None or not has_exchange(query.graph, allotted):
        return None
    own = {vertex.id for vertex in place(query.graph, allotted=allotted).keyed}
    for other in running.queries:
        shared = (vertex.id in own for vertex in place(other.graph, allotted=allotted).keyed)
        if other.query != query.query and any(shared):
            return other.query
    return None


def placement_of(running: Running) -> Placement:
    """Return where each vertex runs."""
    return place(whole_of(running), running.deferrals, running.allotted)


def reads_alike(one: Running, other: Running) -> bool:
    """Return whether the same is placed, read and sent to the buckets under both.

    A change of costs, schedulers or budgets is the business of the buckets and of the driver alone.
    """
    return _reading(one) == _reading(other)


def _reading(running: Running) -> Running:
    """Return the state without what neither the placement nor the ingest depends on."""
    chosen = tuple(chosen for chosen in running.settings if not isinstance(chosen.setting, _OF_BUCKETS))
    return replace(
        running, commands=0, settings=chosen, costs={}, failed=(), suspended={}, frontiers={}, trees={}, steered={}
    )


def invariants_in(running: Running) -> dict[VertexId, Invariants]:
    """Return the invariants of every vertex's output."""
    streams = [stream for query in (*running.working, *running.stopped) for stream in query.streams]
    times = {stream.name: stream.time_column for stream in streams if stream.time_column is not None}
    return invariants_of(whole_of(running), times)


def spread_in(running: Running, invariants: dict[VertexId, Invariants]) -> Spread:
    """Return what follows from all feedback in force, of readers and of operators."""
    said = [((relay.reader, relay.port), relay.pattern) for relay in running.relays]
    return spread_all(
        whole_of(running), running.assumptions(), said=said, invariants=invariants, answer=REACHES[running.reach]
    )
