"""Rows as lines of JSON."""

from __future__ import annotations

from itertools import groupby

import msgspec
import polars as pl

from headrace.model.nested_values import json_of
from headrace.model.types import type_of

_ENCODER = msgspec.json.Encoder(decimal_format="number")


def json_lines(rows: pl.DataFrame) -> bytes:
    """Return one line for each row, which the source of FILES reads back.

    The library writes all values as wanted but DECIMALs, which are numbers here, and some that are nested. The texts of
    these stand between what it writes of their neighbors.
    """
    own = {name for name, dtype in rows.schema.items() if _is_own(dtype)}
    if not own:
        return rows.write_ndjson().encode()
    if not rows.height:
        return b""
    parts: list[pl.Series] = []
    for is_own, group in groupby(rows.columns, own.__contains__):
        names = list(group)
        parts += [_member(rows[name]) for name in names] if is_own else [_members(rows.select(names))]
    frame = pl.DataFrame([part.alias(str(place)) for place, part in enumerate(parts)])
    lines = frame.select(pl.concat_str(pl.all(), separator=",")).to_series().to_list()
    return "".join(["{", "}\n{".join(lines), "}\n"]).encode()


def without_nesting(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows in which ARRAYs, MAPs and STRUCTs are texts in JSON, for formats that have no nesting."""
    texts = [_texts(rows[name]) for name, dtype in rows.schema.items() if dtype.is_nested()]
    return rows.with_columns(texts) if texts else rows


def _texts(column: pl.Series) -> pl.Series:
    type_ = type_of(column.dtype)
    assert type_ is not None
    values = [None if value is None else _ENCODER.encode(json_of(value, type_)).decode() for value in column.to_list()]
    return pl.Series(column.name, values, dtype=pl.String)


def _members(rows: pl.DataFrame) -> pl.Series:
    """Return what the library writes between the braces."""
    lines = pl.Series(rows.write_ndjson().split("\n")[:-1], dtype=pl.String)
    return lines.str.slice(1, lines.str.len_chars() - 2)


def _member(column: pl.Series) -> pl.Series:
    texts = column.cast(pl.String) if isinstance(column.dtype, pl.Decimal) else _texts(column)
    name = _ENCODER.encode(column.name).decode()
    return f"{name}:" + texts.fill_null("null")


def _is_own(dtype: object) -> bool:
    """Return whether the library writes values otherwise than FILES reads them, or not at all."""
    match dtype:
        case pl.List() | pl.Array():
            return _is_own(dtype.inner)
        case pl.Map():
            return dtype.key != pl.String or _is_own(dtype.value)
        case pl.Struct():
            return any(_is_own(field.dtype) for field in dtype.fields)
        case _:
            return isinstance(dtype, pl.Decimal | pl.Duration | pl.Binary)
