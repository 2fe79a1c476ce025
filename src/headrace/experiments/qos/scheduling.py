"""Which scheduler gives the lowest latency, the least memory and the smoothest output under repeated overload?

16 queries run while rates go through phases of twice, once and a quarter of the standard load, a little higher every
time, and self-similar within a phase (QoS book, figures 6.8 to 6.13). Switching to another unit costs time, and a unit
runs only once enough tuples wait for it, as published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.analysis.forecast.network import Network
from headrace.engine.scheduling.schedulers import SCHEDULERS
from headrace.engine.scheduling.schedulers.fairness import Eligibility, Fairness
from headrace.engine.scheduling.schedulers.scheduler import Scheduler
from headrace.engine.scheduling.schedulers.threshold import Threshold
from headrace.experiments.experiment import Finding, Outcome, Panel, Scale, Series, Trial, Verdict
from headrace.experiments.judging import below, claim
from headrace.experiments.qos.self_similar import Times, phased
from headrace.experiments.qos.workload import workload
from headrace.experiments.sample import Sample
from headrace.model.time import SECOND
from headrace.testing.simulation.stations import Dispatch, Processor, Seen

PC, SS, MOS, CHAIN, SEGMENT, THRESHOLD = (
    "path-capacity",
    "simplified",
    "memory-optimal",
    "chain",
    "segment",
    "threshold",
)
STRATEGIES = (PC, SS, MOS, CHAIN, THRESHOLD, SEGMENT, "fifo", "round-robin", "path-capacity-output")
FACTORS = (2.0, 1.0, 0.25)
#: How much the standard load, 90 %, grows from one round of phases to the next.
GROWTH = 0.05
#: The memory limit of the threshold strategy, as a share of the memory that path capacity needs.
MEMORY = 0.8
#: A pass takes 10 tuples; a switch costs 0.1 ms; a unit is eligible with 5 tuples per operator (published: 100), or
#: after 0.5 s.
DISPATCH = Dispatch(10, switch=1e-4, fairness=Fairness(eligibility=Eligibility(5, SECOND // 2)))


@dataclass(frozen=True, slots=True)
class Size:
    """Rounds of three phases, and seconds of a phase, for each seed."""

    seeds: int
    rounds: int
    seconds: float


SIZES: Mapping[Scale, Size] = {"quick": Size(1, 1, 2), "normal": Size(3, 2, 4), "full": Size(4, 6, 60)}


@dataclass(frozen=True, slots=True)
class Measured:
    """A run: mean latency of results, mean time of tuples in the system (s), bytes, deviation of results per second."""

    latency: float
    wait: float
    peak: float
    mean: float
    roughness: float
    results: int
    choices: int
    by_second: Mapping[str, Times]


def run(trial: Trial) -> Outcome:
    """Run at the size of the trial's scale."""
    return report(SIZES[trial.scale], trial)


def report(size: Size, trial: Trial) -> Outcome:
    """Run every strategy on the same input, for each seed."""
    by_strategy: dict[str, list[Measured]] = {name: [] for name in STRATEGIES}
    parts = [(seed, name) for seed in trial.seeds(size.seeds) for name in STRATEGIES]
    for done, (seed, name) in enumerate(parts):
        trial.progress(f"{name}, seed {seed}", done, len(parts))
        network = workload(seed)
        room = MEMORY * by_strategy[PC][-1].peak if name == THRESHOLD else None
        by_strategy[name].append(
            measure(network, arrivals(network, size, seed), scheduler_of(name, room), DISPATCH, seed, size.seconds)
        )
    seconds = size.rounds * len(FACTORS) * size.seconds
    notes = (
        f"virtual time, {size.seeds} seed(s) with different queries: {seconds:g} s in phases of {size.seconds:g} s "
        "(published: 20 min; 24 h)",
        "the list of the 16 queries is not available; each seed draws other queries",
        f"a switch costs {1e6 * DISPATCH.switch:g} us; a pass takes {DISPATCH.page} tuples; "
        f"threshold has {MEMORY:.0%} of path capacity's memory",
        "roughness is the deviation of the results per second divided by their mean; latency is of results, "
        "time in the system of all tuples",
    )
    return Outcome(tuple(_findings(by_strategy)), _panels({name: runs[0] for name, runs in by_strategy.items()}), notes)


def arrivals(network: Network, size: Size, seed: int) -> dict[str, Times]:
    """Return the input, which is the same for every strategy."""
    chance = np.random.default_rng(seed)
    factors = [factor * (1 + GROWTH * number) for number in range(size.rounds) for factor in FACTORS]
    return {name: phased(factors, rate, size.seconds, chance) for name, rate in network.streams.items()}


def scheduler_of(name: str, memory: float | None = None) -> Scheduler:
    """Return a scheduler by name; the threshold strategy gets its memory limit."""
    return SCHEDULERS[name] if memory is None else Threshold(memory)


def measure(
    network: Network, streams: Mapping[str, Times], scheduler: Scheduler, dispatch: Dispatch, seed: int, phase: float
) -> Measured:
    """Run one strategy until all work is done."""
    record = Processor(network, streams, scheduler, dispatch, seed=seed).run()
    counts, latencies = per_second(record)
    # the first and the last phase of a round are alike for all: what counts is what overload does
    busy = counts[: max(1, round(len(counts) - phase))]
    return Measured(
        float(record.latencies().mean()),
        record.mean_wait,
        record.peak,
        float(np.mean(record.waiting)),
        float(busy.std() / busy.mean()) if busy.any() else 0.0,
        len(record.times),
        record.switches,
        {"latency": latencies, "results": counts, "bytes": np.array(record.waiting)},
    )


def per_second(record: Seen) -> tuple[Times, Times]:
    """Return the results of each second and their mean latency; NaN if there were none."""
    times = np.array(record.times).astype(int)
    counts = np.bincount(times).astype(float)
    sums = np.bincount(times, record.latencies())
    return counts, np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _findings(by_strategy: Mapping[str, Sequence[Measured]]) -> Iterator[Finding]:
    yield from _orders(
        by_strategy,
        "latency",
        ((PC, SS), (SS, CHAIN), (PC, MOS), (SS, MOS), (MOS, CHAIN), (PC, CHAIN), (PC, SEGMENT), (SEGMENT, CHAIN)),
    )
    yield _between(by_strategy, "latency")
    yield from _orders(
        by_strategy, "peak", ((MOS, CHAIN), (CHAIN, SEGMENT), (SEGMENT, SS), (CHAIN, SS), (SS, PC), (MOS, PC))
    )
    yield _between(by_strategy, "peak")
    yield from _orders(by_strategy, "roughness", ((PC, SS), (SS, CHAIN), (PC, MOS), (MOS, CHAIN), (PC, CHAIN)))
    yield from _orders(by_strategy, "choices", ((PC, MOS), (MOS, CHAIN)))
    totals = [[run.results for run in runs] for runs in by_strategy.values()]
    same = all(total == totals[0] for total in totals)
    yield Finding("results in all", float(sum(totals[0])), claim(same), "equal for all strategies")
    yield from _own(by_strategy)


def _orders(
    by_strategy: Mapping[str, Sequence[Measured]], measure: str, pairs: Sequence[tuple[str, str]]
) -> Iterator[Finding]:
    names = {"latency": "latency", "peak": "most memory", "roughness": "roughness", "choices": "switches"}
    for less, more in pairs:
        ratios = _ratios(by_strategy, measure, less, more)
        # an order of what is nearly the same says "no more than"
        yield Finding(
            f"{names[measure]}: {less} to {more}", ratios.mean, _judged(ratios, measure), f"{less} has less", None, "x"
        )


def _judged(ratios: Sample, measure: str) -> Verdict:
    return below(ratios, 1.005 if measure == "peak" else 1.0)


def _ratios(by_strategy: Mapping[str, Sequence[Measured]], measure: str, name: str, reference: str) -> Sample:
    return Sample(
        tuple(
            getattr(a, measure) / getattr(b, measure)
            for a, b in zip(by_strategy[name], by_strategy[reference], strict=True)
        )
    )


def _between(by_strategy: Mapping[str, Sequence[Measured]], measure: str) -> Finding:
    ratios = _ratios(by_strategy, measure, THRESHOLD, PC), _ratios(by_strategy, measure, THRESHOLD, MOS)
    holds = (
        ratios[0].mean >= 0.98 and ratios[1].mean <= 1.02
        if measure == "latency"
        else ratios[0].mean <= 1.02 and ratios[1].mean >= 0.98
    )
    what = "latency" if measure == "latency" else "most memory"
    said = f"{ratios[0].mean:.2f} x {PC}, {ratios[1].mean:.2f} x {MOS}"
    return Finding(f"{what}: {THRESHOLD}", said, claim(holds), f"between {PC} and {MOS}")


def _own(by_strategy: Mapping[str, Sequence[Measured]]) -> Iterator[Finding]:
    """Report findings that were not published, or were published about another setting."""
    for name in ("fifo", "round-robin"):
        ratios = _ratios(by_strategy, "wait", PC, name)
        yield Finding(
            f"time in the system of all tuples: {PC} to {name}",
            ratios.mean,
            below(ratios),
            f"{PC} has the least",
            None,
            "x",
        )
    ratios = _ratios(by_strategy, "wait", PC, MOS)
    yield Finding(
        f"time in the system of all tuples: {PC} to {MOS}", ratios.mean, below(ratios), f"{PC} has the least", None, "x"
    )
    ratios = _ratios(by_strategy, "latency", "path-capacity-output", PC)
    yield Finding("latency: path-capacity-output to path-capacity", ratios.mean, below(ratios), None, "less", "x")


def _panels(measured: Mapping[str, Measured]) -> tuple[Panel, ...]:
    shown = (PC, SS, MOS, CHAIN, THRESHOLD)
    kinds = (
        ("latency", "Latency", "s, mean of a second"),
        ("results", "Output", "results a second"),
        ("bytes", "Memory", "kB in queues"),
    )
    panels = []
    for key, title, unit in kinds:
        scale = 1000 if key == "bytes" else 1
        curves = tuple(
            Series(
                name,
                tuple(
                    (float(time), float(value) / scale)
                    for time, value in enumerate(measured[name].by_second[key])
                    if not np.isnan(value)
                ),
            )
            for name in shown
        )
        panels.append(Panel(title, "time, s", unit, curves))
    bars = tuple(
        Series(name, ((0.0, measured[name].latency), (1.0, measured[name].wait)), "bars") for name in STRATEGIES
    )
    panels.append(Panel("Mean latency", "of", "s", bars, ticks=("results", "all tuples")))
    return tuple(panels)
