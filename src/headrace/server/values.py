"""Result values as JSON: TIMESTAMP and DATE in ISO 8601, INTERVAL in microseconds, BINARY in base64.

NaN and infinities are strings. A BIGINT beyond 2^53 is a number, or a string for readers in JavaScript (`safe`).
Parts of nested values are written alike.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from headrace.model.schema import Schema
from headrace.model.types import ArrayType, DataType, DecimalType, MapType, StructType, Type, type_of
from headrace.server.views.view import Column

#: JavaScript's numbers are exact up to here.
SAFE = 2**53
#: Numbers that JSON does not have.
_WORDS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_TICK = datetime.timedelta(microseconds=1)


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


def with_numbers(rows: Sequence[Mapping[str, Any]], schema: Schema) -> Sequence[Mapping[str, Any]]:
    """Return rows as clients send them in JSON, with NaN and infinities, also in nested values, as numbers."""
    floats = [(field.name, field.type) for field in schema if _has_float(field.type)]
    return [
        {**row, **{name: _number(row[name], type_) for name, type_ in floats if name in row}}
        if any(isinstance(row.get(name), str | list | dict) for name, _ in floats)
        else row
        for row in rows
    ]


def _has_float(type_: DataType) -> bool:
    match type_:
        case ArrayType(element=element):
            return _has_float(element)
        case MapType(of=of):
            return _has_float(of)
        case StructType(fields=fields):
            return any(_has_float(part) for _, part in fields)
        case _:
            return type_ in (Type.FLOAT, Type.DOUBLE)


def _number(value: Any, type_: DataType) -> Any:
    match type_, value:
        case ArrayType(element=element), list():
            return [_number(item, element) for item in value]
        case MapType(of=of), dict():
            return {key: _number(item, of) for key, item in value.items()}
        case StructType(fields=fields), dict():
            return {**value, **{name: _number(value[name], part) for name, part in fields if name in value}}
        case ((Type.FLOAT | Type.DOUBLE), str()):
            return _WORDS.get(value, value)
        case _:
            return value


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
        case dtype if dtype.is_nested() and (type_ := type_of(dtype)) is not None:
            return [_part(value, type_, safe) for value in column.to_list()]
        case _:
            return column.to_list()


def _part(value: Any, type_: DataType, safe: bool) -> Any:
    """Return a nested value, or a part of one, as JSON has it."""
    if value is None:
        return None
    match type_:
        case ArrayType(element=element):
            return [_part(item, element, safe) for item in value]
        case StructType(fields=fields):
            return {name: _part(value[name], part, safe) for name, part in fields}
        case MapType(key=key, of=of):
            return {_key(name, key, safe): _part(item, of, safe) for name, item in value.items()}
        case Type.TIMESTAMP:
            return f"{value.isoformat(timespec='microseconds')}Z"
        case Type.DATE:
            return value.isoformat()
        case Type.INTERVAL:
            return value // _TICK
        case Type.BINARY:
            return base64.b64encode(value).decode()
        case Type.FLOAT | Type.DOUBLE:
            return _finite(value)
        case Type.BIGINT:
            return str(value) if safe and abs(value) > SAFE else value
        case DecimalType():
            return str(value)
        case _:
            return value


def _key(name: Any, type_: DataType, safe: bool) -> str:
    """Return a key of a MAP, which JSON has as text."""
    key = _part(name, type_, safe)
    return str(key).lower() if isinstance(key, bool) else str(key)


def _finite(value: float | None) -> float | str | None:
    if value is None or value - value == 0:
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def cells(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return the cells of a listing's row as JSON has them."""
    return tuple(plain(value, safe=True) for value in values)
