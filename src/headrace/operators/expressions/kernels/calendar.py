"""Dates counted in months and weeks, and dates made of their parts."""

from __future__ import annotations

import calendar
import datetime
import math

import numpy as np
import polars as pl

from headrace.model.expressions.constants import weekday, zone
from headrace.model.time import DAY, SECOND
from headrace.model.types import Type
from headrace.operators.expressions.kernels.arguments import Arguments, Kernel, each
from headrace.operators.expressions.kernels.rounding import round_half_away

_EPOCH = datetime.date(1970, 1, 1).toordinal()
#: Years that DATE functions give: those of four digits.
_LAST_MONTH = (9999 - 1970) * 12 + 11
_FIRST_MONTH = (1 - 1970) * 12
_FIRST_DAY, _LAST_DAY = datetime.date.min.toordinal() - _EPOCH, datetime.date.max.toordinal() - _EPOCH


def _add_months(args: Arguments) -> pl.Expr:
    return pl.struct(d=args.get(0, Type.DATE), n=args.get(1, Type.BIGINT)).map_batches(
        _months_later, return_dtype=pl.Date(), is_elementwise=True
    )


def _months_later(rows: pl.Series) -> pl.Series:
    """Return the same day of a later month, or its last day; NULL beyond year 9999 and before year 1."""
    days, months = rows.struct.field("d").to_physical(), rows.struct.field("n")
    known = (days.is_not_null() & months.is_not_null()).to_numpy()
    date = days.fill_null(0).to_numpy().astype("datetime64[D]")
    month = date.astype("datetime64[M]")
    number = month.astype(np.int64) + np.clip(months.fill_null(0).to_numpy(), -(2**40), 2**40)
    fits = (number >= _FIRST_MONTH) & (number <= _LAST_MONTH)
    later = np.where(fits, number, 0).astype("datetime64[M]")
    first, following = later.astype("datetime64[D]"), (later + 1).astype("datetime64[D]")
    offset = np.minimum(
        (date - month.astype("datetime64[D]")).astype(np.int64), (following - first).astype(np.int64) - 1
    )
    result = pl.Series((first.astype(np.int64) + offset).astype(np.int32))
    return result.set(~pl.Series(known & fits), None).cast(pl.Date)


def _month_ends(days: pl.Series) -> pl.Series:
    date = days.to_physical().fill_null(0).to_numpy().astype("datetime64[D]")
    following = (date.astype("datetime64[M]") + 1).astype("datetime64[D]")
    last = pl.Series(np.clip(following.astype(np.int64) - 1, -(2**31), 2**31 - 1).astype(np.int32))
    return last.set(days.is_null(), None).cast(pl.Date)


def _months_between(end: int, start: int) -> float | None:
    """Return the months between two instants: whole ones if days agree or both end a month, else by 31 days each."""
    if not all(_FIRST_DAY <= instant // DAY <= _LAST_DAY for instant in (end, start)):
        return None
    last, first = (datetime.date.fromordinal(instant // DAY + _EPOCH) for instant in (end, start))
    months = (last.year - first.year) * 12 + last.month - first.month
    if last.day == first.day or (_ends_month(last) and _ends_month(first)):
        return float(months)
    seconds = (last.day - first.day) * 86400 + end % DAY // SECOND - start % DAY // SECOND
    return months + seconds / (31 * 86400)


def _ends_month(day: datetime.date) -> bool:
    return day.day == calendar.monthrange(day.year, day.month)[1]


def _months_between_kernel(args: Arguments) -> pl.Expr:
    return round_half_away(each(_months_between, args, [Type.TIMESTAMP]), 8)


def _next_day(args: Arguments) -> pl.Expr:
    name = args.text(1)
    if name is None:
        return args.null()
    days = args.get(0, Type.DATE).cast(pl.Int32)
    # 1970-01-01, day 0, was a Thursday
    return (days + 1 + (weekday(name) - 3 - 1 - days) % 7).cast(pl.Date)


def _make_date(year: int, month: int, day: int) -> int | None:
    try:
        return datetime.date(year, month, day).toordinal() - _EPOCH
    except (ValueError, OverflowError):
        return None


def _make_timestamp(year: int, month: int, day: int, hour: int, minute: int, second: float) -> int | None:
    date = _make_date(year, month, day)
    if date is None or not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second <= 60) or math.isnan(second):
        return None
    if second == 60:  # the next minute, as in PostgreSQL and Spark
        minute, second = minute + 1, 0
    return date * DAY + (hour * 60 + minute) * 60 * SECOND + round(second * SECOND)


def _from_utc(args: Arguments) -> pl.Expr:
    name = args.text(1)
    if name is None:
        return args.null()
    utc = args.get(0, Type.TIMESTAMP).dt.replace_time_zone("UTC")
    return utc.dt.convert_time_zone(zone(name)).dt.replace_time_zone(None)


def _to_utc(args: Arguments) -> pl.Expr:
    """Return the instant: the earlier of two; a time that a clock leaves out counts from the day before."""
    name = args.text(1)
    if name is None:
        return args.null()
    shown, there, day = args.get(0, Type.TIMESTAMP), zone(name), pl.duration(days=1)

    def instant(local: pl.Expr) -> pl.Expr:
        zoned = local.dt.replace_time_zone(there, ambiguous="earliest", non_existent="null")
        return zoned.dt.convert_time_zone("UTC").dt.replace_time_zone(None)

    return pl.coalesce(instant(shown), instant(shown - day) + day)


CALENDAR: dict[str, Kernel] = {
    "add_months": _add_months,
    "months_between": _months_between_kernel,
    "last_day": lambda args: args.get(0, Type.DATE).map_batches(
        _month_ends, return_dtype=pl.Date(), is_elementwise=True
    ),
    "next_day": _next_day,
    "make_date": lambda args: each(_make_date, args, [Type.BIGINT]),
    "make_timestamp": lambda args: each(
        _make_timestamp, args, [Type.BIGINT, Type.BIGINT, Type.BIGINT, Type.BIGINT, Type.BIGINT, Type.DOUBLE]
    ),
    "from_utc_timestamp": _from_utc,
    "to_utc_timestamp": _to_utc,
    "weekday": lambda args: (args.get(0, Type.DATE).cast(pl.Int64) + 3) % 7,
    "yearofweek": lambda args: args.get(0, Type.DATE).dt.iso_year().cast(pl.Int64),
    "unix_date": lambda args: args.get(0, Type.DATE).cast(pl.Int32).cast(pl.Int64),
    "date_from_unix_date": lambda args: args.get(0, Type.BIGINT).cast(pl.Int32, strict=False).cast(pl.Date),
}
