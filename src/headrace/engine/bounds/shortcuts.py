"""The enhanced query graph: arcs by which a bound goes from register to register, past operators that only hand it on.

An arc leads from a source or a merging operator to the port of the next merging operator (or to an end) if all vertices
between are stateless with one input. No arc leads past a vertex that must see punctuation, such as an aggregate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from headrace.graph.graph import Arc, Graph, Vertex, VertexId


@dataclass(frozen=True, slots=True)
class EtsArc:
    """A shortcut of bounds to a port of `target`, usable if all arcs of `path` are empty; the last is the target's."""

    target: VertexId
    port: int
    path: tuple[Arc, ...]


def ets_arcs(
    graph: Graph, merging: Collection[VertexId], ends: Collection[VertexId]
) -> dict[VertexId, tuple[EtsArc, ...]]:
    """Return the shortcuts of each source and merging vertex from which every way leads to a register or an end."""
    readers, vertices = graph.readers(), graph.by_id()
    shortcuts: dict[VertexId, tuple[EtsArc, ...]] = {}
    for vertex in graph:
        if vertex.inputs and vertex.id not in merging:
            continue
        arcs = tuple(_follow(vertex.id, (), readers, vertices, merging, ends))
        if None not in arcs:
            shortcuts[vertex.id] = tuple(arc for arc in arcs if arc is not None)
    return shortcuts


def only_merging_readers(graph: Graph, merging: Collection[VertexId]) -> set[VertexId]:
    """Return the vertices whose bounds only registers read: there a tuple implies the bound of its timestamp."""
    readers, vertices = graph.readers(), graph.by_id()
    names = set()
    for name in merging:
        arcs = list(_follow(name, (), readers, vertices, merging, ()))
        if arcs and all(arc is not None for arc in arcs):
            names.add(name)
    return names


def _follow(
    name: VertexId,
    path: tuple[Arc, ...],
    readers: Mapping[VertexId, tuple[Arc, ...]],
    vertices: Mapping[VertexId, Vertex],
    merging: Collection[VertexId],
    ends: Collection[VertexId],
) -> Iterator[EtsArc | None]:
    """Yield the shortcuts that begin with a path; None for a way without one."""
    for reader, port in readers[name]:
        if reader in merging:
            yield EtsArc(reader, port, (*path, (reader, port)))
        elif reader in ends:
            yield EtsArc(reader, port, path)
        elif len(vertices[reader].inputs) == 1 and vertices[reader].spec.is_stateless and readers[reader]:
            yield from _follow(reader, (*path, (reader, port)), readers, vertices, merging, ends)
        else:
            yield None
