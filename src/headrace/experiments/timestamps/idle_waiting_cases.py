"""The cases of idle waiting, their published values, and how they are measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headrace.experiments.arrivals import at_times, poisson
from headrace.experiments.experiment import Range
from headrace.experiments.sample import Sample
from headrace.experiments.two_streams import BUSY, SHARE, SILENT, UNION, Bounds, simulate
from headrace.model.time import SECOND
from headrace.testing.simulation.engine import heartbeats

RATE, SLOW = 50.0, 0.05
PERIODIC = (0.1, 1, 10, 50, 100, 150, 1000, 5000)
COSTS = (5, 10, 20, 50, 100)


@dataclass(frozen=True, slots=True)
class Case:
    """A way to pass bounds; `rate` is that of periodic bounds.

    `slow_at` is when the silent stream's only tuple arrives, in a run too short for one by chance.
    """

    name: str
    bounds: Bounds
    rate: float = 0.0
    cost: int = 20
    slow_at: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements of one case, over seeds; latency in seconds, shares of 1."""

    latency: Sample
    idle: Sample
    held: Sample
    peak: Sample
    seconds: float


@dataclass(frozen=True, slots=True)
class Published:
    """The simulator's values: seconds, share, elements."""

    latency: float
    idle: float
    peak: Range


NONE, DEMAND, REGISTERS, LATENT = (
    Case("A no bounds", "none"),
    Case("C on demand, punctuation", "punctuation"),
    Case("C on demand, registers", "registers"),
    Case("D latent", "latent"),
)
ABSORBED = Case("B 5000/s, absorbed", "absorbed", 5000)
#: Against a slow tuple that waits for the next busy one, with the bounds that come meanwhile behind it.
BEHIND, BEHIND_ABSORBED = (
    Case("B 5000/s behind a slow tuple", "none", 5000, slow_at=0.5),
    Case("B 5000/s behind a slow tuple, absorbed", "absorbed", 5000, slow_at=0.5),
)


def periodic(rate: float) -> Case:
    """Return a case with this many bounds per second from the silent stream."""
    return Case(f"B {rate:g}/s", "none", rate)


SIMULATOR: Mapping[Case, Published] = {
    NONE: Published(19.4, 0.9990, Range(4418, 4527)),
    periodic(0.1): Published(4.25, 0.9975, Range(524, 556)),
    periodic(1): Published(0.489, 0.979, Range(67, 70)),
    periodic(10): Published(0.0499, 0.788, Range(15, 16)),
    periodic(50): Published(0.0100, 0.352, Range(11, 13)),
    periodic(100): Published(0.00503, 0.201, Range(21, 24)),
    periodic(150): Published(0.00340, 0.141, Range(30, 36)),
    periodic(1000): Published(0.000746, 0.0125, Range(196, 232)),
    periodic(5000): Published(0.00258, 0.0050, Range(973, 1152)),
    DEMAND: Published(0.0000861, 0.0021, Range(3, 4)),
    REGISTERS: Published(0.0000450, 0.00024, Range(2, 3)),
    LATENT: Published(0.0000410, 0.0, Range(2, 2)),
}
#: C less D, in microseconds, and the idle share of C in %, by cost of a tuple in microseconds.
GAPS = dict(zip(COSTS, (15, 25, 45, 105, 206), strict=True))
IDLE = dict(zip(COSTS, (0.067, 0.115, 0.211, 0.497, 0.970), strict=True))


def measure(case: Case, seconds: float, seeds: range) -> Measured:
    """Run a case with each seed."""
    traces = []
    for seed in seeds:
        chance = np.random.default_rng(seed)
        arrivals = poisson(BUSY, RATE, seconds, chance)
        if case.slow_at is None:
            arrivals += poisson(SILENT, SLOW, seconds, chance)
        else:
            arrivals += at_times(SILENT, np.array([case.slow_at * seconds * SECOND]), chance, below=SHARE)
        if case.rate:
            arrivals += heartbeats(SILENT, round(SECOND / case.rate), round(seconds * SECOND))
        traces.append(simulate(arrivals, case.bounds, seconds, cost=case.cost))
    return Measured(
        Sample(tuple(trace.mean_latency() / SECOND for trace in traces)),
        Sample(tuple(trace.idle_share(UNION) for trace in traces)),
        Sample(tuple(trace.held_share(UNION) for trace in traces)),
        Sample(tuple(float(trace.peak) for trace in traces)),
        seconds,
    )


def idle_by_theory(rate: float) -> float:
    """Return the idle share with periodic bounds: 1 - (1 - e^-x) / x with x tuples per period."""
    x = SHARE * RATE / rate
    return 1 - (1 - math.exp(-x)) / x


def peak_shrinks(case: Case, seconds: float) -> float:
    """Return the ratio of peaks in a run shorter than the simulator's; the longest exponential gap decides a peak."""
    if case.bounds != "none" or 0 < case.rate < 100:
        return 1.0
    rate, whole = (SLOW, 2000.0) if not case.rate else (RATE, 300.0)
    return min(1.0, math.log(max(2.0, SHARE * rate * seconds)) / math.log(SHARE * rate * whole))
