"""A query of eight operators over three streams, two of them joins, observed by a control loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.analysis.forecast.network import Feed, Network, Station
from headrace.analysis.queueing.moments import constant
from headrace.control.observation import QueryObservation
from headrace.engine.scheduling.schedulers import SCHEDULERS
from headrace.engine.scheduling.schedulers.fairness import Eligibility, Fairness
from headrace.experiments.qos.self_similar import Times, poisson_times
from headrace.experiments.qos.workload import at_load
from headrace.model.time import SECOND
from headrace.testing.simulation.stations import Dispatch, Processor, Seen

QUERY = "q"
#: Bytes of a tuple.
SIZE = 100.0
#: A pass takes 50 tuples; a switch costs 20 us; a unit is eligible with 10 tuples per operator, or after 20 ms.
DISPATCH = Dispatch(50, switch=2e-5, fairness=Fairness(eligibility=Eligibility(10, SECOND // 50)))


def network(rates: tuple[float, float, float], load: float) -> Network:
    """Return a query: two selects and a join, a third select and another join, and three more operators.

    The rates need this share of the processor.
    """

    def station(name: str, cost: float, *feeds: Feed, size: float = SIZE) -> Station:
        return Station(name, feeds, constant(cost), size=size)

    stations = (
        station("A", 1.0, Feed("s1", 0.5)),
        station("B", 1.0, Feed("s2", 0.4)),
        station("C", 4.0, Feed("A", 0.5), Feed("B", 0.6)),
        station("D", 1.0, Feed("s3", 0.3)),
        station("E", 5.0, Feed("C", 0.7), Feed("D", 0.8)),
        station("F", 1.5, Feed("E", 1.0)),
        station("G", 1.0, Feed("F", 0.9), size=0.6 * SIZE),
        station("H", 1.0, Feed("G", 1.0), size=0.6 * SIZE),
    )
    streams = dict(zip(("s1", "s2", "s3"), rates, strict=True))
    unscaled = Network(streams, stations, {QUERY: "H"})
    factor = sum(at_load(unscaled, load).streams.values()) / sum(rates)
    scaled = tuple(
        Station(
            unscaled_station.name,
            unscaled_station.feeds,
            unscaled_station.service.faster(1 / factor),
            size=unscaled_station.size,
        )
        for unscaled_station in stations
    )
    return Network(streams, scaled, {QUERY: "H"})


def feed(plan: Network, factors: Sequence[float], seconds: float, seed: int) -> dict[str, Times]:
    """Return Poisson streams with pauses and increases: a factor of the rates for each step of so many seconds."""
    chance = np.random.default_rng(seed)
    steps: dict[str, list[Times]] = {name: [] for name in plan.streams}
    for number, factor in enumerate(factors):
        for name, rate in plan.streams.items():
            steps[name].append(number * seconds + poisson_times(rate * factor, seconds, chance))
    return {name: np.concatenate(times) for name, times in steps.items()}


@dataclass(slots=True)
class Watched:
    """A run and its observations: at each one the time, the observation, and the active strategy."""

    seen: Seen
    looks: list[tuple[float, QueryObservation]] = field(default_factory=list)
    strategies: list[tuple[float, str]] = field(default_factory=list)

    def latency(self, since: float = 0.0) -> float:
        """Return the mean latency of results since a time, in seconds."""
        times = np.array(self.seen.times)
        return float(self.seen.latencies()[times >= since].mean())

    def memory(self, since: float = 0.0, until: float = np.inf) -> float:
        """Return the mean of the waiting bytes."""
        return float(np.mean([held for second, held in enumerate(self.seen.waiting) if since <= second < until]))


#: Told what is observed and when, says what to do with the processor.
Control = Callable[[Processor, float, QueryObservation], str | None]


def watch(
    plan: Network, arrivals: Mapping[str, Times], strategy: str, control: Control | None, *, every: float, seed: int
) -> Watched:
    """Run to the end and call `control` at intervals; it returns the next strategy if it wants another."""
    processor = Processor(plan, arrivals, SCHEDULERS[strategy], DISPATCH, seed=seed)
    watched = Watched(processor.seen, strategies=[(0.0, strategy)])
    end, moment, known = max(float(times[-1]) for times in arrivals.values()), every, 0
    while moment < end:
        processor.run(moment)
        late = [
            time - born for time, born in zip(processor.seen.times[known:], processor.seen.born[known:], strict=True)
        ]
        known = len(processor.seen.times)
        observed = QueryObservation(
            QUERY, float(np.mean(late)) if late else None, processor.waiting(), len(late) / every
        )
        watched.looks.append((moment, observed))
        chosen = None if control is None else control(processor, moment, observed)
        if chosen is not None:
            processor.use(SCHEDULERS[chosen])
            watched.strategies.append((moment, chosen))
        moment += every
    processor.run()
    return watched
