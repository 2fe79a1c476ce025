"""Times of the clock with wildcards, such as '*:00:00' (every hour) or '2026-*-01 06:30:00'; UTC."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.model.time import DAY, SECOND

_HEAD = "at '"
_EPOCH = datetime.date(1970, 1, 1).toordinal()
#: A date that does not come within so many days never comes.
_MAX_DAYS_BACK = 366 * 9


@dataclass(frozen=True, slots=True)
class Times:
    """Times of the clock: seconds of a day, ascending, on given years, months and days (None: any)."""

    seconds: tuple[int, ...]
    years: frozenset[int] | None = None
    months: frozenset[int] | None = None
    days: frozenset[int] | None = None

    def between(self, after: int, upto: int) -> Iterator[int]:
        """Return the instants after the first and up to the second, ascending, in microseconds."""
        for day in range(after // DAY, upto // DAY + 1):
            if not self._is_day(day):
                continue
            for second in self.seconds:
                instant = day * DAY + second * SECOND
                if after < instant <= upto:
                    yield instant

    def last(self, after: int, upto: int) -> int | None:
        """Return the last of the instants of `between`; None if there are none."""
        for day in range(upto // DAY, max(after // DAY, upto // DAY - _MAX_DAYS_BACK) - 1, -1):
            if not self._is_day(day):
                continue
            for second in reversed(self.seconds):
                instant = day * DAY + second * SECOND
                if instant <= after:
                    return None
                if instant <= upto:
                    return instant
        return None

    def _is_day(self, day: int) -> bool:
        date = datetime.date.fromordinal(_EPOCH + day)
        fits = ((date.year, self.years), (date.month, self.months), (date.day, self.days))
        return all(allowed is None or value in allowed for value, allowed in fits)


def parse_times(text: str) -> Times:
    """Read '[year-month-day ]hour:minute:second'; a part is a number, * or */n.

    Raises ValueError that says what is wrong.
    """
    date, _, time = text.strip().rpartition(" ")
    clock = time.split(":")
    if len(clock) != 3:
        raise ValueError(f"{text!r} is not hour:minute:second")
    hours, minutes, seconds = (
        _part(part, 0, high, what)
        for part, high, what in zip(clock, (23, 59, 59), ("hour", "minute", "second"), strict=True)
    )
    of_day = tuple(h * 3600 + m * 60 + s for h in hours for m in minutes for s in seconds)
    if not date:
        return Times(of_day)
    calendar = date.split("-")
    if len(calendar) != 3:
        raise ValueError(f"{date!r} is not year-month-day")
    limits = ((1970, 9998, "year"), (1, 12, "month"), (1, 31, "day"))
    years, months, days = (
        None if part == "*" else frozenset(_part(part, low, high, what))
        for part, (low, high, what) in zip(calendar, limits, strict=True)
    )
    return Times(of_day, years, months, days)


def clock_name(text: str) -> str:
    """Return the name of the stream that has a tuple at each of these times."""
    return f"{_HEAD}{' '.join(text.split())}'"


def times_named(name: str) -> str | None:
    """Return the times in such a name; None if the name is another one."""
    return name[len(_HEAD) : -1] if name.lower().startswith(_HEAD) and name.endswith("'") else None


def _part(text: str, low: int, high: int, what: str) -> tuple[int, ...]:
    if text == "*":
        return tuple(range(low, high + 1))
    if text.startswith("*/") and text[2:].isdigit() and int(text[2:]) > 0:
        return tuple(range(low, high + 1, int(text[2:])))
    if text.isdigit() and low <= int(text) <= high:
        return (int(text),)
    raise ValueError(f"{text!r} is not valid as {what}: expected a number from {low} to {high}, * or */n")
