"""What schedulers choose among: operators, paths, segments and plans of a running graph, with their capacities."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.analysis.capacity.capacity import Path, Stage, operator_release, path_capacity, path_release
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
from headrace.engine.scheduling.schedulers.scheduler import UnitKind
from headrace.graph.graph import Graph, Vertex, VertexId
from headrace.operators.specs import Filter, SessionAggregate, WhileAggregate

#: Seconds a tuple of an operator of which nothing is known, not even of its kind; and the bytes of a tuple.
_SERVICE, _SIZE = 1e-6, 64.0


@dataclass(frozen=True, slots=True)
class Unit:
    """Vertices that are scheduled as one, in the order in which they run: those first that tuples meet first."""

    kind: UnitKind
    vertices: tuple[VertexId, ...]
    capacity: float  # tuples a second
    release: float  # bytes a second
    selectivity: float = 1.0  # results a tuple
    weight: float = 1.0
    promise: int | None = None  # microseconds from arrival to result
    counted: frozenset[VertexId] = (
        frozenset()
    )  # those that no earlier unit of its kind has, so that their queues are counted once


@dataclass(frozen=True, slots=True)
class Standing:
    """Whose a vertex is: how much the queries that it serves count, and the shortest latency that one of them promises."""

    weight: float = 1.0
    promise: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a graph that one scheduler runs: which vertices, what they cost, whose they are, and the plans among them."""

    graph: Graph
    vertices: frozenset[VertexId]
    costs: Mapping[VertexId, Cost] = field(default_factory=dict)
    standings: Mapping[VertexId, Standing] = field(default_factory=dict)
    plans: Sequence[Collection[VertexId]] = ()


def assumed_cost(vertex: Vertex) -> Cost:
    """What a vertex is taken to cost before anybody measured it."""
    selectivity = (
        PASSING
        if isinstance(vertex.spec, Filter)
        else ENDING
        if isinstance(vertex.spec, SessionAggregate | WhileAggregate)
        else 1.0
    )
    return Cost(SERVICE.get(kind_of(vertex.spec), _SERVICE) * 1e9, selectivity, _SIZE, _SIZE)


def costs_with_all_behind(
    graph: Graph, costs: Mapping[VertexId, Cost], ends: Collection[VertexId]
) -> dict[VertexId, float]:
    """Nanoseconds that a tuple costs at each vertex together with what comes of it up to the ends, which cost nothing."""
    found: dict[VertexId, float] = {}
    readers = graph.readers()
    for vertex in reversed(graph.vertices):
        behind = sum(found[reader] for reader, _ in readers[vertex.id])
        found[vertex.id] = (
            0.0 if vertex.id in ends else costs[vertex.id].service_ns + costs[vertex.id].selectivity * behind
        )
    return found


def units_of(kinds: Iterable[UnitKind], part: Part) -> tuple[Unit, ...]:
    """All units of these kinds, in an order that depends on the graph alone."""
    costs = {
        vertex.id: part.costs.get(vertex.id) or assumed_cost(vertex)
        for vertex in part.graph
        if vertex.id in part.vertices
    }
    found: list[Unit] = []
    for kind in kinds:
        seen: set[VertexId] = set()
        for unit in _units(kind, part, _Stages(part, costs)):
            found.append(_with_standing(unit, part.standings, frozenset(unit.vertices) - seen))
            seen |= set(unit.vertices)
    return tuple(found)


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

    def stage(self, name: VertexId) -> Stage:
        cost = self._costs[name]
        # an operator that lets nothing pass for a while still leads somewhere
        return Stage(name, 1e9 / max(cost.service_ns, 1.0), max(cost.selectivity, 1e-9), cost.size_in, cost.size_out)

    def path(self, name: VertexId) -> Path:
        """From a vertex to all that follows from it; a tree where several vertices read the same output."""
        rest = tuple(self.path(reader) for reader in self.readers[name])
        if len(rest) == 1:
            return Path((self.stage(name), *rest[0].stages), rest[0].branches)
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
        case "greedy":
            return _segments(
                kind, stages, [(path := stages.path(name), greedy_segments(path)) for name in stages.leaves]
            )
        case "memory-optimal":
            return _segments(
                kind, stages, [(path := stages.path(name), memory_optimal_segments(path)) for name in stages.leaves]
            )
        case "simplified":
            return _segments(
                kind, stages, [(path := stages.path(name), simplified_segments(path)) for name in stages.leaves]
            )


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
    order = tuple(
        reversed(dict.fromkeys(stage.name for stage in reversed(bottom_up(path))))
    )  # where two ways meet, behind both
    return Unit("path", order, path_capacity(path), path_release(path), _results(path))


def _results(path: Path) -> float:
    """Results for each tuple that enters."""
    share = 1.0
    for stage in path.stages:
        share *= stage.selectivity
    return share * sum(map(_results, path.branches)) if path.branches else share


def _plans(part: Part, stages: _Stages) -> list[Unit]:
    """Each plan level by level, in a level from right to left; what no plan has is a plan of its own."""
    known = {name for plan in part.plans for name in plan}
    rest = [name for name in stages.order if name not in known]
    found = []
    for plan in (*part.plans, *([rest] if rest else [])):
        names = [name for name in stages.order if name in plan]
        place = {name: number for number, name in enumerate(names)}
        if names:
            found.append(
                Unit("plan", tuple(sorted(names, key=lambda name: (stages.level[name], -place[name]))), 1.0, 1.0)
            )
    return found


def _envelope(stages: _Stages) -> list[Unit]:
    """Single operators, each with the steepness of the stretch that it lies on; of several paths, the steepest counts."""
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


def _segments(kind: UnitKind, stages: _Stages, cut: Iterable[tuple[Path, Iterable[Segment]]]) -> list[Unit]:
    rates: dict[Segment, tuple[float, float]] = {}
    place = {name: number for number, name in enumerate(stages.order)}
    for path, segments in cut:
        for segment in segments:
            names = tuple(sorted(set(segment), key=place.__getitem__))
            rates[names] = segment_rate(path, segment), path_capacity(path)
    return [Unit(kind, names, rates[names][1], rates[names][0]) for names in prune(rates)]


def _with_standing(unit: Unit, standings: Mapping[VertexId, Standing], counted: frozenset[VertexId]) -> Unit:
    mine = [standings[name] for name in unit.vertices if name in standings]
    weight = max((one.weight for one in mine), default=1.0)
    promise = min((one.promise for one in mine if one.promise is not None), default=None)
    return Unit(unit.kind, unit.vertices, unit.capacity, unit.release, unit.selectivity, weight, promise, counted)
