"""Does shedding keep promised latencies, under a scheduler that ignores promises and under one that uses them?

16 queries are in three groups: results within 0.6, 1.0 or 1.5 s, of which 15, 25 or 50 % may be lost. At times the load
is above the capacity of the processor. The engine's own policy decides where and how much to shed, from recent rates
(QoS book, figures 7.6 to 7.11).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from headrace.analysis.capacity.capacity import PathOperator
from headrace.analysis.capacity.load import load
from headrace.analysis.forecast.network import Network, flow
from headrace.analysis.shedding.allocation import shares
from headrace.analysis.shedding.decision import ActiveSheds, decide
from headrace.analysis.shedding.places import QueryPath, choose_places
from headrace.engine.scheduling.schedulers import SCHEDULERS
from headrace.experiments.experiment import Finding, Outcome, Panel, Scale, Series, Trial
from headrace.experiments.judging import below, claim
from headrace.experiments.qos.self_similar import Times, phased
from headrace.experiments.qos.workload import workload
from headrace.experiments.sample import Sample
from headrace.testing.simulation.stations import Dispatch, Processor, Seen

#: Seconds that a result may take, and the share of results that may be lost.
GROUPS = ((0.6, 0.15), (1.0, 0.25), (1.5, 0.5))
SCHEDULES = ("path-capacity", "edf")
#: The load, phase by phase.
LOADS = (0.6, 0.9, 1.25, 0.9, 1.4, 0.6)
#: A switch costs 50 us; EDF pays as much again for its choice, because it compares the oldest tuples of all units.
DISPATCHES = {"path-capacity": Dispatch(5, switch=5e-5), "edf": Dispatch(5, choice=5e-5, switch=5e-5)}
#: Seconds between two estimates of the load, and the cost of a shedder for each tuple.
EVERY, TEST = 0.1, 1e-6
#: The share of the processor that is kept in reserve.
RESERVE = 0.05


@dataclass(frozen=True, slots=True)
class Size:
    """Seconds of each phase, for each seed."""

    seeds: int
    seconds: float


SIZES: Mapping[Scale, Size] = {"quick": Size(1, 2), "normal": Size(2, 5), "full": Size(4, 120)}


@dataclass(slots=True)
class Ran:
    """A run with its measurements, and the load and the dropped share at each estimate."""

    seen: Seen
    loads: list[tuple[float, float]] = field(default_factory=list)
    shed: list[tuple[float, float]] = field(default_factory=list)


def run(trial: Trial) -> Outcome:
    """Run at the size of the trial's scale."""
    return report(SIZES[trial.scale], trial)


def report(size: Size, trial: Trial) -> Outcome:
    """Run both schedulers, with shedding and without."""
    runs: dict[tuple[str, bool], list[Ran]] = {(name, sheds): [] for name in SCHEDULES for sheds in (False, True)}
    parts = [(seed, key) for seed in trial.seeds(size.seeds) for key in runs]
    for done, (seed, (name, sheds)) in enumerate(parts):
        trial.progress(f"{name}, {'with' if sheds else 'without'} shedding, seed {seed}", done, len(parts))
        network = workload(seed, load=1.0)
        runs[name, sheds].append(simulate(network, streams(network, size, seed), name, seed, sheds=sheds))
    network = workload(trial.seed, load=1.0)
    notes = (
        f"virtual time, {size.seeds} seed(s), loads of {', '.join(f'{load:g}' for load in LOADS)} "
        f"for {size.seconds:g} s each, self-similar within",
        "queries are random, because the list is not available; each group has a third of them",
        "loads count service only; scheduling costs are measured, and the higher they are the earlier shedding starts",
        "a join's result counts with the tuple that completes it; a partner that was dropped is not considered",
    )
    return Outcome((*_findings(runs, len(network.queries)),), _panels(runs, len(network.queries)), notes)


def streams(network: Network, size: Size, seed: int) -> dict[str, Times]:
    """Return the input, which is the same for all runs."""
    chance = np.random.default_rng(seed)
    return {name: phased(LOADS, rate, size.seconds, chance) for name, rate in network.streams.items()}


def group_of(query: int) -> int:
    """Return the group of a query, by its position."""
    return query % len(GROUPS)


def simulate(network: Network, arrivals: Mapping[str, Times], name: str, seed: int, *, sheds: bool) -> Ran:
    """Run until all work is done; shed by recent rates."""
    promises = {query: GROUPS[group_of(place)][0] for place, query in enumerate(network.queries)}
    dispatch = DISPATCHES[name]
    processor = Processor(network, arrivals, SCHEDULERS[name], dispatch, seed=seed, promises=promises)
    ran, plan, operators = Ran(processor.seen), ActiveSheds(), operators_of(network)
    window, end = GROUPS[0][0], max(float(times[-1]) for times in arrivals.values())
    moment, before = EVERY, (0.0, 0.0)
    while moment < end:
        processor.run(moment)
        spent = processor.seen.choices * dispatch.choice + processor.seen.switches * dispatch.switch
        overhead = (spent - before[1]) / max(1e-9, processor.clock - before[0])
        before = processor.clock, spent
        rates = {
            stream: _came(times, moment - window, moment) / min(window, moment) for stream, times in arrivals.items()
        }
        paths = paths_of(network, rates)
        phi = load([(path.labels, path.rate) for path in paths], operators)
        if sheds:
            plan = decide(plan, phi, choose_places(paths, operators, test=TEST), limit=max(0.1, 1 - overhead - RESERVE))
            processor.shed(shares(plan.sheds))
        ran.loads.append((moment, phi))
        ran.shed.append((moment, sum(shed.freed for shed in plan.sheds)))
        moment += EVERY
    processor.run()
    return ran


def operators_of(network: Network) -> dict[str, PathOperator]:
    """Return the stations as operators of paths; a join gets the mean selectivity of its sides."""
    tuples = flow(network)
    return {
        station.name: PathOperator(
            station.name, 1 / station.service.mean, tuples.out[station.name] / tuples.rate(station.name)
        )
        for station in network.stations
    }


def paths_of(network: Network, rates: Mapping[str, float]) -> list[QueryPath]:
    """Return the paths from every leaf to the results, with current rates and tolerable losses."""
    above = {
        feed.origin: station.name
        for station in network.stations
        for feed in station.feeds
        if feed.origin not in network.streams
    }
    places = {root: place for place, root in enumerate(network.queries.values())}
    names = list(network.queries)
    paths = []
    for station in network.stations:
        for feed in station.feeds:
            if feed.origin not in network.streams:
                continue
            labels = [station.name]
            while labels[-1] in above:
                labels.append(above[labels[-1]])
            place = places[labels[-1]]
            paths.append(QueryPath(names[place], tuple(labels), rates[feed.origin], GROUPS[group_of(place)][1]))
    return paths


def _came(times: Times, since: float, until: float) -> int:
    first, last = np.searchsorted(times, (since, until))
    return int(last - first)


def worst(record: Seen, group: int, queries: int) -> float:
    """Return the largest latency of a group's results."""
    return max(
        (
            float(late.max())
            for query in range(queries)
            if group_of(query) == group
            for late in (record.of(query)[1],)
            if len(late)
        ),
        default=0.0,
    )


def late_share(record: Seen, group: int, queries: int) -> float:
    """Return the share of a group's results that took longer than promised."""
    late = np.concatenate([record.of(query)[1] for query in range(queries) if group_of(query) == group])
    return float((late > GROUPS[group][0]).mean()) if len(late) else 0.0


def _late_percent(record: Seen, *, group: int, queries: int) -> float:
    return 100 * late_share(record, group, queries)


def lost(shed: Seen, whole: Seen, query: int) -> float:
    """Return the share of a query's results that shedding lost, compared with a run that sheds nothing."""
    expected = len(whole.of(query)[0])
    return 1 - len(shed.of(query)[0]) / expected if expected else 0.0


def smoothed(record: Seen, query: int, window: float = 1.0) -> list[tuple[float, float]]:
    """Return the moving average of the latency of a query's results."""
    times, late = record.of(query)
    masks = ((float(at), (times > at - window) & (times <= at)) for at in np.arange(window, times[-1], window / 2))
    return [(at, float(late[mask].mean())) for at, mask in masks if mask.any()]


def congested(record: Seen, least: float) -> float:
    """Return the first second at which so many bytes wait."""
    return float(next((second for second, held in enumerate(record.waiting) if held >= least), len(record.waiting)))


def _findings(runs: Mapping[tuple[str, bool], Sequence[Ran]], queries: int) -> Iterator[Finding]:
    pc, pc_shed, edf, edf_shed = (
        [ran.seen for ran in runs[name, sheds]] for name in SCHEDULES for sheds in (False, True)
    )
    first = _sample_of(pc_shed, lambda record: worst(record, 0, queries))
    yield Finding(
        "path-capacity, 0.6 s: largest latency with shedding",
        first.mean,
        claim(first.high > 0.6),
        "exceeds 0.6 s at times",
        None,
        "s",
    )
    yield _less(
        "path-capacity, 0.6 s: largest latency, with shedding to without",
        pc_shed,
        pc,
        lambda record: worst(record, 0, queries),
        "lower",
    )
    third = _sample_of(pc_shed, lambda record: worst(record, 2, queries))
    yield Finding(
        "path-capacity, 1.5 s: largest latency with shedding",
        third.mean,
        claim(third.high <= 1.5),
        "stays under 1.5 s",
        None,
        "s",
    )
    late = _sample_of(pc_shed, lambda record: 100 * late_share(record, 2, queries))
    yield Finding("path-capacity, 1.5 s: late results with shedding", late.mean, below(late, 1.0), "none", None, "%")
    query = _suffering(pc[0], queries)
    peak = "path-capacity, a 0.6 s query: peak of the moving mean, with shedding to without"
    yield _less(
        peak, pc_shed, pc, lambda record: max((value for _, value in smoothed(record, query)), default=0.0), "reduced"
    )
    yield _less(
        "path-capacity: largest queues, with shedding to without", pc_shed, pc, lambda record: record.peak, "reduced"
    )
    kept = _sample_of(edf_shed, lambda record: worst(record, 0, queries))
    yield Finding(
        "edf, 0.6 s: largest latency with shedding", kept.mean, claim(kept.high <= 0.6), "never above 0.6 s", None, "s"
    )
    for group, (promise, _) in enumerate(GROUPS):
        late = _sample_of(edf_shed, partial(_late_percent, group=group, queries=queries))
        yield Finding(f"edf, {promise:g} s: late results with shedding", late.mean, below(late, 1.0), "none", None, "%")
    yield _less(
        "edf, 0.6 s: largest latency, with shedding to without",
        edf_shed,
        edf,
        lambda record: worst(record, 0, queries),
        "lower",
    )
    yield _less("edf: largest queues, with shedding to without", edf_shed, edf, lambda record: record.peak, "reduced")
    starts = Sample(
        tuple(congested(b, 0.25 * a.peak) / max(1.0, congested(a, 0.25 * a.peak)) for a, b in zip(pc, edf, strict=True))
    )
    yield Finding(
        "congestion begins: edf to path-capacity, without shedding",
        starts.mean,
        below(starts, 1.0001),
        "earlier under edf",
        None,
        "x",
    )
    for name in SCHEDULES:
        pairs = [(shed.seen, whole.seen) for shed, whole in zip(runs[name, True], runs[name, False], strict=True)]
        for group, (promise, tolerance) in enumerate(GROUPS):
            share = _lost_of(pairs, queries, group)
            yield Finding(
                f"{name}, {promise:g} s: results lost",
                100 * share,
                claim(share <= tolerance),
                f"at most {100 * tolerance:g} %",
                None,
                "%",
            )
        over = _beyond(pairs, queries)
        yield Finding(
            f"{name}: largest loss beyond tolerance and chance",
            100 * over,
            claim(over <= 0),
            "none",
            None,
            "points",
        )


def _sample_of(records: Sequence[Seen], value: Callable[[Seen], float]) -> Sample:
    return Sample(tuple(value(record) for record in records))


def _less(
    what: str, shed: Sequence[Seen], whole: Sequence[Seen], value: Callable[[Seen], float], paper: str
) -> Finding:
    ratios = Sample(
        tuple(
            value(shed_record) / max(1e-12, value(whole_record))
            for shed_record, whole_record in zip(shed, whole, strict=True)
        )
    )
    return Finding(what, ratios.mean, below(ratios), paper, None, "x")


def _beyond(pairs: Sequence[tuple[Seen, Seen]], queries: int) -> float:
    """Return the loss of a query beyond its tolerance and beyond chance: three deviations of so few results."""

    def excess(shed: Seen, whole: Seen, query: int) -> float:
        tolerance, expected = GROUPS[group_of(query)][1], len(whole.of(query)[0])
        return lost(shed, whole, query) - tolerance - 3 * math.sqrt(tolerance * (1 - tolerance) / max(1, expected))

    return max(0.0, *(excess(shed, whole, query) for shed, whole in pairs for query in range(queries)))


def _lost_of(pairs: Sequence[tuple[Seen, Seen]], queries: int, group: int) -> float:
    mine = [query for query in range(queries) if group_of(query) == group]
    expected = sum(len(whole.of(query)[0]) for _, whole in pairs for query in mine)
    return 1 - sum(len(shed.of(query)[0]) for shed, _ in pairs for query in mine) / max(1, expected)


def _suffering(record: Seen, queries: int) -> int:
    """Return the query of the first group with the highest latency, among those with enough results."""
    mine = [query for query in range(queries) if group_of(query) == 0]
    often = [query for query in mine if len(record.of(query)[0]) >= 20] or mine
    return max(often, key=lambda query: float(record.of(query)[1].mean()) if len(record.of(query)[1]) else 0.0)


def _panels(runs: Mapping[tuple[str, bool], Sequence[Ran]], queries: int) -> tuple[Panel, ...]:
    panels = []
    query = _suffering(runs[SCHEDULES[0], False][0].seen, queries)
    for name in SCHEDULES:
        series, queue = [], []
        for sheds in (False, True):
            record, what = runs[name, sheds][0].seen, "with shedding" if sheds else "without"
            series.append(Series(what, tuple(smoothed(record, query))))
            queue.append(
                Series(what, tuple((float(second), held / 1000) for second, held in enumerate(record.waiting)))
            )
        series.append(Series("promised", ((0, GROUPS[0][0]),), "level"))
        panels.append(Panel(f"{name}: latency of a 0.6 s query", "time, s", "s, mean of a second", tuple(series)))
        panels.append(Panel(f"{name}: queues", "time, s", "kB", tuple(queue)))
    return tuple(panels)
