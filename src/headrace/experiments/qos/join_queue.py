"""How long do tuples wait for a window join that has the processor to itself?

Two Poisson streams with full windows, so that service times are constant per side (QoS book, tables 5.1 and 5.2 with
their figures). Except for the first, the printed delays are the utilization times the wait that the book's own formula
gives; ours are compared with the formula.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from headrace.analysis.queueing.join_queue import JoinQueue
from headrace.experiments.experiment import Finding, Outcome, Panel, Scale, Series, Trial
from headrace.experiments.judging import claim, near
from headrace.experiments.qos.self_similar import Times
from headrace.experiments.sample import Sample


@dataclass(frozen=True, slots=True)
class Printed:
    """A column of a table: a queue, its mean delay (seconds) and length (tuples), predicted and measured."""

    name: str
    queue: JoinQueue
    delay: tuple[float, float]
    length: tuple[float, float]


def _printed(
    name: str,
    rates: tuple[float, float],
    served: tuple[float, float],
    delay: tuple[float, float],
    length: tuple[float, float],
) -> Printed:
    return Printed(name, JoinQueue(rates, (1 / served[0], 1 / served[1])), delay, length)


#: Table 5.1 prints 100 for the second rate, but its utilization implies 90; the second delay of table 5.2 lacks a zero.
TABLES = (
    _printed("equal windows, 100 + 100 /s", (100, 100), (209.4, 209.4), (0.0508, 0.05867), (10.638, 10.6385)),
    _printed("equal windows, 90 + 90 /s", (90, 90), (209.4, 209.4), (0.01257, 0.01539), (2.6313, 2.9399)),
    _printed("windows 2 : 1, 200 + 100 /s", (200, 100), (440, 220), (0.01549, 0.01931), (5.113, 5.3817)),
    _printed("windows 2 : 1, 180 + 90 /s", (180, 90), (440, 220), (0.006276, 0.00781), (2.071, 2.1054)),
    _printed("windows 2 : 1, 150 + 75 /s", (150, 75), (440, 220), (0.00249, 0.00291), (0.8217, 0.8438)),
)


@dataclass(frozen=True, slots=True)
class Size:
    """Tuples for each seed; the first tenth is not counted."""

    seeds: int
    tuples: int


SIZES: Mapping[Scale, Size] = {"quick": Size(3, 100_000), "normal": Size(8, 1_000_000), "full": Size(20, 4_000_000)}


def run(trial: Trial) -> Outcome:
    """Run at the size of the trial's scale."""
    return report(SIZES[trial.scale], trial)


def report(size: Size, trial: Trial) -> Outcome:
    """Measure every column of both tables."""
    findings: list[Finding] = []
    waits: dict[str, Times] = {}
    delays: dict[str, Sample] = {}
    for done, printed in enumerate(TABLES):
        trial.progress(printed.name, done, len(TABLES))
        drawn = [simulate(printed.queue, size.tuples, seed) for seed in trial.seeds(size.seeds)]
        waits[printed.name] = np.concatenate(drawn)
        delays[printed.name] = Sample(tuple(float(run_waits.mean()) for run_waits in drawn))
        findings += _column(printed, delays[printed.name])
    findings += _claims(delays, waits)
    notes = (
        f"{size.seeds} seeds of {size.tuples:,} tuples each, the first tenth not counted; "
        "service times are constant, as with full windows",
        "the simulator's column is the formula",
        "the measured delays of the book include the cost of logging: they are 14 to 27 % above its theory",
        "the first table prints two rates of 100; its second utilization, "
        f"{TABLES[1].queue.utilization:.4f}, is that of 90",
    )
    return Outcome(tuple(findings), (_delays_panel(delays), _distribution_panel(waits)), notes)


def simulate(queue: JoinQueue, tuples: int, seed: int) -> Times:
    """Return the waiting time of every tuple: the remaining work when it arrived."""
    chance = np.random.default_rng(seed)
    gaps = chance.exponential(1 / queue.rate, tuples)
    is_left = chance.random(tuples) < queue.rates[0] / queue.rate
    services = np.where(is_left, *queue.services)
    left_to_do = np.concatenate(([0.0], np.cumsum(services[:-1] - gaps[1:])))
    waits = left_to_do - np.minimum.accumulate(left_to_do)  # never less than nothing
    return np.asarray(waits[tuples // 10 :])


def _column(printed: Printed, delay: Sample) -> Iterator[Finding]:
    queue, name = printed.queue, printed.name
    length = Sample(tuple(queue.rate * value for value in delay.values))
    yield Finding(f"{name}: delay, by formula", delay.mean, near(delay, queue.wait, 0.03), None, queue.wait, "s")
    yield Finding(
        f"{name}: delay, as measured", delay.mean, near(delay, printed.delay[1], 0.1), printed.delay[1], queue.wait, "s"
    )
    yield Finding(
        f"{name}: delay, printed theory",
        queue.wait,
        near(queue.wait, printed.delay[0], 0.02),
        printed.delay[0],
        None,
        "s",
    )
    yield Finding(
        f"{name}: queue, as measured",
        length.mean,
        near(length, printed.length[1], 0.06),
        printed.length[1],
        queue.rate * queue.wait,
    )
    theory = queue.rate * queue.wait
    yield Finding(f"{name}: queue, printed theory", theory, near(theory, printed.length[0], 0.02), printed.length[0])


def _claims(delays: Mapping[str, Sample], waits: Mapping[str, Times]) -> Iterator[Finding]:
    high, low = TABLES[2], TABLES[4]
    fall = delays[high.name].mean / delays[low.name].mean
    yield Finding(
        "windows 2 : 1: delay at 91 % to that at 68 %", fall, claim(fall > 4), "falls steeply", 0.01705 / 0.00365, "x"
    )
    for printed, dominates in ((high, "the wait does"), (low, "service does")):
        service = printed.queue.utilization / printed.queue.rate
        ratio = delays[printed.name].mean / service
        holds = ratio > 1 if dominates == "the wait does" else ratio < 1
        yield Finding(
            f"{printed.name}: wait to service; which dominates",
            ratio,
            claim(holds),
            dominates,
            printed.queue.wait / service,
            "x",
        )
    for printed in (TABLES[0], high):
        off = max(abs(_share(waits[printed.name], t) - printed.queue.waits_at_most(t)) for t in _moments(printed))
        yield Finding(
            f"{printed.name}: farthest from the distribution",
            100 * off,
            claim(off < 0.03),
            "follows it",
            None,
            "points",
        )
    high_waits = waits[high.name]
    longest = float(high_waits.max() / high_waits.mean())
    yield Finding(
        f"{high.name}: longest wait to the mean", longest, claim(longest >= 8), "10 x the mean, rarely", None, "x"
    )


def _moments(printed: Printed) -> list[float]:
    return [printed.queue.wait * factor for factor in (0.25, 0.5, 1, 2, 3, 5)]


def _share(waits: Times, seconds: float) -> float:
    return float((waits <= seconds).mean())


def _delays_panel(delays: Mapping[str, Sample]) -> Panel:
    def points(values: Mapping[str, float]) -> tuple[tuple[float, float], ...]:
        return tuple((100 * printed.queue.utilization, 1000 * values[printed.name]) for printed in TABLES)

    series = (
        Series("simulated", points({name: delay.mean for name, delay in delays.items()}), "marks"),
        Series("by formula", tuple(sorted(points({printed.name: printed.queue.wait for printed in TABLES}))), "dashed"),
        Series("printed, measured", points({printed.name: printed.delay[1] for printed in TABLES}), "marks"),
    )
    return Panel("Mean delay of a window join", "utilization, %", "ms in the queue", series, log_y=True)


def _distribution_panel(waits: Mapping[str, Times]) -> Panel:
    curves = []
    for printed in (TABLES[0], TABLES[2]):
        times = np.linspace(0, 5 * printed.queue.wait, 40).tolist()
        curves.append(Series(printed.name, tuple((1000 * t, 100 * _share(waits[printed.name], t)) for t in times)))
        theory = tuple((1000 * t, 100 * printed.queue.waits_at_most(t)) for t in times)
        curves.append(Series(f"{printed.name}, formula", theory, "dashed", printed.name))
    return Panel("Who waits no longer", "ms", "% of tuples", tuple(curves))
