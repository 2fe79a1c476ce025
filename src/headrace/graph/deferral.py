"""Which stateless vertices can be deferred to the buckets, and by which keys their input must be routed."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.graph.graph import Graph, Vertex, VertexId
from headrace.graph.place import Deferral, place
from headrace.operators import specs
from headrace.operators.partitioning import Keys


def deferral_of(graph: Graph, name: VertexId) -> Deferral | None:
    """Return how to defer a vertex of the ingest; None if its readers could not be reached without another exchange."""
    vertices = graph.by_id()
    spec = vertices[name].spec
    if isinstance(spec, specs.Scan | specs.Output) or not spec.is_stateless or len(vertices[name].inputs) != 1:
        return None
    wanted = set(_wanted(name, vertices, graph.readers()))
    if len(wanted) > 1 or () in wanted or None in wanted:
        return None
    found = Deferral(name, wanted.pop() if wanted else None)
    return found if place(graph, (found,)).exchanges() == place(graph).exchanges() else None


def _wanted(
    name: VertexId, vertices: Mapping[VertexId, Vertex], readers: Mapping[VertexId, tuple[tuple[VertexId, int], ...]]
) -> list[Keys | None]:
    """Return by what the input of a vertex must be partitioned for its readers.

    None where its input does not decide that.
    """
    found: list[Keys | None] = []
    for reader, port in readers[name]:
        spec = vertices[reader].spec
        if not isinstance(spec, specs.Output):
            found += _wanted(reader, vertices, readers) if spec.is_stateless else [spec.partition_by(port)]
    return [None if keys is None else vertices[name].spec.keys_before(keys) for keys in found]
