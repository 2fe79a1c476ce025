"""The physical operator graph: vertices with stable ids, frozen.

A vertex id is a hash of what its sub-plan means. Equal sub-plans of different queries are therefore one vertex, and
state and statistics find their vertex again in a new graph.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec
from msgspec import Struct

from headrace.operators.specs import Spec

VertexId: TypeAlias = str
#: A reader and the port at which it reads; the reader of a tapped vertex's pages is `feedback.tap_of` it.
Arc: TypeAlias = tuple[VertexId, int]


class Vertex(Struct, frozen=True):
    """One operator and where its inputs come from, port by port."""

    id: VertexId
    spec: Spec
    inputs: tuple[VertexId, ...] = ()


class Graph(Struct, frozen=True):
    """A set of vertices closed under inputs, in topological order."""

    vertices: tuple[Vertex, ...] = ()

    def __iter__(self) -> Iterator[Vertex]:
        return iter(self.vertices)

    def by_id(self) -> Mapping[VertexId, Vertex]:
        return {vertex.id: vertex for vertex in self.vertices}

    def readers(self) -> Mapping[VertexId, tuple[Arc, ...]]:
        """Return the readers of each vertex, and the port at which each reads."""
        arcs: dict[VertexId, list[Arc]] = {vertex.id: [] for vertex in self.vertices}
        for vertex in self.vertices:
            for port, origin in enumerate(vertex.inputs):
                arcs[origin].append((vertex.id, port))
        return {origin: tuple(readers) for origin, readers in arcs.items()}


def vertex(spec: Spec, inputs: Iterable[Vertex] = ()) -> Vertex:
    """Make a vertex whose id says what it computes."""
    ids = tuple(origin.id for origin in inputs)
    digest = hashlib.blake2b(msgspec.json.encode([spec.meaning(), ids]), digest_size=8).hexdigest()
    return Vertex(f"{type(spec).__name__.lower()}-{digest}", spec, ids)


def part_before(graph: Graph, end: VertexId) -> Graph:
    """Return the part of a graph that leads to a vertex, with the vertex."""
    needed = {end}
    for item in reversed(graph.vertices):
        if item.id in needed:
            needed.update(item.inputs)
    return Graph(tuple(item for item in graph.vertices if item.id in needed))


def merge(graphs: Iterable[Graph]) -> Graph:
    """Unite graphs; what they share appears once."""
    vertices: dict[VertexId, Vertex] = {}
    for graph in graphs:
        for item in graph.vertices:
            vertices.setdefault(item.id, item)
    return Graph(tuple(vertices.values()))
