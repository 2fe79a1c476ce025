"""Whether a quantity grows: a robust slope with a confidence interval.

The slope is the median of the slopes between all pairs of points (Theil and Sen), so single peaks do not count. The
interval is Sen's, from the distribution of Kendall's S. It supposes that points are independent. Neighboring samples of
a process are not, so samples are first reduced to the medians of a few stretches of equal length.

The memory of a process also grows by single steps: an allocator takes a block, a table doubles. One step gives all
pairs of points around it a slope, though nothing grows. So a step is told from growth: two levels must fit the points
clearly better than a line does, and there must be no second slope, of the pairs on the same side of the step (that of a
seasonal Kendall test, with two seasons). What grows without a bound fits a line, or has a second step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np

#: Stretches into which a run is divided.
STRETCHES = 20
#: The fewest stretches on each side of a step.
_FEWEST = 2
#: Two levels fit clearly better than a line if they leave at most this share of the deviations that it leaves.
_CLEARLY = 0.7
#: 95 % of a normal distribution.
_Z = 1.96
#: Hours and values.
_Points: TypeAlias = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Trend:
    """Growth per hour, with the bounds of its 95 % interval, and the median of the quantity."""

    slope: float
    low: float
    high: float
    level: float

    @property
    def is_zero(self) -> bool:
        """Return whether no growth is within the error."""
        return self.low <= 0.0 <= self.high

    @property
    def verdict(self) -> str:
        return "zero" if self.is_zero else "grows" if self.slope > 0 else "shrinks"


def trend(seconds: Sequence[float], values: Sequence[float], stretches: int = STRETCHES) -> Trend:
    """Return the trend of values that were measured at these times."""
    return _trend([_medians(seconds, values, stretches)], values)


@dataclass(frozen=True, slots=True)
class Step:
    """The largest step of a quantity: when it came, its size, and the trend on both sides; and whether it is one.

    A quantity that grows steadily has a largest step, too, but a line fits it as well.
    """

    seconds: float
    size: float
    beside: Trend
    is_clear: bool

    @property
    def is_all(self) -> bool:
        """Return whether the quantity has this step and no growth beside it."""
        return self.is_clear and self.beside.verdict != "grows"


def step(seconds: Sequence[float], values: Sequence[float], stretches: int = STRETCHES) -> Step | None:
    """Return the moment that divides the values best into two levels; None if there are too few for two trends."""
    points = _medians(seconds, values, stretches)
    places = range(_FEWEST, len(points) - _FEWEST + 1)
    if not places:
        return None
    place = min(places, key=lambda at: _spread(points[:at]) + _spread(points[at:]))
    before, after = points[:place], points[place:]
    beside, whole = _trend([before, after], values), _trend([points], values)
    line = _spread([(at, value - whole.slope * at) for at, value in points])
    is_clear = _spread(before) + _spread(after) <= _CLEARLY * line
    # what the growth beside it adds from the middle of one side to that of the other is no part of the step
    apart = float(np.median([at for at, _ in after]) - np.median([at for at, _ in before]))
    size = _level(after) - _level(before) - beside.slope * apart
    return Step((before[-1][0] + after[0][0]) * 1800, size, beside, is_clear)


def _trend(sides: Sequence[_Points], values: Sequence[float]) -> Trend:
    """Return the trend of the pairs of points that lie on the same side."""
    slopes = sorted(
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for side in sides
        for earlier, later in combinations(side, 2)
        if later[0] > earlier[0]
    )
    if not slopes:
        raise ValueError("a trend needs measurements at two times at least")
    variance = sum(count * (count - 1) * (2 * count + 5) / 18 for count in map(len, sides))
    spread = _Z * math.sqrt(variance)
    low = max(0, math.floor((len(slopes) - spread) / 2))
    high = min(len(slopes) - 1, math.ceil((len(slopes) + spread) / 2))
    return Trend(float(np.median(slopes)), float(slopes[low]), float(slopes[high]), float(np.median(values)))


def _level(points: _Points) -> float:
    return float(np.median([value for _, value in points]))


def _spread(points: _Points) -> float:
    level = _level(points)
    return sum(abs(value - level) for _, value in points)


def _medians(seconds: Sequence[float], values: Sequence[float], stretches: int) -> _Points:
    """Return the median time, in hours, and value of each stretch that has samples."""
    times, measured = np.asarray(seconds, float) / 3600, np.asarray(values, float)
    edges = np.linspace(times.min(), times.max(), stretches + 1)
    places = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, stretches - 1)
    chosen = [places == place for place in range(stretches)]
    return [(float(np.median(times[mask])), float(np.median(measured[mask]))) for mask in chosen if mask.any()]
