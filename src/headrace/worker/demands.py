"""Demands: which operators answer in which micro-batch, and what they send by exchanges to get there.

A query without exchanges answers in the micro-batch in which it is asked. Elsewhere tuples need a micro-batch for each
exchange on their way, and so do results that are not final: in each step, all operators before an exchange send what
they would still give if their streams ended now, and those behind it take it into account in the next step. What is on
the way for a demand changes no state.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.commands.command import AddQuery, SendFeedback
from headrace.graph.feedback import spread_all
from headrace.graph.graph import Graph, VertexId, part_before
from headrace.model.page import Page
from headrace.model.patterns.pattern import Pattern, complement
from headrace.model.streams import exchange_vertex, is_exchange_stream, origin_of_scan
from headrace.operators.specs import Receive

_OF = ":"


def exchanges_before(graph: Graph, end: VertexId) -> dict[VertexId, int]:
    """Return the exchanges that lead to a vertex of the keyed stage, each with how many exchanges lead to it."""
    found: dict[VertexId, int] = {}
    for vertex in part_before(graph, end):
        if isinstance(vertex.spec, Receive) and any(map(is_exchange_stream, vertex.spec.streams)):
            exchange = exchange_vertex(origin_of_scan(vertex.spec.origin))
            before = exchanges_before(graph, exchange)
            found |= before
            found[exchange] = 1 + max(before.values(), default=-1)
    return found


def steps(exchanges: dict[VertexId, int]) -> int:
    """Return how many micro-batches later than the first one an answer is complete."""
    return 1 + max(exchanges.values(), default=-1)


def unneeded_for(query: AddQuery, wanted: Pattern) -> dict[VertexId, list[Pattern]]:
    """Return what of each vertex's output has no part in the results of a query that are wanted."""
    others = complement(wanted)
    unneeded: dict[VertexId, list[Pattern]] = {query.output: list(others)}
    for name, pattern in spread_all(query.graph, [(query.output, other) for other in others]).unneeded:
        unneeded.setdefault(exchange_vertex(name), []).append(pattern)
    return unneeded


def given_to(bucket: int, demand: SendFeedback) -> dict[VertexId, Sequence[Page]]:
    """Return what came by exchanges for a demand, by the vertices of a bucket that receive it."""
    given: dict[VertexId, list[Page]] = {}
    for sent in demand.sent:
        if sent.bucket == bucket:
            given.setdefault(sent.receive, []).append(Page.decode(sent.page))
    return {**given}


def is_lost(demand: SendFeedback, receives: Sequence[VertexId]) -> bool:
    """Return whether pages of a demand have no receiver any more, since the graph was divided in another way."""
    return any(sent.receive not in receives for sent in demand.sent)


def name_of(demand: int, exchange: VertexId) -> str:
    """Return the name of what a demand sends by an exchange."""
    return f"{demand}{_OF}{exchange}"


def taken_apart(name: str) -> tuple[int, VertexId]:
    """Return the demand and the exchange of a name."""
    demand, _, exchange = name.partition(_OF)
    return int(demand), exchange
