"""Runs schedulers on virtual time over units in numbers: tuples arrive, wait, take as long as they are said to, and some go on.

There are no operators and no pages, so thousands of tuples take no time; a tuple may be divisible, so that a fifth of it goes on, or have a fate.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.commands.command import Cost
from headrace.engine.scheduling.schedulers.fairness import Fairness
from headrace.engine.scheduling.schedulers.scheduler import Candidate, Scheduler, Turn
from headrace.engine.scheduling.units import Part, Stakes, Unit, assumed_cost, units_of
from headrace.graph.graph import Graph, Vertex, VertexId
from headrace.operators.specs import Union


@dataclass(frozen=True, slots=True)
class Tuple:
    """A tuple, or the part of one that is left; `number` is what its fate hangs on."""

    arrived: float  # seconds
    number: int
    mass: float = 1.0


@dataclass(frozen=True, slots=True)
class Arrival:
    """A tuple comes in at a vertex."""

    time: float
    vertex: VertexId


@dataclass(slots=True)
class UnitTrace:
    """What was seen of a run: results as (time, vertex, tuple), and what waited after each change (time, bytes)."""

    results: list[tuple[float, VertexId, Tuple]] = field(default_factory=list)
    waiting: list[tuple[float, float]] = field(default_factory=list)
    residence: float = 0.0  # seconds in the system of all that came in, until nothing was left of it
    decisions: int = 0

    @property
    def peak(self) -> float:
        """Most bytes that waited."""
        return max((size for _, size in self.waiting), default=0.0)

    def mean_latency(self) -> float:
        """Of results, each as much as is left of its tuple."""
        mass = sum(one.mass for _, _, one in self.results)
        return sum((time - one.arrived) * one.mass for time, _, one in self.results) / mass if mass else math.nan

    def waiting_at(self, time: float) -> float:
        """Bytes that waited at a time, after what arrived then."""
        place = bisect_right(self.waiting, (time, math.inf))
        return self.waiting[place - 1][1] if place else 0.0


def line(*names: VertexId) -> list[Vertex]:
    """Vertices that read each other, behind a source; what they do does not matter here."""
    return [
        Vertex(name, Union(1), (before,))
        for before, name in zip((f"source of {names[0]}", *names), names, strict=False)
    ]


def part_of(
    vertices: Iterable[Vertex], costs: dict[VertexId, Cost], stakes: dict[VertexId, Stakes] | None = None
) -> Part:
    """All of these vertices, with the sources that they read, for one scheduler."""
    inner = {vertex.id: vertex for vertex in vertices}
    sources = dict.fromkeys(origin for vertex in inner.values() for origin in vertex.inputs if origin not in inner)
    graph = Graph((*(Vertex(name, Union(1)) for name in sources), *inner.values()))
    return Part(graph, frozenset(inner), costs, stakes or {})


class UnitSimulation:
    """One processor. With a `seed` each tuple passes an operator or does not, the same whatever the scheduler; without, its share goes on."""

    def __init__(
        self,
        part: Part,
        scheduler: Scheduler,
        fairness: Fairness | None = None,
        *,
        seed: int | None = None,
        overhead: float = 0.0,
    ) -> None:
        self._scheduler, self._fairness = scheduler, fairness or Fairness()
        self.units = units_of(scheduler.kinds, part)
        self._overhead = overhead  # seconds for each choice
        self._costs = {vertex.id: part.costs.get(vertex.id) or assumed_cost(vertex) for vertex in part.graph}
        self._readers = {
            name: [reader for reader, _ in arcs if reader in part.vertices]
            for name, arcs in part.graph.readers().items()
        }
        self._queues: dict[VertexId, deque[Tuple]] = {name: deque() for name in part.vertices}
        self._bytes = dict.fromkeys(part.vertices, 0.0)
        self._seed = seed
        self._fates: dict[VertexId, np.ndarray] = {}
        self._now, self._turn, self._size = 0.0, Turn(), 0.0
        self._alive: dict[int, int] = {}  # parts left of each tuple
        self._born: dict[int, float] = {}
        self.trace = UnitTrace()

    def run(self, arrivals: Sequence[Arrival], until: float = math.inf) -> UnitTrace:
        """Let everything arrive and work until nothing is left, or until a time."""
        self._coming = deque(sorted(arrivals, key=lambda arrival: arrival.time))
        rng = None if self._seed is None else np.random.default_rng(self._seed)
        if rng is not None:
            self._fates = {name: rng.random(len(arrivals)) for name in sorted(self._queues)}
        self._number = 0
        while self._now <= until:
            self._let_in(self._now)
            candidates = self._candidates()
            if candidates:
                self._serve(candidates)
            elif self._coming:
                self._now = self._coming[0].time
            else:
                break
        return self.trace

    def _let_in(self, time: float) -> None:
        while self._coming and self._coming[0].time <= time:
            arrival = self._coming.popleft()
            self._born[self._number], self._alive[self._number] = arrival.time, 1
            self._put(arrival.vertex, Tuple(arrival.time, self._number), arrival.time)
            self._number += 1

    def _serve(self, candidates: list[Candidate]) -> None:
        choice = self._fairness.choose(self._scheduler, candidates, self._turn, round(self._now * 1e6))
        self._turn = choice.turn
        self.trace.decisions += 1
        self._now += self._overhead
        vertices, gated = self.units[choice.unit].vertices, self._scheduler.gated
        first = 0 if gated else max(place for place, name in enumerate(vertices) if self._queues[name])
        for place, name in enumerate(vertices[first:]):
            for _ in range(len(self._queues[name]) if gated or place else 1):
                self._execute(name)

    def _execute(self, name: VertexId) -> None:
        cost, one = self._costs[name], self._queues[name].popleft()
        took = one.mass * cost.service_ns / 1e9
        self._now += took
        self._turn = Turn(
            self._turn.last, self._turn.served, self._turn.tight, self._turn.mean, self._turn.since + took * 1e9
        )
        self._let_in(math.nextafter(self._now, 0.0))  # who leaves makes room before others come
        self._note(name, -one.mass * cost.size_in, self._now)
        self._alive[one.number] -= 1
        passes = not self._fates or self._fates[name][one.number] < cost.selectivity
        left = Tuple(one.arrived, one.number, one.mass if self._fates else one.mass * cost.selectivity)
        if passes and not self._readers[name]:
            self.trace.results.append((self._now, name, left))
        elif passes:
            for reader in self._readers[name]:
                self._alive[one.number] += 1
                self._put(reader, left, self._now)
        if not self._alive[one.number]:
            self.trace.residence += self._now - self._born[one.number]

    def _put(self, name: VertexId, one: Tuple, time: float) -> None:
        self._queues[name].append(one)
        self._note(name, one.mass * self._costs[name].size_in, time)

    def _note(self, name: VertexId, size: float, time: float) -> None:
        self._bytes[name] += size
        self._size += size
        self.trace.waiting.append((time, self._size))

    def _candidates(self) -> list[Candidate]:
        found = []
        for number, unit in enumerate(self.units):
            queues = [self._queues[name] for name in unit.vertices if self._queues[name]]
            if queues:
                found.append(self._candidate(number, unit, queues))
        return found

    def _candidate(self, number: int, unit: Unit, queues: Sequence[deque[Tuple]]) -> Candidate:
        oldest = round(min(queue[0].arrived for queue in queues) * 1e6)
        size = sum(map(self._bytes.__getitem__, unit.counted))
        return Candidate(
            number,
            unit.kind,
            sum(map(len, queues)),
            size,
            oldest,
            unit.capacity,
            unit.release,
            unit.selectivity,
            unit.weight,
            None if unit.promise is None else oldest + unit.promise,
            len(unit.vertices),
        )
