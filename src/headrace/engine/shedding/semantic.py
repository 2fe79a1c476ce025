"""Drop tuples by the value of an attribute: the smallest, the largest, those nearest to a center or farthest from it first.

Which values are among the first p of all is told by a page together with a sample of what came before it. A large page decides by itself; small
ones lean on the sample. Where the values drift, the sample lags behind, so what was dropped too little or too much is made up for later.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from headrace.model.qos import Shedding

#: Values remembered of an arc; with every doubling every second one goes, so that older ones become rare.
SAMPLE = 1024
#: What is owed is made up for within about so many tuples: soon enough to follow a drift, not so soon that chance decides instead of values.
_SOON = 64


class Memory(Struct):
    """What a shedder must know to go on: a sample of ranks (Float64, little-endian), and how many tuples it has dropped too few."""

    sample: bytes = b""
    owed: float = 0.0


class SemanticShedder:
    """Ranks tuples so that those with the least rank go first."""

    def __init__(self, shedding: Shedding, share: float, memory: Memory | None = None) -> None:
        assert shedding.attribute is not None
        self.attribute = shedding.attribute
        self.shedding, self._share = shedding, share
        self._sample: NDArray[np.float64] = np.frombuffer(b"" if memory is None else memory.sample, np.float64)
        self._owed = 0.0 if memory is None else memory.owed

    def memory(self) -> Memory:
        """As a value that can be kept."""
        return Memory(self._sample.tobytes(), self._owed)

    def kept(self, rows: pl.DataFrame, draws: np.random.Generator) -> NDArray[np.bool_]:
        """Which rows stay. A value that is missing has no rank: such a row goes by chance."""
        ranks = self._rank(rows[self.attribute].cast(pl.Float64).to_numpy())
        known = ~np.isnan(ranks)
        coins = draws.random(len(ranks))
        seen = np.concatenate((self._sample, ranks[known]))
        share = self._share + self._owed / max(len(ranks), _SOON)
        dropped = np.where(known, _below(ranks, seen, share, coins), coins < self._share)
        if not self._share:
            dropped[:] = False  # it only looks
        self._owed += self._share * len(ranks) - int(dropped.sum())
        self._sample = seen[:: max(1, -(-len(seen) // SAMPLE))].copy()
        return np.asarray(~dropped)

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
    ranks: NDArray[np.float64], seen: NDArray[np.float64], share: float, coins: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Which ranks are among the least `share` of those seen; of those just at the border so many, by coin, that it is that share."""
    wanted = share * len(seen)
    if wanted <= 0:
        return np.zeros(len(ranks), np.bool_)
    if wanted >= len(seen):
        return np.ones(len(ranks), np.bool_)
    border = np.partition(seen, int(wanted))[int(wanted)]
    among = (wanted - np.count_nonzero(seen < border)) / np.count_nonzero(seen == border)
    return np.asarray((ranks < border) | ((ranks == border) & (coins < among)))
