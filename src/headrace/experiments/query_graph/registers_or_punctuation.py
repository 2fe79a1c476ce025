"""Is it faster to pass bounds from register to register than as punctuation, and why?

Four Poisson streams of 200, 2, 2 and 2 tuples per second meet in three consecutive unions, with m selections on every
arc. The graph of the query-graph paper is lost with its figure; this one replaces it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from headrace.engine.bounds.ets import ClockEts
from headrace.engine.bounds.mode import BoundsMode
from headrace.engine.engine import Engine
from headrace.experiments.arrivals import keep, poisson
from headrace.experiments.experiment import Finding, Outcome, Panel, Scale, Series, Trial
from headrace.experiments.judging import claim, near
from headrace.experiments.sample import Sample, sample
from headrace.graph.graph import Graph, Vertex
from headrace.model.time import SECOND
from headrace.operators.specs import OrderedUnion, Output, Scan
from headrace.testing.clock import VirtualClock
from headrace.testing.simulation.engine import Arrival, Costs, Simulation

RATES = {"S1": 200.0, "S2": 2.0, "S3": 2.0, "S4": 2.0}
UNIONS = ("U1", "U2", "U3")
SHARE, COST = 0.95, 20
LENGTHS = (0, 1, 2, 4)  # m
PRICES = (1.0, 0.25, 0.1, 0.05)  # of a punctuation, in tuples

#: Who pays for punctuation: all operators, or only those that are not unions.
Payers: TypeAlias = Literal["all", "not unions"]
Bounds: TypeAlias = Literal["none", "punctuation", "registers"]

#: Latency with punctuation to latency with registers, by payers, price and m.
SIMULATOR: Mapping[tuple[Payers, float, int], float] = {
    ("all", 1.0, 0): 2.89,
    ("all", 1.0, 1): 2.94,
    ("all", 1.0, 4): 2.97,
    ("all", 0.25, 1): 1.53,
    ("all", 0.1, 1): 1.25,
    ("all", 0.05, 1): 1.15,
    ("not unions", 1.0, 0): 1.05,
    ("not unions", 1.0, 1): 2.01,
    ("not unions", 1.0, 2): 2.33,
    ("not unions", 1.0, 4): 2.59,
    ("not unions", 0.25, 0): 1.05,
    ("not unions", 0.25, 1): 1.30,
    ("not unions", 0.25, 2): 1.38,
    ("not unions", 0.25, 4): 1.45,
    ("not unions", 0.1, 0): 1.05,
    ("not unions", 0.1, 1): 1.15,
    ("not unions", 0.1, 2): 1.19,
    ("not unions", 0.1, 4): 1.22,
}


@dataclass(frozen=True, slots=True)
class Size:
    """Seconds of virtual time for each point."""

    seeds: int
    seconds: float


SIZES: Mapping[Scale, Size] = {"quick": Size(1, 0.5), "normal": Size(2, 1.5), "full": Size(2, 60)}


def run(trial: Trial) -> Outcome:
    """Run at the size of the trial's scale."""
    return report(SIZES[trial.scale], trial)


def report(size: Size, trial: Trial) -> Outcome:
    """Measure registers once for each m, and punctuation for each price and for which operators pay it."""
    payers: tuple[Payers, ...] = ("all", "not unions")
    points = [(who, price, m) for who in payers for price in PRICES for m in LENGTHS]
    parts, seeds = len(LENGTHS) + len(points) + 1, trial.seeds(size.seeds)
    registers = {}
    for done, m in enumerate(LENGTHS):
        trial.progress(f"registers, m = {m}", done, parts)
        registers[m] = sample(partial(latency, "registers", m, size.seconds), seeds)
    ratios: dict[tuple[Payers, float, int], Sample] = {}
    for done, (who, price, m) in enumerate(points):
        trial.progress(f"punctuation at {price:g} tuples, {who} pay, m = {m}", len(LENGTHS) + done, parts)
        measured = [latency("punctuation", m, size.seconds, seed, price=price, who=who) for seed in seeds]
        ratios[who, price, m] = Sample(
            tuple(value / reference for value, reference in zip(measured, registers[m].values, strict=True))
        )
    trial.progress("no bounds", parts - 1, parts)
    none = sample(lambda seed: latency("none", 1, 10 * size.seconds, seed), seeds)
    findings = (*_claims(ratios), *_figures(ratios), _waiting(none))
    notes = (
        f"virtual time, {size.seeds} seed(s) of {size.seconds:g} s per point ({10 * size.seconds:g} s without bounds); "
        f"a tuple costs {COST} us",
        "at m = 0 nothing is bypassed: if unions take punctuation at no cost, the rest is due to more selections, "
        "1 us each",
        "graph and costs of the paper are unknown, so its 14 % cannot be verified; several settings are near it",
        "latency with registers: "
        f"{', '.join(f'{1e6 * sampled.mean:.0f} us at m = {m}' for m, sampled in registers.items())}",
    )
    return Outcome(findings, tuple(_panel(who, ratios) for who in payers), notes)


def latency(bounds: Bounds, m: int, seconds: float, seed: int, *, price: float = 1.0, who: Payers = "all") -> float:
    """Return the mean latency in seconds."""
    chance, clock = np.random.default_rng(seed), VirtualClock()
    ets = None if bounds == "none" else ClockEts(clock, dict.fromkeys(RATES))
    by_register = bounds == "registers"
    engine = Engine(graph(m), ets=ets, mode=BoundsMode(registers=by_register, absorb=by_register))
    costs = Costs(COST, punctuation=round(COST * price), ets=2, test=1, free=UNIONS if who == "not unions" else ())
    return (
        Simulation(engine, clock, costs).run(_arrivals(m, seconds, chance), round(seconds * SECOND)).mean_latency()
        / SECOND
    )


def graph(m: int) -> Graph:
    """Return the graph: S1 and S2 to U1, its output and S3 to U2, its output and S4 to U3."""
    vertices = [Vertex(name, Scan(name, ("x",))) for name in RATES]
    flow = "S1"
    for number, (union, other) in enumerate(zip(UNIONS, ("S2", "S3", "S4"), strict=True)):
        # x is below SHARE**depth when tuples come here, from the other stream too
        depth = number * m
        ends = []
        for origin in (flow, other):
            last = origin
            for step in range(1, m + 1):
                vertices.append(Vertex(f"{origin}-{union}-{step}", keep(SHARE ** (depth + step)), (last,)))
                last = vertices[-1].id
            ends.append(last)
        vertices.append(Vertex(union, OrderedUnion(2), tuple(ends)))
        flow = union
    return Graph((*vertices, Vertex("out", Output("out"), (flow,))))


def _arrivals(m: int, seconds: float, chance: np.random.Generator) -> list[Arrival]:
    entry = {"S1": 0, "S2": 0, "S3": m, "S4": 2 * m}
    return [
        arrival
        for name, rate in RATES.items()
        for arrival in poisson(name, rate, seconds, chance, below=SHARE ** entry[name])
    ]


def _claims(ratios: Mapping[tuple[Payers, float, int], Sample]) -> Iterator[Finding]:
    least = min(ratios.items(), key=lambda item: item[1].mean)
    yield Finding(
        "punctuation to registers, least of all settings",
        least[1].mean,
        claim(least[1].mean > 1),
        "more latency",
        1.05,
        "x",
    )
    close = [key for key, ratio in ratios.items() if abs(ratio.mean - 1.14) <= 0.03]
    named = "; ".join(f"{who} pay {price:g}, m = {m}" for who, price, m in close) or "no setting"
    yield Finding(
        "settings within 3 % of 14 % more", named, "not comparable", "14 % more", "0.1 if not unions pay, 0.05 if all"
    )
    for who, word in (("all", "flat, 2.89 to 2.97 x"), ("not unions", "grows, 1.05 to 2.59 x")):
        first, last = ratios[who, 1.0, 0].mean, ratios[who, 1.0, 4].mean  # type: ignore[index]
        yield Finding(
            f"from m = 0 to 4 if {who} pay",
            f"{first:.3g} to {last:.3g} x",
            claim(last > 1.25 * first),
            "grows with m",
            word,
        )


def _figures(ratios: Mapping[tuple[Payers, float, int], Sample]) -> Iterator[Finding]:
    for key, published in SIMULATOR.items():
        who, price, m = key
        yield Finding(
            f"ratio: {who} pay {price:g}, m = {m}",
            ratios[key].mean,
            near(ratios[key], published, 0.05),
            None,
            published,
            "x",
        )


def _waiting(none: Sample) -> Finding:
    return Finding("no bounds, m = 1: latency", none.mean, near(none, 1.0, 0.15), None, 1.0, "s")


def _panel(who: Payers, ratios: Mapping[tuple[Payers, float, int], Sample]) -> Panel:
    curves = []
    for price in PRICES:
        name = f"punctuation costs {price:g}"
        curves.append(Series(name, tuple((float(m), ratios[who, price, m].mean) for m in LENGTHS)))
        published = tuple(
            (float(m), value) for (payers, cost, m), value in SIMULATOR.items() if (payers, cost) == (who, price)
        )
        if published:
            curves.append(Series(f"{price:g}, simulator", published, "marks", name))
    curves.append(Series("paper, setting unknown", ((0, 1.14),), "level"))
    title = "All operators pay for punctuation" if who == "all" else "Unions take punctuation at no cost"
    return Panel(title, "selections on every arc", "latency, punctuation / registers", tuple(curves))
