"""Drop tuples by the value of an attribute: first the smallest, the largest, or those nearest to a center or farthest.

A page and a sample of earlier tuples together give the quantile below which values are dropped. A large page decides
by itself, small ones rely on the sample. Where values drift, the sample lags behind, so an error is corrected later.

If values are summed behind the arc, the sum of the dropped ones is limited too: each page adds its share to what may be
dropped, so that at no time more than the share of all values so far is missing.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from headrace.model.qos import Shedding

#: Values remembered of an arc; with every doubling every second one goes, so that older ones become rare.
SAMPLE = 1024
#: Tuples over which an error is corrected: few enough to follow a drift, too many for chance to decide.
_SOON = 64


class Memory(Struct):
    """The memory of a shedder: a sample of ranks (Float64, little endian), and how many tuples it dropped too few.

    `allowed` is the sum of values that it may still drop.
    """

    sample: bytes = b""
    owed: float = 0.0
    allowed: float = 0.0


class SemanticShedder:
    """A shedder that drops the tuples with the least rank."""

    def __init__(self, shedding: Shedding, share: float, memory: Memory | None = None) -> None:
        assert shedding.attribute is not None
        self.attribute = shedding.attribute
        self.shedding, self._share = shedding, share
        self._sample: NDArray[np.float64] = np.frombuffer(b"" if memory is None else memory.sample, np.float64)
        self._owed = 0.0 if memory is None else memory.owed
        self._allowed = 0.0 if memory is None else memory.allowed

    def memory(self) -> Memory:
        """Return what must survive a restart."""
        return Memory(self._sample.tobytes(), self._owed, self._allowed)

    def kept(self, rows: pl.DataFrame, draws: np.random.Generator) -> NDArray[np.bool_]:
        """Return which rows stay; a missing value has no rank, so such a row is dropped at random."""
        values = rows[self.attribute].cast(pl.Float64).to_numpy()
        ranks = self._rank(values)
        known = ~np.isnan(ranks)
        coins = draws.random(len(ranks))
        population = np.concatenate((self._sample, ranks[known]))
        share = self._share + self._owed / max(len(ranks), _SOON)
        dropped = np.where(known, _below(ranks, population, share, coins), coins < self._share)
        if not self._share:
            dropped[:] = False  # it only samples
        self._owed += self._share * len(ranks) - int(dropped.sum())
        if self.shedding.bounds_sum:
            dropped = self._within_sum(values, ranks, dropped)  # what the sum forbids is not made up for later
        self._sample = population[:: max(1, -(-len(population) // SAMPLE))].copy()
        return np.asarray(~dropped)

    def _within_sum(
        self, values: NDArray[np.float64], ranks: NDArray[np.float64], dropped: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return which rows are dropped if their values may not add up to more than their share; least ranks first."""
        sizes = np.where(np.isfinite(values), np.abs(values), 0.0)
        self._allowed += self._share * float(sizes.sum())
        chosen = np.flatnonzero(dropped & (sizes <= self._allowed))
        order = np.where(np.isnan(ranks[chosen]), -np.inf, ranks[chosen])  # a missing value takes nothing from the sum
        chosen = chosen[np.argsort(order, kind="stable")]
        totals = np.cumsum(sizes[chosen])
        fitting = int(np.searchsorted(totals, self._allowed, side="right"))
        self._allowed -= float(totals[fitting - 1]) if fitting else 0.0
        result = np.zeros(len(values), np.bool_)
        result[chosen[:fitting]] = True
        return result

    def _rank(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        center = self.shedding.center or 0.0
        match self.shedding.kind:
            case "SMALLEST" | "RANDOM":
                return values
            case "LARGEST":
                return -values
            case "CENTER":
                return np.asarray(np.abs(values - center))
            case "OUTLIER":
                return np.asarray(-np.abs(values - center))


def _below(
    ranks: NDArray[np.float64], population: NDArray[np.float64], share: float, coins: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return which ranks are in the least `share` of those seen; at the border, coins decide."""
    count = share * len(population)
    if count <= 0:
        return np.zeros(len(ranks), np.bool_)
    if count >= len(population):
        return np.ones(len(ranks), np.bool_)
    border = np.partition(population, int(count))[int(count)]
    among = (count - np.count_nonzero(population < border)) / np.count_nonzero(population == border)
    return np.asarray((ranks < border) | ((ranks == border) & (coins < among)))
