"""Rows by place and keys as numbers: what operators that compare tuples by key share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
#: Keys are looked up by their number if there are not more numbers than this for each key.
_SPREAD = 8


@dataclass(frozen=True, slots=True)
class Starts:
    """Where each number from `least` on begins among sorted keys, and where the last one ends."""

    least: int
    places: Ints


def starts_of(keys: Array) -> Starts | None:
    """Return where the numbers begin among sorted keys, to look them up at once; None if they are too far apart."""
    if not len(keys) or int(keys[-1]) - int(keys[0]) >= _SPREAD * len(keys):
        return None
    least = int(keys[0])
    return Starts(least, np.append(0, np.cumsum(np.bincount(keys - keys[0]))))


def matches(needles: Array, keys: Array, starts: Starts | None = None) -> Iterator[tuple[Ints, Ints]]:
    """Yield all pairs (i, j) with needles[i] == keys[j], by i, in portions of bounded size; keys are sorted."""
    at, low, counts = _among(needles, keys) if starts is None else _looked_up(needles, starts)
    if not len(at):
        return
    ends = np.cumsum(counts)
    start = 0
    while start < len(at):
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + PAIRS_AT_ONCE, "right")))
        yield _expand(at[start:stop], low[start:stop], counts[start:stop], ends[start:stop] - done)
        start = stop


def _among(needles: Array, keys: Array) -> tuple[Ints, Ints, Ints]:
    """Return which needles are among the keys, and of each where the first such key is and how many there are."""
    low = np.searchsorted(keys, needles, "left")
    at = np.flatnonzero(keys[np.minimum(low, len(keys) - 1)] == needles) if len(keys) else low[:0]
    low = low[at]
    return at, low, np.searchsorted(keys, needles[at], "right") - low


def _looked_up(needles: Array, starts: Starts) -> tuple[Ints, Ints, Ints]:
    """Do the same where the numbers of keys begin is known."""
    last = starts.least + len(starts.places) - 2
    at = np.flatnonzero((needles >= starts.least) & (needles <= last))
    numbers = needles[at] - starts.least
    low = starts.places[numbers]
    counts = starts.places[numbers + 1] - low
    there = counts > 0
    return (at, low, counts) if there.all() else (at[there], low[there], counts[there])


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
