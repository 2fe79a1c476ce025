"""Aggregates that are computed at the end, of all values or of the different ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

import polars as pl

from headrace.model.rank import RankOrder
from headrace.model.schema import TS
from headrace.model.types import DataType
from headrace.operators.windows.parts import Part, Split, gathered, values

#: The value of an aggregate for each group of rows: columns "0", "1", ... and the group in "group".
OfRows: TypeAlias = Callable[[pl.DataFrame], pl.DataFrame]


def of_different_rows(names: Sequence[str], of_rows: OfRows, type_: DataType) -> Split:
    """Keep each different row of values without NULL, and compute an aggregate of these at the end."""
    name = f"{'_'.join(names)}_different_rows"
    row = pl.struct(pl.col(column).alias(str(i)) for i, column in enumerate(names))
    known = pl.all_horizontal(pl.col(column).is_not_null() for column in names)
    part = Part(name, row.filter(known).unique(maintain_order=True), gathered(name).unique(maintain_order=True))

    def finish(lists: pl.Series) -> pl.Series:
        groups = pl.DataFrame({"group": pl.Series(range(len(lists)), dtype=pl.Int64)})
        # sorted, so that sums of floats do not depend on the order in which values came
        rows = groups.with_columns(lists.list.sort().alias("row")).explode("row").filter(pl.col("row").is_not_null())
        found = of_rows(rows.unnest("row"))
        return groups.join(found, on="group", how="left", maintain_order="left")["value"]

    return Split((part,), pl.col(name).map_batches(finish, return_dtype=type_.polars, is_elementwise=True))


def ordered_values(arg: str, keys: Sequence[str], order: Sequence[RankOrder], type_: DataType) -> Split:
    """Return the values in the order of others; ties in the order of time, then of value: however they came."""
    name = "_".join([arg, *keys, "ordered"])
    columns = {**{str(i): key for i, key in enumerate(keys)}, "ts": TS, "value": arg}
    row = pl.struct(pl.col(column).alias(field) for field, column in columns.items())
    part = Part(name, row.filter(pl.col(arg).is_not_null()), gathered(name), gathers=True)
    falling = [term.descending for term in order] + [False, False]
    last = [not term.nulls_first for term in order] + [False, False]

    def finish(lists: pl.Series) -> pl.Series:
        groups = pl.DataFrame({"group": pl.Series(range(len(lists)), dtype=pl.Int64)})
        rows = groups.with_columns(lists.alias("row")).filter(pl.col("row").list.len() > 0).explode("row").unnest("row")
        sorted_ = rows.sort("group", *columns, descending=[False, *falling], nulls_last=[False, *last])
        found = sorted_.group_by("group", maintain_order=True).agg("value")
        listed = groups.join(found, on="group", how="left", maintain_order="left")["value"]
        return listed.fill_null(pl.Series([[]], dtype=listed.dtype)).cast(type_.polars).rename(lists.name)

    return Split((part,), pl.col(name).map_batches(finish, return_dtype=type_.polars, is_elementwise=True))


def histogram(arg: str, type_: DataType) -> Split:
    """Return how often each value occurs, by value in ascending order."""
    part = values(arg)

    def finish(lists: pl.Series) -> pl.Series:
        found = [dict(Counter(items)) or None for items in lists.list.sort().to_list()]
        return pl.Series(lists.name, found, dtype=type_.polars)

    return Split((part,), pl.col(part.name).map_batches(finish, return_dtype=type_.polars, is_elementwise=True))


def moment(function: str, arg: str) -> Split:
    """Return the skewness, or the kurtosis above that of the normal distribution; NULL if the values do not vary."""
    part, x = values(arg), pl.element().cast(pl.Float64).sort()
    value = x.skew() if function == "skewness" else x.kurtosis()
    found = pl.col(part.name).list.eval(value.fill_nan(None)).list.first()
    return Split((part,), found)
