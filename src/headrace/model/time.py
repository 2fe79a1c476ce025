"""Instants and spans as whole microseconds (UTC); durations as people write them."""

from __future__ import annotations

import datetime
import re

MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY

#: Before everything, and after everything. A frontier at END says that the stream is over.
BEGIN = -(2**62)
END = 2**62
#: The timestamps that a tuple may have: from year 1 to 9000. Windows, skews and Python's dates need room beyond them.
EARLIEST = -62_135_596_800 * SECOND
LATEST = 221_845_392_000 * SECOND
#: The longest duration of a window, a skew or a time to live: what it holds ends before the year 10,000.
LONGEST = 999 * 365 * DAY

UNITS = {
    "us": MICROSECOND, "microsecond": MICROSECOND, "microseconds": MICROSECOND,
    "ms": MILLISECOND, "millisecond": MILLISECOND, "milliseconds": MILLISECOND,
    "s": SECOND, "sec": SECOND, "second": SECOND, "seconds": SECOND,
    "min": MINUTE, "minute": MINUTE, "minutes": MINUTE,
    "h": HOUR, "hour": HOUR, "hours": HOUR,
    "d": DAY, "day": DAY, "days": DAY, "week": WEEK, "weeks": WEEK,
}  # fmt: skip

_DURATION = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*([a-zA-Z]+)\s*")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def parse_duration(text: str) -> int:
    """Read how long something lasts, as an interval is written; ValueError if it is none, or too long."""
    duration = parse_interval(text)
    if duration > LONGEST:
        raise ValueError(f"{text.strip()!r} is too long: a duration has {LONGEST // DAY:,} days at most")
    return duration


def parse_interval(text: str) -> int:
    """Read '500 ms', '1.5 minutes' or '1 h 30 min' as microseconds; ValueError if it is none."""
    position, total = 0, 0.0
    while position < len(text):
        parsed = _DURATION.match(text, position)
        if parsed is None or parsed[2].lower() not in UNITS:
            raise ValueError(f"{text!r} is not a duration such as '500 ms' or '5 minutes'")
        total += float(parsed[1]) * UNITS[parsed[2].lower()]
        position = parsed.end()
    if position == 0:
        raise ValueError("a duration is missing, such as '500 ms' or '5 minutes'")
    return round(total)


def format_duration(span: int) -> str:
    """Write a span in its largest whole unit: 90_000_000 is '90 s'."""
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s"), (MILLISECOND, "ms")):
        if span and span % unit == 0:
            return f"{span // unit} {name}"
    return f"{span} us"


def parse_instant(text: str) -> int:
    """Read an ISO date or timestamp (UTC unless it says otherwise) as microseconds since 1970."""
    instant = datetime.datetime.fromisoformat(text)
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=datetime.UTC)
    return (instant - _EPOCH) // datetime.timedelta(microseconds=1)


def format_instant(instant: int) -> str:
    """Write an instant as ISO text; the two ends of time as -inf and +inf."""
    if instant <= BEGIN:
        return "-inf"
    if instant >= END:
        return "+inf"
    return (_EPOCH + datetime.timedelta(microseconds=instant)).isoformat(sep=" ").removesuffix("+00:00")
