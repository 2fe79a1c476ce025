"""The graph of all running queries together: where it runs, what is known of it, and what feedback means in it."""

from __future__ import annotations

from headrace.graph.command import Running, assumed
from headrace.graph.feedback import Spread, facts_of, spread_all
from headrace.graph.graph import Graph, VertexId, merge
from headrace.graph.place import Placement, place
from headrace.operators.feedback.facts import Facts
from headrace.operators.feedback.reach import REACHES


def whole_of(running: Running) -> Graph:
    """The graphs of all queries as one."""
    return merge(query.graph for query in running.queries)


def placement_of(running: Running) -> Placement:
    """Where everything runs."""
    return place(whole_of(running))


def facts_in(running: Running) -> dict[VertexId, Facts]:
    """What is known of every vertex's output."""
    times = {stream.name: stream.time_column for query in running.queries for stream in query.streams if stream.time_column is not None}
    return facts_of(whole_of(running), times)


def spread_in(running: Running, facts: dict[VertexId, Facts]) -> Spread:
    """What follows from all that was told of queries, and that operators found out, and has not ended."""
    said = [((relay.reader, relay.port), relay.pattern) for relay in running.relays]
    return spread_all(whole_of(running), assumed(running), said=said, facts=facts, answer=REACHES[running.feedback.reach])
