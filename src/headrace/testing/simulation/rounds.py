"""A simulation of the rounds in which one processor serves a network of stations, to hold forecasts against."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.analysis.forecast.network import Feed, Network, Station
from headrace.analysis.queueing.moments import constant

Times: TypeAlias = npt.NDArray[np.float64]
_NONE: Times = np.empty(0)


def reference_plan(rate: float = 1000.0, elsewhere: float = 0.25) -> Network:
    """Return five stations of a known plan: O1 and O2 feed join O3; O3 and O4 feed join O5."""

    def station(name: str, served: float, setup: float, *feeds: Feed) -> Station:
        return Station(name, feeds, constant(1 / served), constant(setup))

    stations = (
        station("O1", 41684.7, 4.8044e-5, Feed("s1", 0.24288)),
        station("O2", 21861, 1.9599e-5, Feed("s2", 0.487534)),
        station("O3", 5285.81, 6.9477e-4, Feed("O1", 0.30703), Feed("O2", 0.300177)),
        station("O4", 28461.9, 1.1502e-5, Feed("s4", 0.36534)),
        station("O5", 5894.1, 7.4224e-4, Feed("O3", 0.308514), Feed("O4", 0.307712)),
    )
    return Network(dict.fromkeys(("s1", "s2", "s4"), rate), stations, {"q": "O5"}, elsewhere=elsewhere)


class SimulatedRounds:
    """The results of a simulation, without its first tenth: mean waits by station, latencies by query, mean round.

    Tuples come at random, or at the times of `arrivals` (seconds, by stream); then it ends when the last has come.
    """

    def __init__(self, network: Network, rounds: int, seed: int, arrivals: Mapping[str, Times] | None = None) -> None:
        self._rng = np.random.default_rng(seed)
        self._network, self._arrivals = network, arrivals
        self._waits: dict[str, list[Times]] = {station.name: [] for station in network.stations}
        self._latencies: dict[str, list[Times]] = {name: [] for name in network.queries}
        end = math.inf if arrivals is None else max(float(times[-1]) for times in arrivals.values())
        clock, opened = 0.0, {station.name: 0.0 for station in network.stations}
        warm, counted, began = 0.1 * (rounds if arrivals is None else end), 0, 0.0
        for number in range(rounds):
            if clock >= end:
                break
            counts = (number if arrivals is None else clock) >= warm
            if counts and not counted:
                began = clock
            counted += counts
            after = self._round(clock, opened, counts)
            clock = after if after > clock else self._next(clock)
        self.round = (clock - began) / max(1, counted)

    def wait(self, station: str) -> float:
        return float(np.concatenate(self._waits[station]).mean())

    def latency(self, query: str) -> float:
        return float(self.latencies(query).mean())

    def latencies(self, query: str) -> Times:
        """Return the latency of every result."""
        return np.concatenate(self._latencies[query])

    def _round(self, clock: float, opened: dict[str, float], counts: bool) -> float:
        """Serve every station once: tuples came to the system at `births`, into this queue at `readies`."""
        made: dict[str, tuple[Times, Times]] = {}
        start = clock
        exhaustive = self._network.discipline == "exhaustive" and not self._network.batched
        for station in self._network.stations:
            births, readies, shares = self._queue(station, made, opened, start if self._network.batched else clock)
            results: list[tuple[Times, Times]] = []
            clock += station.setup.mean if len(births) else 0.0
            while len(births):
                starts: Times = clock + np.arange(len(births), dtype=np.float64) * station.service.mean
                clock += len(births) * station.service.mean
                passed = self._rng.random(len(births)) < shares
                results.append((births[passed], (starts + station.service.mean)[passed]))
                if counts:
                    self._waits[station.name].append(starts - readies)
                if not exhaustive:
                    break
                births, readies, shares = self._queue(station, {}, opened, clock)  # what came meanwhile
            made[station.name] = _joined(results)
        clock += self._network.elsewhere
        for query, root in self._network.queries.items() if counts else ():
            births, ends = made[root]
            self._latencies[query].append((clock if self._network.batched else ends) - births)
        return clock

    def _next(self, clock: float) -> float:
        """Return when there is something to do again."""
        if self._arrivals is None:
            return clock + float(self._rng.exponential(1 / sum(self._network.streams.values())))
        later = (times[np.searchsorted(times, clock) :] for times in self._arrivals.values())
        return (
            min((float(times[0]) for times in later if len(times)), default=math.inf) + 1e-9
        )  # just behind, so that it is seen

    def _queue(
        self, station: Station, made: Mapping[str, tuple[Times, Times]], opened: dict[str, float], until: float
    ) -> tuple[Times, Times, Times]:
        """Return what waits for a station now, the oldest in the queue first."""
        born, ready, share = [], [], []
        for feed in station.feeds:
            if feed.origin in self._network.streams:
                births = readies = self._came(feed.origin, opened[station.name], until)
            else:
                births, readies = made.get(feed.origin, (_NONE, _NONE))
            if len(births):
                born.append(births)
                ready.append(readies)
                share.append(np.full(len(births), feed.selectivity))
        opened[station.name] = until
        if not born:
            return _NONE, _NONE, _NONE
        if len(born) == 1:
            return born[0], ready[0], share[0]
        births, readies, shares = np.concatenate(born), np.concatenate(ready), np.concatenate(share)
        order = np.argsort(readies, kind="stable")
        return births[order], readies[order], shares[order]

    def _came(self, stream: str, since: float, until: float) -> Times:
        if self._arrivals is not None:
            times = self._arrivals[stream]
            first, last = np.searchsorted(times, (since, until))
            return times[first:last]
        return np.sort(
            self._rng.uniform(since, until, self._rng.poisson(self._network.streams[stream] * (until - since)))
        )


def _joined(results: list[tuple[Times, Times]]) -> tuple[Times, Times]:
    if not results:
        return _NONE, _NONE
    if len(results) == 1:
        return results[0]
    return np.concatenate([births for births, _ in results]), np.concatenate([ends for _, ends in results])
