"""Whether a quantity grows: a robust slope with a confidence interval.

The slope is the median of the slopes between all pairs of points (Theil and Sen), so single peaks do not count. The
interval is Sen's, from the distribution of Kendall's S. It supposes that points are independent. Neighboring samples of
a process are not, so samples are first reduced to the medians of a few stretches of equal length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

#: Stretches into which a run is divided.
STRETCHES = 20
#: 95 % of a normal distribution.
_Z = 1.96


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
    times, medians = _medians(np.asarray(seconds, float) / 3600, np.asarray(values, float), stretches)
    slopes = sorted(
        (medians[j] - medians[i]) / (times[j] - times[i])
        for i, j in combinations(range(len(times)), 2)
        if times[j] > times[i]
    )
    if not slopes:
        raise ValueError("a trend needs measurements at two times at least")
    count = len(times)
    spread = _Z * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = max(0, math.floor((len(slopes) - spread) / 2))
    high = min(len(slopes) - 1, math.ceil((len(slopes) + spread) / 2))
    return Trend(float(np.median(slopes)), float(slopes[low]), float(slopes[high]), float(np.median(values)))


def _medians(times: np.ndarray, values: np.ndarray, stretches: int) -> tuple[list[float], list[float]]:
    """Return the median time and value of each stretch that has samples."""
    edges = np.linspace(times.min(), times.max(), stretches + 1)
    places = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, stretches - 1)
    chosen = [places == place for place in range(stretches)]
    return (
        [float(np.median(times[mask])) for mask in chosen if mask.any()],
        [float(np.median(values[mask])) for mask in chosen if mask.any()],
    )
