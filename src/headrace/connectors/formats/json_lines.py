"""Rows as lines of JSON."""

from __future__ import annotations

import msgspec
import polars as pl

from headrace.model.nested_values import json_of
from headrace.model.types import type_of

_ENCODER = msgspec.json.Encoder(decimal_format="number")


def json_lines(rows: pl.DataFrame) -> bytes:
    """Return one line for each row; the digits of a DECIMAL are a number, not a text as the library writes them."""
    if not any(map(_has_decimal, rows.dtypes)):
        return rows.write_ndjson().encode()
    return _ENCODER.encode_lines(rows.to_dicts())


def without_nesting(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows in which ARRAYs, MAPs and STRUCTs are texts in JSON, for formats that have no nesting."""
    texts = [_texts(rows[name]) for name, dtype in rows.schema.items() if dtype.is_nested()]
    return rows.with_columns(texts) if texts else rows


def _texts(column: pl.Series) -> pl.Series:
    type_ = type_of(column.dtype)
    assert type_ is not None
    values = [None if value is None else _ENCODER.encode(json_of(value, type_)).decode() for value in column.to_list()]
    return pl.Series(column.name, values, dtype=pl.String)


def _has_decimal(dtype: object) -> bool:
    match dtype:
        case pl.List() | pl.Array():
            return _has_decimal(dtype.inner)
        case pl.Map():
            return _has_decimal(dtype.key) or _has_decimal(dtype.value)
        case pl.Struct():
            return any(_has_decimal(field.dtype) for field in dtype.fields)
        case _:
            return isinstance(dtype, pl.Decimal)
