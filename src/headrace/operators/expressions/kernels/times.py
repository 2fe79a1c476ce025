"""Parts of dates and instants, and what lies between them."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from headrace.errors import TypeFault
from headrace.model.types import Type
from headrace.operators.expressions.kernels.arguments import Arguments, Kernel
from headrace.operators.expressions.kernels.conversion import instants

_UNITS = {
    "microsecond": "1us",
    "millisecond": "1ms",
    "second": "1s",
    "minute": "1m",
    "hour": "1h",
    "day": "1d",
    "week": "1w",
    "month": "1mo",
    "quarter": "1q",
    "year": "1y",
}


def _part(operation: Callable[[pl.Expr], pl.Expr]) -> Kernel:
    return lambda args: operation(args.get(0, Type.DATE if args.types[0] is Type.DATE else Type.TIMESTAMP)).cast(
        pl.Int64
    )


def _date_trunc(args: Arguments) -> pl.Expr:
    unit = args.text(0)
    if unit is None:
        return args.null()
    if unit.lower() not in _UNITS:
        raise TypeFault(f"date_trunc knows no unit {unit!r}", hint=f"one of {', '.join(_UNITS)}")
    return args.get(1, Type.TIMESTAMP).dt.truncate(_UNITS[unit.lower()])


def _days(args: Arguments, position: int) -> pl.Expr:
    return args.get(position, Type.DATE).cast(pl.Int32).cast(pl.Int64)


def _date_add(args: Arguments) -> pl.Expr:
    return (_days(args, 0) + args.get(1, Type.BIGINT)).cast(pl.Int32, strict=False).cast(pl.Date)


def _since_epoch(unit: int) -> Kernel:
    return lambda args: args.get(0, Type.TIMESTAMP).cast(pl.Int64) // unit


def _after_epoch(unit: int) -> Kernel:
    return lambda args: instants(args.get(0, Type.BIGINT), unit)


TIMES: dict[str, Kernel] = {
    "year": _part(lambda t: t.dt.year()),
    "quarter": _part(lambda t: t.dt.quarter()),
    "month": _part(lambda t: t.dt.month()),
    "week": _part(lambda t: t.dt.week()),
    "day": _part(lambda t: t.dt.day()),
    "dayofweek": _part(lambda t: t.dt.weekday() % 7 + 1),
    "dayofyear": _part(lambda t: t.dt.ordinal_day()),
    "hour": _part(lambda t: t.dt.hour()),
    "minute": _part(lambda t: t.dt.minute()),
    "second": _part(lambda t: t.dt.second()),
    "date_trunc": _date_trunc,
    "to_date": lambda args: args.get(0, Type.TIMESTAMP).cast(pl.Date),
    "date_add": _date_add,
    "datediff": lambda args: _days(args, 0) - _days(args, 1),
    "unix_seconds": _since_epoch(1_000_000),
    "unix_millis": _since_epoch(1_000),
    "unix_micros": _since_epoch(1),
    "timestamp_seconds": _after_epoch(1_000_000),
    "timestamp_millis": _after_epoch(1_000),
    "timestamp_micros": _after_epoch(1),
}
