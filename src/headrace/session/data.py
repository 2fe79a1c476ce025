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
        table = rows.reset_index(names) if names else rows.to_frame() if hasattr(rows, "to_frame") else rows
        for name in table.select_dtypes("datetimetz").columns:
            table = table.assign(**{name: table[name].dt.tz_convert("UTC")})
        return pl.from_pandas(table)
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        import pyarrow as pa

        table = pa.table(rows)
        return pl.DataFrame(pa.table([_readable(column) for column in table.columns], names=table.column_names))
    return None


def _readable(column: Any) -> Any:
    """Return a column of Arrow as Polars can read it: plain values for coded ones, UTC for all offsets."""
    import pyarrow as pa

    match column.type:
        case pa.BaseExtensionType(storage_type=storage):
            return pa.chunked_array([chunk.storage for chunk in column.chunks], storage)
        case pa.RunEndEncodedType():
            return pa.compute.run_end_decode(column)
        case pa.TimestampType(tz=str(), unit=unit):
            return column.cast(pa.timestamp(unit, "UTC"))
        case pa.Decimal256Type(scale=scale):
            return column.cast(pa.decimal128(38, scale))
        case _:
            return column


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
