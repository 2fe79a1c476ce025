"""Rows as programs have them: mappings, tuples, data classes, and tables of Polars, Arrow and pandas."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import polars as pl

from headrace.errors import SourceFault
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
    if isinstance(rows, Mapping):
        raise SourceFault("one row alone is pushed", hint="push a list of rows: [row]")
    return [_mapping(number, row, schema) for number, row in enumerate(rows)]


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


def _mapping(number: int, row: Any, schema: Schema) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return row
    if dataclasses.is_dataclass(row) and not isinstance(row, type):
        return {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    names = getattr(row, "_fields", None) or getattr(row, "__fields__", None)  # a named tuple, or a Row of Spark
    if isinstance(row, tuple | list):
        if names is None and len(row) != len(schema):
            raise SourceFault(
                f"row {number} has {len(row)} values, and the stream has {len(schema)} columns",
                hint=f"give values for {', '.join(schema.names)}, or a dictionary",
            )
        return dict(zip(names or schema.names, row, strict=True))
    raise SourceFault(
        f"row {number} is a {type(row).__name__}, which has no columns",
        hint="push dictionaries, tuples, data classes, or a table of Polars, Arrow or pandas",
    )
