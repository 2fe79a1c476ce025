"""Result values as JSON: TIMESTAMP and DATE in ISO 8601, INTERVAL in microseconds, BINARY in base64.

NaN and infinities are strings. A BIGINT beyond 2^53 is a number, or a string for readers in JavaScript (`safe`).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import polars as pl

from headrace.model.schema import Schema
from headrace.model.types import type_of
from headrace.server.views.view import Column

#: JavaScript's numbers are exact up to here.
SAFE = 2**53


def columns_of(schema: Schema) -> tuple[Column, ...]:
    """Return the columns of a schema."""
    return tuple(Column(field.name, field.type.value) for field in schema)


def columns_in(frame: pl.DataFrame) -> tuple[Column, ...]:
    """Return the columns of a frame."""
    kinds = ((name, type_of(dtype)) for name, dtype in frame.schema.items())
    return tuple(Column(name, "STRING" if kind is None else kind.value) for name, kind in kinds)


def rows_in(frame: pl.DataFrame, *, safe: bool = False) -> tuple[tuple[Any, ...], ...]:
    """Return the rows of a frame as values that JSON has."""
    return tuple(zip(*(_values(column, safe) for column in frame), strict=True)) if frame.width else ()


def plain(value: Any, *, safe: bool = False) -> Any:
    """Return one value of a listing as JSON has it."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return str(value) if safe and abs(value) > SAFE else value
    try:
        return _values(pl.Series([value]), safe)[0]
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        return str(value)


def _values(column: pl.Series, safe: bool) -> list[Any]:
    match column.dtype:
        case pl.Datetime():
            return column.dt.cast_time_unit("us").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_list()
        case pl.Date():
            return column.dt.strftime("%Y-%m-%d").to_list()
        case pl.Duration():
            return column.dt.total_microseconds().to_list()
        case pl.Binary():
            return [None if value is None else base64.b64encode(value).decode() for value in column]
        case pl.Float32() | pl.Float64():
            values = column.to_list()
            if not column.is_finite().all():
                values = [_finite(value) for value in values]
            return values
        case pl.Int64() | pl.UInt64() if safe:
            return [str(value) if value is not None and abs(value) > SAFE else value for value in column.to_list()]
        case pl.Object() | pl.Decimal():
            return [None if value is None else str(value) for value in column.to_list()]
        case _:
            return column.to_list()


def _finite(value: float | None) -> float | str | None:
    if value is None or value - value == 0:
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def cells(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return the cells of a listing's row as JSON has them."""
    return tuple(plain(value, safe=True) for value in values)
