"""Drop tuples by the value of an attribute: first the smallest, the largest, or those nearest to a center or farthest.

A page and a sample of earlier tuples together give the quantile below which values are proposed. A large page decides
by itself, small ones rely on the sample. Where values drift, the sample lags behind, and proposes too many or too few:
then those of a page go that come first there.

No more is dropped than the share of what has been seen, at no time: each tuple adds its share to what may be dropped.
If values are summed behind the arc, the same holds for the sum of the dropped ones. Where windows are behind the arc,
each pane has an account of its own, so nothing that one window did not lose is lost by the next.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from headrace.model.qos import Shedding
from headrace.model.schema import TS

#: Values remembered of an arc; with every doubling every second one goes, so that older ones become rare.
SAMPLE = 1024
#: Tuples over which an error is corrected: few enough to follow a drift, too many for chance to decide.
_SOON = 64


#: Panes whose accounts are kept; one that comes back later begins with an empty account.
_PANES = 64
#: For sums of shares that should be whole.
_ROUNDED = 1e-9


class Account(Struct, array_like=True):
    """How many tuples of a pane may still be dropped, and how much of the sum of their values."""

    tuples: float = 0.0
    sum: float = 0.0


class Memory(Struct):
    """The memory of a shedder: a sample of ranks (Float64, little endian), and how many tuples it dropped too few.

    The accounts are those of the newest panes, by number.
    """

    sample: bytes = b""
    owed: float = 0.0
    accounts: dict[int, Account] = {}


class SemanticShedder:
    """A shedder that drops the tuples with the least rank."""

    def __init__(self, shedding: Shedding, share: float, memory: Memory | None = None) -> None:
        assert shedding.attribute is not None
        self.attribute = shedding.attribute
        self.shedding, self._share = shedding, share
        self._sample: NDArray[np.float64] = np.frombuffer(b"" if memory is None else memory.sample, np.float64)
        self._owed = 0.0 if memory is None else memory.owed
        self._accounts = {} if memory is None else {number: replace(kept) for number, kept in memory.accounts.items()}

    def memory(self) -> Memory:
        """Return what must survive a restart."""
        return Memory(self._sample.tobytes(), self._owed, {n: replace(kept) for n, kept in self._accounts.items()})

    def kept(self, rows: pl.DataFrame, draws: np.random.Generator) -> NDArray[np.bool_]:
        """Return which rows stay; a missing value has no rank, so such a row is dropped at random."""
        values = rows[self.attribute].cast(pl.Float64).to_numpy()
        ranks = self._rank(values)
        known = ~np.isnan(ranks)
        coins = draws.random(len(ranks))
        population = np.concatenate((self._sample, ranks[known]))
        self._sample = population[:: max(1, -(-len(population) // SAMPLE))].copy()
        if not self._share:  # it only samples
            return np.ones(len(ranks), np.bool_)
        share = self._share + self._owed / max(len(ranks), _SOON)
        proposed = np.where(known, _below(ranks, population, share, coins), coins < self._share)
        sizes = np.where(np.isfinite(values), np.abs(values), 0.0)
        order = np.where(known, ranks, -np.inf)  # a missing value takes nothing from the sum
        kept = np.ones(len(ranks), np.bool_)
        for number, places in self._panes(rows):
            kept[self._drop(number, places, proposed, sizes, order)] = False
        self._accounts = dict(sorted(self._accounts.items())[-_PANES:])
        return kept

    def _panes(self, rows: pl.DataFrame) -> Iterator[tuple[int, NDArray[np.intp]]]:
        """Yield the panes with the places of their rows."""
        if not self.shedding.pane:
            yield 0, np.arange(rows.height)
            return
        numbers = rows[TS].to_numpy() // self.shedding.pane
        order = np.argsort(numbers, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
            if len(part):
                yield int(numbers[part[0]]), part

    def _drop(
        self,
        number: int,
        places: NDArray[np.intp],
        proposed: NDArray[np.bool_],
        sizes: NDArray[np.float64],
        order: NDArray[np.float64],
    ) -> NDArray[np.intp]:
        """Return which rows of a pane are dropped: least ranks first, within its account."""
        account, due = self._accounts.setdefault(number, Account()), self._share * len(places)
        account.tuples += due
        account.sum += self._share * float(sizes[places].sum())
        wanted = max(int(proposed[places].sum()), int(self._owed + due - self._share * _SOON))
        ranked = places[np.lexsort((order[places], ~proposed[places]))]
        chosen = ranked[: min(wanted, int(account.tuples + _ROUNDED))]
        # neither what the sum forbids nor what the last pane did not lose is made up for later
        self._owed = min(self._owed + due - len(chosen), account.tuples - len(chosen))
        if self.shedding.bounds_sum:
            chosen = chosen[sizes[chosen] <= account.sum]
            sums = np.cumsum(sizes[chosen])
            chosen = chosen[: int(np.searchsorted(sums, account.sum, side="right"))]
            account.sum -= float(sums[len(chosen) - 1]) if len(chosen) else 0.0
        account.tuples -= len(chosen)
        return chosen

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
