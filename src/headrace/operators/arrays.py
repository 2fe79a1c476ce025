"""Rows by place and keys as numbers: what operators that compare tuples by key share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.model.types import Type

Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Array: TypeAlias = npt.NDArray[Any]

#: The number by which rows are sorted; equal keys have equal numbers.
KEY = "__key"
#: A key of one of these types is its own number; no two different values share it.
EXACT = (Type.BOOLEAN, Type.INT, Type.BIGINT, Type.DATE, Type.TIMESTAMP, Type.INTERVAL)
#: This many candidate pairs are looked at in one go, whatever the size of the result.
PAIRS_AT_ONCE = 1 << 20


def matches(needles: Array, keys: Array) -> Iterator[tuple[Ints, Ints]]:
    """Yield all pairs (i, j) with needles[i] == keys[j], both sorted, in portions of bounded size."""
    low = np.searchsorted(keys, needles, "left")
    at = np.flatnonzero(keys[np.minimum(low, len(keys) - 1)] == needles) if len(keys) else low[:0]
    if not len(at):
        return
    low = low[at]
    counts = np.searchsorted(keys, needles[at], "right") - low
    ends = np.cumsum(counts)
    start = 0
    while start < len(at):
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + PAIRS_AT_ONCE, "right")))
        yield _expand(at[start:stop], low[start:stop], counts[start:stop], ends[start:stop] - done)
        start = stop


def gather(rows: pl.DataFrame, places: Ints) -> pl.DataFrame:
    """Return the rows at these places, in this order."""
    return rows[pl.Series(places.astype(np.uint32))]


def stable_order(numbers: Array) -> Ints:
    """Return the places of whole numbers in ascending order, equal ones in the order in which they are.

    NumPy sorts numbers of 16 bits by their digits, ten times as fast as longer ones. Numbers that are near each other,
    such as keys and places mostly are, are sorted as one or two of those.
    """
    if not len(numbers):
        return np.zeros(0, np.int64)
    low = int(numbers.min())
    span = int(numbers.max()) - low
    if span >= 1 << 32:
        return np.argsort(numbers, kind="stable")
    near = (numbers - low).astype(np.uint32)
    order = np.argsort(near.astype(np.uint16), kind="stable")
    if span >= 1 << 16:
        order = order[np.argsort((near >> np.uint32(16)).astype(np.uint16)[order], kind="stable")]
    return order


def least(column: pl.Series) -> int:
    """Return the least value of a column of whole numbers that has one."""
    value = column.min()
    assert isinstance(value, int)
    return value


def greatest(column: pl.Series) -> int:
    """Return the greatest value of a column of whole numbers that has one."""
    value = column.max()
    assert isinstance(value, int)
    return value


def _expand(at: Ints, low: Ints, counts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    total = int(ends[-1])
    if total == len(at):
        return at, low
    first = np.repeat(at, counts)
    return first, np.arange(total) + np.repeat(low - ends + counts, counts)
