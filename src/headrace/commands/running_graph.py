"""The graph of all running queries together: where it runs, what is known of it, and what feedback means in it."""

from __future__ import annotations

from headrace.commands.running import Running
from headrace.graph.feedback import Spread, invariants_of, spread_all
from headrace.graph.graph import Graph, VertexId, merge
from headrace.graph.naming import Names
from headrace.graph.place import Placement, place
from headrace.graph.stints import entrances
from headrace.operators.feedback.invariants import Invariants
from headrace.operators.feedback.reach import REACHES


def whole_of(running: Running) -> Graph:
    """The graphs of all queries as one, and of what is watched to turn some on and off."""
    watched = (graph for query in running.known for graph in query.activation.watched)
    return merge((*(query.graph for query in running.working), *watched))


def names_in(running: Running) -> Names:
    """Return the readable names of all vertices that run."""
    return Names(whole_of(running))


def closed_in(running: Running) -> frozenset[VertexId]:
    """Where tuples enter the keyed stage for stints that are being ended, and so do not enter any more."""
    return frozenset(name for query in running.ending for name in entrances(query.graph))


def placement_of(running: Running) -> Placement:
    """Where everything runs."""
    return place(whole_of(running), running.deferrals)


def invariants_in(running: Running) -> dict[VertexId, Invariants]:
    """What is known of every vertex's output."""
    streams = [stream for query in (*running.working, *running.stopped) for stream in query.streams]
    times = {stream.name: stream.time_column for stream in streams if stream.time_column is not None}
    return invariants_of(whole_of(running), times)


def spread_in(running: Running, invariants: dict[VertexId, Invariants]) -> Spread:
    """What follows from all that was told of queries, and that operators found out, and has not ended."""
    said = [((relay.reader, relay.port), relay.pattern) for relay in running.relays]
    return spread_all(
        whole_of(running), running.assumptions(), said=said, invariants=invariants, answer=REACHES[running.reach]
    )
