"""How does the latency of a plan grow with the load, for Poisson arrivals and for self-similar bursts?

16 queries run in gated rounds, plan after plan. The rates of all streams rise together, up to the capacity of the
processor (QoS book, figure 5.12).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from headrace.analysis.forecast.network import Network
from headrace.analysis.forecast.solver import forecast
from headrace.experiments.experiment import Finding, Outcome, Panel, Scale, Series, Trial
from headrace.experiments.judging import claim, near
from headrace.experiments.qos.self_similar import FLOWS, Flows, Times, poisson_times, self_similar_times
from headrace.experiments.qos.workload import TARGET, at_load, workload
from headrace.experiments.sample import Sample
from headrace.testing.simulation.rounds import SimulatedRounds

LOADS = (0.7, 0.8, 0.9, 0.95, 0.97, 0.99)
KINDS = ("Poisson", "self-similar")
#: From here on latency grows sharply.
KNEE = 0.95


@dataclass(frozen=True, slots=True)
class Size:
    """Seconds of virtual time for each seed, and the minimum number of rounds of the scheduler."""

    seeds: int
    seconds: float
    rounds: int
    loads: tuple[float, ...] = LOADS


SIZES: Mapping[Scale, Size] = {
    "quick": Size(1, 20, 50, (0.7, 0.9, 0.95, 0.99)),
    "normal": Size(3, 100, 200),
    "full": Size(6, 3600, 2000),
}


@dataclass(frozen=True, slots=True)
class Seen:
    """The latency of the plan's results at one load, in seconds: mean, largest, spread, for each seed."""

    mean: Sample
    largest: Sample
    spread: Sample


def run(trial: Trial) -> Outcome:
    """Run at the size of the trial's scale."""
    return report(SIZES[trial.scale], trial)


def report(size: Size, trial: Trial, flows: Flows = FLOWS) -> Outcome:
    """Measure both kinds of streams at every load."""
    network = workload(trial.seed)
    predicted = {load: forecast(at_load(network, load)).queries[TARGET].latency for load in size.loads}
    results: dict[str, dict[float, Seen]] = {kind: {} for kind in KINDS}
    points = [(kind, load) for kind in KINDS for load in size.loads]
    for done, (kind, load) in enumerate(points):
        trial.progress(f"{kind}, load {load:.0%}", done, len(points))
        results[kind][load] = measure(at_load(network, load), kind, size, trial, flows)
    notes = (
        f"virtual time, {size.seeds} seed(s) of {size.seconds:g} s, at least {size.rounds} rounds of the scheduler "
        "(published: hours)",
        f"self-similar: {flows.count} flows per stream, periods of at least {flows.least:g} s (not published); "
        "the mean rate is exact",
        "the simulator's column is the forecast of the model",
    )
    return Outcome((*_claims(results, predicted), *_figures(results, predicted)), _panels(results, predicted), notes)


def measure(network: Network, kind: str, size: Size, trial: Trial, flows: Flows = FLOWS) -> Seen:
    """Measure the plan's latency with one kind of streams."""
    seconds = max(size.seconds, size.rounds * forecast(network).round)
    latencies = []
    for seed in trial.seeds(size.seeds):
        arrivals = streams(network, kind, seconds, seed, flows)
        latencies.append(SimulatedRounds(network, 10**9, seed, arrivals).latencies(TARGET))
    return Seen(
        *(Sample(tuple(float(measured(values)) for values in latencies)) for measured in (np.mean, np.max, np.std))
    )


def streams(network: Network, kind: str, seconds: float, seed: int, flows: Flows = FLOWS) -> dict[str, Times]:
    """Return the arrival times of each stream."""
    chance = np.random.default_rng(seed)
    if kind == "Poisson":
        return {name: poisson_times(rate, seconds, chance) for name, rate in network.streams.items()}
    return {name: self_similar_times(rate, seconds, chance, flows) for name, rate in network.streams.items()}


def _claims(results: Mapping[str, Mapping[float, Seen]], predicted: Mapping[float, float]) -> Iterator[Finding]:
    poisson, similar = (results[kind] for kind in KINDS)
    means = {load: point.mean.mean for load, point in poisson.items()}
    first, last = min(means), max(means)
    before, after = ((means[end] - means[start]) / (end - start) for start, end in ((first, KNEE), (KNEE, last)))
    theory = (
        (predicted[last] - predicted[KNEE]) / (last - KNEE) / ((predicted[KNEE] - predicted[first]) / (KNEE - first))
    )
    yield Finding(
        "Poisson: growth beyond 95 % to that before",
        after / before,
        claim(after > 3 * before),
        "sharp beyond 95 %",
        theory,
        "x",
    )
    below = [load for load in means if load < KNEE]
    off = max(similar[load].mean.mean / means[load] for load in below)
    yield Finding(
        "below 95 %: mean, self-similar to Poisson, at most", off, claim(off < 1.15), "nearly equal", None, "x"
    )
    highest = max(below)
    ratios = {
        "largest": similar[highest].largest.mean / poisson[highest].largest.mean,
        "deviation": similar[highest].spread.mean / poisson[highest].spread.mean,
    }
    for what, ratio in ratios.items():
        yield Finding(
            f"at {100 * highest:.0f} %: {what}, self-similar to Poisson",
            ratio,
            claim(ratio > 1.5),
            "much higher",
            None,
            "x",
        )
    beyond = similar[last].mean.mean / predicted[last]
    yield Finding(
        f"at {100 * last:.0f} %: self-similar mean to the model",
        beyond,
        claim(beyond > 1),
        "the model is optimistic",
        None,
        "x",
    )


def _figures(results: Mapping[str, Mapping[float, Seen]], predicted: Mapping[float, float]) -> Iterator[Finding]:
    for load, point in results["Poisson"].items():
        what = f"Poisson, load {100 * load:.0f} %: mean latency, to the model's"
        yield Finding(what, point.mean.mean, near(point.mean, predicted[load], 0.05), None, predicted[load], "s")


def _panels(results: Mapping[str, Mapping[float, Seen]], predicted: Mapping[float, float]) -> tuple[Panel, Panel]:
    means = [
        Series(kind, tuple((100 * load, 1000 * point.mean.mean) for load, point in loads.items()))
        for kind, loads in results.items()
    ]
    means.append(Series("model", tuple((100 * load, 1000 * value) for load, value in predicted.items()), "dashed"))
    spread = []
    for kind, loads in results.items():
        spread.append(
            Series(f"{kind}, largest", tuple((100 * load, 1000 * point.largest.mean) for load, point in loads.items()))
        )
        deviation = tuple((100 * load, 1000 * point.spread.mean) for load, point in loads.items())
        spread.append(Series(f"{kind}, deviation", deviation, "dashed", f"{kind}, largest"))
    return (
        Panel("Mean latency of the plan", "load, %", "ms", tuple(means), log_y=True),
        Panel("Its largest value and deviation", "load, %", "ms", tuple(spread), log_y=True),
    )
