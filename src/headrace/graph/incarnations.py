"""Incarnations: each creation of a query has its own state.

A vertex that keeps state, each vertex behind one, and each output have the number of the incarnation in their names.
So a query that is created again, or later than an equal one, begins with empty state, and nothing that was said or sent
to the dropped query reaches it. All other vertices are named by what they compute, and are shared by all queries. A
query that replaces another, or reads another, takes over the vertices of that one which compute the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.graph.graph import Graph, Vertex, VertexId
from headrace.graph.place import origin_of
from headrace.operators.specs import Output

#: In the name of a vertex, between what it computes and its incarnation.
_MARK = "."


def incarnate(graph: Graph, number: int, before: Iterable[Graph] = ()) -> Graph:
    """Return the graph of one incarnation, with the vertices of the graphs `before` that compute the same.

    0 stands for a query of no incarnation, whose graph is named as it is.
    """
    if not number:
        return graph
    known = {
        meaning_of(vertex.id): vertex.id for old in before for vertex in old if not isinstance(vertex.spec, Output)
    }
    names: dict[VertexId, VertexId] = {}
    vertices: list[Vertex] = []
    for vertex in graph:
        inputs = tuple(names[origin] for origin in vertex.inputs)
        is_own = not vertex.spec.is_stateless or isinstance(vertex.spec, Output) or inputs != vertex.inputs
        names[vertex.id] = known.get(vertex.id, f"{vertex.id}{_MARK}{number}") if is_own else vertex.id
        vertices.append(Vertex(names[vertex.id], vertex.spec, inputs))
    return Graph(tuple(vertices))


def meaning_of(vertex: VertexId) -> VertexId:
    """Return the name of a vertex without its incarnation."""
    return vertex.partition(_MARK)[0]


def incarnation_of(vertex: VertexId) -> int | None:
    """Return the incarnation to which a vertex, or what it exchanges, belongs; None if all queries may share it."""
    number = origin_of(vertex).partition(_MARK)[2]
    return int(number) if number else None
