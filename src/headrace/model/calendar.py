"""Dates and times that Python, Spark and text formats cannot hold: those before year 1 and after year 9999."""

from __future__ import annotations

import datetime
from typing import Any

import polars as pl

from headrace.model.time import DAY

_EPOCH = datetime.date(1970, 1, 1)
_FIRST, _LAST = ((day - _EPOCH).days for day in (datetime.date.min, datetime.date.max))
_LONGEST = datetime.timedelta.max.days
_PER_DAY = {"us": DAY, "ms": DAY // 1000}


def beyond_calendar(rows: pl.DataFrame) -> pl.Series | None:
    """Return for each row why it has a date or time beyond the calendar, NULL if it has none; None if no row has."""
    reasons: pl.Series | None = None
    for name, dtype in rows.schema.items():
        outside = _outside(rows[name], dtype)
        if outside is not None and outside.any():
            why = pl.select(
                pl.when(outside).then(pl.lit(f"column {name!r} is not between year 1 and year 9999"))
            ).to_series()
            reasons = why if reasons is None else pl.select(pl.coalesce(reasons, why)).to_series()
    return reasons


def python_rows(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Return rows as Python values; a date or time beyond the calendar is text: its days, or its units, since 1970."""
    if beyond_calendar(rows) is None:
        return rows.to_dicts()
    masks = {name: _outside(rows[name], dtype) for name, dtype in rows.schema.items()}
    outside = {name: mask.fill_null(False) for name, mask in masks.items() if mask is not None and mask.any()}
    kept = rows.with_columns(pl.when(~mask).then(pl.col(name)).alias(name) for name, mask in outside.items())
    values = kept.to_dicts()
    for name, mask in outside.items():
        numbers = rows[name].to_physical()
        for at in mask.arg_true():
            values[at][name] = str(numbers[at : at + 1].to_list()[0])
    return values


def _outside(column: pl.Series, dtype: pl.DataType) -> pl.Series | None:
    """Return which values are beyond the calendar, or hold one that is; None if there are neither dates nor times."""
    mask = _mask(pl.col(column.name), dtype)
    return None if mask is None else column.to_frame().select(mask).to_series()


def _mask(x: pl.Expr, dtype: Any) -> pl.Expr | None:
    parts: tuple[pl.Expr | None, ...]
    match dtype:
        case pl.Date():
            days = x.to_physical()
            return (days < _FIRST) | (days > _LAST)
        case pl.Datetime(time_unit="us" | "ms" as unit):
            instants, per_day = x.to_physical(), _PER_DAY[unit]
            return (instants < _FIRST * per_day) | (instants >= (_LAST + 1) * per_day)
        case pl.Duration(time_unit="ms"):
            return x.to_physical().abs() > _LONGEST * _PER_DAY["ms"]
        case pl.Time():
            return ~x.to_physical().is_between(0, DAY * 1000, closed="left")
        case pl.List(inner=inner):
            mask = _mask(pl.element(), inner)
            return None if mask is None else x.list.eval(mask).list.any()
        case pl.Map(key=key, value=value):
            parts = _mask(x.map.keys(), pl.List(key)), _mask(x.map.values(), pl.List(value))
        case pl.Struct(fields=fields):
            parts = tuple(_mask(x.struct.field(field.name), field.dtype) for field in fields)
        case _:
            return None  # nanoseconds hold a few centuries only
    masks = [part for part in parts if part is not None]
    return pl.any_horizontal(masks) if masks else None
