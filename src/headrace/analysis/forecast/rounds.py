"""The round of a scheduler: how often and how long each station has the processor, and how long it is on vacation.

Push-up serves every station once a round, children first; weighted round robin serves some more often. Both are solved
in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.analysis.forecast.network import Flow, Network, Station
from headrace.analysis.queueing.moments import constant
from headrace.analysis.queueing.vacations import vacation_queue


@dataclass(frozen=True, slots=True)
class Visit:
    """Means of a turn of a station: tuples, busy seconds, seconds to the next turn (cycle) and between (vacation)."""

    served: float
    busy: float
    setup: float
    cycle: float
    empty: float  # the share of turns that find nothing

    @property
    def vacation(self) -> float:
        return max(0.0, self.cycle - self.setup - self.busy)

    @property
    def turn(self) -> float:
        return self.setup + self.busy


@dataclass(frozen=True, slots=True)
class Round:
    """A whole round; of infinite length where the load is too high."""

    length: float
    utilization: float
    visits: Mapping[str, Visit]


def solve_round(network: Network, flow: Flow) -> Round:
    """Return the round in which all that comes is served (step 4): equations (5.57), (5.58) in closed form."""
    work = sum(flow.rate(station.name) * station.service.mean for station in network.stations)
    utilization = work / (1 - network.outside)
    if utilization >= 1:
        return Round(math.inf, utilization, {})
    empty = {station.name: 0.0 for station in network.stations}
    length = math.inf
    for _ in range(1000):
        setups = sum(station.weight * (1 - empty[station.name]) * station.setup.mean for station in network.stations)
        new = (network.elsewhere + setups / (1 - network.outside)) / (1 - utilization)
        visits = {
            station.name: _visit(station, flow.rate(station.name), new, empty[station.name])
            for station in network.stations
        }
        empty = {station.name: _empty(network, station, flow, visits[station.name]) for station in network.stations}
        if abs(new - length) <= 1e-9 * new:
            break
        length = new
    return Round(new, utilization, visits)


def _visit(station: Station, rate: float, length: float, empty: float) -> Visit:
    cycle = length / station.weight
    served = rate * cycle
    return Visit(served, served * station.service.mean, (1 - empty) * station.setup.mean, cycle, empty)


def _empty(network: Network, station: Station, flow: Flow, visit: Visit) -> float:
    """Return how often a turn finds an empty queue; counts of internal tuples are taken as Poisson."""
    if all(feed.origin in network.streams for feed in station.feeds):
        vacation = constant(visit.vacation)
        return vacation_queue(
            flow.rate(station.name), station.service, station.setup, vacation, network.discipline, network.limit
        ).empty
    return math.exp(-visit.served)
