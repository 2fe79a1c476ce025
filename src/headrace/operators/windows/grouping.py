"""Groups of rows, without comparing columns that hardly vary.

The library finds groups by one whole number twice as fast as by several columns. Mostly a page is of one day, or of few
panes, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

#: Rows with the same value of the first column are grouped by themselves if there are so many, on average.
_LEAST_RUN = 4096
_COMPARED = (pl.Int32, pl.Int64, pl.Boolean, pl.String, pl.Date, pl.Datetime)


def grouped(rows: pl.DataFrame, by: Sequence[str], aggregations: Sequence[pl.Expr]) -> pl.DataFrame:
    """Return the columns `by` and the aggregations of each group, in the order of the first rows of groups."""
    if len(by) < 2 or not rows.height:
        return rows.group_by(by, maintain_order=True).agg(aggregations)
    runs = _runs(rows[by[0]])
    if len(runs) < 2:
        return _of_few(rows, by, aggregations)
    ends = [*runs[1:], rows.height]
    slices = (rows.slice(begin, end - begin) for begin, end in zip(runs, ends, strict=True))
    return pl.concat([_of_few(part, by, aggregations) for part in slices])


def _of_few(rows: pl.DataFrame, by: Sequence[str], aggregations: Sequence[pl.Expr]) -> pl.DataFrame:
    """Group by the columns that have more than one value; by the first, if none has."""
    same = [name for name in by if _is_same(rows[name])]
    if len(same) == len(by):
        same = same[1:]
    if not same:
        return rows.group_by(by, maintain_order=True).agg(aggregations)
    found = rows.group_by([name for name in by if name not in same], maintain_order=True).agg(aggregations)
    found = found.with_columns(rows[name].new_from_index(0, found.height) for name in same)
    return found.select(*by, pl.exclude(by))


def _runs(column: pl.Series) -> list[int]:
    """Return where rows begin whose values are the same, if no value comes again; [] if it is not worth while."""
    if column.dtype != pl.Int64 or column.null_count() or not column.is_sorted():
        return []
    values = column.to_numpy()
    starts = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()]
    return starts if len(starts) * _LEAST_RUN <= len(values) else []


def _is_same(column: pl.Series) -> bool:
    """Return whether all values of a column are the same, if that is quick to tell."""
    if not isinstance(column.dtype, _COMPARED) or column.null_count() or column[0] != column[-1]:
        return False
    return bool((column == column[0]).all())
