"""Counts, sums and extremes of many overlapping slices of a column, without laying the slices out."""

from __future__ import annotations

import numpy as np
import polars as pl

from headrace.model.schema import SEQ, TS
from headrace.operators.arrays import Array
from headrace.operators.windows.parts import Part

#: Beyond so many values in all slices together, sums of floats are differences of running sums.
_MANY_VALUES = 50_000_000


def slice_values(part: Part, rows: pl.DataFrame, starts: Array, stops: Array) -> pl.Series | None:
    """Return the part's value for each rows[start:stop], none of them empty; None if there is no fast way."""
    if part.kind is None:
        return None
    if part.kind == "rows":
        return pl.Series(stops - starts)
    if part.kind in ("first", "last"):  # slices are of rows in order
        row = pl.struct(pl.col(TS).alias("ts"), pl.col(SEQ).alias("seq"), pl.col(part.arg).alias("value"))
        return rows[starts if part.kind == "first" else stops - 1].select(row).to_series()
    column = rows[part.arg]
    if part.kind == "count":
        return pl.Series(_counts(column, starts, stops))
    if not (column.dtype.is_numeric() or column.dtype.is_temporal()):
        return None
    if part.kind == "sum":
        return pl.Series(_sums(column, part.name.endswith("Int64"), starts, stops))
    return _extremes(column, part.kind == "min", starts, stops)


def _counts(column: pl.Series, starts: Array, stops: Array) -> Array:
    return _differences(np.cumsum(column.is_not_null().to_numpy(), dtype=np.int64), starts, stops)


def _sums(column: pl.Series, whole: bool, starts: Array, stops: Array) -> Array:
    values = column.cast(pl.Int64 if whole else pl.Float64).fill_null(0).to_numpy()
    if whole:  # wrapping, so that differences are exact
        return _differences(np.cumsum(values), starts, stops)
    if int((stops - starts).sum()) > _MANY_VALUES and np.isfinite(values).all():
        return _differences(np.cumsum(values, dtype=np.longdouble), starts, stops).astype(np.float64)
    return _reduce(np.add, values, starts, stops)


def _extremes(column: pl.Series, least: bool, starts: Array, stops: Array) -> pl.Series:
    physical = column.to_physical()
    if physical.dtype == pl.Int128:  # DECIMALs; NumPy has no such numbers, so their places in order stand for them
        places = _extremes(physical.rank("dense").cast(pl.Int64) - 1, least, starts, stops)
        return column.drop_nulls().unique().sort().gather(places)
    if physical.dtype.is_float():
        # The least number is never NaN if there is another, the greatest is NaN if there is one.
        values = physical.fill_null(float("nan") if least else float("-inf")).to_numpy()
        extremes = _reduce(np.fmin if least else np.maximum, values, starts, stops)
    else:
        limit = physical.upper_bound()[0] if least else physical.lower_bound()[0]
        extremes = _reduce(np.minimum if least else np.maximum, physical.fill_null(limit).to_numpy(), starts, stops)
    nothing = _counts(column, starts, stops) == 0
    return pl.select(
        pl.when(pl.Series(~nothing)).then(pl.Series(extremes, dtype=physical.dtype).cast(column.dtype))
    ).to_series()


def _differences(running: Array, starts: Array, stops: Array) -> Array:
    before = np.concatenate([np.zeros(1, running.dtype), running])
    sums: Array = before[stops] - before[starts]
    return sums


def _reduce(function: np.ufunc, values: Array, starts: Array, stops: Array) -> Array:
    # reduceat takes the slices between neighboring indices: every other one is ours, and one value more lets a slice
    # end at the end.
    indices = np.stack([starts, stops], axis=1).ravel()
    reduced: Array = function.reduceat(np.append(values, values[-1:]), indices)[::2]
    return reduced
