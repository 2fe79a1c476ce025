"""The units among which schedulers choose: operators, paths, segments and plans of a running graph, with capacities."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.analysis.capacity.capacity import (
    Path,
    PathOperator,
    operator_release,
    path_capacity,
    path_release,
    path_selectivity,
)
from headrace.analysis.capacity.segments import (
    Segment,
    bottom_up,
    greedy_segments,
    memory_optimal_segments,
    prune,
    segment_rate,
    simplified_segments,
)
from headrace.analysis.forecast.facts import ENDING, PASSING, SERVICE, kind_of
from headrace.commands.command import Cost
from headrace.engine.scheduling.schedulers.scheduler import Candidate, UnitKind
from headrace.engine.sizes import ASSUMED_BYTES
from headrace.graph.graph import Graph, Vertex, VertexId
from headrace.model.time import BEGIN
from headrace.operators.specs import Filter, SessionAggregate, WhileAggregate

#: Seconds per tuple of an operator of an unknown kind.
_SERVICE = 1e-6
#: The tuples of the pages for which capacities are calculated.
PAGE = 10_000


@dataclass(frozen=True, slots=True)
class Unit:
    """Vertices that are scheduled as one, in the order in which tuples reach them."""

    kind: UnitKind
    vertices: tuple[VertexId, ...]
    capacity: float  # tuples a second
    release: float  # bytes a second
    selectivity: float = 1.0  # results a tuple
    weight: float = 1.0
    promise: int | None = None  # microseconds from arrival to result
    counted: frozenset[VertexId] = frozenset()  # vertices of no earlier unit of its kind: each queue is counted once


@dataclass(frozen=True, slots=True)
class Stakes:
    """The greatest weight and the shortest latency promise of the queries that a vertex serves."""

    weight: float = 1.0
    promise: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a graph that one scheduler runs: its vertices, their costs and stakes, and the plans among them."""

    graph: Graph
    vertices: frozenset[VertexId]
    costs: Mapping[VertexId, Cost] = field(default_factory=dict)
    stakes: Mapping[VertexId, Stakes] = field(default_factory=dict)
    plans: Sequence[Collection[VertexId]] = ()


def assumed_cost(vertex: Vertex) -> Cost:
    """Return the cost that a vertex is taken to have before it was measured."""
    selectivity = 1.0
    if isinstance(vertex.spec, Filter):
        selectivity = PASSING
    elif isinstance(vertex.spec, SessionAggregate | WhileAggregate):
        selectivity = ENDING
    return Cost(SERVICE.get(kind_of(vertex.spec), _SERVICE) * 1e9, selectivity, ASSUMED_BYTES, ASSUMED_BYTES)


@dataclass(frozen=True, slots=True)
class WayCost:
    """The nanoseconds that a tuple costs at a vertex with all that comes of it, and those of the executions."""

    service_ns: float = 0.0
    page_ns: float = 0.0

    def fitting(self, budget: float) -> int:
        """Return how many tuples fit a budget, but so many at least that executions do not cost more than tuples."""
        return max(1, int(max(budget - self.page_ns, self.page_ns) / max(self.service_ns, 1e-3)))


def costs_with_all_behind(
    graph: Graph, costs: Mapping[VertexId, Cost], ends: Collection[VertexId]
) -> dict[VertexId, WayCost]:
    """Return the cost of the way from each vertex on; ends cost nothing."""
    total: dict[VertexId, WayCost] = {}
    readers = graph.readers()
    for vertex in reversed(graph.vertices):
        behind = [total[reader] for reader, _ in readers[vertex.id]]
        cost = costs[vertex.id]
        total[vertex.id] = (
            WayCost()
            if vertex.id in ends
            else WayCost(
                cost.service_ns + cost.selectivity * sum(way.service_ns for way in behind),
                cost.page_ns + sum(way.page_ns for way in behind),
            )
        )
    return total


def candidate(number: int, unit: Unit, *, queued: int, size: float, oldest: int) -> Candidate:
    """Return a unit as schedulers see it, with the tuples and bytes that wait and the arrival of the oldest."""
    return Candidate(
        number,
        unit.kind,
        queued,
        size,
        oldest,
        unit.capacity,
        unit.release,
        unit.selectivity,
        unit.weight,
        None if unit.promise is None or oldest == BEGIN else oldest + unit.promise,
        len(unit.vertices),
    )


def units_of(kinds: Iterable[UnitKind], part: Part) -> tuple[Unit, ...]:
    """Return all units of these kinds, in an order that depends on the graph alone."""
    costs = {
        vertex.id: part.costs.get(vertex.id) or assumed_cost(vertex)
        for vertex in part.graph
        if vertex.id in part.vertices
    }
    units: list[Unit] = []
    for kind in kinds:
        counted: set[VertexId] = set()
        for unit in _units(kind, part, _Stages(part, costs)):
            units.append(_with_stakes(unit, part.stakes, frozenset(unit.vertices) - counted))
            counted |= set(unit.vertices)
    return tuple(units)


class _Stages:
    """The vertices of a part as stages of paths."""

    def __init__(self, part: Part, costs: Mapping[VertexId, Cost]) -> None:
        readers = part.graph.readers()
        self.readers = {
            name: tuple(dict.fromkeys(reader for reader, _ in readers[name] if reader in part.vertices))
            for name in part.vertices
        }
        self.order = [vertex.id for vertex in part.graph if vertex.id in part.vertices]
        self.level: dict[VertexId, int] = {}
        for vertex in part.graph:
            self.level[vertex.id] = 1 + max((self.level[origin] for origin in vertex.inputs), default=-1)
        self._costs = costs
        inputs = {vertex.id: vertex.inputs for vertex in part.graph}
        self.leaves = [name for name in self.order if any(origin not in part.vertices for origin in inputs[name])]

    def stage(self, name: VertexId) -> PathOperator:
        cost = self._costs[name]
        service_ns = cost.of(PAGE) / PAGE
        # an operator that lets nothing pass for a while still leads somewhere
        return PathOperator(name, 1e9 / max(service_ns, 1.0), max(cost.selectivity, 1e-9), cost.size_in, cost.size_out)

    def path(self, name: VertexId) -> Path:
        """Return the path from a vertex on; a tree where several vertices read the same output."""
        rest = tuple(self.path(reader) for reader in self.readers[name])
        if len(rest) == 1:
            return Path((self.stage(name), *rest[0].operators), rest[0].branches)
        return Path((self.stage(name),), rest)


def _units(kind: UnitKind, part: Part, stages: _Stages) -> list[Unit]:
    match kind:
        case "operator":
            return [_operator(stages, name) for name in stages.order]
        case "path":
            return [_path(stages.path(name)) for name in stages.leaves]
        case "plan":
            return _plans(part, stages)
        case "envelope":
            return _envelope(stages)
        case "greedy" | "memory-optimal" | "simplified":
            return _segments(kind, stages, _CUTS[kind])


def _operator(stages: _Stages, name: VertexId) -> Unit:
    stage = stages.stage(name)
    return Unit(
        "operator",
        (name,),
        stage.capacity,
        operator_release(stage, consumers=len(stages.readers[name])),
        stage.selectivity,
    )


def _path(path: Path) -> Unit:
    # where two ways meet, behind both
    order = tuple(reversed(dict.fromkeys(stage.name for stage in reversed(bottom_up(path)))))
    return Unit("path", order, path_capacity(path), path_release(path), path_selectivity(path))


def _plans(part: Part, stages: _Stages) -> list[Unit]:
    """Return each plan level by level, in a level from right to left; the vertices of no plan are one of their own."""
    known = {name for plan in part.plans for name in plan}
    rest = [name for name in stages.order if name not in known]
    units = []
    for plan in (*part.plans, *([rest] if rest else [])):
        names = [name for name in stages.order if name in plan]
        place = {name: number for number, name in enumerate(names)}
        if names:
            order = sorted(names, key=lambda name: (stages.level[name], -place[name]))
            units.append(Unit("plan", tuple(order), 1.0, 1.0))
    return units


def _envelope(stages: _Stages) -> list[Unit]:
    """Return single operators, each with the rate of its segment of the envelope, on the path where it is steepest."""
    steepest: dict[VertexId, float] = {}
    for leaf in stages.leaves:
        path = stages.path(leaf)
        for segment in memory_optimal_segments(path):  # the lower envelope of the progress chart
            rate = segment_rate(path, segment)
            for name in segment:
                steepest[name] = max(rate, steepest.get(name, rate))
    return [
        Unit("envelope", (name,), stages.stage(name).capacity, steepest[name])
        for name in stages.order
        if name in steepest
    ]


def _segments(kind: UnitKind, stages: _Stages, cut: Callable[[Path], Iterable[Segment]]) -> list[Unit]:
    rates: dict[Segment, tuple[float, float]] = {}
    place = {name: number for number, name in enumerate(stages.order)}
    for leaf in stages.leaves:
        path = stages.path(leaf)
        for segment in cut(path):
            names = tuple(sorted(set(segment), key=place.__getitem__))
            rates[names] = segment_rate(path, segment), path_capacity(path)
    return [Unit(kind, names, rates[names][1], rates[names][0]) for names in prune(rates)]


#: How paths are cut into segments.
_CUTS: Mapping[str, Callable[[Path], Iterable[Segment]]] = {
    "greedy": greedy_segments,
    "memory-optimal": memory_optimal_segments,
    "simplified": simplified_segments,
}


def _with_stakes(unit: Unit, stakes: Mapping[VertexId, Stakes], counted: frozenset[VertexId]) -> Unit:
    mine = [stakes[name] for name in unit.vertices if name in stakes]
    weight = max((own.weight for own in mine), default=1.0)
    promise = min((own.promise for own in mine if own.promise is not None), default=None)
    return replace(unit, weight=weight, promise=promise, counted=counted)
