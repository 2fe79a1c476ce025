"""A simulation of schedulers over any graph, tuple by tuple: for the published examples, which are traced by hand.

There are no operators and no pages: a tuple arrives, waits, is served for a given time, and goes on or not. It may be
fluid, so that a fifth of it goes on, or pass as a whole. `stations` simulates long runs of many queries, without forks.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from headrace.commands.command import Cost
from headrace.engine.scheduling.schedulers.fairness import Fairness
from headrace.engine.scheduling.schedulers.scheduler import Candidate, Scheduler, Turn
from headrace.engine.scheduling.units import Part, Stakes, assumed_cost, candidate, units_of
from headrace.graph.graph import Graph, Vertex, VertexId
from headrace.model.time import SECOND
from headrace.operators.specs import Scan, Union


@dataclass(frozen=True, slots=True)
class Tuple:
    """A tuple, or what remains of a fluid one; `number` decides at which operators it passes."""

    arrived: float  # seconds
    number: int
    mass: float = 1.0


@dataclass(frozen=True, slots=True)
class TupleArrival:
    """The arrival of a tuple at a vertex."""

    time: float
    vertex: VertexId


@dataclass(slots=True)
class UnitTrace:
    """The record of a run: results as (time, vertex, tuple), and what waited after each change (time, bytes)."""

    results: list[tuple[float, VertexId, Tuple]] = field(default_factory=list)
    waiting: list[tuple[float, float]] = field(default_factory=list)
    residence: float = 0.0  # seconds in the system of all that came in, until nothing was left of it
    decisions: int = 0

    @property
    def peak(self) -> float:
        """The most bytes that waited."""
        return max((size for _, size in self.waiting), default=0.0)

    def mean_latency(self) -> float:
        """Return the mean latency of results, weighted by what remains of their tuples."""
        mass = sum(result.mass for _, _, result in self.results)
        waited = sum((time - result.arrived) * result.mass for time, _, result in self.results)
        return waited / mass if mass else math.nan

    def waiting_at(self, time: float) -> float:
        """Return the bytes that waited at a time, with what arrived then."""
        place = bisect_right(self.waiting, (time, math.inf))
        return self.waiting[place - 1][1] if place else 0.0


def line(*names: VertexId) -> list[Vertex]:
    """Return vertices that read each other, behind a source; what they compute does not matter here."""
    return [
        Vertex(name, Union(1), (before,))
        for before, name in zip((f"source of {names[0]}", *names), names, strict=False)
    ]


def part_of(
    vertices: Iterable[Vertex],
    costs: Mapping[VertexId, Cost],
    stakes: Mapping[VertexId, Stakes] | None = None,
    plans: Sequence[Collection[VertexId]] = (),
) -> Part:
    """Return the part of one scheduler: all of these vertices, behind scans of the streams that they read."""
    inner = {vertex.id: vertex for vertex in vertices}
    sources = dict.fromkeys(origin for vertex in inner.values() for origin in vertex.inputs if origin not in inner)
    graph = Graph((*(Vertex(name, Scan(name, ())) for name in sources), *inner.values()))
    return Part(graph, frozenset(inner), costs, stakes or {}, plans)


class UnitSimulation:
    """One processor. With a `seed` each tuple passes an operator or not, for any scheduler; else tuples are fluid."""

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
        self._alive: dict[int, int] = {}  # copies of each tuple that wait
        self._born: dict[int, float] = {}
        self.trace = UnitTrace()

    def run(self, arrivals: Sequence[TupleArrival], until: float = math.inf) -> UnitTrace:
        """Let tuples arrive and serve them until none waits, or until a time."""
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
        choice = self._fairness.choose(self._scheduler, candidates, self._turn, round(self._now * SECOND))
        self._turn = choice.turn
        self.trace.decisions += 1
        self._now += self._overhead
        vertices, gated = self.units[choice.unit].vertices, self._scheduler.gated
        first = 0 if gated else max(place for place, name in enumerate(vertices) if self._queues[name])
        for place, name in enumerate(vertices[first:]):
            for _ in range(len(self._queues[name]) if gated or place else 1):
                self._execute(name)

    def _execute(self, name: VertexId) -> None:
        cost, head = self._costs[name], self._queues[name].popleft()
        took = head.mass * cost.service_ns / 1e9
        self._now += took
        self._turn = msgspec.structs.replace(self._turn, since=self._turn.since + took * 1e9)
        self._let_in(math.nextafter(self._now, 0.0))  # a tuple that leaves makes room before others come
        self._note(name, -head.mass * cost.size_in, self._now)
        self._alive[head.number] -= 1
        passes = not self._fates or self._fates[name][head.number] < cost.selectivity
        rest = Tuple(head.arrived, head.number, head.mass if self._fates else head.mass * cost.selectivity)
        if passes and not self._readers[name]:
            self.trace.results.append((self._now, name, rest))
        elif passes:
            for reader in self._readers[name]:
                self._alive[head.number] += 1
                self._put(reader, rest, self._now)
        if not self._alive[head.number]:
            self.trace.residence += self._now - self._born[head.number]

    def _put(self, name: VertexId, tuple_: Tuple, time: float) -> None:
        self._queues[name].append(tuple_)
        self._note(name, tuple_.mass * self._costs[name].size_in, time)

    def _note(self, name: VertexId, size: float, time: float) -> None:
        self._bytes[name] += size
        self._size += size
        self.trace.waiting.append((time, self._size))

    def _candidates(self) -> list[Candidate]:
        candidates = []
        for number, unit in enumerate(self.units):
            queues = [self._queues[name] for name in unit.vertices if self._queues[name]]
            if queues:
                size = sum(map(self._bytes.__getitem__, unit.counted))
                oldest = round(min(queue[0].arrived for queue in queues) * SECOND)
                count = sum(map(len, queues))
                candidates.append(candidate(number, unit, queued=count, size=size, oldest=oldest))
        return candidates
