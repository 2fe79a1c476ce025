"""What programs push and get: rows, and tables of Polars, Arrow and pandas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import polars as pl

from headrace.model.rows import mappings
from headrace.model.schema import Schema

#: Mappings, sequences in the order of the columns, or data classes; or a table of Polars, Arrow or pandas.
Rows: TypeAlias = Sequence[Mapping[str, Any] | Sequence[Any] | Any] | pl.DataFrame | Any
Form: TypeAlias = Literal["rows", "polars", "arrow", "pandas"]


def columns_or_rows(rows: Rows, schema: Schema) -> pl.DataFrame | list[Mapping[str, Any]]:
    """Return a table as a data frame, and rows of any kind as mappings."""
    if isinstance(rows, pl.DataFrame):
        return rows
    if isinstance(rows, pl.LazyFrame):
        return rows.collect()
    if type(rows).__module__.split(".")[0] == "pandas":
        return pl.from_pandas(rows)
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        return pl.DataFrame(rows)
    return mappings(rows, lambda: schema.names)


def in_form(frame: pl.DataFrame, form: Form) -> Any:
    """Return a data frame as rows, or as a table of another library."""
    match form:
        case "rows":
            return frame.to_dicts()
        case "polars":
            return frame
        case "arrow":
            return frame.to_arrow()
        case "pandas":
            return frame.to_pandas()
