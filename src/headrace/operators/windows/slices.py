"""Aggregate many stretches of ordered rows at once: overlapping slices, and all prefixes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from headrace.operators.arrays import Array
from headrace.operators.windows.aggregates import Aggregates
from headrace.operators.windows.slice_kernels import slice_values

#: Number of the stretch that a partial is of, Int64.
STRETCH = "__stretch"
#: How many rows to lay out at most for one grouping.
_BATCH_ROWS = 1_000_000


def group_numbers(rows: pl.DataFrame, names: Sequence[str]) -> Array:
    """Number the groups of rows that are sorted by `names`, from 0; NULL is a group too."""
    if not names or rows.height == 0:
        return np.zeros(rows.height, np.int64)
    changes = (
        rows.select(pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in names))
        .to_series()
        .to_numpy()
        .copy()
    )
    changes[0] = False
    return np.cumsum(changes)


def firsts(groups: Array) -> Array:
    """Return for each row the position of the first row of its group; groups are numbered in order."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return np.repeat(starts, np.diff(starts, append=len(groups)))


def lasts(groups: Array) -> Array:
    """Return for each row the position of the last row of its group; groups are numbered in order."""
    ends = np.flatnonzero(np.append(groups[1:] != groups[:-1], True))
    return np.repeat(ends, np.diff(ends, prepend=-1))


def first_within(ts: Array, groups: Array, span: int) -> Array:
    """Return for each row the first row of its group that is at most `span` older; rows are sorted by group, time."""
    since = ts - ts.min()
    width = int(since.max()) + 1
    if (int(groups[-1]) + 1) * width >= 2**62:  # then ranks instead, so that group and time fit in one number
        instants = np.unique(ts)
        rank, least, width = np.searchsorted(instants, ts), np.searchsorted(instants, ts - span), len(instants)
    else:
        rank, least = since, np.maximum(since - span, 0)
    return np.searchsorted(groups * width + rank, groups * width + least)


def fold_slices(aggregates: Aggregates, rows: pl.DataFrame, starts: Array, stops: Array) -> pl.DataFrame:
    """Return partials of rows[start:stop] for each pair, in order; every slice has a row, and there is a slice."""
    done = {
        part.name: column
        for part in aggregates.parts
        if (column := slice_values(part, rows, starts, stops)) is not None
    }
    rest = [part for part in aggregates.parts if part.name not in done]
    frame = pl.DataFrame([column.alias(name) for name, column in done.items()])
    if rest:
        folded = (
            pl.concat([aggregates.fold(laid, [STRETCH], parts=rest) for laid in _laid_out(rows, starts, stops)])
            .sort(STRETCH)
            .drop(STRETCH)
        )
        frame = pl.concat([frame, folded], how="horizontal") if done else folded
    return frame.select(part.name for part in aggregates.parts)


def fold_slices_by(
    aggregates: Aggregates, rows: pl.DataFrame, starts: Array, stops: Array, names: Sequence[str]
) -> pl.DataFrame:
    """Return partials of rows[start:stop] for each pair by `names`, with the number of the pair; no slice is empty."""
    return pl.concat([aggregates.fold(laid, [STRETCH, *names]) for laid in _laid_out(rows, starts, stops)])


def _laid_out(rows: pl.DataFrame, starts: Array, stops: Array) -> Iterator[pl.DataFrame]:
    """Yield the rows of each slice one after the other, with the slice's number, some slices at a time."""
    lengths = stops - starts
    cuts = np.flatnonzero(np.diff(np.cumsum(lengths) // _BATCH_ROWS)) + 1
    for batch in np.split(np.arange(len(starts)), cuts):
        length = lengths[batch]
        before = np.cumsum(length) - length
        positions = np.arange(int(length.sum())) + np.repeat(starts[batch] - before, length)
        yield rows[positions].with_columns(pl.Series(STRETCH, np.repeat(batch, length)))


def merge_prefixes(aggregates: Aggregates, partials: pl.DataFrame, groups: Array) -> pl.DataFrame:
    """Return for each partial the merge of its group's partials up to and with it, in the given order.

    A prefix sum in a logarithmic number of steps: merge neighbors, do the same for the half as many, fill in the
    others.
    """
    parts = [part.name for part in aggregates.parts]
    partials = partials.select(parts)
    position = np.arange(len(groups))
    index = position - firsts(groups)
    if not index.any():
        return partials
    starts_pair = index % 2 == 0
    pairs = np.cumsum(starts_pair) - 1
    halved = aggregates.merge(partials.with_columns(pl.Series(STRETCH, pairs)), [STRETCH]).sort(STRETCH)
    prefixes = merge_prefixes(aggregates, halved, groups[starts_pair])
    first, second, later = position[index == 0], position[~starts_pair], position[starts_pair & (index > 0)]
    pieces = [_numbered(partials[first], first), _numbered(prefixes[pairs[second]], second)]
    if len(later):
        both = pl.concat([_numbered(prefixes[pairs[later] - 1], later), _numbered(partials[later], later)])
        pieces.append(aggregates.merge(both, [STRETCH]).select(*parts, STRETCH))
    return pl.concat(pieces).sort(STRETCH).select(parts)


def _numbered(rows: pl.DataFrame, numbers: Array) -> pl.DataFrame:
    return rows.with_columns(pl.Series(STRETCH, numbers))
