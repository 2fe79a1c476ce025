"""Do the schedulers compare on random plans as they do in an independent simulation of the same strategies?

Plans have 8 paths, each of 4 to 8 operators with a fast and selective leaf, at 90 % load with phases of twice, once and
a quarter of it. Every tuple is a scheduling choice, and a choice costs nothing (our own check of the QoS book's
claims).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from headrace.analysis.forecast.network import Feed, Network, Station
from headrace.analysis.queueing.moments import constant
from headrace.engine.scheduling.schedulers import SCHEDULERS
from headrace.engine.scheduling.schedulers.round_robin import RoundRobin
from headrace.engine.scheduling.schedulers.scheduler import Scheduler
from headrace.experiments.experiment import Finding, Outcome, Panel, Range, Scale, Series, Trial
from headrace.experiments.judging import claim, within
from headrace.experiments.qos.self_similar import phased
from headrace.experiments.qos.workload import at_load
from headrace.testing.simulation.stations import Dispatch, Processor, Seen

PC = "path-capacity"
STRATEGIES: Mapping[str, Scheduler] = {
    **{
        name: SCHEDULERS[name]
        for name in (
            PC,
            "fifo",
            "round-robin",
            "segment",
            "memory-optimal",
            "chain",
            "simplified",
            "path-capacity-output",
        )
    },
    "round robin of paths": RoundRobin(("path",)),
}
#: Latency of results and most memory, both to those of path capacity.
SIMULATOR: Mapping[str, tuple[Range, Range]] = {
    "fifo": (Range(0.82, 2.02), Range(1.28, 1.78)),
    "round-robin": (Range(0.92, 2.19), Range(1.36, 1.98)),
    "segment": (Range(1.13, 1.88), Range(0.31, 0.55)),
    "memory-optimal": (Range(0.97, 1.27), Range(0.30, 0.46)),
    "chain": (Range(0.97, 1.27), Range(0.30, 0.46)),
    "simplified": (Range(0.94, 1.18), Range(0.30, 0.48)),
    "path-capacity-output": (Range(0.48, 0.84), Range(1.04, 2.04)),
}
PATHS = 8
FACTORS = (2.0, 1.0, 0.25)


@dataclass(frozen=True, slots=True)
class Size:
    """Plans, and tuples per second on all paths together, for three phases of 30 s."""

    plans: int
    rate: float


SIZES: Mapping[Scale, Size] = {"quick": Size(2, 10), "normal": Size(8, 60), "full": Size(8, 400)}


def run(trial: Trial) -> Outcome:
    """Run at the size of the trial's scale."""
    return report(SIZES[trial.scale], trial)


def report(size: Size, trial: Trial) -> Outcome:
    """Run every strategy on every plan."""
    by_strategy: dict[str, list[Seen]] = {name: [] for name in STRATEGIES}
    parts = [(seed, name) for seed in trial.seeds(size.plans) for name in STRATEGIES]
    for done, (seed, name) in enumerate(parts):
        trial.progress(f"{name}, plan {seed}", done, len(parts))
        by_strategy[name].append(simulate(plan(seed, size.rate), STRATEGIES[name], seed))
    notes = (
        f"virtual time, {size.plans} plans of {PATHS} paths, 90 s each at {size.rate:g} tuples per second on average, "
        "a load of 90 %",
        "ratios are to path capacity, from smallest to largest; the simulator used eight other plans",
    )
    return Outcome(
        tuple(_findings(by_strategy)), (_panel(by_strategy, "latency"), _panel(by_strategy, "memory")), notes
    )


def plan(seed: int, rate: float) -> Network:
    """Draw paths with streams of their own."""
    chance = np.random.default_rng(seed)
    stations, queries = [], {}
    for path in range(PATHS):
        origin = f"s{path}"
        for place in range(int(chance.integers(4, 9))):
            leaf = place == 0
            service = chance.uniform(0.1, 0.4) if leaf else chance.uniform(0.3, 2.0)
            share = chance.uniform(0.1, 0.5) if leaf else chance.uniform(0.4, 1.0)
            stations.append(Station(f"p{path}.{place}", (Feed(origin, float(share)),), constant(float(service))))
            origin = stations[-1].name
        queries[f"p{path}"] = origin
    network = Network({f"s{path}": float(chance.uniform(0.5, 1.5)) for path in range(PATHS)}, tuple(stations), queries)
    network = at_load(network, 0.9)
    speed = rate / sum(network.streams.values())  # the same picture on a faster clock
    quick = tuple(Station(station.name, station.feeds, station.service.faster(speed)) for station in stations)
    return Network({name: stream_rate * speed for name, stream_rate in network.streams.items()}, quick, queries)


def simulate(network: Network, scheduler: Scheduler, seed: int) -> Seen:
    """Run a plan until all work is done."""
    chance = np.random.default_rng(seed)
    arrivals = {name: phased(FACTORS, rate, 30, chance, None) for name, rate in network.streams.items()}
    return Processor(network, arrivals, scheduler, Dispatch(), seed=seed).run()


def ratios(by_strategy: Mapping[str, list[Seen]], name: str, what: str) -> list[float]:
    """Return the ratios to path capacity, plan by plan."""
    return [
        _value(record, what) / _value(reference, what)
        for record, reference in zip(by_strategy[name], by_strategy[PC], strict=True)
    ]


def _value(record: Seen, what: str) -> float:
    match what:
        case "latency":
            return float(record.latencies().mean())
        case "memory":
            return record.peak
        case _:
            return record.mean_wait


def _findings(by_strategy: Mapping[str, list[Seen]]) -> Iterator[Finding]:
    plans = len(by_strategy[PC])
    for name in ("fifo", "round robin of paths"):
        wait_ratios = ratios(by_strategy, name, "wait")
        wins = sum(ratio > 1 for ratio in wait_ratios)
        what = f"time in the system of all tuples: {name}; {PC} is better in"
        yield Finding(what, f"{wins} of {plans}", claim(wins == plans), "least of all", "8 of 8")
    differences = [
        abs(record.peak / reference.peak - 1)
        for record, reference in zip(by_strategy["memory-optimal"], by_strategy["chain"], strict=True)
    ]
    yield Finding(
        "most memory: memory-optimal and chain differ by",
        100 * max(differences),
        claim(max(differences) < 0.02),
        None,
        "0.2 %",
        "%",
    )
    same = all(
        len(record.times) == len(reference.times)
        for runs in by_strategy.values()
        for record, reference in zip(runs, by_strategy[PC], strict=True)
    )
    yield Finding(
        "results", float(sum(len(record.times) for record in by_strategy[PC])), claim(same), "equal for all strategies"
    )
    for name, (latency, memory) in SIMULATOR.items():
        for what, published in (("latency", latency), ("memory", memory)):
            values = ratios(by_strategy, name, what)
            ours = Range(min(values), max(values))
            yield Finding(
                f"{'most ' if what == 'memory' else ''}{what}: {name}",
                ours,
                within(ours, published, 0.15),
                None,
                published,
                "x",
            )


def _panel(by_strategy: Mapping[str, list[Seen]], what: str) -> Panel:
    names = [name for name in STRATEGIES if name != PC]
    curves = tuple(
        Series(name, tuple((float(plan + 1), ratio) for plan, ratio in enumerate(ratios(by_strategy, name, what))))
        for name in names
    )
    title = "Latency of results" if what == "latency" else "Most memory"
    return Panel(title, "plan", f"to {PC}", (*curves, Series(PC, ((0, 1.0),), "level")), log_y=True)
