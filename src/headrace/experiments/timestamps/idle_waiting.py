"""How long does a union wait for a silent input, depending on how bounds reach it?

Two Poisson streams of 50 and 0.05 tuples per second pass a selection each and meet in a union (Stream Mill's timestamp
paper): without bounds (A), with periodic ones from the silent stream (B), on demand (C), and with latent timestamps,
which need none (D).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.experiments.experiment import Finding, Outcome, Panel, Range, Scale, Series, Trial, Verdict
from headrace.experiments.judging import between, claim, near
from headrace.experiments.sample import Sample
from headrace.experiments.timestamps.idle_waiting_cases import (
    ABSORBED,
    BEHIND,
    BEHIND_ABSORBED,
    COSTS,
    DEMAND,
    GAPS,
    IDLE,
    LATENT,
    NONE,
    PERIODIC,
    REGISTERS,
    SIMULATOR,
    SLOW,
    Case,
    Measured,
    idle_by_theory,
    measure,
    peak_shrinks,
    periodic,
)


@dataclass(frozen=True, slots=True)
class Size:
    """Seconds of virtual time with many slow tuples, and for the rest; at most `beats` periodic bounds."""

    seeds: int
    long: float
    short: float
    beats: int
    costs: float  # for each point of the comparison by cost


SIZES: Mapping[Scale, Size] = {
    "quick": Size(1, 120, 15, 2_000, 6),
    "normal": Size(2, 400, 50, 10_000, 30),
    "full": Size(3, 2_000, 2_000, 1_500_000, 300),
}


def run(trial: Trial) -> Outcome:
    """Run at the size of the trial's scale."""
    return report(SIZES[trial.scale], trial)


def report(size: Size, trial: Trial) -> Outcome:
    """Measure and judge all cases."""
    by_cost = [
        Case(f"{case.name}, c = {cost} us", case.bounds, cost=cost) for cost in COSTS for case in (DEMAND, LATENT)
    ]
    cases = [*SIMULATOR, ABSORBED, BEHIND, BEHIND_ABSORBED, *by_cost]
    results: dict[Case, Measured] = {}
    for done, case in enumerate(cases):
        trial.progress(case.name, done, len(cases))
        seconds = size.costs if case in by_cost else _seconds(case, size)
        results[case] = measure(case, seconds, trial.seeds(size.seeds))
    gaps = {
        cost: _gap(results[on_demand].latency, results[latent].latency)
        for cost, on_demand, latent in zip(COSTS, by_cost[::2], by_cost[1::2], strict=True)
    }
    idle = {cost: results[on_demand].held.mean for cost, on_demand in zip(COSTS, by_cost[::2], strict=True)}
    findings = (*_claims(results), *_gap_findings(gaps, idle), *_absorption(results), *_figures(results))
    return Outcome(
        findings, (_latencies(results), _shares(results), _peaks(results), _gaps(gaps)), tuple(_notes(results, size))
    )


def _seconds(case: Case, size: Size) -> float:
    if case.bounds == "none" and case.rate < 1:
        return size.long
    short = min(size.short, 300.0) if case.rate else size.short
    return min(short, size.beats / case.rate) if case.rate else short


def _gap(first: Sample, second: Sample) -> Sample:
    return Sample(tuple(a - b for a, b in zip(first.values, second.values, strict=True)))


def _claims(results: Mapping[Case, Measured]) -> Iterator[Finding]:
    beats = [results[periodic(rate)] for rate in PERIODIC]
    falling = [measured.latency.mean for measured in beats[:-1]]
    none, demand, registers, latent = (results[case] for case in (NONE, DEMAND, REGISTERS, LATENT))
    best = min(measured.latency.mean for measured in beats)
    gap = _gap(demand.latency, latent.latency).mean
    yield Finding(
        "B: latency by rate of bounds",
        f"{falling[0]:.2g} s at 0.1/s, {1000 * falling[-1]:.2g} ms at 1,000/s",
        claim(falling == sorted(falling, reverse=True)),
        "falls",
        unit="s",
    )
    yield Finding(
        "B: at 5,000/s against 1,000/s",
        beats[-1].latency.mean / falling[-1],
        claim(beats[-1].latency.mean > falling[-1]),
        None,
        "rises, 3.46 x",
        "x",
    )
    yield Finding(
        "B: best latency to C's",
        best / demand.latency.mean,
        claim(best > demand.latency.mean),
        "never reaches C",
        0.746 / 0.0861,
        "x",
    )
    orders = math.log10(none.latency.mean / demand.latency.mean)
    yield Finding("A to C", orders, claim(orders >= 3), "several orders", math.log10(19.4 / 0.0000861), "orders")
    yield Finding("C less D (hangs on the cost of a tuple)", gap, "not comparable", 0.0001, 0.0000451, "s")
    above = math.log10(none.latency.mean / gap)
    yield Finding(
        "A to the gap between C and D",
        above,
        claim(4 <= above < 5),
        "four orders",
        math.log10(19.4 / 0.0000451),
        "orders",
    )
    yield Finding("A: idle share", 100 * none.idle.mean, near(_percent(none.idle), 99.0, 0.01), 99.0, 99.90, "%")
    ours = Range(100 * results[periodic(150)].idle.mean, 100 * results[periodic(100)].idle.mean)
    yield Finding(
        "B: idle share at 150/s and 100/s",
        ours,
        between(15.0, ours.low, ours.high),
        "15 % at 100/s or more",
        Range(14.1, 20.1),
        "%",
    )
    for case, measured, reference in ((DEMAND, demand, 0.21), (REGISTERS, registers, 0.024)):
        share = 100 * measured.idle.mean
        yield Finding(f"{case.name}: idle", share, claim(share < 0.1), "below 0.1 %", reference, "%")
    yield Finding("A: peak queue", none.peak.mean, claim(none.peak.mean >= 1000), "thousands", Range(4418, 4527))
    smaller = math.log10(none.peak.mean / demand.peak.mean)
    yield Finding(
        "C: peak queue less than A's", smaller, claim(smaller >= 2), "two orders", math.log10(4470 / 3.5), "orders"
    )
    peaks = [measured.peak.mean for measured in beats]
    turn = peaks.index(min(peaks))
    u_shaped = (
        0 < turn < len(peaks) - 1
        and peaks[:turn] == sorted(peaks[:turn], reverse=True)
        and peaks[turn:] == sorted(peaks[turn:])
    )
    yield Finding(
        "B: peak queue by rate", f"least at {PERIODIC[turn]:g}/s", claim(u_shaped), "U-shaped", "least at 50/s"
    )


def _gap_findings(gaps: Mapping[int, Sample], idle: Mapping[int, float]) -> Iterator[Finding]:
    for cost, gap in gaps.items():
        yield Finding(
            f"C less D at c = {cost} us", gap.mean, near(gap, GAPS[cost] / 1e6, 0.15), None, GAPS[cost] / 1e6, "s"
        )
    both = [cost for cost in gaps if gaps[cost].mean >= 0.00009 and 100 * idle[cost] < 0.1]
    yield Finding(
        "C: a cost at which C - D is 0.1 ms and idle below 0.1 %",
        ", ".join(f"{cost} us" for cost in both) or "none",
        claim(bool(both)),
        "both hold",
        "none",
    )
    for cost, share in idle.items():
        yield Finding(
            f"C: tuples held, c = {cost} us", 100 * share, near(100 * share, IDLE[cost], 0.15), None, IDLE[cost], "%"
        )


def _absorption(results: Mapping[Case, Measured]) -> Iterator[Finding]:
    measured = results[ABSORBED]
    yield Finding(
        f"{ABSORBED.name}: latency", measured.latency.mean, near(measured.latency, 0.000151, 0.15), None, 0.000151, "s"
    )
    # the first queue depends on the longest of many gaps, the second on a single gap; both depend on the run's length
    literal, absorbed = results[BEHIND].peak.mean, results[BEHIND_ABSORBED].peak.mean
    yield Finding(f"{BEHIND.name}: peak queue", literal, "not comparable", None, 905.0)
    yield Finding(f"{BEHIND_ABSORBED.name}: peak queue", absorbed, "not comparable", None, 71.0)
    yield Finding(
        "absorption: peak queue is smaller by", literal / absorbed, claim(literal / absorbed >= 2), None, 905 / 71, "x"
    )


def _figures(results: Mapping[Case, Measured]) -> Iterator[Finding]:
    verdict: Verdict
    for case, published in SIMULATOR.items():
        measured = results[case]
        if (
            case.bounds == "none" and case.rate < 1
        ):  # few slow tuples: the mean is known as well as 1/sqrt(n) of them allows
            expected = measured.seconds * len(measured.latency.values) * (SLOW + case.rate)
            verdict = near(measured.latency, published.latency, max(0.1, 1.5 / math.sqrt(expected)))
        else:
            verdict = near(measured.latency, published.latency, 0.1)
        yield Finding(f"{case.name}: latency", measured.latency.mean, verdict, None, published.latency, "s")
    for case, published in SIMULATOR.items():
        share = _percent(results[case].held if case.bounds == "punctuation" else results[case].idle)
        published_share = 100 * published.idle
        if 0 < published_share < 1 and case.rate and SLOW * results[case].seconds * len(share.values) < 5:
            verdict = (
                "not comparable"  # so small a share is decided by slow tuples, which wait for a busy one: too few came
            )
        else:
            verdict = near(share, published_share, 0.15) if published_share else claim(share.mean == 0)
        word = "tuples held" if case.bounds == "punctuation" else "idle share"
        yield Finding(f"{case.name}: {word}", share.mean, verdict, None, published_share, "%")
    for case, published in SIMULATOR.items():
        peak = results[case].peak
        shrink = peak_shrinks(case, results[case].seconds)
        verdict = near(peak, Range(shrink * published.peak.low, shrink * published.peak.high), 0.25)
        yield Finding(f"{case.name}: peak queue", peak.mean, verdict, None, published.peak)


def _percent(share: Sample) -> Sample:
    return Sample(tuple(100 * value for value in share.values))


def _latencies(results: Mapping[Case, Measured]) -> Panel:
    ours = tuple((rate, 1000 * results[periodic(rate)].latency.mean) for rate in PERIODIC)
    published = tuple((rate, 1000 * SIMULATOR[periodic(rate)].latency) for rate in PERIODIC)
    levels = tuple(
        Series(case.name, ((0, 1000 * results[case].latency.mean),), "level")
        for case in (NONE, DEMAND, REGISTERS, LATENT)
    )
    curves = (Series("B periodic", ours), Series("B, simulator", published, "marks", "B periodic"), *levels)
    return Panel("Latency", "periodic bounds per second", "mean latency, ms", curves, log_x=True, log_y=True)


def _shares(results: Mapping[Case, Measured]) -> Panel:
    ours = tuple((rate, 100 * results[periodic(rate)].idle.mean) for rate in PERIODIC)
    theory = tuple((rate, 100 * idle_by_theory(rate)) for rate in PERIODIC)
    published = tuple((rate, 100 * SIMULATOR[periodic(rate)].idle) for rate in PERIODIC)
    levels = tuple(
        Series(case.name, ((0, 100 * results[case].idle.mean),), "level") for case in (NONE, DEMAND, REGISTERS)
    )
    curves = (
        Series("B periodic", ours),
        Series("B, simulator", published, "marks", "B periodic"),
        Series("B, $1 - (1 - e^{-x})/x$", theory, "dashed", "B periodic"),
        *levels,
        Series("B, paper", ((100, 15.0),), "marks"),
    )
    return Panel(
        "Time the union waits idly",
        "periodic bounds per second",
        "share of the time, %",
        curves,
        log_x=True,
        log_y=True,
    )


def _peaks(results: Mapping[Case, Measured]) -> Panel:
    ours = tuple((rate, results[periodic(rate)].peak.mean) for rate in PERIODIC)
    published = tuple((rate, SIMULATOR[periodic(rate)].peak.high) for rate in PERIODIC)
    levels = tuple(
        Series(case.name, ((0, results[case].peak.mean),), "level") for case in (NONE, DEMAND, REGISTERS, LATENT)
    )
    curves = (Series("B periodic", ours), Series("B, simulator", published, "marks", "B periodic"), *levels)
    return Panel("Peak queue", "periodic bounds per second", "elements in buffers", curves, log_x=True, log_y=True)


def _gaps(gaps: Mapping[int, Sample]) -> Panel:
    ours = tuple((float(cost), 1e6 * gap.mean) for cost, gap in gaps.items())
    published = tuple((float(cost), float(gap)) for cost, gap in GAPS.items())
    curves = (
        Series("C - D", ours),
        Series("simulator", published, "marks", "C - D"),
        Series("2 c", tuple((float(cost), 2.0 * cost) for cost in COSTS), "dashed"),
    )
    return Panel("What on-demand punctuation costs", "cost of a tuple, us", "C - D, us", curves, log_x=True, log_y=True)


def _notes(results: Mapping[Case, Measured], size: Size) -> Iterator[str]:
    lengths = ", ".join(
        f"{case.name} {measured.seconds:g} s" for case, measured in results.items() if case in SIMULATOR
    )
    yield (
        f"virtual time, {size.seeds} seed(s): {lengths}; "
        "the simulator ran 2,000 s (A, B 0.1/s, C, D) and 300 s (other B) with 3 seeds"
    )
    yield (
        "peak queues of A, and of B at 100/s and more, grow with the longest of n gaps, so with ln n: "
        "those of shorter runs are compared with the simulator's, reduced accordingly"
    )
    yield (
        "the peak queue with absorption is measured with one slow tuple in the middle of the run, "
        "because the run is too short for one by chance"
    )
    yield (
        "idle: the union has tuples and may take none; held: also while it takes punctuation in front of them, "
        "which the simulator's idle share of C counts"
    )
