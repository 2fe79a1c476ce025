"""The master of the schedulers: it gives each scheduler its slice, and each scheduler chooses among its own units.

The pass of a unit takes one page at the operator that can run nearest to the output, so that work in progress goes on
first, and lets the rest of the unit process what comes of it. Between passes another unit may have its turn. A gated
pass takes at each operator what is there when it comes by.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from headrace.commands.command import Cost
from headrace.engine.choosing import Step, Visit
from headrace.engine.dispatch.cycle import Cycle
from headrace.engine.network import Network
from headrace.engine.scheduling.schedulers.fairness import Fairness
from headrace.engine.scheduling.schedulers.scheduler import Candidate, Scheduler, Turn
from headrace.engine.scheduling.units import Part, Unit, candidate, units_of
from headrace.graph.graph import VertexId

#: Nanoseconds of work in a scheduler's slice, for each of its units and each unit of its weight.
QUANTUM = 1_000_000.0


@dataclass(frozen=True, slots=True)
class Share:
    """A scheduler, the part of the graph that it runs, and its weight beside others; its memory is kept by `name`."""

    name: str
    scheduler: Scheduler
    part: Part
    weight: float = 1.0


class Turns(Struct, frozen=True):
    """The memory between micro-batches: whose slice it is, how much of it is used, and each scheduler's turn."""

    current: str = ""
    used: float = 0.0
    turns: dict[str, Turn] = {}


class Master:
    """A chooser that lets schedulers choose; what no unit of theirs can run is left to the cycle."""

    def __init__(self, network: Network, cycle: Cycle, cost: Callable[[VertexId], Cost]) -> None:
        self._network, self._cycle, self._cost = network, cycle, cost
        self._shares: tuple[Share, ...] = ()
        self._units: dict[str, tuple[Unit, ...]] = {}
        self._fairness = Fairness()
        self._pass: _Pass | None = None
        self._is_charged = False  # the execution that was selected last counts for the current slice
        self.turns = Turns()
        self.decisions = 0  # units chosen

    def use(self, shares: Sequence[Share], fairness: Fairness) -> None:
        """Use these schedulers, the one with the greatest weight first; those that stay keep their memory."""
        self._shares = tuple(sorted(shares, key=lambda share: -share.weight))
        self._units = {share.name: units_of(share.scheduler.kinds, share.part) for share in shares}
        self._fairness = fairness
        kept = {name: turn for name, turn in self.turns.turns.items() if name in self._units}
        self.turns = msgspec.structs.replace(self.turns, turns=kept)
        self.restart()

    @property
    def units(self) -> Mapping[str, tuple[Unit, ...]]:
        """The units of each scheduler."""
        return self._units

    def restart(self) -> None:
        """Begin with a new choice: it must not depend on where the last micro-batch stopped."""
        self._pass = None

    def select(self, now: int) -> Visit | None:
        """Return the next execution; None if nothing can run."""
        visit = self._select(now)
        self._is_charged = visit is not None
        return visit or self._cycle.select(now)

    def executed(self, visit: Visit, step: Step) -> None:
        """Charge an execution to the current slice."""
        self._cycle.executed(visit, step)
        if self._is_charged:
            turns, nanoseconds = self.turns, self._cost(step.vertex).of(step.tuples)
            turn = turns.turns.get(turns.current, Turn())
            turn = msgspec.structs.replace(turn, since=turn.since + nanoseconds)
            self.turns = Turns(turns.current, turns.used + nanoseconds, {**turns.turns, turns.current: turn})

    def _select(self, now: int) -> Visit | None:
        while True:
            if self._pass is not None:
                is_over = self._pass.gated and self._rest() <= 0
                vertex = None if is_over else self._pass.next(self._network, self._cycle.runnable)
                if vertex is not None:
                    return Visit(vertex, self._fitting(vertex))
                self._pass = None
            share, able = self._next_share()
            if share is None:
                return None
            self._choose(share, able, now)

    def _rest(self) -> float:
        """Return the nanoseconds that remain of the slice; without end for the only scheduler."""
        current = next((share for share in self._shares if share.name == self.turns.current), None)
        if current is None or len(self._shares) == 1:
            return math.inf
        return QUANTUM * len(self._units[current.name]) * current.weight - self.turns.used

    def _fitting(self, vertex: VertexId) -> int | None:
        """Return how many tuples fit the slice; a pass that outlasts it goes on without a limit."""
        rest = self._rest()
        return None if rest <= 0 or rest == math.inf else max(1, int(rest / max(self._cost(vertex).service_ns, 1e-3)))

    def _next_share(self) -> tuple[Share | None, set[VertexId]]:
        """Return whose slice it is, the current one's until it is used up, and which vertices can run."""
        ready = {name for name, _ in self._network.ready}  # `runnable` may absorb punctuation that is ready
        able = {name for name in (*ready, *self._network.registers) if self._cycle.runnable(name)}
        busy = [share for share in self._shares if not able.isdisjoint(share.part.vertices)]
        if not busy:
            return None, able
        names = [share.name for share in self._shares]
        place = names.index(self.turns.current) if self.turns.current in names else -1
        if place >= 0 and self._shares[place] in busy and self._rest() > 0:
            return self._shares[place], able
        following = min(busy, key=lambda share: (names.index(share.name) <= place, names.index(share.name)))
        self.turns = msgspec.structs.replace(self.turns, current=following.name, used=0.0)
        return following, able

    def _choose(self, share: Share, able: set[VertexId], now: int) -> None:
        candidates = self._candidates(self._units[share.name], able, now)
        turn = self.turns.turns.get(share.name, Turn())
        choice = self._fairness.choose(share.scheduler, candidates, turn, now)
        self.turns = msgspec.structs.replace(self.turns, turns={**self.turns.turns, share.name: choice.turn})
        self._pass = _Pass(self._units[share.name][choice.unit].vertices, gated=share.scheduler.gated)
        self.decisions += 1

    def _candidates(self, units: Sequence[Unit], able: set[VertexId], now: int) -> list[Candidate]:
        queued: dict[VertexId, int] = {}
        oldest: dict[VertexId, int] = {}
        for arc in self._network.ready:
            queued[arc[0]] = queued.get(arc[0], 0) + self._network.tuples(arc)
            oldest[arc[0]] = min(oldest.get(arc[0], now), self._network.oldest(arc))
        candidates = []
        for number, unit in enumerate(units):
            if able.isdisjoint(unit.vertices):
                continue
            first = min((oldest.get(name, now) for name in unit.vertices if name in able), default=now)
            size = sum(queued[name] * self._cost(name).size_in for name in unit.counted if name in queued)
            count = sum(queued.get(name, 0) for name in unit.vertices)
            candidates.append(candidate(number, unit, queued=count, size=size, oldest=first))
        return candidates


class _Pass:
    """One run over a unit's vertices."""

    def __init__(self, vertices: tuple[VertexId, ...], *, gated: bool) -> None:
        self._vertices, self.gated = vertices, gated
        self._place = -1
        self._remaining: int | None = 0  # elements that the vertex at this place may still take; None: all

    def next(self, network: Network, runnable: Callable[[VertexId], bool]) -> VertexId | None:
        """Return the vertex that executes now; None if the pass is over."""
        while True:
            if (
                self._place >= 0
                and (self._remaining is None or self._remaining > 0)
                and runnable(self._vertices[self._place])
            ):
                self._remaining = None if self._remaining is None else self._remaining - 1
                return self._vertices[self._place]
            if self.gated or self._place >= 0:
                self._place += 1
                self._remaining = None
            else:
                self._place = max(
                    (place for place, name in enumerate(self._vertices) if runnable(name)), default=len(self._vertices)
                )
                self._remaining = 1
            if self._place == len(self._vertices):
                return None
            if self.gated:
                self._remaining = max(1, network.unread(self._vertices[self._place]))
