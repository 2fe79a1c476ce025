"""A join of several streams in virtual time: the real operator, with the time of the published cost model.

Tuples arrive at random and wait in one queue. A processor takes them in portions; what a portion costs follows from
what the operator counts. Streams form a chain: each is joined with the next by a key of its own.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from headrace.analysis.joins.join_facts import Shape
from headrace.model.expressions.expression import Column
from headrace.model.join_tree import Tree
from headrace.model.page import Page, Punctuation
from headrace.model.schema import EXPIRY, TS, Field, Schema
from headrace.model.time import SECOND
from headrace.model.types import Type
from headrace.model.window import Extent
from headrace.operators.capabilities import Choose
from headrace.operators.multijoin.operator import MultiJoinOperator
from headrace.operators.multijoin.seen import BoxSeen, How, PortSeen, merged_boxes
from headrace.operators.multijoin.spec import MultiJoin
from headrace.operators.operator import State
from headrace.optimizer.joins.cost import Costs

#: Tuples that are taken at once.
PORTION = 16


@dataclass(frozen=True, slots=True)
class Chain:
    """Streams that are joined in a chain: rates (tuples per second), numbers of keys between neighbors, the window."""

    rates: tuple[float, ...]
    keys: tuple[int, ...]
    window: float

    @property
    def selectivities(self) -> tuple[float, ...]:
        """Return how often tuples of neighbors agree."""
        return tuple(1.0 / count for count in self.keys)

    @property
    def shape(self) -> Shape:
        """Return what is joined with what."""
        return Shape(len(self.rates), tuple((place, place + 1) for place in range(len(self.keys))))

    def spec(self) -> MultiJoin:
        """Return the join."""
        count = len(self.rates)
        schema = Schema((Field("left", Type.INT), Field("right", Type.INT)))
        left, right = Column("left", Type.INT), Column("right", Type.INT)
        classes = tuple(
            tuple(right if port == place else left if port == place + 1 else None for port in range(count))
            for place in range(count - 1)
        )
        names = tuple((f"left{port}", f"right{port}") for port in range(count))
        extents = (Extent(round(self.window * SECOND)),) * count
        return MultiJoin((schema,) * count, names, extents, classes, (), False)


@dataclass(frozen=True, slots=True)
class Moment:
    """The state at a time: results so far, tuples that wait, rows of streams and of intermediate states, busy time."""

    time: float
    out: int
    waiting: int
    held: int
    intermediate: int
    busy: float
    tree: Tree


@dataclass(slots=True)
class Run:
    """What a simulation gave: moments, the reports in between, and how long each change of plan lasted."""

    moments: list[Moment] = field(default_factory=list)
    seen: list[BoxSeen] = field(default_factory=list)
    changes: list[tuple[float, float]] = field(default_factory=list)  # when, and until when
    pauses: list[float] = field(default_factory=list)  # the time without an answer, of each change
    change_work: list[float] = field(default_factory=list)  # units of what is done at once, of each change

    def at(self, time: float) -> Moment:
        """Return the last moment before a time."""
        return max((moment for moment in self.moments if moment.time <= time), key=lambda moment: moment.time)

    def rate(self, start: float, end: float) -> float:
        """Return results per second between two times."""
        return (self.at(end).out - self.at(start).out) / (end - start)

    def mean(self, what: Callable[[Moment], float], start: float, end: float) -> float:
        """Return a mean over the moments between two times."""
        values = [what(moment) for moment in self.moments if start <= moment.time <= end]
        return sum(values) / len(values)


#: Called after each tick with the time and what was counted since the last; returns a new tree, and how to reach it.
Policy = Callable[[float, BoxSeen, float], "tuple[Tree, How, int] | None"]


def simulate(
    chain: Chain,
    tree: Tree,
    seconds: float,
    *,
    costs: Costs,
    capacity: float = math.inf,
    seed: int = 1,
    policy: Policy | None = None,
    tick: float = 0.5,
    keys: Callable[[float], Sequence[int]] | None = None,
    rates: Callable[[float], Sequence[float]] | None = None,
    most_tuples: float = math.inf,
    most_results: int = 3_000_000,
) -> Run:
    """Run a join for some seconds; `capacity` is what the processor does per second, in units of the costs.

    `keys` and `rates` change over time. The run ends early if more tuples are held and wait than fit (`most_tuples`).
    """
    box = Box(chain.spec(), tree, costs)
    arrivals, run = Arrivals(chain.rates, seed, keys or (lambda time: chain.keys), rates), Run()
    queue: deque[tuple[float, int, int, int]] = deque()
    now = free = 0.0
    change: tuple[float, float] | None = None
    while now < seconds:
        now += tick
        queue.extend(arrivals.until(now))
        while free < now and (queue or box.is_changing):
            taken = [queue.popleft() for _ in range(min(PORTION, len(queue)))]
            began = max(free, taken[-1][0] if taken else free)
            cost = box.take(taken, queue[0][0] if queue else began)
            free = began + cost / capacity if capacity < math.inf else began
            if change is not None and not box.is_changing:
                run.changes.append((change[0], free))
                change = None
            if not taken:
                break
        if not queue:
            box.advance_to(now)
            free = max(free, now) if capacity == math.inf else free
        seen = box.report()
        moment = box.moment(now, len(queue))
        run.moments.append(moment)
        run.seen.append(seen)
        if moment.held + moment.intermediate + moment.waiting > most_tuples or moment.out > most_results:
            return run
        chosen = policy(now, seen, tick) if policy is not None else None
        if chosen is not None and not box.is_changing:
            start = max(free, now)
            cost = box.use(*chosen)
            free = start + cost / capacity if capacity < math.inf else start
            run.pauses.append(free - start)
            run.change_work.append(cost)
            if box.is_changing:
                change = start, start
            else:
                run.changes.append((start, free))
    return run


class Arrivals:
    """Tuples at random times with random keys."""

    def __init__(
        self,
        first_rates: Sequence[float],
        seed: int,
        keys: Callable[[float], Sequence[int]],
        rates: Callable[[float], Sequence[float]] | None = None,
    ) -> None:
        self._chance = random.Random(seed)
        self._keys = keys
        self._rates = rates or (lambda time: first_rates)
        self._next = [self._gap(port, 0.0) for port in range(len(first_rates))]

    def until(self, time: float) -> list[tuple[float, int, int, int]]:
        """Return what arrives before a time, in order: time, stream, and the keys to both sides."""
        found = []
        for port in range(len(self._next)):
            while self._next[port] < time:
                at = self._next[port]
                left, right = self._key(port - 1, at), self._key(port, at)
                found.append((at, port, left, right))
                self._next[port] = at + self._gap(port, at)
        return sorted(found)

    def _gap(self, port: int, time: float) -> float:
        return self._chance.expovariate(self._rates(time)[port])

    def _key(self, edge: int, time: float) -> int:
        counts = self._keys(time)
        return self._chance.randrange(counts[edge]) if 0 <= edge < len(counts) else 0


class Box:
    """The operator, what it has counted, and what that costs."""

    def __init__(self, spec: MultiJoin, tree: Tree, costs: Costs) -> None:
        self._operator = MultiJoinOperator(spec)
        self._ports = len(spec.inputs)
        self._costs = costs
        self._number = 0
        self._reports: list[BoxSeen] = []
        self._out, self._busy, self._newest = 0, 0.0, 0.0
        self.counts_until: int | None = None  # count results that have a part from before only: they expire earlier
        self.is_changing = False
        self.beside: Mapping[str, int] = {}  # rows of the same states in other joins of the machine
        self.use(tree, "moving", 0)

    def take(self, tuples: Sequence[tuple[float, int, int, int]], bound: float) -> float:
        """Process tuples, then let the time advance; return what that costs."""
        self._newest = max([self._newest, *(entry[0] for entry in tuples)])
        for port in range(self._ports):
            own = [entry for entry in tuples if entry[1] == port]
            if own:
                self._operator_page(port, own)
        self.advance_to(bound)
        return self._pay()

    def advance_to(self, time: float) -> None:
        """Tell all inputs that nothing older comes, and do a portion of a change."""
        bound = round(time * SECOND)
        for port in range(self._ports):
            list(self._operator.on_punctuation(port, Punctuation(bound)))
        if self.is_changing:
            self._operator.advance()

    def use(self, tree: Tree, how: How, portion: int) -> float:
        """Change the plan; return what the change at once costs."""
        self._number += 1
        self._operator.use(self._number, tree, how, portion)
        return self._pay()

    def give(self, choose: Choose) -> State:
        """Give up the rows of some keys."""
        keys = ((Column("left", Type.INT),),) * self._ports
        return self._operator.give(keys, choose)

    def absorb(self, given: State) -> float:
        """Take rows in that another machine gave; return what the states that follow from them cost."""
        before = self._operator.seen(sample=False)
        self._reports.append(before)
        for port in range(self._ports):
            if str(port) in given:
                list(self._operator.on_page(port, Page(given[str(port)])))
        return price(self._operator.seen(sample=False), self._costs)

    @property
    def tree(self) -> Tree:
        """Return the tree that runs."""
        return self._operator.tree

    @property
    def out(self) -> int:
        """Return the results so far."""
        return self._out

    def sizes(self) -> dict[str, int]:
        """Return the rows of each state."""
        self._reports.append(self._operator.seen(sample=False))
        return sizes_of(self._reports[-1])

    def forget(self) -> None:
        """Forget what was counted, if nobody asks for reports."""
        self._reports = []

    def report(self) -> BoxSeen:
        """Return what was counted since the last report, with samples of keys."""
        self._reports.append(self._operator.seen(sample=True))
        self.is_changing = self._reports[-1].migration is not None
        parts = merged_boxes({"box": part} for part in self._reports)["box"]
        latest = self._reports[-1]
        ports = [PortSeen(mine.taken, now.held, now.bytes) for mine, now in zip(parts.ports, latest.ports, strict=True)]
        self._reports = []
        return BoxSeen(
            tree=latest.tree,
            number=latest.number,
            ports=ports,
            steps=parts.steps,
            rows=latest.rows,
            stored=parts.stored,
            built=parts.built,
            purged=parts.purged,
            out=parts.out,
            migration=latest.migration,
            samples=latest.samples,
        )

    def moment(self, time: float, waiting: int) -> Moment:
        """Return the state now."""
        latest = self._operator.seen(sample=False)
        return Moment(
            time,
            self._out,
            waiting,
            sum(port.held for port in latest.ports),
            sum(latest.rows.values()),
            self._busy,
            self._operator.tree,
        )

    def _operator_page(self, port: int, own: Sequence[tuple[float, int, int, int]]) -> None:
        rows = pl.DataFrame(
            {
                "left": pl.Series([entry[2] for entry in own], dtype=pl.Int32),
                "right": pl.Series([entry[3] for entry in own], dtype=pl.Int32),
                TS: pl.Series([round(entry[0] * SECOND) for entry in own], dtype=pl.Int64),
            }
        )
        for element in self._operator.on_page(port, Page(rows)):
            if isinstance(element, Page) and self.counts_until is None:
                self._out += len(element)
            elif isinstance(element, Page):
                self._out += int((element.rows[EXPIRY] < self.counts_until).sum())

    def _pay(self) -> float:
        """Return the cost of what was counted since the last time."""
        seen = self._operator.seen(sample=False)
        self._reports.append(seen)
        self.is_changing = seen.migration is not None
        cost = price(seen, self._costs, self.beside)
        self._busy += cost
        return cost


def sizes_of(seen: BoxSeen) -> dict[str, int]:
    """Return the rows of each state, by its ports."""
    return {str(port): entry.held for port, entry in enumerate(seen.ports)} | dict(seen.rows)


def price(seen: BoxSeen, costs: Costs, beside: Mapping[str, int] | None = None) -> float:
    """Return what the counts of a join cost; rows are inserted and deleted once, and every candidate is compared.

    `beside` are the rows of the same states that other joins of the machine hold; they are compared, too.
    """
    sizes = sizes_of(seen)
    work = seen.stored * costs.store
    for name, step in seen.steps.items():
        other = name.partition(">")[2]
        compared = sizes.get(other, 0) + (beside or {}).get(other, 0)
        work += step.searched * (costs.search + compared * costs.candidate) + step.matched * costs.match
    return work
