"""Mean latency and memory of everything that runs, from rates, service times and selectivities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.analysis.batches import Batch, batch_waits
from headrace.analysis.moments import constant
from headrace.analysis.network import Flow, Network, Station, flow, reached
from headrace.analysis.rounds import Round, solve_round
from headrace.analysis.vacations import vacation_queue


@dataclass(frozen=True, slots=True)
class StationForecast:
    """One station in steady state; times in seconds, `latency` from the arrival of a tuple until the station has served it."""

    name: str
    rate: float
    utilisation: float
    waits: tuple[float, ...]  # in the queue, feed by feed
    wait: float
    latency: float
    queued: float  # tuples that wait
    kept: float  # tuples in its state
    bytes: float  # of both


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

    utilisation: float
    round: float
    stations: Mapping[str, StationForecast]
    queries: Mapping[str, QueryForecast]

    @property
    def stable(self) -> bool:
        return self.utilisation < 1

    @property
    def excess(self) -> float:
        """The share of the processor that is missing."""
        return max(0.0, self.utilisation - 1)

    @property
    def bottleneck(self) -> str | None:
        return _busiest(self.stations, self.stations)


def forecast(network: Network) -> Forecast:
    """Solve a network (steps 2 to 9 of the algorithm)."""
    tuples = flow(network)
    whole = solve_round(network, tuples)
    stations: dict[str, StationForecast] = {}
    for position, station in enumerate(network.stations):
        waits = _waits(network, position, tuples, whole)
        stations[station.name] = _station(network, station, tuples, waits, stations)
    queries = {name: _query(network, name, tuples, whole, stations) for name in network.queries}
    return Forecast(whole.utilisation, whole.length, stations, queries)


def _station(network: Network, station: Station, tuples: Flow, waits: tuple[float, ...], before: Mapping[str, StationForecast]) -> StationForecast:
    rates = tuples.into[station.name]
    total = sum(rates)
    made = [rate * feed.selectivity for rate, feed in zip(rates, station.feeds, strict=True)]
    wait = _weighted(waits, rates)
    earlier = [0.0 if feed.origin in network.streams else before[feed.origin].latency for feed in station.feeds]
    own = [above + wait_ + station.service.mean for above, wait_ in zip(earlier, waits, strict=True)]
    # Paths that meet here weigh by what they put out, (5.2); this needs no list of all paths, which may be long.
    latency = _weighted(tuple(own), tuple(made) if sum(made) > 0 else rates)
    queued = total * wait if total else 0.0  # Little; (5.55)
    kept = station.kept + sum(rate * feed.window for rate, feed in zip(rates, station.feeds, strict=True))  # Const of (5.1)
    return StationForecast(station.name, total, total * station.service.mean, waits, wait, latency, queued, kept, (queued + kept) * station.size)


def _waits(network: Network, position: int, tuples: Flow, whole: Round) -> tuple[float, ...]:
    """Mean wait in the queue of the tuples of each feed: class (a) of streams, (b) of other stations, (c) of both."""
    station = network.stations[position]
    if math.isinf(whole.length):
        return tuple(math.inf for _ in station.feeds)
    external = [index for index, feed in enumerate(station.feeds) if feed.origin in network.streams]
    internal = [index for index, feed in enumerate(station.feeds) if feed.origin not in network.streams]
    waits = [0.0] * len(station.feeds)
    if external:
        wait = _external_wait(network, station, tuples, whole, external)
        for index in external:
            waits[index] = wait
    if internal:
        order = sorted(internal, key=lambda index: _position(network, station.feeds[index].origin))
        batches = tuple(_batch(network, position, index, tuples, whole) for index in order)
        # first come, first served: the tuples of streams came while others ran, before any batch
        first = sum(tuples.into[station.name][index] for index in external) * whole.visits[station.name].cycle * station.service.mean
        for index, wait in zip(order, batch_waits(batches, station.service.mean, station.setup.mean, before=first), strict=True):
            # an exchanged tuple waits for the next round, whatever there was left to do in this one
            waits[index] = wait + (whole.length if station.feeds[index].exchanged else 0.0)
    return tuple(waits)


def _external_wait(network: Network, station: Station, tuples: Flow, whole: Round, external: list[int]) -> float:
    rates = tuples.into[station.name]
    rate = sum(rates[index] for index in external)
    visit = whole.visits[station.name]
    # the service of internal tuples, if there are any, is part of the time away from these
    away = constant(max(0.0, visit.cycle - visit.setup - rate * visit.cycle * station.service.mean))
    alone = vacation_queue(rate, station.service, station.setup, away, network.discipline).wait
    # Rounds that cost nothing are infinitely short. What is left then is the wait for the work of all who came before.
    work = sum(tuples.rate(each.name) * each.service.square for each in network.stations)
    return max(alone, work / (2 * (1 - whole.utilisation)))


def _batch(network: Network, position: int, index: int, tuples: Flow, whole: Round) -> Batch:
    station = network.stations[position]
    feed = station.feeds[index]
    start = _position(network, feed.origin)
    child = network.stations[start]
    visit, own = whole.visits[child.name], whole.visits[station.name]
    between = sum(whole.visits[each.name].turn for each in network.stations[start + 1 : position])  # (5.57) restricted
    taken = tuples.rate(child.name)
    selectivity = tuples.out[child.name] / taken if taken else 0.0
    return Batch(visit.served, selectivity, child.service.mean, visit.cycle, between, own.cycle / visit.cycle if visit.cycle else 1.0)


def _query(network: Network, name: str, tuples: Flow, whole: Round, stations: Mapping[str, StationForecast]) -> QueryForecast:
    root = network.queries[name]
    mine, _ = reached(network, name)
    latency = stations[root].latency if root in stations else 0.0
    throughput = tuples.out[root] / max(1.0, whole.utilisation)
    return QueryForecast(name, latency, sum(stations[each].bytes for each in mine), throughput, _busiest(stations, mine))


def _busiest(stations: Mapping[str, StationForecast], among: Mapping[str, object] | frozenset[str]) -> str | None:
    return max(sorted(among), key=lambda name: stations[name].utilisation, default=None)


def _position(network: Network, name: str) -> int:
    return next(index for index, station in enumerate(network.stations) if station.name == name)


def _weighted(values: tuple[float, ...], weights: tuple[float, ...]) -> float:
    total = sum(weights)
    if not total:
        return sum(values) / len(values)
    return sum(value * weight for value, weight in zip(values, weights, strict=True) if weight) / total
