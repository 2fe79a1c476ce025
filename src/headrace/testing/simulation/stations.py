"""A simulation of schedulers over a network of stations, in numbers alone: long runs with many queries are quick.

The schedulers, the units that they choose among and the pass over a unit are the engine's own. Whether a tuple passes
each station is drawn beforehand, so it is the same whatever the scheduler. A station has at most one reader.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.analysis.forecast.network import Feed, Network, Station, flow
from headrace.commands.command import Cost
from headrace.engine.scheduling.schedulers.fairness import Fairness
from headrace.engine.scheduling.schedulers.scheduler import Candidate, Scheduler, Turn
from headrace.engine.scheduling.units import Part, Stakes, Unit, candidate, units_of
from headrace.graph.graph import Vertex
from headrace.model.expressions.expression import Literal
from headrace.model.time import SECOND
from headrace.model.types import Type
from headrace.operators.specs import Filter, Union
from headrace.testing.simulation.rounds import Times
from headrace.testing.simulation.units import part_of

_UNGUARDED = Fairness()


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The tuples that a pass takes at its first operator (`page`), and the seconds of a choice and a change of unit."""

    page: int = 1
    choice: float = 0.0
    switch: float = 0.0
    fairness: Fairness = _UNGUARDED


TUPLE_BY_TUPLE = Dispatch()


@dataclass(slots=True)
class Seen:
    """The record of a run: results (their time, the arrival of their tuple, their query), and what waited."""

    times: list[float] = field(default_factory=list)
    born: list[float] = field(default_factory=list)
    queries: list[int] = field(default_factory=list)  # their places in the network
    waited: float = 0.0  # seconds in the system, of all tuples that have left it, results or not
    left: int = 0
    waiting: list[float] = field(default_factory=list)  # bytes in queues, second by second
    peak: float = 0.0
    choices: int = 0
    switches: int = 0
    dropped: int = 0

    def latencies(self) -> Times:
        """Return the latency of every result, in seconds."""
        return np.asarray(np.array(self.times) - np.array(self.born), np.float64)

    def of(self, query: int) -> tuple[Times, Times]:
        """Return the times of the results of a query, and their latencies."""
        mine = np.array(self.queries) == query
        return np.array(self.times)[mine], self.latencies()[mine]

    @property
    def mean_wait(self) -> float:
        """The mean seconds that a tuple spent in the system, whether it led to a result or not."""
        return self.waited / self.left if self.left else math.nan


@dataclass(slots=True)
class _Lane:
    """The way of a stream's tuples from a leaf on: the station at each depth, and the depth of each tuple."""

    stream: str
    query: int
    stations: list[int]
    born: list[float]
    far: list[int]
    queues: list[deque[int]]
    coins: list[float]


class Processor:
    """One processor, one clock."""

    def __init__(
        self,
        network: Network,
        arrivals: Mapping[str, Times],
        scheduler: Scheduler,
        dispatch: Dispatch = TUPLE_BY_TUPLE,
        *,
        seed: int = 1,
        promises: Mapping[str, float] | None = None,
    ) -> None:
        self.network, self.dispatch, self.seen = network, dispatch, Seen()
        self.clock = 0.0
        self._stations = network.stations
        self._services = [station.service.mean for station in network.stations]
        self._sizes = [station.size for station in network.stations]
        self._lanes = _lanes(network, arrivals, seed)
        self._ports: list[list[tuple[_Lane, int]]] = [[] for _ in network.stations]
        self._readers: dict[str, list[_Lane]] = {name: [] for name in network.streams}
        for lane in self._lanes:
            self._readers[lane.stream].append(lane)
            for depth, number in enumerate(lane.stations):
                self._ports[number].append((lane, depth))
        self._arrivals = _merged(arrivals)
        self._next = 0
        self._bytes = 0.0
        self._shares: dict[int, float] = {}  # by station
        self._part = part_of_network(network, promises or {})
        self.use(scheduler)

    def use(self, scheduler: Scheduler) -> None:
        """Change to another scheduler; tuples that wait stay where they are."""
        self._scheduler, self._turn, self._last = scheduler, Turn(), -1
        self._units: Sequence[Unit] = units_of(scheduler.kinds, self._part)
        numbers = {station.name: number for number, station in enumerate(self._stations)}
        self._vertices = [tuple(numbers[name] for name in unit.vertices) for unit in self._units]
        self._counted = [tuple(numbers[name] for name in unit.counted) for unit in self._units]
        self._units_at: list[list[int]] = [[] for _ in self._stations]
        for unit, vertices in enumerate(self._vertices):
            for number in vertices:
                self._units_at[number].append(unit)
        self._able: dict[int, Candidate] = {}
        self._changed = set(range(len(self._stations)))

    def shed(self, shares: Mapping[str, float]) -> None:
        """Drop these shares of the tuples that come to stations, and no others, before they are stored."""
        self._shares = {
            number: shares[station.name] for number, station in enumerate(self._stations) if station.name in shares
        }

    def run(self, until: float = math.inf) -> Seen:
        """Serve tuples until none waits, or until a time; may be called again."""
        dispatch, record = self.dispatch, self.seen
        while self.clock < until:
            self._sync()
            able = self._candidates()
            if not able:
                if self._next == len(self._arrivals) or self._arrivals[self._next][0] > until:
                    if until < math.inf:
                        self._pass_time(until)
                    break
                self._pass_time(self._arrivals[self._next][0])
                continue
            choice = dispatch.fairness.choose(self._scheduler, able, self._turn, round(self.clock * SECOND))
            self._turn = choice.turn
            record.choices += 1
            self.clock += dispatch.choice
            if choice.unit != self._last:
                record.switches += 1
                self.clock += dispatch.switch
                self._last = choice.unit
            self._run_unit(choice.unit)
        return record

    def waiting(self, stations: Sequence[str] | None = None) -> float:
        """Return the bytes in all queues, or in those of some stations."""
        if stations is None:
            return self._bytes
        names = set(stations)
        return sum(
            self._queued(number) * self._sizes[number]
            for number, station in enumerate(self._stations)
            if station.name in names
        )

    def oldest(self, query: int) -> float | None:
        """Return when the oldest tuple that waits for a query arrived."""
        return min(
            (lane.born[queue[0]] for lane in self._lanes if lane.query == query for queue in lane.queues if queue),
            default=None,
        )

    def _sync(self) -> None:
        """Queue all tuples that have arrived."""
        while self._next < len(self._arrivals) and self._arrivals[self._next][0] <= self.clock:
            _, stream, tuple_ = self._arrivals[self._next]
            self._next += 1
            for lane in self._readers[stream]:
                self._push(lane, 0, tuple_)
        self.seen.peak = max(self.seen.peak, self._bytes)

    def _push(self, lane: _Lane, depth: int, tuple_: int) -> None:
        number = lane.stations[depth]
        if self._shares and lane.coins[tuple_] < self._shares.get(number, 0.0):
            self.seen.dropped += 1
            lane.coins[tuple_] = 1.0  # it is gone
            return
        lane.queues[depth].append(tuple_)
        self._bytes += self._sizes[number]
        self._changed.add(number)

    def _pass_time(self, clock: float) -> None:
        self.clock = clock
        while len(self.seen.waiting) < self.clock:
            self.seen.waiting.append(self._bytes)

    def _queued(self, number: int) -> int:
        return sum(len(lane.queues[depth]) for lane, depth in self._ports[number])

    def _candidates(self) -> list[Candidate]:
        """Return the units that can run; only those with a station that changed are examined again."""
        for unit in {unit for number in self._changed for unit in self._units_at[number]}:
            able = self._candidate(unit)
            if able is None:
                self._able.pop(unit, None)
            else:
                self._able[unit] = able
        self._changed.clear()
        return list(self._able.values())

    def _candidate(self, number: int) -> Candidate | None:
        queued, oldest = 0, math.inf
        for station in self._vertices[number]:
            for lane, depth in self._ports[station]:
                queue = lane.queues[depth]
                if queue:
                    queued += len(queue)
                    oldest = min(oldest, lane.born[queue[0]])
        if not queued:
            return None
        size = sum(self._queued(station) * self._sizes[station] for station in self._counted[number])
        return candidate(number, self._units[number], queued=queued, size=size, oldest=round(oldest * SECOND))

    def _run_unit(self, unit: int) -> None:
        """Serve a page at the first station with a queue, then what comes of it; if gated, each serves its queue."""
        begun = self._scheduler.gated
        for number in self._vertices[unit]:
            ports = [(lane, depth) for lane, depth in self._ports[number] if lane.queues[depth]]
            if len(ports) > 1:
                ports.sort(key=lambda port: port[0].born[port[0].queues[port[1]][0]])
            for lane, depth in ports if begun else ports[:1]:
                rest = len(lane.queues[depth]) if begun else min(self.dispatch.page, len(lane.queues[depth]))
                while rest > 0:
                    rest -= self._serve(number, lane, depth, min(rest, self.dispatch.page))
                    self._pass_time(self.clock)
                    self._sync()
            begun = begun or bool(ports)

    def _serve(self, number: int, lane: _Lane, depth: int, count: int) -> int:
        """Serve so many tuples at a station; what waits is recorded after each page."""
        queue, record, clock, service = lane.queues[depth], self.seen, self.clock, self._services[number]
        is_last = depth + 1 == len(lane.stations)
        for _ in range(count):
            tuple_ = queue.popleft()
            clock += service
            if lane.far[tuple_] > depth:
                if not is_last:
                    self._push(lane, depth + 1, tuple_)
                    continue
                record.times.append(clock)
                record.born.append(lane.born[tuple_])
                record.queries.append(lane.query)
            record.waited += clock - lane.born[tuple_]
            record.left += 1
        self._bytes -= count * self._sizes[number]
        self._changed.add(number)
        self.clock = clock
        return count


def _lanes(network: Network, arrivals: Mapping[str, Times], seed: int) -> list[_Lane]:
    readers: dict[str, list[tuple[int, Feed]]] = {}
    for number, station in enumerate(network.stations):
        for feed in station.feeds:
            readers.setdefault(feed.origin, []).append((number, feed))
    roots = {root: place for place, root in enumerate(network.queries.values())}
    lanes = []
    for stream in network.streams:
        for place, (leaf, feed) in enumerate(readers.get(stream, ())):
            stations, shares = [leaf], [feed.selectivity]
            while network.stations[stations[-1]].name in readers:
                (onward,) = readers[network.stations[stations[-1]].name]
                stations.append(onward[0])
                shares.append(onward[1].selectivity)
            chance = np.random.default_rng((seed, sorted(network.streams).index(stream), place))
            passed = chance.random((len(arrivals[stream]), len(shares))) < np.array(shares)
            far = np.where(passed.all(axis=1), len(shares), passed.argmin(axis=1)).tolist()
            coins = chance.random(len(far)).tolist()
            query = roots[network.stations[stations[-1]].name]
            lanes.append(
                _Lane(stream, query, stations, arrivals[stream].tolist(), far, [deque() for _ in stations], coins)
            )
    return lanes


def _merged(arrivals: Mapping[str, Times]) -> list[tuple[float, str, int]]:
    return sorted(
        (time, stream, number) for stream, times in arrivals.items() for number, time in enumerate(times.tolist())
    )


def part_of_network(network: Network, promises: Mapping[str, float]) -> Part:
    """Return the network as the part of a graph of which the engine makes units."""
    tuples = flow(network)
    sizes = {feed.origin: station.size for station in network.stations for feed in station.feeds}
    vertices = [
        Vertex(station.name, _spec(station), tuple(feed.origin for feed in station.feeds))
        for station in network.stations
    ]
    costs, stakes, plans = {}, {}, []
    for station in network.stations:
        share = tuples.out[station.name] / rate if (rate := tuples.rate(station.name)) else station.feeds[0].selectivity
        costs[station.name] = Cost(
            station.service.mean * 1e9, share, station.size, sizes.get(station.name, station.size)
        )
    for query, root in network.queries.items():
        plan = _before(network, root)
        plans.append(plan)
        promise = round(promises[query] * SECOND) if query in promises else None
        stakes.update({name: Stakes(1.0, promise) for name in plan})
    return part_of(vertices, costs, stakes, plans)


def _spec(station: Station) -> Filter | Union:
    return Filter(Literal(True, Type.BOOLEAN)) if len(station.feeds) == 1 else Union(len(station.feeds))


def _before(network: Network, root: str) -> list[str]:
    """Return the stations of which the results of a root stem, with itself."""
    known = {station.name: station for station in network.stations}
    names, pending = [], [root]
    while pending:
        name = pending.pop()
        if name in known:
            names.append(name)
            pending += [feed.origin for feed in known[name].feeds]
    return names
