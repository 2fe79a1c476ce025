"""Graphs of stints: the same as the query's, but sharing nothing with any other."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET
from msgspec.structs import replace

from headrace.graph.graph import Graph, Vertex, VertexId, vertex
from headrace.graph.incarnations import incarnate
from headrace.graph.place import place
from headrace.model.stint import Stint
from headrace.model.streams import is_exchange_stream
from headrace.operators.specs import PaneAggregate, Rank, Receive, Scan, Spec, WindowOver


def for_stint(graph: Graph, stint: Stint, incarnation: int) -> Graph:
    """Return the graph of a stint: its scans take only tuples of it, and all ids follow from theirs."""
    made: dict[VertexId, Vertex] = {}
    for old in graph:
        made[old.id] = vertex(_for_stint(old.spec, stint), [made[origin] for origin in old.inputs])
    return incarnate(Graph(tuple(made.values())), incarnation)


def _for_stint(spec: Spec, stint: Stint) -> Spec:
    if isinstance(spec, Scan):
        return replace(spec, stint=stint)
    if isinstance(spec, PaneAggregate | Rank | WindowOver) and stint.since is not UNSET:
        return replace(spec, since=stint.since)
    return spec


def has_exchange(graph: Graph, allotted: Mapping[VertexId, str] | None = None) -> bool:
    """Return whether tuples may be between two micro-batches."""
    return bool(place(graph, allotted=allotted).exchanges())


def counterparts(before: Graph, after: Graph) -> dict[VertexId, VertexId]:
    """Return for each vertex of a graph's keyed stage its counterpart in another graph of the same shape."""
    pairs = zip(place(before).keyed, place(after).keyed, strict=True)
    return {old.id: new.id for old, new in pairs if old.id != new.id}


def entrances(graph: Graph, allotted: Mapping[VertexId, str] | None = None) -> frozenset[VertexId]:
    """Return where tuples of streams, not of exchanges, enter the keyed stage."""
    entering = (entrance for entrance in place(graph, allotted=allotted).keyed if isinstance(entrance.spec, Receive))
    return frozenset(
        entrance.id
        for entrance in entering
        if isinstance(entrance.spec, Receive) and not any(is_exchange_stream(name) for name in entrance.spec.streams)
    )
