"""A simulation of the rounds in which one processor serves a network of stations, to hold forecasts against."""

from __future__ import annotations

import numpy as np

from headrace.analysis.moments import constant
from headrace.analysis.network import Feed, Network, Station


def reference_plan(rate: float = 1000.0, elsewhere: float = 0.25) -> Network:
    """Five stations of a known plan: O1 and O2 feed join O3; O3 and O4 feed join O5."""

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
    """What came out of it: mean wait by station, mean latency of results by query, mean length of a round."""

    def __init__(self, network: Network, rounds: int, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._network = network
        self._waits: dict[str, list[np.ndarray]] = {station.name: [] for station in network.stations}
        self._latencies: dict[str, list[np.ndarray]] = {name: [] for name in network.queries}
        clock, opened = 0.0, {station.name: 0.0 for station in network.stations}
        warm = rounds // 10
        for number in range(rounds):
            if number == warm:
                began = clock
            clock = self._round(clock, opened, number >= warm)
        self.round = (clock - began) / (rounds - warm)

    def wait(self, station: str) -> float:
        return float(np.concatenate(self._waits[station]).mean())

    def latency(self, query: str) -> float:
        return float(np.concatenate(self._latencies[query]).mean())

    def _round(self, clock: float, opened: dict[str, float], counts: bool) -> float:
        """Serve every station once, gated: first came to the system at `born`, into this queue at `ready`."""
        made: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        start, results = clock, {}
        for station in self._network.stations:
            born, ready, share = [], [], []
            for feed in station.feeds:
                if feed.origin in self._network.streams:
                    rate, since = self._network.streams[feed.origin], opened[station.name]
                    until = start if self._network.batched else clock
                    came = np.sort(self._rng.uniform(since, until, self._rng.poisson(rate * (until - since))))
                    born.append(came)
                    ready.append(came)
                else:
                    born.append(made[feed.origin][0])
                    ready.append(made[feed.origin][1])
                share.append(np.full(len(born[-1]), feed.selectivity))
            opened[station.name] = start if self._network.batched else clock
            births, readies, shares = np.concatenate(born), np.concatenate(ready), np.concatenate(share)
            order = np.argsort(readies, kind="stable")
            births, readies, shares = births[order], readies[order], shares[order]
            setup = station.setup.mean if len(births) else 0.0
            starts = clock + setup + np.arange(len(births)) * station.service.mean
            clock += setup + len(births) * station.service.mean
            passed = self._rng.random(len(births)) < shares
            made[station.name] = births[passed], (starts + station.service.mean)[passed]
            if counts:
                self._waits[station.name].append(starts - readies)
                results[station.name] = births[passed], (starts + station.service.mean)[passed]
        clock += self._network.elsewhere
        for query, root in self._network.queries.items() if counts else ():
            births, ends = results[root]
            self._latencies[query].append((clock if self._network.batched else ends) - births)
        return clock
