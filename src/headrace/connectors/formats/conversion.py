"""Columns as a file has them, turned into columns of our types.

A value that cannot be turned becomes NULL; the caller finds it by comparing NULLs before and after (`failures`).
Text is read as people and programs write it: true/false, ISO dates, ISO timestamps with or without a zone (UTC if
without) or whole microseconds since 1970, durations such as '500 ms' or whole microseconds, binary as base64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from headrace.model.calendar import python_rows
from headrace.model.digits import (
    from_floats,
    from_integers,
    from_text,
    parsed,
    rescaled,
    to_digits,
    to_floats,
    to_integers,
)
from headrace.model.nested_values import read_json, shaped
from headrace.model.schema import Schema
from headrace.model.time import parse_duration, parse_instant
from headrace.model.types import ArrayType, DataType, DecimalType, MapType, StructType, Type, is_nested

_LOCAL = ("%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f")
_ZONED = ("%Y-%m-%dT%H:%M:%S%.f%:z", "%Y-%m-%d %H:%M:%S%.f%:z")


def texts_of(values: Sequence[bytes | None]) -> pl.Series:
    """Return bytes as texts, NULL where they are not UTF-8."""
    try:
        return pl.Series(values, dtype=pl.Binary).cast(pl.String)
    except pl.exceptions.ComputeError:
        return pl.Series([None if value is None else _text_of(value) for value in values], dtype=pl.String)


def _text_of(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def can_convert(dtype: pl.DataType, to: DataType) -> bool:
    """Say whether a column of this kind can hold values of type `to` at all."""
    if dtype == to.polars or dtype == pl.Null or dtype in (pl.String, pl.Categorical, pl.Enum):
        return True
    if is_nested(to):
        return _has_shape(dtype, to)
    if to.is_numeric:
        return dtype.is_numeric()
    if to in (Type.TIMESTAMP, Type.INTERVAL) and dtype.is_integer():
        return True
    if to in (Type.TIMESTAMP, Type.DATE):
        return isinstance(dtype, pl.Datetime | pl.Date)
    return to is Type.INTERVAL and isinstance(dtype, pl.Duration)


def convert(column: pl.Series, to: DataType) -> pl.Series:
    """Turn a column for which `can_convert` holds into `to`; values that do not fit become NULL."""
    dtype = column.dtype
    if dtype == to.polars:
        return column
    if dtype in (pl.Categorical, pl.Enum):
        column = column.cast(pl.String)
    if column.dtype == pl.String:
        return _from_text(column, to)
    if is_nested(to):
        return pl.Series(column.name, [_shaped(value, to) for value in column.to_list()], dtype=to.polars)
    if isinstance(to, DecimalType):
        if isinstance(dtype, pl.Decimal):
            return rescaled(to_digits(column), dtype.scale, to)
        return from_floats(column, to) if dtype.is_float() else rescaled(column.cast(pl.Int128), 0, to)
    if isinstance(dtype, pl.Decimal):
        if to.is_integer:  # a fraction is not cut off
            column = column.set(column != column.cast(pl.Int128).cast(column.dtype), None)
            return to_integers(column, to.polars)
        return to_floats(column).cast(to.polars)
    if to.is_integer and dtype.is_float():
        # A cast would cut 1.5 down to 1; that is another value, not the same in another type.
        column = column.set(column.is_not_null() & (column != column.floor()).fill_null(False), None)
    if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
        column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return column.cast(to.polars, strict=False)


def decimals(values: Sequence[Any], to: DecimalType) -> pl.Series:
    """Turn numbers and texts of Python into a column; what is neither, or does not fit, becomes NULL."""
    texts = [value if isinstance(value, float) else str(value) for value in values]
    wrong = [value is None or isinstance(value, bool) for value in values]
    return from_integers(
        [None if none else parsed(text, to.scale) for text, none in zip(texts, wrong, strict=True)], to
    )


def failures(before: pl.Series, after: pl.Series) -> pl.Series:
    """Return which rows lost their value in a conversion."""
    return after.is_null() & before.is_not_null()


def convert_all(raw: pl.DataFrame, schema: Schema, epoch: int = 1) -> tuple[pl.DataFrame, dict[int, str]]:
    """Turn the columns of `schema` into their types; also say which rows are bad, and why.

    Numbers in TIMESTAMP columns count in units of `epoch` microseconds.
    """
    columns: list[pl.Series] = []
    failed: dict[int, str] = {}
    for field in schema:
        before = raw[field.name]
        is_counted = epoch != 1 and field.type is Type.TIMESTAMP and before.dtype != field.type.polars
        after = (_counted(before, epoch) if is_counted else convert(before, field.type)).alias(field.name)
        columns.append(after)
        if after.null_count() > before.null_count():
            wrong = failures(before, after).arg_true()
            values = python_rows(before.gather(wrong).to_frame(field.name))
            for row, value in zip(wrong, values, strict=True):
                failed.setdefault(row, reason(value[field.name], field.name, field.type))
    return pl.DataFrame(columns) if columns else pl.DataFrame(height=raw.height), failed


def reason(value: object, name: str, to: DataType) -> str:
    """Say why a record is bad."""
    return f"column {name}: {value!r} is not {'an' if to.value[0] in 'AEIOU' else 'a'} {to.value}"


def select(schema: Schema, columns: tuple[str, ...] | None) -> Schema:
    """Return the declared columns that are asked for, in declared order."""
    return schema if columns is None else Schema(tuple(field for field in schema if field.name in columns))


def _from_text(column: pl.Series, to: DataType) -> pl.Series:
    match to:
        case Type.STRING:
            return column
        case Type.BOOLEAN:
            lower = column.str.to_lowercase()
            return (lower == "true").set(~lower.is_in(["true", "false"]), None)
        case Type.INT | Type.BIGINT | Type.FLOAT | Type.DOUBLE:
            done = column.cast(to.polars, strict=False)
            # blanks around numbers are rare
            return done if done.null_count() == column.null_count() else _stripped(column, to)
        case DecimalType():
            return from_text(column, to)
        case Type.DATE:
            return column.str.strptime(pl.Date, "%Y-%m-%d", strict=False)
        case Type.TIMESTAMP:
            return _instants(column)
        case Type.INTERVAL:
            spans = column.cast(pl.Int64, strict=False)
            return _rest(column, spans, parse_duration).cast(pl.Duration("us"))
        case Type.BINARY:
            return column.str.decode("base64", strict=False)
        case ArrayType() | MapType() | StructType():
            return pl.Series(column.name, [_from_json(text, to) for text in column.to_list()], dtype=to.polars)
        case Type.NULL:
            return column.clear(len(column)).cast(pl.Null)


def _stripped(column: pl.Series, to: DataType) -> pl.Series:
    return column.str.strip_chars().cast(to.polars, strict=False)


def _has_shape(dtype: pl.DataType, to: DataType) -> bool:
    """Say whether a column holds lists, structs or maps where `to` has them."""
    match to:
        case ArrayType(element=element):
            return isinstance(dtype, pl.List | pl.Array) and can_convert(pl.Series(dtype=dtype.inner).dtype, element)
        case StructType(fields=fields):
            if not isinstance(dtype, pl.Struct):
                return False
            have = {known.name: pl.Series(dtype=known.dtype).dtype for known in dtype.fields}
            return all(name not in have or can_convert(have[name], kind) for name, kind in fields)
        case MapType():
            return isinstance(dtype, pl.Map | pl.Struct)
        case _:
            return False


def _from_json(text: str | None, to: DataType) -> Any:
    try:
        return None if text is None else _shaped(read_json(text), to)
    except (ValueError, RecursionError):
        return None


def _shaped(value: Any, to: DataType) -> Any:
    try:
        return shaped(value, to)
    except (ValueError, OverflowError):
        return None


def _counted(column: pl.Series, epoch: int) -> pl.Series:
    """Turn numbers of units since 1970, also as texts, and other texts of times into times."""
    is_text = column.dtype == pl.String
    numbers = (column.str.strip_chars() if is_text else column).cast(pl.Int64, strict=False)
    most = (2**63 - 1) // epoch
    fitting = numbers.set(~numbers.is_between(-most, most).fill_null(True), None)
    times = (fitting * epoch).cast(pl.Datetime("us"))
    if not is_text or not failures(column, numbers).any():
        return times
    return times.zip_with(numbers.is_not_null(), _instants(column))


def _instants(column: pl.Series) -> pl.Series:
    done = column.cast(pl.Int64, strict=False).cast(pl.Datetime("us"))
    for form in (*_LOCAL, *_ZONED):
        if done.null_count() == column.null_count():
            return done
        unparsed = failures(column, done).arg_true()
        rest = column.gather(unparsed)
        if form in _LOCAL:
            more = rest.str.strptime(pl.Datetime("us"), form, strict=False)
        else:
            zoned = rest.str.replace("Z$", "+00:00").str.strptime(pl.Datetime("us", "UTC"), form, strict=False)
            more = zoned.dt.replace_time_zone(None)
        done = more if len(unparsed) == len(done) else done.scatter(unparsed, more)
    return _rest(column, done.cast(pl.Int64), parse_instant).cast(pl.Datetime("us"))


def _rest(column: pl.Series, done: pl.Series, parse: Callable[[str], int]) -> pl.Series:
    """Parse what vectorized readers could not parse, value by value."""
    unparsed = failures(column, done).arg_true()
    if not len(unparsed):
        return done
    values: list[int | None] = []
    for text in column.gather(unparsed):
        try:
            values.append(parse(text))
        except (ValueError, OverflowError):
            values.append(None)
    return done.scatter(unparsed, pl.Series(values, dtype=pl.Int64))
