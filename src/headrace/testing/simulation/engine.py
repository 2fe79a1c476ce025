"""An engine on virtual time: tuples arrive at given times, and every execution takes as long as it costs."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.engine.choosing import Step
from headrace.engine.engine import Engine
from headrace.graph.graph import VertexId
from headrace.model.page import Element, Punctuation
from headrace.model.schema import TS
from headrace.testing.clock import VirtualClock


@dataclass(frozen=True, slots=True)
class Arrival:
    """An element enters at a source."""

    time: int
    source: VertexId
    element: Element


@dataclass(frozen=True, slots=True)
class Costs:
    """Microseconds per tuple (`of` single operators, `drawn` for each tuple) and per punctuation (None: as a tuple).

    Also per bound asked for, per selection of a move (`test`), and per step on registers alone. Operators in `free`
    take punctuation at no cost.
    """

    tuple: int = 0
    punctuation: int | None = None
    ets: int = 0
    test: int = 0
    register: int = 0
    of: Mapping[VertexId, int] = field(default_factory=dict)
    drawn: Mapping[VertexId, Callable[[], int]] = field(default_factory=dict)
    free: Collection[VertexId] = ()

    def step(self, step: Step) -> int:
        cost = self.of.get(step.vertex, self.tuple)
        match step.kind:
            case "page":
                if step.vertex in self.drawn:
                    return sum(self.drawn[step.vertex]() for _ in range(step.tuples))
                return cost * step.tuples
            case "punctuation":
                if step.vertex in self.free:
                    return 0
                return cost if self.punctuation is None else self.punctuation
            case "register":
                return self.register


@dataclass(frozen=True, slots=True)
class Emission:
    """A result and when it came out."""

    time: int
    end: VertexId
    row: dict[str, Any]

    @property
    def latency(self) -> int:
        """Return the time since the timestamp of the result."""
        return self.time - int(self.row[TS])


@dataclass(slots=True)
class Trace:
    """The record of a run."""

    began: int
    ended: int = 0
    emissions: list[Emission] = field(default_factory=list)
    waited: dict[VertexId, int] = field(
        default_factory=dict
    )  # how long merging operators held tuples that they might not take
    behind: dict[VertexId, int] = field(default_factory=dict)  # how long they held tuples while they took punctuation
    peak: int = 0  # most elements that were in buffers at once
    asked: int = 0  # bounds asked of sources

    def idle_share(self, vertex: VertexId) -> float:
        """Return the share of the time during which a merging operator waited idly."""
        return self.waited.get(vertex, 0) / max(1, self.ended - self.began)

    def held_share(self, vertex: VertexId) -> float:
        """Return `idle_share` with the time during which tuples were held because punctuation came before them."""
        return (self.waited.get(vertex, 0) + self.behind.get(vertex, 0)) / max(1, self.ended - self.began)

    def mean_latency(self) -> float:
        """Return the mean latency of results; not a number if there are none, as what waits has no latency yet."""
        return (
            sum(emission.latency for emission in self.emissions) / len(self.emissions) if self.emissions else math.nan
        )

    def times(self, end: VertexId | None = None) -> list[int]:
        """Return the times of results."""
        return [emission.time for emission in self.emissions if end in (None, emission.end)]


class Simulation:
    """One engine, one clock."""

    def __init__(self, engine: Engine, clock: VirtualClock, costs: Costs | None = None) -> None:
        self.engine, self.clock = engine, clock
        self.costs = costs or Costs()
        self.trace = Trace(clock.now())

    def run(self, arrivals: Iterable[Arrival], until: int | None = None) -> Trace:
        """Let everything arrive and run until there is nothing to do, or until a time; may be called again."""
        engine, trace = self.engine, self.trace
        waiting = deque(sorted(arrivals, key=lambda arrival: arrival.time))
        before = engine.asked
        while until is None or self.clock.now() <= until:
            while waiting and waiting[0].time <= self.clock.now():
                arrival = waiting.popleft()
                engine.time = arrival.time
                engine.push(arrival.source, arrival.element)
            trace.peak = max(trace.peak, self._queued())
            if self._step():
                continue
            instant = self._next(waiting)
            if instant is None or (until is not None and instant > until):
                break
            self._pass(max(0, instant - self.clock.now()), self._blocked())  # it may have come during a selection
        if until is not None and until > self.clock.now():
            self._pass(until - self.clock.now(), self._blocked())
        trace.asked += engine.asked - before
        trace.ended = self.clock.now()
        return trace

    def _step(self) -> bool:
        engine = self.engine
        tests, asked, blocked = engine.tests, engine.asked, self._blocked()
        step = engine.step()
        self._pass((engine.tests - tests) * self.costs.test + (engine.asked - asked) * self.costs.ets, blocked)
        if step is not None:
            cost = self.costs.step(step)
            self._pass(cost, [name for name in blocked if name != step.vertex])
            registers = engine.network.registers.get(step.vertex)
            if step.kind == "punctuation" and registers is not None and registers.holds:
                self.trace.behind[step.vertex] = self.trace.behind.get(step.vertex, 0) + cost
        for end, pages in engine.take_results().items():
            self.trace.emissions += [
                Emission(self.clock.now(), end, row) for page in pages for row in page.rows.iter_rows(named=True)
            ]
        return step is not None

    def _next(self, waiting: deque[Arrival]) -> int | None:
        """Return when something happens next."""
        wakeup = self.engine.next_wakeup()
        times = [waiting[0].time] if waiting else []
        times += [wakeup] if wakeup is not None and wakeup > self.clock.now() else []
        return min(times, default=None)

    def _blocked(self) -> list[VertexId]:
        network = self.engine.network
        return [name for name in network.registers if network.blocked(name)]

    def _pass(self, span: int, blocked: Iterable[VertexId]) -> None:
        for name in blocked:
            self.trace.waited[name] = self.trace.waited.get(name, 0) + span
        self.clock.advance(span)

    def _queued(self) -> int:
        network = self.engine.network
        return sum(network.unread(name) for name in {reader for reader, _ in network.ready})


def heartbeats(source: VertexId, period: int, until: int, *, begin: int = 0) -> list[Arrival]:
    """Return the arrivals of a source that sends its bound periodically, whether or not an operator waits for it."""
    return [Arrival(time, source, Punctuation(time)) for time in range(begin + period, until + 1, period)]
