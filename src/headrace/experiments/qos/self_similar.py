"""Arrival times: Poisson, self-similar (bursts of all lengths), and with rates that change from phase to phase.

A self-similar stream is the sum of many ON/OFF flows. Lengths of periods follow a Pareto distribution, which is
heavy-tailed: bursts do not average out over longer times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

#: Times of arrival in seconds, ascending.
Times: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Flows:
    """The number of flows, the shapes of ON and OFF lengths, and the shortest length in seconds (not published)."""

    count: int = 64
    on: float = 1.4
    off: float = 1.2
    least: float = 0.1


FLOWS = Flows()


def poisson_times(rate: float, seconds: float, chance: np.random.Generator) -> Times:
    """Return independent arrival times."""
    return np.sort(chance.random(chance.poisson(rate * seconds)) * seconds)


def self_similar_times(rate: float, seconds: float, chance: np.random.Generator, flows: Flows = FLOWS) -> Times:
    """Return `rate` arrivals per second on average, with exponential gaps while a flow is ON.

    The mean of few heavy-tailed periods is far from its expectation, so the rate while ON is chosen to give `rate` with
    the periods that were drawn.
    """
    starts, ends = _on_periods(seconds, chance, flows)
    spans = ends - starts
    worked = np.cumsum(spans)
    if not len(worked) or worked[-1] <= 0:
        return poisson_times(rate, seconds, chance)
    places = np.sort(
        chance.random(chance.poisson(rate * seconds)) * worked[-1]
    )  # Poisson in the time that flows are ON
    period = np.minimum(np.searchsorted(worked, places, "right"), len(spans) - 1)
    return np.sort(ends[period] - (worked[period] - places))


def phased(
    factors: Sequence[float], rate: float, seconds: float, chance: np.random.Generator, flows: Flows | None = FLOWS
) -> Times:
    """Return arrivals in phases, each with a factor of the rate; self-similar within a phase, Poisson without flows."""
    phases = []
    for number, factor in enumerate(factors):
        times = (
            poisson_times(rate * factor, seconds, chance)
            if flows is None
            else self_similar_times(rate * factor, seconds, chance, flows)
        )
        phases.append(number * seconds + times)
    return np.concatenate(phases)


def hurst(times: Times, seconds: float, smallest: float = 0.1) -> float:
    """Estimate self-similarity from the variance of counts in longer and longer bins: 0.5 for Poisson, at most 1."""
    levels, counts = [], np.histogram(times, round(seconds / smallest), (0, seconds))[0].astype(float)
    width = 1
    while len(counts) >= 32:
        levels.append((np.log(width), np.log(max(1e-12, float(np.var(counts / width))))))
        counts, width = counts[: len(counts) // 2 * 2].reshape(-1, 2).sum(axis=1), 2 * width
    slope = np.polyfit([x for x, _ in levels], [y for _, y in levels], 1)[0]
    return float(1 + slope / 2)


def _on_periods(seconds: float, chance: np.random.Generator, flows: Flows) -> tuple[Times, Times]:
    """Return starts and ends of the ON periods of all flows, cut to the time; every flow begins inside a period."""
    starts, ends = [], []
    means = _mean(flows.on, flows.least), _mean(flows.off, flows.least)
    for _ in range(flows.count):
        is_on = bool(chance.random() < means[0] / sum(means))
        now = _rest(flows.on if is_on else flows.off, flows.least, chance)
        if is_on:
            starts.append(np.zeros(1))
            ends.append(np.array([min(now, seconds)]))
            off = _pareto(flows.off, flows.least, 1, chance)
            now += float(off[0])
        while now < seconds:
            pairs = int((seconds - now) / sum(means)) + 8
            on, off = _pareto(flows.on, flows.least, pairs, chance), _pareto(flows.off, flows.least, pairs, chance)
            begins = now + np.concatenate(([0.0], np.cumsum(on + off)[:-1]))
            inside = begins < seconds
            starts.append(begins[inside])
            ends.append(np.minimum(begins + on, seconds)[inside])
            now = float(begins[-1] + on[-1] + off[-1])
    return (np.concatenate(starts), np.concatenate(ends)) if starts else (np.empty(0), np.empty(0))


def _pareto(shape: float, least: float, count: int, chance: np.random.Generator) -> Times:
    return np.asarray(least * (1 - chance.random(count)) ** (-1 / shape))


def _mean(shape: float, least: float) -> float:
    return shape * least / (shape - 1)


def _rest(shape: float, least: float, chance: np.random.Generator) -> float:
    """Draw the rest of a running period: uniform below the shortest length, else Pareto with a shape less one."""
    if chance.random() < (shape - 1) / shape:
        return float(least * chance.random())
    return float(least * (1 - chance.random()) ** (-1 / (shape - 1)))
