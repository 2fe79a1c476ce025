"""How does the order of execution affect bursts: depth first, breadth first, round robin, or depth first in batches?

First on a path of two operators with latent timestamps, where the means are known in closed form; then on a busy stream
with bursts and an almost silent one that meet in a union, with and without bounds on demand (Stream Mill's query-graph
paper).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from headrace.engine.engine import Engine
from headrace.experiments.arrivals import at_times, bursts, keep, poisson
from headrace.experiments.experiment import Finding, Outcome, Panel, Scale, Series, Trial
from headrace.experiments.judging import claim, exact, near
from headrace.experiments.sample import Sample, sample
from headrace.experiments.two_streams import BUSY, SILENT, Bounds, simulate
from headrace.graph.graph import Graph, Vertex
from headrace.model.time import SECOND
from headrace.operators.specs import Output, Scan
from headrace.testing.clock import VirtualClock
from headrace.testing.simulation.engine import Costs, Simulation

RATE, SLOW = 1000.0, 0.5
BURSTS = (1, 2, 4, 10, 50, 100)
STRATEGIES = ("dfs", "bfs", "rr", "dfs-2", "dfs-5")
#: Emission times of a burst of six, both operators taking 1.
SIX = {
    "dfs": (2, 4, 6, 8, 10, 12),
    "bfs": (7, 8, 9, 10, 11, 12),
    "dfs-2": (3, 4, 7, 8, 11, 12),
    "dfs-3": (4, 5, 6, 10, 11, 12),
}
#: With bounds on demand, in seconds, by strategy and size of bursts.
SIMULATOR: Mapping[tuple[str, int], float] = {
    ("dfs", 1): 0.000082,
    ("dfs", 10): 0.000266,
    ("dfs", 50): 0.001094,
    ("dfs", 100): 0.002063,
    ("bfs", 1): 0.000082,
    ("bfs", 10): 0.000359,
    ("bfs", 50): 0.001615,
    ("bfs", 100): 0.003069,
}


@dataclass(frozen=True, slots=True)
class Size:
    """Seconds of virtual time with and without bounds on demand; number of random bursts of 100 for a mean."""

    seeds: int
    demand: float
    none: float
    drawn: int


SIZES: Mapping[Scale, Size] = {
    "quick": Size(2, 0.5, 4, 10),
    "normal": Size(3, 3, 16, 30),
    "full": Size(6, 60, 200, 400),
}


def run(trial: Trial) -> Outcome:
    """Run at the size of the trial's scale."""
    return report(SIZES[trial.scale], trial)


def report(size: Size, trial: Trial) -> Outcome:
    """Measure the path, then the union."""
    parts = 2 + len(SIMULATOR) + 2
    trial.progress("a path, exact", 0, parts)
    path = {
        (strategy, n): mean_emission(strategy, n)
        for strategy in STRATEGIES
        for n in BURSTS
        if n % _batch(strategy) == 0
    }
    trial.progress("a path that drops tuples", 1, parts)
    selective = {strategy: _selective(strategy, size.drawn, trial.seed) for strategy in ("dfs", "bfs")}
    demand, none = dict[tuple[str, int], Sample](), dict[str, Sample]()
    for done, (strategy, n) in enumerate(SIMULATOR):
        trial.progress(f"{strategy}, bursts of {n}, bounds on demand", 2 + done, parts)
        demand[strategy, n] = sample(partial(latency, strategy, n, "punctuation", size.demand), trial.seeds(size.seeds))
    for done, strategy in enumerate(("dfs", "bfs")):
        trial.progress(f"{strategy}, no bounds", 2 + len(SIMULATOR) + done, parts)
        none[strategy] = sample(partial(latency, strategy, 10, "none", size.none), trial.seeds(size.seeds))
    findings = (
        *_claims(path, demand, none),
        *_closed(path),
        *_emissions(),
        *_selectivity(selective),
        *_figures(demand, none, size),
    )
    notes = (
        f"virtual time, {size.seeds} seeds: {size.demand:g} s with bounds, {size.none:g} s without; "
        f"{size.drawn} bursts of selectivity 0.95",
        "the paper's closed forms assume selectivity 1, an idle system when a burst begins, and free selection of the "
        "next operator",
        "selection is free in the union as well: at 1 us for each checked move, its latencies are 5 to 8 % higher",
    )
    return Outcome(findings, (_path_panel(path), _demand_panel(demand), _six_panel()), notes)


def emissions(strategy: str, n: int) -> list[int]:
    """Return when the tuples of a burst at time 0 leave a path of two operators that take 1 each."""
    return _path(strategy, n, 1.0, np.random.default_rng(0))


def mean_emission(strategy: str, n: int) -> float:
    """Return the mean of `emissions`."""
    return sum(emissions(strategy, n)) / n


def closed_form(strategy: str, n: int, share: float = 1.0) -> float:
    """Return the mean latency of a burst of n on two operators that take 1 each, of which the first passes a share.

    DFS: tuple i leaves at 2i, so n + 1; BFS: at n + i, so 1.5 n + 0.5; in batches of k: n + (k + 1) / 2.
    """
    if strategy in ("bfs", "rr"):
        return n + 1 + share * (n - 1) / 2
    if strategy == "dfs":
        return (n + 1) / 2 + 1 + share * (n - 1) / 2
    return n + (_batch(strategy) + 1) / 2


def latency(strategy: str, n: int, bounds: Bounds, seconds: float, seed: int) -> float:
    """Return the mean latency, in seconds, of the union of a stream with bursts of n and an almost silent one."""
    chance = np.random.default_rng(seed)
    arrivals = bursts(BUSY, RATE, n, seconds, chance) + poisson(SILENT, SLOW, seconds, chance)
    return simulate(arrivals, bounds, seconds, strategy=strategy, test=0).mean_latency() / SECOND


def _batch(strategy: str) -> int:
    return int(strategy.partition("-")[2] or 1)


def _path(strategy: str, n: int, share: float, chance: np.random.Generator) -> list[int]:
    scan, first, second = (
        Vertex("S", Scan("S", ("x",))),
        Vertex("q1", keep(share), ("S",)),
        Vertex("q2", keep(1.0), ("q1",)),
    )
    engine = Engine(Graph((scan, first, second, Vertex("out", Output("out"), ("q2",)))))
    engine.dispatch.use_strategy(strategy)
    return Simulation(engine, VirtualClock(), Costs(1)).run(at_times("S", np.zeros(n), chance)).times()


def _selective(strategy: str, drawn: int, seed: int) -> Sample:
    means = [_path(strategy, 100, 0.95, np.random.default_rng(seed + number)) for number in range(drawn)]
    return Sample(tuple(sum(times) / len(times) for times in means))


def _claims(
    path: Mapping[tuple[str, int], float], demand: Mapping[tuple[str, int], Sample], none: Mapping[str, Sample]
) -> Iterator[Finding]:
    slower = none["bfs"].mean / none["dfs"].mean
    yield Finding("no bounds: BFS to DFS", slower, near(slower, 1.0, 0.05), "similar", 1.0, "x")
    far = min(none[strategy].mean / demand[strategy, 10].mean for strategy in none)
    yield Finding(
        "no bounds to bounds on demand", far, claim(far >= 100), "far lower with bounds", 2.12 / 0.000359, "x"
    )
    sizes = [n for strategy, n in demand if strategy == "dfs"]
    for strategy in ("dfs", "bfs"):
        means = [demand[strategy, n].mean for n in sizes]
        growth = means[-1] / means[0]
        yield Finding(
            f"{strategy}: bursts of 100 to 1",
            growth,
            claim(means == sorted(means) and growth > 2),
            "grows with n",
            _growth(strategy),
            "x",
        )
    faster = (demand["bfs", 100].mean - demand["bfs", 1].mean) / (demand["dfs", 100].mean - demand["dfs", 1].mean)
    yield Finding("growth of BFS to that of DFS", faster, claim(faster > 1.1), "BFS grows faster", 2.987 / 1.981, "x")


def _growth(strategy: str) -> float:
    return SIMULATOR[strategy, 100] / SIMULATOR[strategy, 1]


def _closed(path: Mapping[tuple[str, int], float]) -> Iterator[Finding]:
    for (strategy, n), ours in path.items():
        formula = closed_form(strategy, n)
        paper = formula if strategy in ("dfs", "bfs") else None
        yield Finding(f"closed form: {strategy}, n = {n}", ours, exact(ours, formula), paper, formula, "c")


def _emissions() -> Iterator[Finding]:
    for strategy, published in SIX.items():
        ours = tuple(emissions(strategy, 6))
        yield Finding(
            f"emission times: {strategy}, n = 6", _list(ours), claim(ours == published), None, _list(published)
        )


def _list(times: tuple[int, ...]) -> str:
    return ", ".join(map(str, times))


def _selectivity(selective: Mapping[str, Sample]) -> Iterator[Finding]:
    for strategy, published in (("dfs", 98.525), ("bfs", 148.025)):
        ours = selective[strategy]
        yield Finding(
            f"selectivity 0.95: {strategy}, n = 100",
            ours.mean,
            near(ours, closed_form(strategy, 100, 0.95), 0.005),
            None,
            published,
            "c",
        )


def _figures(demand: Mapping[tuple[str, int], Sample], none: Mapping[str, Sample], size: Size) -> Iterator[Finding]:
    for key, ours in demand.items():
        yield Finding(
            f"on demand: {key[0]}, bursts of {key[1]}",
            ours.mean,
            near(ours, SIMULATOR[key], 0.1),
            None,
            SIMULATOR[key],
            "s",
        )
    few = 1.5 / (size.none * size.seeds * SLOW) ** 0.5  # so many slow tuples decide the mean
    for strategy, ours in none.items():
        yield Finding(f"no bounds: {strategy}", ours.mean, near(ours, 2.12, max(0.1, few)), None, 2.12, "s")


def _path_panel(path: Mapping[tuple[str, int], float]) -> Panel:
    curves = []
    for strategy in STRATEGIES:
        curves.append(Series(strategy, tuple((float(n), ours) for (name, n), ours in path.items() if name == strategy)))
    for strategy in ("dfs", "bfs"):
        curves.append(
            Series(f"{strategy}, paper", tuple((float(n), closed_form(strategy, n)) for n in BURSTS), "marks", strategy)
        )
    return Panel(
        "Latent timestamps, two operators",
        "tuples in a burst",
        "mean latency / cost of a tuple",
        tuple(curves),
        log_x=True,
        log_y=True,
    )


def _demand_panel(demand: Mapping[tuple[str, int], Sample]) -> Panel:
    curves = []
    for strategy in ("dfs", "bfs"):
        curves.append(
            Series(
                strategy, tuple((float(n), 1000 * ours.mean) for (name, n), ours in demand.items() if name == strategy)
            )
        )
        published = tuple((float(n), 1000 * value) for (name, n), value in SIMULATOR.items() if name == strategy)
        curves.append(Series(f"{strategy}, simulator", published, "marks", strategy))
    return Panel(
        "Union with bounds on demand", "tuples in a burst", "mean latency, ms", tuple(curves), log_x=True, log_y=True
    )


def _six_panel() -> Panel:
    curves = tuple(
        Series(strategy, tuple((float(time), float(n + 1)) for n, time in enumerate(emissions(strategy, 6))))
        for strategy in SIX
    )
    return Panel("A burst of six", "time / cost of a tuple", "tuples out", curves)
