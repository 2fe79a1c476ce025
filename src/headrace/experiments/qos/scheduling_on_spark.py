"""Which scheduler gives the lowest latency, the least memory and the smoothest output on Spark, under repeated bursts?

The claims of the simulation (QoS book, figures 6.8 to 6.13) in a running deployment. A bucket has a budget for each
micro-batch that is too small for bursts, so tuples wait, and the scheduler chooses which. A step of the schedule is a
micro-batch: latency is counted in micro-batches after the one that read the tuples.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headrace.engine.scheduling.schedulers import NONE
from headrace.experiments.experiment import Finding, Outcome, Panel, Scale, Series, Trial, Verdict
from headrace.experiments.judging import claim
from headrace.experiments.qos.budgeted_runs import BUCKETS, WARM, Run, budget_of, run
from headrace.experiments.qos.scheduling import CHAIN, MEMORY, MOS, PC, SEGMENT, SS, THRESHOLD
from headrace.experiments.qos.sliced_bursts import Bursts

STRATEGIES = (PC, SS, MOS, CHAIN, SEGMENT, THRESHOLD)
#: Pairs of which the first has less, by measure: published orders.
ORDERS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "latency": ((PC, SS), (SS, MOS), (MOS, CHAIN), (PC, CHAIN), (PC, SEGMENT), (SEGMENT, CHAIN)),
    "mean_bytes": ((MOS, CHAIN), (CHAIN, SEGMENT), (SEGMENT, SS), (SS, PC), (MOS, PC)),
    "roughness": ((PC, SS), (SS, CHAIN), (PC, MOS), (MOS, CHAIN), (PC, CHAIN)),
}
NAMES = {"latency": "latency", "mean_bytes": "memory", "roughness": "roughness"}
#: Two that differ by less than this share are the same: costs are measured, and bytes come in pages.
SAME = 0.02


@dataclass(frozen=True, slots=True)
class Size:
    """How often everything is repeated with other tuples, and slices of bursts."""

    seeds: int
    slices: int


SIZES: Mapping[Scale, Size] = {"quick": Size(1, 9), "normal": Size(1, 24), "full": Size(3, 48)}
#: All strategies over the same tuples.
Trials = Mapping[str, Run]


def run_on_spark(trial: Trial) -> Outcome:
    """Start Spark; run every strategy over the same bursts, with the budget and the costs of a run without a budget."""
    size = SIZES[trial.scale]
    parts, done = size.seeds * (1 + len(STRATEGIES)), 0
    trials: list[tuple[Run, Trials, str]] = []
    for seed in trial.seeds(size.seeds):
        bursts = Bursts.of(WARM, size.slices, seed=seed)
        trial.progress(f"no budget, seed {seed}", done, parts)
        free, runs = run(NONE, "off", bursts, "spark"), dict[str, Run]()
        budget = budget_of(free, bursts)
        for name in STRATEGIES:
            done += 1
            trial.progress(f"{name}, seed {seed}", done, parts)
            chosen = f"{name} {_room(runs[PC])} B" if name == THRESHOLD else name
            runs[name] = run(chosen, budget, bursts, "spark", free.costs)
        trials.append((free, runs, budget))
        done += 1
    return report(trials, size.slices)


def report(trials: Sequence[tuple[Run, Trials, str]], slices: int) -> Outcome:
    """Judge the published orders."""
    every = [runs for _, runs, _ in trials]
    notes = (
        f"{len(trials)} run(s) of each strategy, bursts in {slices} slices, one a micro-batch; {BUCKETS} buckets with "
        f"a budget of {', '.join(budget for _, _, budget in trials)} for a micro-batch",
        f"latency is in micro-batches of {every[0][PC].batch_seconds:.2f} s (path capacity); all strategies are "
        "charged by the same costs, so the speed of the machine decides nothing",
        f"threshold has {MEMORY:.0%} of path capacity's memory; four queries of joins, not the book's 16",
        "how often a scheduler switches is not observed in a deployment",
    )
    return Outcome(tuple(_findings(trials)), _panels(every[0]), notes)


def _findings(trials: Sequence[tuple[Run, Trials, str]]) -> Iterator[Finding]:
    every = [runs for _, runs, _ in trials]
    waits = all(run_.mean_bytes > 0 for runs in every for run_ in runs.values())
    for measure, pairs in ORDERS.items():
        for less, more in pairs:
            ratios = [_ratio(getattr(runs[less], measure), getattr(runs[more], measure)) for runs in every]
            yield Finding(
                f"{NAMES[measure]}: {less} to {more}",
                statistics.fmean(ratios),
                _judged(ratios) if waits else "not comparable",
                f"{less} has less",
                None,
                "x",
            )
    for measure in ("latency", "mean_bytes"):
        yield _between(every, measure, waits=waits)
    same = all(run_.results == free.results for free, runs, _ in trials for run_ in runs.values())
    results = sum(sum(counts.values()) for counts in trials[0][0].results.values())
    yield Finding("results in all", float(results), claim(same), "equal for all strategies")


def _judged(ratios: Sequence[float]) -> Verdict:
    """Judge an order: confirmed if it is clear each time, consistent if there is no difference on average."""
    if all(ratio < 1 - SAME for ratio in ratios):
        return "confirmed"
    return "consistent" if statistics.fmean(ratios) <= 1 + SAME else "not confirmed"


def _between(every: Sequence[Trials], measure: str, *, waits: bool) -> Finding:
    """Judge whether the threshold strategy is between the two that it is made of."""
    low, high = (PC, MOS) if measure == "latency" else (MOS, PC)
    ratios = {
        name: statistics.fmean(
            _ratio(getattr(runs[THRESHOLD], measure), getattr(runs[name], measure)) for runs in every
        )
        for name in (low, high)
    }
    holds = ratios[low] >= 1 - SAME and ratios[high] <= 1 + SAME
    said = f"{ratios[PC]:.2f} x {PC}, {ratios[MOS]:.2f} x {MOS}"
    verdict = claim(holds) if waits else "not comparable"
    return Finding(f"{NAMES[measure]}: {THRESHOLD}", said, verdict, f"between {PC} and {MOS}")


def _ratio(less: float, more: float) -> float:
    return less / more if more else (1.0 if not less else float("inf"))


def _room(run_: Run) -> int:
    """Return the memory limit of a bucket for the threshold strategy."""
    return round(MEMORY * run_.peak_bytes / BUCKETS)


def _panels(runs: Trials) -> tuple[Panel, ...]:
    memory = tuple(
        Series(name, tuple((float(i), size / 1e6) for i, (_, size) in enumerate(sorted(run_.bytes.items()))))
        for name, run_ in runs.items()
    )
    latency = tuple(Series(name, ((0.0, run_.latency),), "bars") for name, run_ in runs.items())
    return (
        Panel("Memory", "micro-batch", "MB in queues", memory),
        Panel("Mean latency", "of", "micro-batches", latency, ticks=("results",)),
    )
