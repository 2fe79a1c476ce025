"""The model of what runs: streams with rates, and stations (operators) that one processor serves round by round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from headrace.analysis.queueing.join_queue import JoinQueue, join_service
from headrace.analysis.queueing.moments import Moments, constant
from headrace.analysis.queueing.vacations import Discipline

NOTHING = constant(0.0)


@dataclass(frozen=True, slots=True)
class Feed:
    """An input of a station: a stream or an earlier station."""

    origin: str
    selectivity: float = 1.0  # outputs of the station for each tuple of this input
    window: float = 0.0  # seconds for which the station keeps a tuple of this input
    exchanged: bool = False  # comes back only in the next round


@dataclass(frozen=True, slots=True)
class Station:
    """An operator with its queue.

    `emits` says what becomes of the selectivities if rates change: they stay (share), each follows the rate of the
    other side (pairs), or results come at the same times whatever the rate (timed). The service time of a join depends
    on them: `pairing` are the seconds for a tuple itself, and for each pair that it makes.
    """

    name: str
    feeds: tuple[Feed, ...]
    service: Moments
    setup: Moments = NOTHING
    emits: Literal["share", "pairs", "timed"] = "share"
    kept: float = 0.0  # tuples in its state whatever the rate
    size: float = 1.0  # bytes of a tuple in its queue
    kept_size: float | None = None  # bytes of a tuple in its state; None: as in its queue
    weight: float = 1.0  # turns in a round
    pairing: tuple[float, float] | None = None


def pairing_service(pairing: tuple[float, float], rates: Sequence[float], selectivities: Sequence[float]) -> Moments:
    """Return the service time of a join whose tuples, side by side, come at these rates and make so many pairs."""
    probe, pair = pairing
    services = [
        join_service(hash_call=probe / 2, evaluation=pair, output=0.0, other=partners, buckets=1.0)
        for partners in selectivities
    ]
    return JoinQueue((rates[0], rates[1]), (services[0], services[1])).service


@dataclass(frozen=True, slots=True)
class Network:
    """Stations in the order in which a round serves them, each after those that feed it."""

    streams: Mapping[str, float]  # tuples a second
    stations: tuple[Station, ...]
    queries: Mapping[str, str] = field(default_factory=dict)  # the station or stream that gives each query's results
    elsewhere: float = 0.0  # seconds of a round that no station uses
    outside: float = 0.0  # the share of the processor that is not ours
    discipline: Discipline = "gated"
    limit: int | None = None  # of the tuples that an operator serves in a round; None: all that it finds
    #: Micro-batches: what a round reads is fixed before it starts, and its results are delivered at its end.
    batched: bool = False

    def station(self, name: str) -> Station | None:
        return next((station for station in self.stations if station.name == name), None)


@dataclass(frozen=True, slots=True)
class Flow:
    """Tuples a second: into each station, feed by feed, and out of each stream and station."""

    into: Mapping[str, tuple[float, ...]]
    out: Mapping[str, float]

    def rate(self, name: str) -> float:
        """Return the rate at which tuples arrive at a station."""
        return sum(self.into[name])


def flow(network: Network) -> Flow:
    """Follow the tuples from the streams upward (step 2 of the algorithm)."""
    out = dict(network.streams)
    into: dict[str, tuple[float, ...]] = {}
    for station in network.stations:
        rates = tuple(out[feed.origin] for feed in station.feeds)
        into[station.name] = rates
        out[station.name] = sum(rate * feed.selectivity for rate, feed in zip(rates, station.feeds, strict=True))
    return Flow(into, out)


def reached(network: Network, query: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the stations and the streams from which a query's results come."""
    known = {station.name: station for station in network.stations}
    stations: set[str] = set()
    streams: set[str] = set()
    pending = [network.queries[query]]
    while pending:
        name = pending.pop()
        station = known.get(name)
        if station is None:
            streams.add(name)
        elif name not in stations:
            stations.add(name)
            pending += [feed.origin for feed in station.feeds]
    return frozenset(stations), frozenset(streams)


def faster(network: Network, speed: float) -> Network:
    """Return the network on a processor `speed` times as fast; what a round spends elsewhere stays as it is."""
    return replace(network, stations=tuple(_faster(station, speed) for station in network.stations))


def _faster(station: Station, speed: float) -> Station:
    pairing = None if station.pairing is None else (station.pairing[0] / speed, station.pairing[1] / speed)
    return replace(station, service=station.service.faster(speed), setup=station.setup.faster(speed), pairing=pairing)


def with_rates(network: Network, rates: Mapping[str, float]) -> Network:
    """Return the network with other rates of streams; what joins and windows give, and what joins cost, follows."""
    before = flow(network)
    out: dict[str, float] = {**network.streams, **rates}
    streams = dict(out)
    stations = []
    for station in network.stations:
        old, new = before.into[station.name], tuple(out[feed.origin] for feed in station.feeds)
        changed = replace(station, feeds=_adjusted(station, old, new))
        if changed.pairing is not None:
            partners = [feed.selectivity for feed in changed.feeds]
            changed = replace(changed, service=pairing_service(changed.pairing, new, partners))
        stations.append(changed)
        out[station.name] = sum(rate * feed.selectivity for rate, feed in zip(new, changed.feeds, strict=True))
    return replace(network, streams=streams, stations=tuple(stations))


def thinned(network: Network, streams: frozenset[str], share: float) -> Network:
    """Return the network as if this share of the tuples of these streams were shed."""
    return with_rates(network, {name: network.streams[name] * (1 - share) for name in streams})


def _adjusted(station: Station, old: tuple[float, ...], new: tuple[float, ...]) -> tuple[Feed, ...]:
    match station.emits:
        case "share":
            return station.feeds
        case "pairs":
            ratios = tuple(_ratio(now, was) for was, now in zip(old, new, strict=True))
            others = tuple(ratios[1 - port] for port in range(2)) if len(ratios) == 2 else ratios
            return tuple(
                replace(feed, selectivity=feed.selectivity * ratio)
                for feed, ratio in zip(station.feeds, others, strict=True)
            )
        case "timed":
            slower = _ratio(sum(old), sum(new))
            most = [max(1.0, feed.selectivity) for feed in station.feeds]  # no tuple, no result
            return tuple(
                replace(feed, selectivity=min(top, feed.selectivity * slower))
                for feed, top in zip(station.feeds, most, strict=True)
            )


def _ratio(numerator: float, denominator: float) -> float:
    if denominator > 0:
        return numerator / denominator
    return 1.0
