"""Find equal rows by binary search in rows that are sorted by their hash.

Such rows can be stored and read back as they are; nothing is rebuilt, and a probe costs by its own size, not by that
of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl


def candidates(sorted_hashes: np.ndarray, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs (position in `hashes`, position in `sorted_hashes`) with equal hashes, by the former.

    Much faster if `hashes` too are sorted.
    """
    low = np.searchsorted(sorted_hashes, hashes, side="left")
    hits = (
        np.flatnonzero(sorted_hashes[np.minimum(low, len(sorted_hashes) - 1)] == hashes)
        if len(sorted_hashes)
        else np.empty(0, dtype=np.int64)
    )
    low = low[hits]
    counts = np.searchsorted(sorted_hashes, hashes[hits], side="right") - low
    ends = np.cumsum(counts)
    left = np.repeat(hits, counts)
    right = np.arange(len(left)) + np.repeat(low - (ends - counts), counts)
    return left, right


def equal(left: Sequence[pl.Series], right: Sequence[pl.Series]) -> np.ndarray:
    """Return which rows agree in all columns, NULL being equal to NULL."""
    agree = np.ones(len(left[0]), dtype=bool)
    for left_column, right_column in zip(left, right, strict=True):
        agree &= left_column.eq_missing(right_column).to_numpy()
    return agree
