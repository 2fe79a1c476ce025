"""Cut a graph in two: the ingest (stateless, before the shuffle) and the keyed stage (one engine per bucket).

A stateful vertex needs tuples with equal keys in one bucket. If its input comes from the ingest, the cut routes by
those keys. If its input comes from another stateful vertex that is partitioned by a subset of the same keys, they share
a bucket already. Otherwise the pages go out through an `Exchange` and come back, routed again, in the next micro-batch.
A vertex of the ingest whose work can wait may be deferred to the keyed stage, where what it has to do is kept until
there is time for it.

A join of inputs with different keys may run in a grid: each input is routed to the cells that have its keys, from the
ingest or through an exchange.

Tuples with equal keys have equal hashes, and a hash belongs to a parcel. Which bucket has which parcel is said by the
allotment of a vertex, which vertices behind it inherit: vertices that share a bucket share the allotment.

A join may have an allotment by which parcels with heavy keys are in several buckets. Its name is made of the one that
the join had before. Such a join reads each port by a route of its own, and nothing relies on where its results are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from itertools import filterfalse
from typing import TypeAlias

import msgspec
from msgspec import Struct

from headrace.graph.graph import Graph, Vertex, VertexId
from headrace.model.expressions.expression import Expr
from headrace.model.grid import Grid
from headrace.model.streams import exchange_scan, exchange_stream, exchange_vertex
from headrace.operators import specs
from headrace.operators.endpoints import GridPort
from headrace.operators.partitioning import KeyClass, Keys, in_class, single_classes

#: How a vertex's output lies over the buckets: by a key of each class, all in one bucket (), or in no known way (None).
Partitioning: TypeAlias = tuple[KeyClass, ...] | None


#: In the name of a `Receive`, between that of its origin and a digest of its keys.
_AT = "@"
#: In the same name, before the allotment.
_BY = "+"


#: In the name of an allotment that may have parcels in several buckets, behind the name of the one before.
_DEALT = "="


def dealt_name(allotment: str, vertex: VertexId) -> str:
    """Return the name of the allotment by which a join may have parcels in several buckets; it had another one."""
    return f"{allotment}{_DEALT}{hashlib.blake2b(vertex.encode(), digest_size=4).hexdigest()}"


def is_dealt(allotment: str) -> bool:
    """Return whether an allotment may have parcels in several buckets."""
    return _DEALT in allotment


def undealt(allotment: str) -> str:
    """Return the name of the allotment that a vertex had before it could have parcels in several buckets."""
    return allotment.partition(_DEALT)[0]


def origin_of(name: VertexId) -> VertexId:
    """Return the vertex itself that a name stands for, whether it is received or run there."""
    return name.partition(_AT)[0]


def route_of(name: VertexId) -> VertexId:
    """Return the name of a `Receive` whatever its allotment: what is received, and by which keys."""
    return name.partition(_BY)[0]


def counted_as(route: VertexId, parcels: int) -> str:
    """Return under which name the tuples of a route are counted, divided into so many parcels."""
    return f"{route}%{parcels}"


class Deferral(Struct, frozen=True):
    """A stateless vertex that runs in the buckets; tuples are routed there by these keys, or to any bucket (None)."""

    vertex: VertexId
    keys: tuple[Expr, ...] | None


class Lay(Struct, frozen=True):
    """How the state of a vertex lies over the buckets: by the hash of these keys of each port, and by an allotment."""

    keys: tuple[Keys, ...]
    allotment: str = ""


class Placement(Struct, frozen=True):
    """The two halves of a graph; the keyed half begins with the `Receive` vertices that read the ingest."""

    ingest: Graph
    keyed: Graph
    lays: dict[VertexId, Lay] = {}  # of the vertices with state

    def routes(self) -> tuple[Vertex, ...]:
        """Return the Receive vertices: what the ingest must send, and how."""
        return tuple(vertex for vertex in self.keyed.vertices if isinstance(vertex.spec, specs.Receive))

    def exchanges(self) -> tuple[VertexId, ...]:
        """Return vertices whose output is spooled for the next micro-batch."""
        return tuple(vertex.spec.origin for vertex in self.keyed.vertices if isinstance(vertex.spec, specs.Exchange))


def place(
    graph: Graph, deferrals: Iterable[Deferral] = (), allotted: Mapping[VertexId, str] | None = None
) -> Placement:
    """Decide for every vertex where it runs; `allotted` names the allotments of vertices that have one."""
    return _Placer(graph, deferrals, allotted or {}).run()


class _Placer:
    def __init__(self, graph: Graph, deferrals: Iterable[Deferral], allotted: Mapping[VertexId, str]) -> None:
        self.graph = graph
        self.allotted = allotted
        self.deferred = {deferral.vertex: deferral.keys for deferral in deferrals}
        self.ingest: dict[VertexId, Vertex] = {}
        self.streams: dict[VertexId, tuple[str, ...]] = {}  # of ingest vertices
        self.keyed: dict[VertexId, Vertex] = {}
        self.parts: dict[VertexId, Partitioning] = {}  # of keyed vertices
        self.allotments: dict[VertexId, str] = {}  # of keyed vertices
        self.lays: dict[VertexId, Lay] = {}

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
            elif isinstance(vertex.spec, specs.MultiJoin) and vertex.spec.cells is not None:
                self._add_grid(vertex, vertex.spec, vertex.spec.cells)
            else:
                self._add_stateful(vertex)
        return Placement(Graph(tuple(self.ingest.values())), Graph(tuple(self.keyed.values())), self.lays)

    def _add_ingest(self, vertex: Vertex, streams: tuple[str, ...]) -> None:
        self.ingest[vertex.id] = vertex
        self.streams[vertex.id] = streams

    def _add_deferred(self, vertex: Vertex, keys: Keys | None) -> None:
        allotment = self._allotment_behind(vertex.id)
        inputs = tuple(self._receive(origin, keys, allotment) for origin in vertex.inputs)
        part = _after(vertex.spec, None if keys is None else single_classes(keys))
        self._add_keyed(vertex, inputs, part, allotment)

    def _add_stateless(self, vertex: Vertex) -> None:
        allotments = {self.allotments[i] for i in vertex.inputs if i in self.keyed}
        allotment = allotments.pop() if len(allotments) == 1 else ""
        common = None if allotments else _common([self.parts[i] for i in vertex.inputs if i in self.keyed])
        if common is not None and any(origin in self.ingest for origin in vertex.inputs):
            common = single_classes(key_class[0] for key_class in common)
        keys = None if common is None else tuple(key_class[0] for key_class in common)
        inputs = []
        for origin in vertex.inputs:
            # an input that comes straight from the ingest joins the others where they are
            inputs.append(self._receive(origin, keys, allotment) if origin in self.ingest else origin)
        self._add_keyed(vertex, tuple(inputs), _after(vertex.spec, common), allotment)

    def _add_stateful(self, vertex: Vertex) -> None:
        ports = range(len(vertex.inputs))
        keys = [vertex.spec.partition_by(port) for port in ports]
        allotment = self._allotment(vertex)
        positions = self._positions(vertex, keys, allotment)
        inputs: list[VertexId] = []
        classes: list[tuple[KeyClass, ...]] = []
        lay: list[Keys] = []
        for port, origin in enumerate(vertex.inputs):
            partition_keys = tuple(keys[port][position] for position in positions)
            part, other = self.parts.get(origin), self.allotments.get(origin, "")
            own_port = port if is_dealt(allotment) else None
            lies = part is not None and undealt(other) == undealt(allotment) and _lies_by(part, partition_keys)
            if origin in self.ingest:
                inputs.append(self._receive(origin, partition_keys, allotment, port=own_port))
            elif lies and other == allotment and own_port is None:
                inputs.append(origin)
            else:
                inputs.append(self._exchange(origin, partition_keys, allotment, own_port))
            # whether a join may have parcels in several buckets changes nothing but the way of pages
            classes.append((part if lies else self.parts[inputs[-1]]) or ())
            lay.append(partition_keys)
        output = vertex.spec.output_classes(positions, tuple(classes)) if positions else ()
        self._add_keyed(vertex, tuple(inputs), output, allotment)
        self.lays[vertex.id] = Lay(tuple(lay), allotment)

    def _add_grid(self, vertex: Vertex, spec: specs.MultiJoin, grid: Grid) -> None:
        """Add a join that runs in a grid. Each port has its own route, so that shedders act before tuples are copied.

        How the output lies depends on the number of buckets, so nobody relies on it.
        """
        allotment = self.allotted.get(vertex.id, "")
        inputs: list[VertexId] = []
        lay: list[Keys] = []
        for port, origin in enumerate(vertex.inputs):
            keys = tuple(members[port] for members in spec.classes)
            entrance = origin if origin in self.ingest else self._sent_on(origin)
            cells = GridPort(grid, port, keys)
            inputs.append(self._receive(entrance, None, allotment, grid=cells, reader=vertex.id))
            lay.append(tuple(key for key in keys if key is not None))
        self._add_keyed(vertex, tuple(inputs), None, allotment)
        self.lays[vertex.id] = Lay(tuple(lay), allotment)

    def _allotment(self, vertex: Vertex) -> str:
        """Return the allotment of a vertex with state: its own, or that of the first input that lies somewhere.

        A vertex that cannot move stays where hashes put it, and pages of those that move come by an exchange.
        """
        own = self.allotted.get(vertex.id)
        if own is not None:
            return own
        if vertex.spec.hindrance is not None or vertex.spec.has_own_time:
            return ""
        inherited = (self.allotments[origin] for origin in vertex.inputs if origin in self.keyed)
        return next(filterfalse(is_dealt, inherited), "")

    def _allotment_behind(self, name: VertexId) -> str:
        """Return the allotment of the vertices with state that a stateless one of the ingest leads to, if it is one."""
        behind, waiting = set[str](), [name]
        readers, vertices = self.graph.readers(), self.graph.by_id()
        while waiting and self.allotted:
            for reader, _ in readers[waiting.pop()]:
                if vertices[reader].spec.is_stateless:
                    waiting.append(reader)
                else:
                    behind.add(self.allotted.get(reader, ""))
        found = behind.pop() if len(behind) == 1 else ""
        return "" if is_dealt(found) else found

    def _positions(self, vertex: Vertex, keys: list[Keys], allotment: str) -> tuple[int, ...]:
        """Return which keys to partition by: those by which all keyed inputs lie already, else all."""
        choices: set[tuple[int, ...]] = set()
        for port, origin in enumerate(vertex.inputs):
            part = self.parts.get(origin) if origin in self.keyed else None
            if origin in self.ingest or part is None or undealt(self.allotments[origin]) != undealt(allotment):
                continue
            places = [
                next((place for place, key in enumerate(keys[port]) if in_class(key, key_class)), None)
                for key_class in part
            ]
            if None not in places:
                choices.add(tuple(place for place in places if place is not None))
        return choices.pop() if len(choices) == 1 else tuple(range(len(keys[0])))

    def _add_keyed(self, vertex: Vertex, inputs: tuple[VertexId, ...], part: Partitioning, allotment: str = "") -> None:
        self.keyed[vertex.id] = Vertex(vertex.id, vertex.spec, inputs)
        self.parts[vertex.id] = part
        self.allotments[vertex.id] = allotment

    def _receive(
        self,
        origin: VertexId,
        keys: Keys | None,
        allotment: str = "",
        *,
        grid: GridPort | None = None,
        reader: VertexId = "",
        port: int | None = None,
    ) -> VertexId:
        spec = specs.Receive(origin, self.streams[origin], keys, allotment, grid, port)
        route = keys if grid is None else (grid, reader)
        digest = hashlib.blake2b(msgspec.json.encode(route), digest_size=4).hexdigest()
        name = f"{origin}{_AT}{digest}{_BY}{allotment}" if allotment else f"{origin}{_AT}{digest}"
        name += "" if port is None else f".{port}"
        self._add_keyed(Vertex(name, spec), (), None if keys is None else single_classes(keys), allotment)
        return name

    def _exchange(self, origin: VertexId, keys: tuple[Expr, ...], allotment: str, port: int | None = None) -> VertexId:
        return self._receive(self._sent_on(origin), keys, allotment, port=port)

    def _sent_on(self, origin: VertexId) -> VertexId:
        """Send the output of a keyed vertex back to the ingest; return the scan by which it comes."""
        out = exchange_vertex(origin)
        if out not in self.keyed:
            self._add_keyed(Vertex(out, specs.Exchange(origin)), (origin,), None)
        back = Vertex(exchange_scan(origin), specs.Scan(exchange_stream(origin), ()))
        self._add_ingest(back, (exchange_stream(origin),))
        return back.id


def _lies_by(part: tuple[KeyClass, ...], keys: Keys) -> bool:
    return len(part) == len(keys) and all(map(in_class, keys, part))


def _common(parts: list[Partitioning]) -> Partitioning:
    """Return the classes by which all of these inputs lie, None if there are none."""
    first, *others = parts or [None]
    for part in others:
        if first is None or part is None or len(first) != len(part):
            return None
        first = tuple(tuple(key for key in mine if key in theirs) for mine, theirs in zip(first, part, strict=True))
        if not all(first):
            return None
    return first


def _after(spec: specs.Spec, part: Partitioning) -> Partitioning:
    """Return how the output of a stateless vertex lies, given how its input does."""
    if part is None or spec.keys_after(()) is None:
        return None
    after = tuple(tuple(key for before in key_class for key in spec.keys_after((before,)) or ()) for key_class in part)
    return after if all(after) else None
