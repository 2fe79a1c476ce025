"""Graphs of queries that run on demand: tuples wait before the first operators that keep state."""

from __future__ import annotations

from headrace.graph.graph import Graph, Vertex, VertexId, vertex
from headrace.model.expressions.expression import Column, Expr
from headrace.model.schema import Schema
from headrace.model.types import is_nested
from headrace.operators.specs import Hold, Output


def on_demand(graph: Graph, query: str, limit: int, schema: Schema) -> Graph:
    """Return the graph of a query with a `Hold` on each arc to its first vertices with state, or to its output."""
    made: dict[VertexId, Vertex] = {}
    vertices: dict[VertexId, Vertex] = {}
    behind: set[VertexId] = set()  # of the graph as it was
    for old in graph:
        inputs: list[Vertex] = []
        for port, origin in enumerate(old.inputs):
            source = made[origin]
            is_end = isinstance(old.spec, Output)
            if origin not in behind and (is_end or not old.spec.is_stateless):
                by = _columns(schema) if is_end else old.spec.partition_by(port)
                source = vertex(Hold(query, by, limit), [source])
                vertices[source.id] = source
                behind.add(old.id)
            inputs.append(source)
        if behind.intersection(old.inputs):
            behind.add(old.id)
        made[old.id] = vertex(old.spec, inputs)
        vertices[made[old.id].id] = made[old.id]
    return Graph(tuple(vertices.values()))


def holds(graph: Graph, query: str) -> list[VertexId]:
    """Return where tuples wait until a query is asked."""
    return [known.id for known in graph if isinstance(known.spec, Hold) and known.spec.query == query]


def _columns(schema: Schema) -> tuple[Expr, ...]:
    """Spread results that need no bucket of their own by their values."""
    return tuple(Column(field.name, field.type) for field in schema if not is_nested(field.type))
