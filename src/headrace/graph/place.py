"""Cut a graph in two: the ingest (stateless, before the shuffle) and the keyed stage (one engine per bucket).

A stateful vertex needs tuples with equal keys in one bucket. If its input comes from the ingest, the cut routes by
those keys. If its input comes from another stateful vertex that is partitioned by a subset of the same keys, they share
a bucket already. Otherwise the pages go out through an `Exchange` and come back, routed again, in the next micro-batch.
A vertex of the ingest whose work can wait may be deferred to the keyed stage, where what it has to do is kept until
there is time for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TypeAlias

import msgspec
from msgspec import Struct

from headrace.graph.graph import Graph, Vertex, VertexId
from headrace.model.expressions.expression import Expr
from headrace.model.streams import exchange_scan, exchange_stream, exchange_vertex
from headrace.operators import specs
from headrace.operators.partitioning import Keys, without_widening

#: How a vertex's output lies over the buckets: by these keys, all in one bucket (), or in no known way (None).
Partitioning: TypeAlias = Keys | None


#: In the name of a `Receive`, between that of its origin and a digest of its keys.
_AT = "@"


def origin_of(name: VertexId) -> VertexId:
    """Return the vertex itself that a name stands for, whether it is received or run there."""
    return name.partition(_AT)[0]


class Deferral(Struct, frozen=True):
    """A stateless vertex that runs in the buckets; tuples are routed there by these keys, or to any bucket (None)."""

    vertex: VertexId
    keys: tuple[Expr, ...] | None


class Placement(Struct, frozen=True):
    """The two halves of a graph; the keyed half begins with the `Receive` vertices that read the ingest."""

    ingest: Graph
    keyed: Graph

    def routes(self) -> tuple[Vertex, ...]:
        """Return the Receive vertices: what the ingest must send, and how."""
        return tuple(vertex for vertex in self.keyed.vertices if isinstance(vertex.spec, specs.Receive))

    def exchanges(self) -> tuple[VertexId, ...]:
        """Return vertices whose output is spooled for the next micro-batch."""
        return tuple(vertex.spec.origin for vertex in self.keyed.vertices if isinstance(vertex.spec, specs.Exchange))


def sorted_elsewhere(graph: Graph) -> VertexId | None:
    """Return the vertex of a query whose tuples are only sorted behind its one exchange; None for other queries."""
    vertices, output = graph.by_id(), graph.vertices[-1]
    last = vertices[output.inputs[0]]
    if not isinstance(last.spec, specs.Reorder) or place(graph).exchanges() != last.inputs:
        return None
    return last.inputs[0]


def place(graph: Graph, deferrals: Iterable[Deferral] = ()) -> Placement:
    """Decide for every vertex where it runs."""
    return _Placer(graph, deferrals).run()


class _Placer:
    def __init__(self, graph: Graph, deferrals: Iterable[Deferral]) -> None:
        self.graph = graph
        self.deferred = {deferral.vertex: deferral.keys for deferral in deferrals}
        self.ingest: dict[VertexId, Vertex] = {}
        self.streams: dict[VertexId, tuple[str, ...]] = {}  # of ingest vertices
        self.keyed: dict[VertexId, Vertex] = {}
        self.parts: dict[VertexId, Partitioning] = {}  # of keyed vertices

    def run(self) -> Placement:
        for vertex in self.graph.vertices:
            if isinstance(vertex.spec, specs.Scan):
                self._add_ingest(vertex, (vertex.spec.stream,))
            elif vertex.id in self.deferred and all(i in self.ingest for i in vertex.inputs):
                self._add_deferred(vertex, self.deferred[vertex.id])
            elif (
                vertex.spec.is_stateless
                and not isinstance(vertex.spec, specs.Output)
                and all(i in self.ingest for i in vertex.inputs)
            ):
                streams = sorted({stream for i in vertex.inputs for stream in self.streams[i]})
                self._add_ingest(vertex, tuple(streams))
            elif vertex.spec.is_stateless:
                self._add_stateless(vertex)
            else:
                self._add_stateful(vertex)
        return Placement(Graph(tuple(self.ingest.values())), Graph(tuple(self.keyed.values())))

    def _add_ingest(self, vertex: Vertex, streams: tuple[str, ...]) -> None:
        self.ingest[vertex.id] = vertex
        self.streams[vertex.id] = streams

    def _add_deferred(self, vertex: Vertex, keys: Partitioning) -> None:
        inputs = tuple(self._receive(origin, keys) for origin in vertex.inputs)
        self._add_keyed(vertex, inputs, None if keys is None else vertex.spec.keys_after(keys))

    def _add_stateless(self, vertex: Vertex) -> None:
        known = {self.parts[i] for i in vertex.inputs if i in self.keyed}
        common = known.pop() if len(known) == 1 else None
        inputs = []
        for origin in vertex.inputs:
            # an input that comes straight from the ingest joins the others where they are
            inputs.append(self._receive(origin, common) if origin in self.ingest else origin)
        part = None if common is None else vertex.spec.keys_after(common)
        self._add_keyed(vertex, tuple(inputs), part)

    def _add_stateful(self, vertex: Vertex) -> None:
        ports = range(len(vertex.inputs))
        keys = [vertex.spec.partition_by(port) for port in ports]
        positions = self._positions(vertex, keys)
        inputs = []
        for port, origin in enumerate(vertex.inputs):
            partition_keys = tuple(keys[port][position] for position in positions)
            if origin in self.ingest:
                inputs.append(self._receive(origin, partition_keys))
            elif self.parts[origin] is not None and _same(self.parts[origin] or (), partition_keys):
                inputs.append(origin)
            else:
                inputs.append(self._exchange(origin, partition_keys))
        self._add_keyed(vertex, tuple(inputs), vertex.spec.output_keys(positions) if positions else ())

    def _positions(self, vertex: Vertex, keys: list[tuple[Expr, ...]]) -> tuple[int, ...]:
        """Return which keys to partition by: those by which all keyed inputs lie already, else all."""
        choices: set[tuple[int, ...]] = set()
        for port, origin in enumerate(vertex.inputs):
            part = self.parts.get(origin) if origin in self.keyed else None
            if origin in self.ingest or part is None:
                continue
            plain = [without_widening(key) for key in keys[port]]
            if all(without_widening(expr) in plain for expr in part):
                choices.add(tuple(plain.index(without_widening(expr)) for expr in part))
        return choices.pop() if len(choices) == 1 else tuple(range(len(keys[0])))

    def _add_keyed(self, vertex: Vertex, inputs: tuple[VertexId, ...], part: Partitioning) -> None:
        self.keyed[vertex.id] = Vertex(vertex.id, vertex.spec, inputs)
        self.parts[vertex.id] = part

    def _receive(self, origin: VertexId, keys: Partitioning) -> VertexId:
        spec = specs.Receive(origin, self.streams[origin], keys)
        digest = hashlib.blake2b(msgspec.json.encode(keys), digest_size=4).hexdigest()
        name = f"{origin}{_AT}{digest}"
        self._add_keyed(Vertex(name, spec), (), keys)
        return name

    def _exchange(self, origin: VertexId, keys: tuple[Expr, ...]) -> VertexId:
        out = exchange_vertex(origin)
        if out not in self.keyed:
            self._add_keyed(Vertex(out, specs.Exchange(origin)), (origin,), None)
        back = Vertex(exchange_scan(origin), specs.Scan(exchange_stream(origin), ()))
        self._add_ingest(back, (exchange_stream(origin),))
        return self._receive(back.id, keys)


def _same(have: Keys, want: Keys) -> bool:
    return tuple(map(without_widening, have)) == tuple(map(without_widening, want))
