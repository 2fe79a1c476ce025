"""How uneven is the output of a union when one input delivers only after every k tuples?

A selection on one stream of 1,000 tuples per second and, on another, an aggregate that emits once per k tuples meet in
a union. Burstiness is (max - min) / mean of the results per 0.02 s (Stream Mill's query-graph paper; this graph
replaces one that is lost).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl

from headrace.engine.bounds.ets import ClockEts
from headrace.engine.bounds.mode import BoundsMode
from headrace.engine.engine import Engine
from headrace.experiments.arrivals import keep, poisson
from headrace.experiments.experiment import Finding, Outcome, Panel, Range, Scale, Series, Trial
from headrace.experiments.judging import claim, near
from headrace.experiments.sample import Sample, sample
from headrace.graph.graph import Graph, Vertex
from headrace.model.page import Page
from headrace.model.schema import TS
from headrace.model.time import SECOND
from headrace.operators.specs import Filter, OrderedUnion, Output, RowsAggregate, Scan
from headrace.testing.clock import VirtualClock
from headrace.testing.simulation.engine import Arrival, Costs, Simulation

RATE, BIN, SHARE = 1000.0, 0.02, 0.95
SLIDES = (1, 10, 50, 100, 500)
#: Without bounds, and with bounds on demand.
SIMULATOR: Mapping[int, tuple[float, float]] = {
    1: (0.93, 0.92),
    10: (1.88, 1.21),
    50: (4.02, 1.30),
    100: (6.94, 1.32),
    500: (28.8, 1.33),
}


@dataclass(frozen=True, slots=True)
class Size:
    """Seconds of virtual time for each point."""

    seeds: int
    seconds: float


SIZES: Mapping[Scale, Size] = {"quick": Size(1, 1.2), "normal": Size(2, 4), "full": Size(5, 10)}


def run(trial: Trial) -> Outcome:
    """Run at the size of the trial's scale."""
    return report(SIZES[trial.scale], trial)


def report(size: Size, trial: Trial) -> Outcome:
    """Measure every slide with and without bounds on demand."""
    samples: dict[tuple[int, bool], Sample] = {}
    points = [(slide, demand) for slide in SLIDES for demand in (False, True)]
    for done, (slide, demand) in enumerate(points):
        trial.progress(f"slide {slide}, {'bounds on demand' if demand else 'no bounds'}", done, len(points))
        samples[slide, demand] = sample(
            partial(measure, slide, size.seconds, on_demand=demand), trial.seeds(size.seeds)
        )
    bins = round(size.seconds / BIN)
    noise = floor(bins, RATE * SHARE * BIN, trial.seed)
    notes = (
        f"virtual time, {size.seeds} seed(s) of {size.seconds:g} s ({bins} bins; the simulator: 5 seeds of 10 s); "
        "a tuple costs 20 us",
        f"Poisson noise alone gives {noise:.2f} with that many bins at large slides; 500 bins give 1.36",
        "the slide is a selection of every k-th tuple: it delivers at the same times as count(*) over ROWS k SLIDE k",
    )
    return Outcome((*_claims(samples, noise), *_figures(samples, size)), (_panel(samples, noise),), notes)


def measure(slide: int, seconds: float, seed: int, *, on_demand: bool) -> float:
    """Return the burstiness of the union's results."""
    counts, _ = np.histogram(
        np.array(times(slide, seconds, seed, on_demand=on_demand)) / SECOND,
        np.linspace(0, seconds, round(seconds / BIN) + 1),
    )
    return float((counts.max() - counts.min()) / counts.mean()) if counts.any() else math.nan


def times(
    slide: int, seconds: float, seed: int, *, on_demand: bool, aggregate: RowsAggregate | None = None
) -> list[int]:
    """Return the times of the results.

    Selecting every k-th tuple delivers at the same times as an `aggregate` over ROWS k SLIDE k, and is much faster.
    """
    chance, clock = np.random.default_rng(seed), VirtualClock()
    arrivals = poisson("S1", RATE, seconds, chance) + _counted(poisson("S2", RATE, seconds, chance), slide)
    ets = ClockEts(clock, {"S1": None, "S2": None}) if on_demand else None
    engine = Engine(graph(keep(0.5) if aggregate is None else aggregate), ets=ets, mode=BoundsMode(absorb=False))
    return Simulation(engine, clock, Costs(20, ets=2, test=1)).run(arrivals, round(seconds * SECOND)).times()


def graph(slide: RowsAggregate | Filter) -> Graph:
    """Return the graph: S1 through a selection and S2 through the sliding operator to the union."""
    scans = (Vertex("S1", Scan("S1", ("x",))), Vertex("S2", Scan("S2", ("x",))))
    inputs = (Vertex("s1", keep(SHARE), ("S1",)), Vertex("a2", slide, ("S2",)))
    return Graph((*scans, *inputs, Vertex("U", OrderedUnion(2), ("s1", "a2")), Vertex("out", Output("out"), ("U",))))


def _counted(arrivals: list[Arrival], slide: int) -> list[Arrival]:
    """Return the same tuples with x = 0 for each that completes a slide."""
    numbers = np.arange(len(arrivals))
    frame = pl.DataFrame(
        {"x": np.where(numbers % slide == slide - 1, 0.0, 1.0), TS: [arrival.time for arrival in arrivals]}
    )
    return [replace(arrival, element=Page(frame[row : row + 1])) for row, arrival in enumerate(arrivals)]


def floor(bins: int, mean: float, seed: int) -> float:
    """Return the burstiness of Poisson counts, which chance alone causes, averaged over many draws."""
    draws = np.random.default_rng(seed).poisson(mean, (400, bins))
    return float(np.mean((draws.max(axis=1) - draws.min(axis=1)) / draws.mean(axis=1)))


def _claims(samples: Mapping[tuple[int, bool], Sample], noise: float) -> Iterator[Finding]:
    none, demand = ([samples[slide, on].mean for slide in SLIDES] for on in (False, True))
    growth = none[-1] / none[0]
    yield Finding(
        "no bounds: slide 500 to slide 1",
        growth,
        claim(none == sorted(none) and growth > 5),
        "grows with the slide",
        28.8 / 0.93,
        "x",
    )
    # from 10 on: at slide 1 the aggregate's own results double the rate, and so lessen the noise
    spread = max(demand[1:]) / min(demand[1:])
    yield Finding("bounds on demand: slides 10 to 500", spread, claim(spread < 1.5), "flat", 1.33 / 1.21, "x")
    yield Finding(
        "bounds on demand, slide 500, to noise alone",
        demand[-1] / noise,
        near(demand[-1] / noise, 1.0, 0.2),
        None,
        1.33 / 1.36,
        "x",
    )


def _figures(samples: Mapping[tuple[int, bool], Sample], size: Size) -> Iterator[Finding]:
    ranges = {False: Range(28.1, 30.0), True: Range(1.24, 1.41)}
    for slide, published in SIMULATOR.items():
        for on, value in zip((False, True), published, strict=True):
            ours, expected = samples[slide, on], ranges[on] if slide == 500 else value
            verdict = near(ours, expected, 0.15)
            yield Finding(
                f"slide {slide}, {'bounds on demand' if on else 'no bounds'}", ours.mean, verdict, None, expected
            )


def _panel(samples: Mapping[tuple[int, bool], Sample], noise: float) -> Panel:
    curves = []
    for on, name in ((False, "no bounds"), (True, "bounds on demand")):
        curves.append(Series(name, tuple((float(slide), samples[slide, on].mean) for slide in SLIDES)))
        curves.append(
            Series(
                f"{name}, simulator", tuple((float(k), values[on]) for k, values in SIMULATOR.items()), "marks", name
            )
        )
    curves.append(Series("noise alone", ((0, noise),), "level"))
    return Panel(
        "Burstiness of the results",
        "slide, tuples",
        "(max - min) / mean per 0.02 s",
        tuple(curves),
        log_x=True,
        log_y=True,
    )
