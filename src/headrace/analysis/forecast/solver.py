"""Mean latency and memory of everything that runs, from rates, service times and selectivities."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from headrace.analysis.forecast.network import Network, Station, flow, reached
from headrace.analysis.forecast.rounds import solve_round
from headrace.analysis.queueing.batches import Batch, batch_waits
from headrace.analysis.queueing.moments import Moments, constant
from headrace.analysis.queueing.queues import general
from headrace.analysis.queueing.vacations import vacation_queue


@dataclass(frozen=True, slots=True)
class StationForecast:
    """One station in steady state.

    Times in seconds, `latency` from the arrival of a tuple until the station has served it.
    """

    name: str
    rate: float
    utilization: float
    waits: tuple[float, ...]  # in the queue, feed by feed
    wait: float
    latency: float
    queued: float  # tuples that wait
    kept: float  # tuples in its state
    bytes: float  # of both
    state: float = 0.0  # bytes of those in its state


@dataclass(frozen=True, slots=True)
class QueryForecast:
    """One query in steady state; memory counts what it shares with others in full."""

    name: str
    latency: float  # seconds
    memory: float  # bytes
    throughput: float  # results a second
    bottleneck: str | None  # the station that needs most of the processor


@dataclass(frozen=True, slots=True)
class Forecast:
    """What will happen if nothing changes; latencies are infinite where more comes than can be served."""

    utilization: float
    round: float
    stations: Mapping[str, StationForecast]
    queries: Mapping[str, QueryForecast]

    @property
    def stable(self) -> bool:
        return self.utilization < 1

    @property
    def excess(self) -> float:
        """Return the share of the processor that is missing."""
        return max(0.0, self.utilization - 1)

    @property
    def bottleneck(self) -> str | None:
        return _busiest(self.stations, self.stations)


def forecast(network: Network) -> Forecast:
    """Solve a network (steps 2 to 9 of the algorithm)."""
    solving = _Solving(network)
    stations: dict[str, StationForecast] = {}
    for station in network.stations:
        stations[station.name] = solving.station(station, stations)
    queries = {name: solving.query(name, stations) for name in network.queries}
    return Forecast(solving.round.utilization, solving.round.length, stations, queries)


class _Solving:
    """A network with its flow and its round, and what is looked up again and again."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.tuples = flow(network)
        self.round = solve_round(network, self.tuples)
        self.positions = {station.name: index for index, station in enumerate(network.stations)}
        turns = (self.round.visits[station.name].turn if self.round.visits else 0.0 for station in network.stations)
        self.before = list(accumulate(turns, initial=0.0))  # how long a round has run when each station's turn comes
        self.arrivals = sum(self.tuples.rate(station.name) for station in network.stations)
        self.work = _mixed([(self.tuples.rate(station.name), station.service) for station in network.stations])

    def station(self, station: Station, earlier: Mapping[str, StationForecast]) -> StationForecast:
        rates = self.tuples.into[station.name]
        waits = self._waits(station)
        total, wait = sum(rates), _weighted(waits, rates)
        made = tuple(rate * feed.selectivity for rate, feed in zip(rates, station.feeds, strict=True))
        since = [earlier[feed.origin].latency if feed.origin in earlier else 0.0 for feed in station.feeds]
        latencies = tuple(above + own + station.service.mean for above, own in zip(since, waits, strict=True))
        # Paths that meet here weigh by what they put out, (5.2); this needs no list of all paths, which may be long.
        latency = _weighted(latencies, made if sum(made) > 0 else rates)
        queued = total * wait if total else 0.0  # Little; (5.55)
        kept = station.kept + sum(
            rate * feed.window for rate, feed in zip(rates, station.feeds, strict=True) if rate
        )  # Const of (5.1)
        busy = total * station.service.mean
        state = kept * (station.size if station.kept_size is None else station.kept_size)
        size = queued * station.size + state
        return StationForecast(station.name, total, busy, waits, wait, latency, queued, kept, size, state)

    def query(self, name: str, stations: Mapping[str, StationForecast]) -> QueryForecast:
        root = self.network.queries[name]
        mine, _ = reached(self.network, name)
        latency = stations[root].latency + self._delivery(root) if root in stations else 0.0
        throughput = self.tuples.out[root] / max(1.0, self.round.utilization)
        return QueryForecast(
            name, latency, sum(stations[station].bytes for station in mine), throughput, _busiest(stations, mine)
        )

    def _delivery(self, root: str) -> float:
        """Return how long a result then waits for the end of the micro-batch."""
        if not self.network.batched or math.isinf(self.round.length):
            return 0.0
        visit, position = self.round.visits[root], self.positions[root]
        served = self.before[position] + visit.setup + (visit.busy + self.network.stations[position].service.mean) / 2
        return max(0.0, self.round.length - served)

    def _waits(self, station: Station) -> tuple[float, ...]:
        """Return the mean wait of the tuples of each feed: class (a) of streams, (b) of other stations, (c) of both."""
        if math.isinf(self.round.length):
            return tuple(math.inf for _ in station.feeds)
        ports = range(len(station.feeds))
        external = [port for port in ports if station.feeds[port].origin not in self.positions]
        internal = [port for port in ports if station.feeds[port].origin in self.positions]
        rate = sum(self.tuples.into[station.name][port] for port in external)
        waits = [self._external_wait(station, rate) if external else 0.0] * len(station.feeds)
        internal.sort(key=lambda port: self.positions[station.feeds[port].origin])
        batches = tuple(self._batch(station, port) for port in internal)
        # first come, first served: the tuples of streams came while others ran, before any batch
        first = rate * self.round.visits[station.name].cycle * station.service.mean
        for port, wait in zip(
            internal, batch_waits(batches, station.service.mean, station.setup.mean, before=first), strict=True
        ):
            # an exchanged tuple waits for the next round, whatever there was left to do in this one
            waits[port] = wait + (self.round.length if station.feeds[port].exchanged else 0.0)
        return tuple(waits)

    def _external_wait(self, station: Station, rate: float) -> float:
        visit = self.round.visits[station.name]
        # the service of internal tuples, if there are any, is part of the time away from these
        away = constant(max(0.0, visit.cycle - visit.setup - rate * visit.cycle * station.service.mean))
        discipline, limit = self.network.discipline, self.network.limit
        alone = vacation_queue(rate, station.service, station.setup, away, discipline, limit).wait
        # Rounds that cost nothing are infinitely short. What is left then is M/G/1: the wait for the work of all who
        # came before, on what remains of the processor.
        wait = max(alone, general(self.arrivals, self.work.faster(1 - self.network.outside)).wait)
        return wait + self.before[self.positions[station.name]] if self.network.batched else wait

    def _batch(self, station: Station, port: int) -> Batch:
        start, end = self.positions[station.feeds[port].origin], self.positions[station.name]
        child = self.network.stations[start]
        visit, own = self.round.visits[child.name], self.round.visits[station.name]
        between = self.before[end] - self.before[start + 1]  # (5.57) restricted
        taken = self.tuples.rate(child.name)
        selectivity = self.tuples.out[child.name] / taken if taken else 0.0
        return Batch(
            visit.served,
            selectivity,
            child.service.mean,
            visit.cycle,
            between,
            own.cycle / visit.cycle if visit.cycle else 1.0,
        )


def _mixed(parts: Sequence[tuple[float, Moments]]) -> Moments:
    """Return the service time of the tuples of all stations, given the rate and the service time at each."""
    total = sum(rate for rate, _ in parts)
    if not total:
        return constant(0.0)
    mean, square = (
        sum(rate * value for rate, value in moments) / total
        for moments in (
            [(rate, service.mean) for rate, service in parts],
            [(rate, service.square) for rate, service in parts],
        )
    )
    return Moments(mean, square)


def _busiest(stations: Mapping[str, StationForecast], among: Mapping[str, object] | frozenset[str]) -> str | None:
    return max(sorted(among), key=lambda name: stations[name].utilization, default=None)


def _weighted(values: tuple[float, ...], weights: tuple[float, ...]) -> float:
    total = sum(weights)
    if not total:
        return sum(values) / len(values)
    return sum(value * weight for value, weight in zip(values, weights, strict=True) if weight) / total
