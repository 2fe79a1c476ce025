"""What aggregates that are written in SQL return for each group: over many groups at once where their steps allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import polars as pl

from headrace.model.fold import Fold
from headrace.operators.arrays import Array
from headrace.operators.windows.fold_code import FoldCode, code_of
from headrace.operators.windows.fold_vectors import FoldVectors, Returned, vectors_of

#: Fewer groups than these take their steps one after the other.
LEAST_GROUPS = 24


def fold_lists(lists: Sequence[pl.Series], fold: Fold, least: int = LEAST_GROUPS) -> Iterator[list[Any]]:
    """Give what each group returns; columns hold the timestamps of its tuples, and their values, as lists.

    Tuples are taken in the order of time, then of values. So many groups at `least` take a step together.
    """
    lengths = lists[0].list.len().to_numpy().astype(np.int64)
    flat = _in_order([column.explode(empty_as_null=False, keep_nulls=True) for column in lists], lengths)
    nulls = nulls_in(flat[1:])
    code, vectors = code_of(fold, nulls), vectors_of(fold, nulls)
    order = np.argsort(-lengths, kind="stable")
    # how many groups have more than 0, 1, 2, ... tuples
    having = len(lengths) - np.searchsorted(lengths[order[::-1]], np.arange(lengths.max(initial=0)), side="right")
    steps = int(np.count_nonzero(having >= least))
    if vectors is not None and steps:
        yield from _fold_together(code, vectors, flat[1:], lengths, order, having, steps)
        return
    every, start = tuples_of(flat[1:], len(flat[0])), 0
    for length in lengths.tolist():
        yield code.whole(every[start : start + length]) if length else []
        start += length


def _fold_together(
    code: FoldCode,
    vectors: FoldVectors,
    columns: Sequence[pl.Series],
    lengths: Array,
    order: Array,
    having: Array,
    steps: int,
) -> list[list[Any]]:
    """Let all groups take their first tuple together, then all that have a second one, and so on for some steps.

    What comes then, of the few groups that have many more tuples than others, is left to the code for single groups.
    """
    groups = int(having[0])
    starts = (np.cumsum(lengths) - lengths)[order[:groups]]
    values = [_numbers(column) for column in columns]
    given: list[Returned] = []
    with np.errstate(all="ignore"):
        if vectors.product_of is None:
            tables, steps = _stepped(vectors, values, starts, having[:steps], given)
        else:
            tables, steps = [_products(values[vectors.product_of], starts)], len(having)
        longer = int(having[steps]) if steps < len(having) else 0
        at_end = _ended(vectors, tables, groups, longer)
    alone = longer if at_end is not None else groups
    results = _by_group([*given, *(at_end or ())], groups)
    parts = [table.tolist() if isinstance(table, np.ndarray) else table.rows(alone) for table in tables]
    for place, state in enumerate(islice(zip(*parts, strict=False), alone)):
        count = int(lengths[order[place]]) - steps if place < longer else 0
        further = tuples_of([column.slice(starts[place] + steps, count) for column in columns], count) if count else ()
        results[place] = results[place] + code.rest(state, further)
    places = np.full(len(lengths), -1)
    places[order[:groups]] = np.arange(groups)
    return [results[place] if place >= 0 else [] for place in places.tolist()]


def _stepped(
    vectors: FoldVectors, values: Sequence[Array], starts: Array, having: Array, given: list[Returned]
) -> tuple[list[Any], int]:
    """Return the tables after so many steps as are said, or fewer, and how many they were."""
    tables = vectors.first(len(starts), given, *(column[starts] for column in values))
    for step in range(1, len(having)):
        count = int(having[step])
        if not all(tables[place].make_room(count, rows) for place, rows in vectors.grows.items()):
            return tables, step  # tables are large: single groups are as fast
        before = [table[:count] if isinstance(table, np.ndarray) else table for table in tables]
        after = vectors.each(count, given, before, *(column[starts[:count] + step] for column in values))
        for old, new in zip(before, after, strict=True):
            if new is not old:
                old[:] = new
    return tables, len(having)


def _products(values: Array, starts: Array) -> Array:
    """Return the product of the values of each group, one after the other; groups are next to each other."""
    begins = np.sort(starts)
    products: Array = np.multiply.reduceat(values, begins)[np.searchsorted(begins, starts)]
    return products


def _ended(vectors: FoldVectors, tables: Sequence[Any], groups: int, longer: int) -> list[Returned] | None:
    """Return what groups return at their end, but for the first ones, which have further tuples; None if unknown."""
    if vectors.last is None:
        return None
    for place in vectors.grows:
        tables[place].take_all()
    ended: list[Returned] = []
    vectors.last(groups, ended, tables)
    return [part.without_first(longer) for part in ended] if longer else ended


def _by_group(given: Sequence[Returned], groups: int) -> list[list[Any]]:
    """Return the values that each group has returned, in order."""
    if not given:
        return [[]] * groups
    numbers = np.concatenate([part.groups for part in given])
    values = [value for part in given for value in part.plain()]
    if np.any(numbers[1:] < numbers[:-1]):
        order = np.argsort(numbers, kind="stable")
        numbers, values = numbers[order], [values[i] for i in order.tolist()]
    ends = np.searchsorted(numbers, np.arange(groups), side="right").tolist()
    return [values[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _in_order(columns: list[pl.Series], lengths: Array) -> list[pl.Series]:
    """Return the timestamps and values of groups in the order of time, then of values; they mostly are already."""
    stamps = columns[0].to_numpy()
    ends = np.cumsum(lengths)
    unordered = stamps[1:] <= stamps[:-1]
    unordered[ends[(ends > 0) & (ends <= len(unordered))] - 1] = False  # what follows is of another group
    places = np.flatnonzero(unordered)
    if not len(places):
        return columns
    if np.any(stamps[places + 1] < stamps[places]):
        groups = np.repeat(np.arange(len(lengths)), lengths)
        return _by_content([pl.Series(groups), *columns])
    places = np.union1d(places, places + 1)  # what has a time in common with a neighbor: only that changes its place
    own = pl.Series(np.searchsorted(ends, places, side="right"))
    tied = _by_content([own, *(column.gather(places) for column in columns)])
    return [columns[0], *(column.scatter(places, new) for column, new in zip(columns[1:], tied[1:], strict=True))]


def _by_content(columns: Sequence[pl.Series]) -> list[pl.Series]:
    """Return columns without the first, in the order of all."""
    frame = pl.DataFrame([column.alias(str(i)) for i, column in enumerate(columns)])
    return frame.sort(frame.columns).get_columns()[1:]


def nulls_in(columns: Sequence[pl.Series]) -> tuple[bool, ...]:
    """Return which columns have a NULL."""
    return tuple(column.null_count() > 0 for column in columns)


def tuples_of(columns: Sequence[pl.Series], height: int) -> list[Any]:
    """Return rows as the functions take them: tuples, or values alone if there is one column."""
    values = [_plain(column) for column in columns]
    if len(values) == 1:
        return values[0]
    return list(zip(*values, strict=True)) if values else [()] * height


def _numbers(column: pl.Series) -> Array:
    """Return values as 64-bit numbers, or flags; instants are microseconds."""
    if column.dtype == pl.Boolean:
        return column.to_numpy()
    return column.cast(pl.Float64 if column.dtype.is_float() else pl.Int64).to_numpy()


def _plain(column: pl.Series) -> list[Any]:
    """Return values; instants are microseconds."""
    return (column.cast(pl.Int64) if column.dtype.is_temporal() else column).to_list()
