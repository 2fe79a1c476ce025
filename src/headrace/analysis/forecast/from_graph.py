"""From a graph and what is known about it to a network of stations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.analysis.forecast.behavior import Behavior, Input, behavior
from headrace.analysis.forecast.facts import OTHER_SERVICE, RATE, SERVICE, STAMP, Facts, VertexFacts, kind_of
from headrace.analysis.forecast.network import Feed, Network, Station
from headrace.analysis.queueing.moments import constant
from headrace.graph.graph import Graph, Vertex, VertexId
from headrace.graph.naming import Names
from headrace.graph.place import place
from headrace.model.streams import base_stream, exchange_stream, is_system_stream
from headrace.operators.specs import Output, Receive, Scan


@dataclass(frozen=True, slots=True)
class Model:
    """A network whose stations are the vertices of a graph, and what in it is assumed for want of facts."""

    network: Network
    kinds: Mapping[VertexId, str]
    assumed: Mapping[str, tuple[str, ...]]  # by vertex (service, selectivity) and by stream (rate)
    names: Mapping[VertexId, str]  # as people read them


def model(graph: Graph, facts: Facts) -> Model:
    """Return the graph of all running queries as a network."""
    return _Modelling(graph, facts).run()


class _Modelling:
    def __init__(self, graph: Graph, facts: Facts) -> None:
        self.facts = facts
        self.vertices, self.names = graph.by_id(), Names(graph)
        self.placement = place(graph)
        self.keyed = self.placement.keyed.by_id()
        self.streams: dict[str, float] = {}
        self.outputs: dict[VertexId, Input] = {}
        self.assumed: dict[str, tuple[str, ...]] = {}

    def run(self) -> Model:
        stations, queries = [], {}
        for vertex in self._order():
            if isinstance(vertex.spec, Output):
                queries[vertex.spec.query] = vertex.inputs[0]
            else:
                stations.append(self._station(vertex))
        network = Network(self.streams, tuple(stations), queries, elsewhere=self.facts.elsewhere, batched=True)
        kinds = {station.name: kind_of(self.vertices[station.name].spec) for station in stations}
        return Model(network, kinds, self.assumed, self.names)

    def _order(self) -> list[Vertex]:
        """Put the vertices of the ingest first, then those of the keyed stage, as a micro-batch runs them."""
        halves = (*self.placement.ingest.vertices, *self.placement.keyed.vertices)
        return [self.vertices[vertex.id] for vertex in halves if vertex.id in self.vertices]

    def _station(self, vertex: Vertex) -> Station:
        origins, inputs = self._inputs(vertex)
        measured = self.facts.vertices.get(vertex.id, VertexFacts())
        does = behavior(vertex.spec, inputs, self.facts)
        assumed = []
        selectivities, made = does.selectivities, self._made(does, inputs)
        known = self.facts.selectivities.get(kind_of(vertex.spec), measured.selectivity)
        if known is not None:
            selectivities = _scaled(selectivities, inputs, known)
        elif does.guessed:
            assumed.append("selectivity")
        service = self._service(vertex, measured)
        if service is None:
            assumed.append("service")
            service = SERVICE.get(kind_of(vertex.spec), OTHER_SERVICE) / self._sharing(vertex)
        if assumed:
            self.assumed[vertex.id] = tuple(assumed)
        windows, kept = _memory(does, inputs, measured)
        rate = sum(origin.rate * share for origin, share in zip(inputs, selectivities, strict=True))
        self.outputs[vertex.id] = Input(rate, made.size, made.life, made.skew)
        feeds = tuple(
            Feed(origin, share, window, self._is_exchanged(vertex.id, port))
            for port, (origin, share, window) in enumerate(zip(origins, selectivities, windows, strict=True))
        )
        size = max((origin.size for origin in inputs), default=STAMP)
        if measured.held and measured.state_bytes:
            size = measured.state_bytes / measured.held
        return Station(vertex.id, feeds, constant(service), emits=does.emits, kept=kept, size=size)

    def _inputs(self, vertex: Vertex) -> tuple[tuple[str, ...], tuple[Input, ...]]:
        if not isinstance(vertex.spec, Scan):
            return vertex.inputs, tuple(self.outputs[origin] for origin in vertex.inputs)
        stream = vertex.spec.stream
        if stream not in self.facts.rates:
            self.assumed[stream] = ("rate",)
        # records that were set aside are few, and so is what the system tells of itself
        self.streams[stream] = self.facts.rates.get(
            stream, 0.0 if base_stream(stream) != stream or is_system_stream(stream) else RATE
        )
        size = behavior(vertex.spec, (), self.facts).size
        return (stream,), (Input(self.streams[stream], size, skew=self.facts.skews.get(stream, 0.0)),)

    def _service(self, vertex: Vertex, measured: VertexFacts) -> float | None:
        """Return the stated service time, else the measured one."""
        stated = self.facts.services.get(kind_of(vertex.spec))
        if isinstance(vertex.spec, Scan):
            known = self.facts.reading if stated is None else stated
            return None if known is None else known / self._sharing(vertex)
        return measured.service if stated is None else stated

    def _sharing(self, vertex: Vertex) -> int:
        """Return how many scans share the reading of a stream, which is read once for all of them."""
        if not isinstance(vertex.spec, Scan):
            return 1
        stream = vertex.spec.stream
        return sum(isinstance(other.spec, Scan) and other.spec.stream == stream for other in self.vertices.values())

    def _made(self, does: Behavior, inputs: tuple[Input, ...]) -> Input:
        return Input(0.0, does.size, does.life, max((origin.skew for origin in inputs), default=0.0))

    def _is_exchanged(self, vertex: VertexId, port: int) -> bool:
        placed = self.keyed.get(vertex)
        if placed is None or port >= len(placed.inputs):
            return False
        spec = self.keyed[placed.inputs[port]].spec if placed.inputs[port] in self.keyed else None
        return isinstance(spec, Receive) and spec.streams == (exchange_stream(self.vertices[vertex].inputs[port]),)


def _scaled(shares: tuple[float, ...], inputs: tuple[Input, ...], known: float) -> tuple[float, ...]:
    """Scale the selectivities of the ports to the known total; their proportions stay as the operator suggests."""
    taken = sum(origin.rate for origin in inputs)
    made = sum(origin.rate * share for origin, share in zip(inputs, shares, strict=True))
    if not taken or not made:
        return (known,) * len(shares)
    return tuple(share * known * taken / made for share in shares)


def _memory(does: Behavior, inputs: tuple[Input, ...], measured: VertexFacts) -> tuple[tuple[float, ...], float]:
    """Return how many seconds each port keeps tuples, and the tuples kept at any rate; measurements take precedence."""
    windows = does.windows or (0.0,) * len(inputs)
    if measured.held is None:
        return windows, does.kept
    rate = sum(origin.rate for origin in inputs)
    if any(windows) and rate:
        return (measured.held / rate,) * len(inputs), 0.0
    return windows, measured.held
