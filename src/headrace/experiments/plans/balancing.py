"""What do moves of partitions and plans of their own bring to machines that share a join, if one has half of the keys?

Experiments E16 to E20 of Zhu's dissertation (figures 23.1 to 23.15): seven machines run (A B) C on 100 partitions, of
which one machine has half. Partitions move by PTLB (both machines work until the old rows have expired) or by MSLB (the
rows are sent), and each machine may change its own plan (LM). The operator, the decision when and what to move
(`control.policies.rebalance`) and the choice of plans are those of a deployment; time is virtual. The costs, the number
of keys and the window of E16, E17 and E20 are not published.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from headrace.experiments.experiment import Finding, Outcome, Panel, Series, Trial
from headrace.experiments.judging import claim, near
from headrace.experiments.plans.migration_length import PAIRS
from headrace.experiments.plans.optimizing import Optimizer
from headrace.experiments.sample import Sample
from headrace.model.join_tree import parse_tree
from headrace.testing.simulation.machine import Shared
from headrace.testing.simulation.machines import Cluster, Relocation, Shares, Way, share_out

TREE = parse_tree("((A B) C)", "ABC")
#: Units that a machine does per second: a quarter more than it needs in E16 if all have the same share.
CAPACITY = 13_000.0
#: For E20: as much as the machine with half of all keys needs.
AMPLE = 800_000.0
#: Rows per second between two machines.
NETWORK = 20_000.0
KEYS = 1000
#: Rates fall at this time in E16, E17 and E20.
FALLS = 30.0
NAMES: tuple[Literal["PTLB", "MSLB"], ...] = ("PTLB", "MSLB")
WAYS: tuple[Way, ...] = (None, *NAMES)


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is run: seconds of E16 and E17, rates and windows of E18, its seeds, the window of E20."""

    seconds: float
    rates: tuple[float, ...]
    windows: tuple[float, ...]
    seeds: int
    window: float


SCALES = {
    "quick": Scale(60.0, (30, 50), (5, 15), 1, 15.0),
    "normal": Scale(90.0, (30, 40, 50), (15, 45), 1, 30.0),
    "full": Scale(300.0, (30, 40, 50), (15, 30, 45, 60), 5, 30.0),
}


@dataclass(frozen=True, slots=True)
class Point:
    """The runs of one rate and window of E18: results of both ways to those without, and lengths of their moves."""

    rate: float
    window: float
    gains: Mapping[str, Sample]
    lengths: Mapping[str, tuple[float, ...]]  # of the moves that came to their end
    open: Mapping[str, int]  # moves that did not


def run(trial: Trial) -> Outcome:
    """Run all settings."""
    scale = SCALES[trial.scale]
    settings = [(rate, window) for rate in scale.rates for window in scale.windows]
    total, done = 8 + len(settings), 0
    first: dict[str, Shares] = {}
    for way in WAYS:
        for local in (False, True):
            name = _name(way, local=local)
            trial.progress(f"E16 and E17: {name}", done, total)
            first[name], done = (
                _falling(Shared((100, 100, 100), KEYS, 10.0), way, scale.seconds, trial.seed, local),
                done + 1,
            )
    points = []
    for rate, window in settings:
        trial.progress(f"E18 and E19: {rate:g}/s, window of {window:g} s", done, total)
        points.append(_point(rate, window, trial.seeds(scale.seeds)))
        done += 1
    large: dict[str, Shares] = {}
    for name in NAMES:
        trial.progress(f"E20: {name}", done, total)
        large[name], done = _large(scale.window, name, trial.seed), done + 1
    notes = (
        "virtual time on the real operator; a unit is a compared pair or an inserted row",
        f"a machine does {CAPACITY:,.0f} units per second, in E20 {AMPLE:,.0f}; it sends {NETWORK:,.0f} rows/s",
        "a deployment moves by its own way: the rows are files between two micro-batches, so nothing waits for a queue",
    )
    findings = (*_first(first), *_rates(points), *_lengths(points), *_big_states(large))
    return Outcome(findings, tuple(_panels(first, points, large)), notes)


def _name(way: Way, *, local: bool) -> str:
    if way is None:
        return "LM" if local else "none"
    return f"LM and {way}" if local else way


def _falls(time: float) -> Sequence[float]:
    return (100.0, 100.0, 100.0) if time < FALLS else (100.0, 5.0, 5.0)


def _falling(setting: Shared, way: Way, seconds: float, seed: int, local: bool) -> Shares:
    policies = [Optimizer(setting.shape, PAIRS) for _ in range(setting.machines)] if local else None
    cluster = _cluster(setting, way, CAPACITY, policies)
    return share_out(cluster, setting, seconds, seed=seed, rates=_falls, tick=1.0)


def _point(rate: float, window: float, seeds: range) -> Point:
    setting, seconds = Shared((rate, rate, rate), KEYS, window), max(60.0, 3 * window)
    runs = {
        way: [share_out(_cluster(setting, way, CAPACITY), setting, seconds, seed=seed, tick=1.0) for seed in seeds]
        for way in WAYS
    }
    plain = [max(1, run.moments[-1].out) for run in runs[None]]
    gains: dict[str, Sample] = {}
    lengths: dict[str, tuple[float, ...]] = {}
    unended: dict[str, int] = {}
    for way in NAMES:
        ratios = (run.moments[-1].out / before for run, before in zip(runs[way], plain, strict=True))
        gains[way] = Sample(tuple(ratios))
        moves = [move for run in runs[way] for move in run.moves]
        lengths[way] = tuple(move.ended - move.began for move in moves if math.isfinite(move.ended))
        unended[way] = sum(math.isinf(move.ended) for move in moves)
    return Point(rate, window, gains, lengths, unended)


def _large(window: float, way: Way, seed: int) -> Shares:
    """Let the heaviest machine change its plan, and move partitions once the rates have fallen."""
    setting = Shared((100, 100, 100), KEYS, window)
    policies = [Optimizer(setting.shape, PAIRS), *([None] * (setting.machines - 1))]
    cluster = _cluster(setting, way, AMPLE, policies, looks_from=FALLS + 5)
    return share_out(cluster, setting, FALLS + 3 * window, seed=seed, rates=_falls, tick=1.0)


def _cluster(
    setting: Shared,
    way: Way,
    capacity: float,
    policies: Sequence[Optimizer | None] | None = None,
    *,
    looks_from: float = 0.0,
) -> Cluster:
    return Cluster(
        setting,
        TREE,
        costs=PAIRS,
        capacity=capacity,
        memory=sum(setting.rates) * setting.window,
        way=way,
        local=policies,
        network=NETWORK,
        looks_from=looks_from,
    )


def _first(runs: Mapping[str, Shares]) -> Iterator[Finding]:
    """Judge E16 and E17: results at the end to those of machines that do nothing."""
    plain = runs["none"].moments[-1].out
    gains = {name: shares.moments[-1].out / plain for name, shares in runs.items()}
    for what, name, paper in (
        ("E16: results with PTLB", "PTLB", 2.0),
        ("E16: results with plans of their own", "LM", 2.0),
        ("E16: results with both", "LM and PTLB", 3.3),
        ("E17: results with MSLB", "MSLB", 1.8),
        ("E17: results with both", "LM and MSLB", 2.7),
    ):
        yield Finding(f"{what}, to those with nothing", gains[name], near(gains[name], paper, 0.15), paper, unit="x")
    for number, way in ((16, "PTLB"), (17, "MSLB")):
        both = gains[f"LM and {way}"]
        yield Finding(
            f"E{number}: both to the better of {way} and LM",
            both / max(gains[way], gains["LM"]),
            claim(both > max(gains[way], gains["LM"])),
            paper="better than each",
            unit="x",
        )
    waiting = {name: _mean_rows(shares) for name, shares in runs.items()}
    least = max(waiting[name] for name in ("LM and PTLB", "LM and MSLB", "LM")) / waiting["none"]
    yield Finding(
        "E16: rows and waiting tuples with LM to those with nothing, most",
        least,
        claim(least < 0.7),
        paper="far fewer",
        unit="x",
    )


def _rates(points: Sequence[Point]) -> Iterator[Finding]:
    """Judge E18: who gains more, by rate and window."""
    leads = {(p.rate, p.window): p.gains["MSLB"].mean / p.gains["PTLB"].mean for p in points}
    windows = sorted({point.window for point in points})
    for rate in sorted({point.rate for point in points}):
        values = [leads[rate, window] for window in windows]
        shown = ", ".join(f"{value:.2f}" for value in values)
        if rate < 50:
            paper = "grows with the window, up to 1.25" if rate < 40 else "grows with the window, larger"
            verdict = claim(values[-1] > values[0])
        else:
            paper, verdict = "small windows: 1.05, then more", claim(values[-1] > values[0] >= 1.0)
        yield Finding(f"E18: MSLB to PTLB, {rate:g}/s, by window", shown, verdict, paper)
    fastest = max(point.rate for point in points)
    small, large = (next(p for p in points if (p.rate, p.window) == (fastest, w)) for w in (windows[0], windows[-1]))
    for way, published in (("PTLB", 1.9), ("MSLB", 2.0)):
        gain = small.gains[way]
        what = f"E18: gain of {way}, {fastest:g}/s, smallest window"
        yield Finding(what, gain.mean, near(gain, published, 0.15), published, unit="x")
    yield Finding(
        f"E18: gain of PTLB, {fastest:g}/s, smallest and largest window",
        f"{small.gains['PTLB'].mean:.2f} and {large.gains['PTLB'].mean:.2f}",
        claim(large.gains["PTLB"].mean < small.gains["PTLB"].mean),
        paper="shrinks with the window",
    )


def _lengths(points: Sequence[Point]) -> Iterator[Finding]:
    """Judge E19: how long a move takes, in windows."""
    parallel = [length / point.window for point in points for length in point.lengths["PTLB"]]
    moving = [length / point.window for point in points for length in point.lengths["MSLB"]]
    unended = sum(point.open["PTLB"] for point in points)
    both = fmean(parallel) if parallel else math.nan
    yield Finding("E19: length of a move by PTLB", both, near(both, 2.0, 0.15), 2.0, unit="windows")
    yield Finding(
        "the same, if rows are purged by their oldest part", both, near(both, 1.0, 0.3), simulator=1.0, unit="windows"
    )
    alone = fmean(moving) if moving else math.nan
    yield Finding(
        "E19: length of a move by MSLB", alone, claim(alone < 0.5 * both), paper="much shorter", unit="windows"
    )
    yield Finding("E19: moves by PTLB that did not end, for the sender is too busy", float(unended), "not comparable")


def _big_states(runs: Mapping[str, Shares]) -> Iterator[Finding]:
    """Judge E20: large states, few new tuples."""
    out = {way: shares.moments[-1].out for way, shares in runs.items()}
    yield Finding(
        "E20: results with PTLB to those with MSLB, at the end",
        out["PTLB"] / out["MSLB"],
        claim(out["PTLB"] > out["MSLB"]),
        paper="PTLB wins",
        unit="x",
    )
    pairs = zip(runs["PTLB"].moments, runs["MSLB"].moments, strict=True)
    leads = [first.out / second.out for first, second in pairs if first.out and second.out]
    ahead, behind = max(leads), 1 / min(leads)
    yield Finding(
        "E20: most that PTLB is ahead of MSLB, and MSLB of PTLB",
        f"{ahead:.3f} and {behind:.3f}",
        claim(ahead > behind),
        paper="PTLB wins",
    )
    sent = {way: _sent(shares.moves) for way, shares in runs.items()}
    yield Finding(
        "E20: rows that go over the network for a partition, PTLB to MSLB",
        sent["PTLB"] / sent["MSLB"],
        claim(sent["PTLB"] < sent["MSLB"]),
        paper="few new tuples, big states",
        unit="x",
    )


def _sent(moves: Sequence[Relocation]) -> float:
    """Return the rows that were sent for a partition, in the first moves; later ones find other states."""
    began = min((move.began for move in moves), default=0.0)
    first = [move for move in moves if move.began == began]
    return sum(move.rows for move in first) / max(1, sum(len(move.parcels) for move in first))


def _mean_rows(shares: Shares) -> float:
    """Return the rows and waiting tuples since the rates fell."""
    return fmean(m.held + m.joined + m.waiting for m in shares.moments if m.time >= FALLS)


def _panels(first: Mapping[str, Shares], points: Sequence[Point], large: Mapping[str, Shares]) -> Iterator[Panel]:
    yield Panel(
        "E16 and E17: results so far",
        "time (s)",
        "results",
        tuple(Series(name, tuple((m.time, float(m.out)) for m in shares.moments)) for name, shares in first.items()),
    )
    yield Panel(
        "E16 and E17: rows and waiting tuples",
        "time (s)",
        "tuples",
        tuple(
            Series(name, tuple((m.time, float(m.held + m.joined + m.waiting)) for m in shares.moments))
            for name, shares in first.items()
        ),
    )
    rates = sorted({point.rate for point in points})
    yield Panel(
        "E18: results to those without moves",
        "window (s)",
        "ratio",
        tuple(
            Series(f"{way}, {rate:g}/s", tuple((p.window, p.gains[way].mean) for p in points if p.rate == rate))
            for way in ("PTLB", "MSLB")
            for rate in rates
        ),
    )
    yield Panel(
        "E20: results so far",
        "time (s)",
        "results",
        tuple(Series(name, tuple((m.time, float(m.out)) for m in shares.moments)) for name, shares in large.items()),
    )
