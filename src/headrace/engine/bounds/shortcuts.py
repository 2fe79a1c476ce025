"""The enhanced query graph: arcs by which a bound goes from register to register past the operators that would only hand it on.

An arc leads from a source or a merging operator to the next merging operator's port (or to an end) if all vertices between are stateless with one
input. A vertex that must see punctuation itself, such as an aggregate, has none leading past it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from headrace.graph.graph import Arc, Graph, Vertex, VertexId


@dataclass(frozen=True, slots=True)
class EtsArc:
    """Where a bound may go at once: `path` are the arcs on the way, the last one the target's, and all must be empty."""

    target: VertexId
    port: int
    path: tuple[Arc, ...]


def ets_arcs(
    graph: Graph, merging: Collection[VertexId], ends: Collection[VertexId]
) -> dict[VertexId, tuple[EtsArc, ...]]:
    """The arcs of each source and merging vertex of which every way leads to a register or an end."""
    readers, vertices = graph.readers(), graph.by_id()
    found: dict[VertexId, tuple[EtsArc, ...]] = {}
    for vertex in graph:
        if vertex.inputs and vertex.id not in merging:
            continue
        arcs = tuple(_follow(vertex.id, (), readers, vertices, merging, ends))
        if None not in arcs:
            found[vertex.id] = tuple(arc for arc in arcs if arc is not None)
    return found


def only_merging_readers(graph: Graph, merging: Collection[VertexId]) -> set[VertexId]:
    """Vertices whose promises only registers read: there a tuple says as much as a punctuation of its timestamp."""
    readers, vertices = graph.readers(), graph.by_id()
    found = set()
    for name in merging:
        arcs = list(_follow(name, (), readers, vertices, merging, ()))
        if arcs and all(arc is not None for arc in arcs):
            found.add(name)
    return found


def _follow(
    name: VertexId,
    path: tuple[Arc, ...],
    readers: Mapping[VertexId, tuple[Arc, ...]],
    vertices: Mapping[VertexId, Vertex],
    merging: Collection[VertexId],
    ends: Collection[VertexId],
) -> Iterator[EtsArc | None]:
    """The arcs that begin with a path; None for a way that cannot be cut short."""
    for reader, port in readers[name]:
        if reader in merging:
            yield EtsArc(reader, port, (*path, (reader, port)))
        elif reader in ends:
            yield EtsArc(reader, port, path)
        elif len(vertices[reader].inputs) == 1 and vertices[reader].spec.is_stateless and readers[reader]:
            yield from _follow(reader, (*path, (reader, port)), readers, vertices, merging, ends)
        else:
            yield None
