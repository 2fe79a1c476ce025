"""What programs push and get: rows, and tables of Polars, Arrow and pandas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import polars as pl

from headrace.errors import SourceFault
from headrace.model.rows import mappings
from headrace.model.schema import Schema

#: Mappings, sequences in the order of the columns, or data classes; or a table of Polars, Arrow or pandas.
Rows: TypeAlias = Sequence[Mapping[str, Any] | Sequence[Any] | Any] | pl.DataFrame | Any
Form: TypeAlias = Literal["rows", "polars", "arrow", "pandas"]


def columns_or_rows(rows: Rows, schema: Schema) -> pl.DataFrame | list[Mapping[str, Any]]:
    """Return a table as a data frame, and rows of any kind as mappings."""
    if isinstance(rows, pl.DataFrame):
        return rows
    try:
        table = _table(rows, schema)
    except (Exception, pl.exceptions.PanicException) as error:  # each library has its own
        kind = f"{type(rows).__module__.partition('.')[0]}.{type(rows).__name__}"
        said = str(error).partition("\n")[0]
        raise SourceFault(
            f"the {kind} cannot be read: {said}",
            hint="give each column a name of its own and values of one type, or push a list of dictionaries",
        ) from error
    return mappings(rows, lambda: schema.names) if table is None else table


def _table(rows: Any, schema: Schema) -> pl.DataFrame | None:
    """Return a table of another library as a data frame; None if it is no table."""
    if isinstance(rows, pl.LazyFrame):
        return rows.collect()
    if isinstance(rows, pl.Series):
        return rows.to_frame()
    if type(rows).__module__.partition(".")[0] == "pandas":
        names = [name for name in rows.index.names if name in schema.names and name not in getattr(rows, "columns", ())]
        table = pl.from_pandas(rows.reset_index(names) if names else rows)
        return table.to_frame() if isinstance(table, pl.Series) else table
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        return pl.DataFrame(rows)
    return None


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
