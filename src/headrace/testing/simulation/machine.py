"""A machine that has some partitions of a join, in virtual time: a queue, a processor and the real operator.

It compares a tuple with all rows of a state, as the published cost model has it. Partitions that come or go have a join
of their own meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from headrace.analysis.joins.join_facts import Shape
from headrace.model.expressions.expression import Column
from headrace.model.join_tree import Tree
from headrace.model.schema import Field, Schema
from headrace.model.time import SECOND
from headrace.model.types import Type
from headrace.model.window import Extent
from headrace.operators.arrays import Flags
from headrace.operators.multijoin.seen import BoxSeen, How
from headrace.operators.multijoin.spec import MultiJoin
from headrace.operators.operator import State
from headrace.operators.partitioning import Keys
from headrace.optimizer.joins.cost import Costs
from headrace.testing.simulation.box import Box

#: Called for each machine now and then, as for a join alone.
LocalPolicy = Callable[[float, BoxSeen, float], "tuple[Tree, How, int] | None"]
#: Tuples that a machine takes at once.
PORTION = 256
#: Seconds between two looks of a machine at its own plan.
LOCALLY_EVERY = 5.0


@dataclass(frozen=True, slots=True)
class Shared:
    """A join of three streams by one key, whose partitions are on several machines; the first has `share` of them."""

    rates: tuple[float, float, float]
    keys: int
    window: float
    partitions: int = 100
    machines: int = 7
    share: float = 0.5

    @property
    def shape(self) -> Shape:
        """Return what is joined with what: A with B, B with C."""
        return Shape(3, ((0, 1), (1, 2)))

    def spec(self) -> MultiJoin:
        """Return the join; results say when their oldest part expires."""
        schema = Schema((Field("left", Type.INT), Field("right", Type.INT)))
        key = Column("left", Type.INT)
        names = tuple((f"left{port}", f"right{port}") for port in range(3))
        extents = (Extent(round(self.window * SECOND)),) * 3
        return MultiJoin((schema,) * 3, names, extents, ((key, key, None), (None, key, key)), (), True)

    def places(self) -> list[int]:
        """Return the machine of each partition at the beginning."""
        first = round(self.share * self.partitions)
        others = max(1, self.machines - 1)
        return [0 if part < first else 1 + part % others for part in range(self.partitions)]


class Tuple(NamedTuple):
    """A tuple with its stream and key; `guest` is the move for which it is kept apart."""

    at: float
    port: int
    key: int
    guest: int | None = None


class Mark(NamedTuple):
    """Something that a machine does when it reaches this place of its queue."""

    at: float
    act: Callable[[Machine, float], float]


class Machine:
    """A processor with a queue, a join, and joins of partitions that come or go."""

    def __init__(self, setting: Shared, tree: Tree, costs: Costs, capacity: float, policy: LocalPolicy | None) -> None:
        self._setting, self._costs, self.capacity = setting, costs, capacity
        self.box = Box(setting.spec(), tree, costs)
        self.guests: dict[int, Box] = {}  # by the number of the move
        self.queue: deque[Tuple | Mark] = deque()
        self.inbox: list[Mark] = []  # from other machines; these do not wait in the queue
        self.free = 0.0
        self.progress = 0.0  # it has done all before this time
        self.done = 0  # results of joins that are gone
        self._policy, self._looked = policy, 0.0

    def run(self, until: float) -> None:
        """Work until a time; what is begun is finished."""
        while self.free < until:
            due = min((mark for mark in self.inbox if mark.at <= until), key=lambda mark: mark.at, default=None)
            head = self.queue[0] if self.queue and self.queue[0].at <= until else None
            if due is not None and (head is None or due.at <= max(self.free, head.at)):
                self.inbox.remove(due)
                self._do(due)
            elif isinstance(head, Mark):
                self.queue.popleft()
                self._do(head)
            elif head is not None:
                taken = self._portion(until)
                began = max(self.free, max(entry.at for entry in taken))
                self.free = began + self._take(taken) / self.capacity
            else:
                break
        if not self.queue:
            self._advance(until)

    def _do(self, mark: Mark) -> None:
        start = max(self.free, mark.at)
        self.free = start + mark.act(self, start) / self.capacity

    def _portion(self, until: float) -> list[Tuple]:
        taken: list[Tuple] = []
        while self.queue and len(taken) < PORTION:
            head = self.queue[0]
            if isinstance(head, Mark) or head.at > until:
                break
            taken.append(head)
            self.queue.popleft()
        return taken

    def _take(self, taken: Sequence[Tuple]) -> float:
        own = [(entry.at, entry.port, entry.key, 0) for entry in taken if entry.guest is None]
        cost = 0.0
        for number, box in self.guests.items():
            apart = [(entry.at, entry.port, entry.key, 0) for entry in taken if entry.guest == number]
            if apart:
                box.beside = self.box.sizes()
                cost += box.take(apart, apart[-1][0])
        old = {number for number, box in self.guests.items() if box.counts_until is not None}
        if own:
            self.box.beside = _sum(box.sizes() for box in self.guests.values())
            cost += self.box.take(own, own[-1][0])
        reached = [entry.at for entry in taken if entry.guest is None or entry.guest in old]
        self._advance(max([self.progress, *reached]))
        return cost

    def _advance(self, time: float) -> None:
        """Let the time advance, also for partitions that leave; those that come have their own."""
        self.progress = time
        for box in (self.box, *(box for box in self.guests.values() if box.counts_until is not None)):
            box.advance_to(time)

    def tick(self, time: float) -> None:
        """Let the local policy look at the join."""
        for box in self.guests.values():
            box.forget()
        if self._policy is None:
            self.box.forget()
        if self._policy is None or time - self._looked < LOCALLY_EVERY:
            return
        since, self._looked = time - self._looked, time
        chosen = self._policy(time, self.box.report(), since)
        if chosen is not None and not self.box.is_changing:
            self.free = max(self.free, time) + self.box.use(*chosen) / self.capacity

    def give(self, parcels: Iterable[int]) -> State:
        """Give up the rows of some partitions."""
        count, gone = self._setting.partitions, list(parcels)

        def choose(rows: pl.DataFrame, keys: Keys) -> Flags:
            (key,) = keys
            assert isinstance(key, Column)
            return np.isin(rows[key.name].to_numpy() % count, gone)

        return self.box.give(choose)

    def welcome(self, number: int, rows: State) -> float:
        """Keep rows of a move apart, joined by the tree of this machine; return what that costs."""
        self.guests[number] = guest = Box(self._setting.spec(), self.box.tree, self._costs)
        return guest.absorb(rows)

    def settle(self, number: int) -> None:
        """Put what was apart to the other rows."""
        guest = self.guests.pop(number)
        self.done += guest.out
        self.box.absorb(guest.give(lambda rows, keys: np.ones(len(rows), dtype=np.bool_)))

    @property
    def out(self) -> int:
        """Return the results so far."""
        return self.done + self.box.out + sum(box.out for box in self.guests.values())

    def sizes(self) -> dict[str, int]:
        """Return the rows of each state."""
        return _sum(box.sizes() for box in (self.box, *self.guests.values()))


def _sum(sizes: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for some in sizes:
        for name, count in some.items():
            total[name] = total.get(name, 0) + count
    return total
