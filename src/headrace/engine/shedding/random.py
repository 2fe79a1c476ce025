"""Drop tuples at random: each with the same probability, whatever it is."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray


class RandomShedder:
    """A shedder that keeps a tuple if its draw is not below the share to drop."""

    def __init__(self, share: float) -> None:
        self._share = share

    def kept(self, rows: pl.DataFrame, draws: np.random.Generator) -> NDArray[np.bool_]:
        """Return which rows stay."""
        return draws.random(rows.height) >= self._share
