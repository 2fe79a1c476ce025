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
    keys_of_readers = set(_keys_needed(name, vertices, graph.readers()))
    if len(keys_of_readers) > 1 or () in keys_of_readers or None in keys_of_readers:
        return None
    deferral = Deferral(name, keys_of_readers.pop() if keys_of_readers else None)
    return deferral if place(graph, (deferral,)).exchanges() == place(graph).exchanges() else None


def _keys_needed(
    name: VertexId, vertices: Mapping[VertexId, Vertex], readers: Mapping[VertexId, tuple[tuple[VertexId, int], ...]]
) -> list[Keys | None]:
    """Return by what the input of a vertex must be partitioned for its readers.

    None where its input does not decide that.
    """
    keys_after: list[Keys | None] = []
    for reader, port in readers[name]:
        spec = vertices[reader].spec
        if not isinstance(spec, specs.Output):
            keys_after += _keys_needed(reader, vertices, readers) if spec.is_stateless else [spec.partition_by(port)]
    return [None if keys is None else vertices[name].spec.keys_before(keys) for keys in keys_after]
