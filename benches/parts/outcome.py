"""The outcome of a run: its time, and sums over its results on which two systems must agree."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

#: Sums by name.
Sums = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Outcome:
    """`batch_ms` has the time of each micro-batch, query by query; the last two of a query have almost no rows."""

    seconds: float
    batch_ms: tuple[tuple[float, ...], ...]
    sums: Mapping[str, Sums]  # by query

    def median_ms(self, skip: int = 0) -> float:
        """Return the median micro-batch of all queries, without the first `skip` and the last two of each."""
        return statistics.median(ms for series in self.batch_ms for ms in series[skip:-2] or series[skip:] or series)


class Disagreement(AssertionError):
    """Two systems gave different results, so their figures cannot be compared."""


def check_equal(case: str, ours: Outcome, peer: Outcome) -> None:
    """Raise unless both outcomes have the same sums, and at least one result."""
    for query, sums in ours.sums.items():
        other = peer.sums[query]
        same = all(math.isclose(sums[name], other[name], rel_tol=1e-9) for name in sums)
        if not same or not sums["rows"]:
            raise Disagreement(f"{case}, query {query}: ours {dict(sums)}, Spark {dict(other)}")
