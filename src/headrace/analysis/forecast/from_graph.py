"""From a graph and what is known about it to a network of stations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.analysis.forecast.behavior import Behavior, Input, behavior
from headrace.analysis.forecast.facts import OTHER_SERVICE, PAIR, RATE, SERVICE, STAMP, Facts, VertexFacts, kind_of
from headrace.analysis.forecast.network import Feed, Network, Station, pairing_service
from headrace.analysis.queueing.moments import constant
from headrace.graph.graph import Graph, Vertex, VertexId
from headrace.graph.naming import Names
from headrace.graph.place import place
from headrace.model.streams import base_stream, exchange_stream, is_system_stream
from headrace.operators.specs import Output, Receive, Scan

#: Of fewer kept tuples than these the measured bytes are mostly those of empty chunks.
_MANY = 1000


@dataclass(frozen=True, slots=True)
class Model:
    """A network whose stations are the vertices of a graph, and what in it is assumed for want of facts."""

    network: Network
    kinds: Mapping[VertexId, str]
    assumed: Mapping[str, tuple[str, ...]]  # by vertex (service, selectivity) and by stream (rate)
    names: Mapping[VertexId, str]  # as people read them
    ingest: frozenset[VertexId] = frozenset()  # those that run where streams are read


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
        ingest = frozenset(self.placement.ingest.by_id())
        return Model(network, kinds, self.assumed, self.names, ingest)

    def _order(self) -> list[Vertex]:
        """Put the vertices of the ingest first, then those of the keyed stage, as a micro-batch runs them."""
        halves = (*self.placement.ingest.vertices, *self.placement.keyed.vertices)
        return [self.vertices[vertex.id] for vertex in halves if vertex.id in self.vertices]

    def _station(self, vertex: Vertex) -> Station:
        origins, inputs = self._inputs(vertex)
        measured = self.facts.vertices.get(vertex.id, VertexFacts())
        does = behavior(vertex.spec, inputs, self.facts)
        elapsed = _elapsed(does, inputs, measured)
        now = does if math.isinf(elapsed) else behavior(vertex.spec, inputs, self.facts, horizon=elapsed)
        assumed = []
        selectivities = does.selectivities
        known = self.facts.selectivities.get(kind_of(vertex.spec))
        if known is not None:
            selectivities = _scaled(selectivities, selectivities, inputs, known)
        elif measured.selectivity is not None:
            # a join finds more partners when its windows are full than they had so far
            fills = does.emits == "pairs" and all(map(math.isfinite, does.windows))
            so_far = now.selectivities if fills else selectivities
            selectivities = _scaled(selectivities, so_far, inputs, measured.selectivity)
        elif does.guessed:
            assumed.append("selectivity")
        service = self._service(vertex, measured)
        if service is None:
            assumed.append("service")
            usual = SERVICE.get(kind_of(vertex.spec), OTHER_SERVICE) if does.service is None else does.service
            service = usual / self._sharing(vertex)
        if assumed:
            self.assumed[vertex.id] = tuple(assumed)
        windows, kept, kept_size = _memory(does, now, inputs, measured)
        rates = [origin.rate for origin in inputs]
        rate = sum(own * share for own, share in zip(rates, selectivities, strict=True))
        skew, speed = max((origin.skew for origin in inputs), default=0.0), max(origin.speed for origin in inputs)
        self.outputs[vertex.id] = Input(rate, does.size, does.life, skew, speed, does.values)
        feeds = tuple(
            Feed(origin, share, window, self._is_exchanged(vertex.id, port))
            for port, (origin, share, window) in enumerate(zip(origins, selectivities, windows, strict=True))
        )
        size = max((origin.size for origin in inputs), default=STAMP)
        station = Station(vertex.id, feeds, constant(service), emits=does.emits, kept=kept, size=size)
        station = replace(station, kept_size=kept_size)
        if does.emits != "pairs":
            return station
        made = measured.selectivity if "service" not in assumed else None
        pairing = _pairing(service, made)
        return replace(station, pairing=pairing, service=pairing_service(pairing, rates, selectivities))

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
        skew, speed = self.facts.skews.get(stream, 0.0), self.facts.speeds.get(stream, 1.0)
        return (stream,), (Input(self.streams[stream], size, skew=skew, speed=speed),)

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

    def _is_exchanged(self, vertex: VertexId, port: int) -> bool:
        placed = self.keyed.get(vertex)
        if placed is None or port >= len(placed.inputs):
            return False
        spec = self.keyed[placed.inputs[port]].spec if placed.inputs[port] in self.keyed else None
        return isinstance(spec, Receive) and spec.streams == (exchange_stream(self.vertices[vertex].inputs[port]),)


def _scaled(
    shares: tuple[float, ...], so_far: tuple[float, ...], inputs: tuple[Input, ...], known: float
) -> tuple[float, ...]:
    """Scale the selectivities of the ports by what is known of them together, which were to be `so_far`.

    Their proportions stay as the operator suggests.
    """
    taken = sum(origin.rate for origin in inputs)
    made = sum(origin.rate * share for origin, share in zip(inputs, so_far, strict=True))
    if not taken or not made:
        return (known,) * len(shares)
    return tuple(share * known * taken / made for share in shares)


def _pairing(service: float, made: float | None) -> tuple[float, float]:
    """Return the seconds of a join for a tuple and for a pair; `made` pairs for each tuple are part of the service."""
    if made is None or not made:
        return service, PAIR
    return (service - made * PAIR, PAIR) if service > made * PAIR else (0.0, service / made)


def _elapsed(does: Behavior, inputs: tuple[Input, ...], measured: VertexFacts) -> float:
    """Return for how many seconds an operator has filled its windows; without end if they are full.

    It is judged by what it has taken in, and by what it holds, since a deployment may have been restarted.
    """
    fills = [(origin.rate, window) for origin, window in zip(inputs, does.windows, strict=False) if origin.rate]
    if measured.taken is None or measured.held is None or not fills:
        return math.inf
    held = max(0.0, measured.held - does.kept)
    if held >= sum(rate * window for rate, window in fills):
        return math.inf
    low = measured.taken / sum(origin.rate for origin in inputs)
    high = max(low, held / min(rate for rate, _ in fills))
    for _ in range(60):
        middle = (low + high) / 2
        content = sum(rate * min(window, middle) for rate, window in fills)
        low, high = (middle, high) if content < held else (low, middle)
    return high


def _memory(
    does: Behavior, now: Behavior, inputs: tuple[Input, ...], measured: VertexFacts
) -> tuple[tuple[float, ...], float, float | None]:
    """Return how many seconds each port keeps tuples, the tuples kept at any rate, and the bytes of each.

    Measurements take precedence. While windows fill, what is held grows as they do.
    """
    windows = does.windows or (0.0,) * len(inputs)
    if measured.held is None:
        return windows, does.kept, does.kept_size
    size = does.kept_size
    if measured.held and measured.state_bytes and (now == does or measured.held >= _MANY):
        size = measured.state_bytes / measured.held
    rates = [origin.rate for origin in inputs]
    so_far = sum(rate * window for rate, window in zip(rates, now.windows, strict=False) if rate) + now.kept
    if not any(windows) or not so_far:
        return windows, measured.held, size
    factor = measured.held / so_far
    return tuple(window * factor for window in windows), does.kept * factor, size
