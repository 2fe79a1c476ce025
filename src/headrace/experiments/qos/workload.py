"""The workload of the published runs, as far as it is known: 16 queries with 116 operators over 5 streams.

The list of the queries is not available. The first one here is the one plan that was published. The others are drawn
from a seed, with service and setup times like those of that plan, and scaled to two published numbers: the capacity is
485 tuples per second, and at 90 % of that a tuple waits 0.1469 s at the first operator of the published plan, which
fixes the length of a round of the scheduler.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headrace.analysis.forecast.network import Feed, Network, Station, flow
from headrace.analysis.queueing.moments import constant
from headrace.testing.simulation.rounds import reference_plan

STREAMS = ("s1", "s2", "s3", "s4", "s5")
QUERIES, OPERATORS = 16, 116
#: The capacity: tuples per second of all streams together.
CAPACITY = 485.0
#: Seconds of setup in a round in which every operator is served; they give the published wait at the first operator.
SETUPS = 0.0314
#: The published plan.
TARGET = "q1"
TARGET_STATIONS = ("O1", "O2", "O3", "O4", "O5")
#: Bytes of a tuple: seven integers.
SIZE = 28.0
#: Operators before a join on each of its sides, and behind the last join; one side is a query without a join.
_SHAPES = (*(((6,), 0),) * 5, *(((3, 3), 1),) * 6, *(((2, 2, 2), 0),) * 3, ((2, 2, 2), 1))
_KINDS = {
    "select": ((20e3, 45e3), (1e-5, 5e-5)),
    "project": ((30e3, 60e3), (1e-5, 3e-5)),
    "join": ((4.5e3, 7e3), (6e-4, 8e-4)),
}


def workload(seed: int = 1, *, load: float = 0.9, others: int = QUERIES - 1) -> Network:
    """Return all queries at a share of the capacity; without some `others`, their part of the machine is missing."""
    drawing = _Drawing(np.random.default_rng(seed))
    target = _target()
    stations = [*target.stations]
    queries = {TARGET: "O5"}
    for number, (sides, behind) in enumerate(_SHAPES[:others], 2):
        drawn = drawing.query(f"q{number}", sides, behind)
        stations += drawn
        queries[f"q{number}"] = drawn[-1].name
    rates = dict.fromkeys(STREAMS, CAPACITY / len(STREAMS))
    network = Network(rates, tuple(stations), queries)
    return at_load(_calibrated(network), load)


def at_load(network: Network, load: float) -> Network:
    """Return the network with rates that need this share of the processor."""
    factor = load / utilization(network)
    return replace(network, streams={name: rate * factor for name, rate in network.streams.items()})


def utilization(network: Network) -> float:
    """Return the share of the processor that service takes, without setups."""
    tuples = flow(network)
    return sum(tuples.rate(station.name) * station.service.mean for station in network.stations)


def stations_of(network: Network, query: str) -> list[Station]:
    """Return the stations of a query in the order of the network; queries share none."""
    mine: set[str] = set()
    pending = [network.queries[query]]
    while pending:
        station = network.station(pending.pop())
        if station is not None:
            mine.add(station.name)
            pending += [feed.origin for feed in station.feeds]
    return [station for station in network.stations if station.name in mine]


def _target() -> Network:
    """Return the published plan, on the first three streams."""
    plan, names = reference_plan(), {"s4": "s3"}
    stations = tuple(
        replace(
            station,
            feeds=tuple(replace(feed, origin=names.get(feed.origin, feed.origin)) for feed in station.feeds),
            size=SIZE,
        )
        for station in plan.stations
    )
    return replace(plan, stations=stations)


def _calibrated(network: Network) -> Network:
    """Scale service and setups of all but the published plan so that capacity and round match the published ones."""
    target = stations_of(network, TARGET)
    own, setup = utilization(replace(network, stations=tuple(target))), sum(station.setup.mean for station in target)
    service = (utilization(network) - own) / (1 - own)
    setups = (sum(station.setup.mean for station in network.stations) - setup) / (SETUPS - setup)
    return replace(
        network,
        stations=tuple(
            station
            if station in target
            else replace(station, service=station.service.faster(service), setup=station.setup.faster(setups))
            for station in network.stations
        ),
    )


class _Drawing:
    def __init__(self, chance: np.random.Generator) -> None:
        self._chance = chance

    def query(self, name: str, sides: tuple[int, ...], behind: int) -> list[Station]:
        """Draw chains of selects and projects on different streams, join them one by one, and add more operators."""
        streams = [STREAMS[place] for place in self._chance.permutation(len(STREAMS))[: len(sides)]]
        stations: list[Station] = []
        top: Station | None = None
        for side, (length, stream) in enumerate(zip(sides, streams, strict=True)):
            chain = self._chain(f"{name}.{side}", length, stream, SIZE)
            stations += chain
            if top is None:
                top = chain[-1]
                continue
            shares = self._chance.uniform(0.05, 0.95, 2)
            feeds = tuple(Feed(below.name, float(share)) for below, share in zip((top, chain[-1]), shares, strict=True))
            top = self._station(f"{name}.join{side}", "join", feeds, SIZE)
            stations.append(top)
        assert top is not None
        return stations + self._chain(f"{name}.top", behind, top.name, SIZE) if behind else stations

    def _chain(self, name: str, length: int, origin: str, size: float) -> list[Station]:
        """Draw selects, the most selective first, with a project among them that drops some columns."""
        project = int(self._chance.integers(1, length)) if length > 2 else -1
        selects = length - (project >= 0)
        # spread over 0 to 1, whatever is drawn: one from each of equal parts
        shares = iter((np.arange(selects) + self._chance.random(selects)) / selects)
        stations = []
        for place in range(length):
            kind = "project" if place == project else "select"
            share = 1.0 if kind == "project" else float(next(shares))
            stations.append(self._station(f"{name}.{place}", kind, (Feed(origin, share),), size))
            size = size * 4 / 7 if kind == "project" else size
            origin = stations[-1].name
        return stations

    def _station(self, name: str, kind: str, feeds: tuple[Feed, ...], size: float) -> Station:
        served, setup = _KINDS[kind]
        return Station(
            name, feeds, constant(1 / self._chance.uniform(*served)), constant(self._chance.uniform(*setup)), size=size
        )
