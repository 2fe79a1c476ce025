"""Tables of Polars, Arrow and pandas as rows, without any of these libraries: those who have a table have its own."""

from __future__ import annotations

from typing import Any


def rows_of(table: Any) -> list[dict[str, Any]] | None:
    """Return the rows of a table; None of what is none."""
    library = type(table).__module__.partition(".")[0]
    if library == "polars" and type(table).__name__ == "LazyFrame":
        table = table.collect()
    if library == "polars" and hasattr(table, "to_dicts"):
        return list(table.to_dicts())
    if library == "pyarrow" and hasattr(table, "column_names"):
        return list(table.to_pylist())
    if library == "pandas" and hasattr(table, "columns"):
        records = table.astype(object).where(table.notna(), None).to_dict("records")  # NaN stands for a missing value
        return [{name: _of_python(value) for name, value in record.items()} for record in records]
    return None


def _of_python(value: Any) -> Any:
    """Return an array or a number of NumPy as a list or a number."""
    return value.tolist() if type(value).__module__ == "numpy" else value
