"""Constants that functions need in a form of their own, checked where a call is bound, so that errors have a place."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from typing import TypeAlias

import polars as pl

from headrace.errors import TypeFault
from headrace.model.expressions.date_formats import instant_reader, strftime_format
from headrace.model.expressions.json_paths import steps_of
from headrace.model.expressions.regular_expressions import check_pattern, reference

Value: TypeAlias = bool | int | float | str | None

#: The bits of sha2; 0 is 256.
SHA2_BITS = (0, 224, 256, 384, 512)
#: Character sets of encode and decode, with Python's names; UTF-16 is written with a mark for the order of bytes.
CHARSETS = {
    "UTF-8": "utf-8", "US-ASCII": "ascii", "ISO-8859-1": "latin-1", "UTF-16BE": "utf-16-be", "UTF-16LE": "utf-16-le",
    "UTF-16": "utf-16", "UTF-32": "utf-32-be",
}  # fmt: skip
#: Days of the week from Monday, 0, on, by all their names.
WEEKDAYS = {
    name: day
    for day, full in enumerate(("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"))
    for name in (full, full[:3], full[:2])
}


def check_constants(function: str, values: Sequence[Value]) -> None:
    """Refuse constants that the function cannot take; `values` has None for NULL and for what is no constant."""
    check = _CHECKS.get(function)
    if check is not None and len(values) > 1 and values[1] is not None:
        if function in _PATTERNS:
            _check_backslashes(str(values[1]))
        check(values)


def weekday(name: str) -> int:
    """Return the day of the week, 0 for Monday, that a text names."""
    if name.strip().upper() not in WEEKDAYS:
        raise TypeFault(f"{name!r} is not a day of the week", hint="write for example 'Mon' or 'Monday'")
    return WEEKDAYS[name.strip().upper()]


def sha2_bits(bits: int) -> int:
    """Return the number of bits of a digest that sha2 names."""
    if bits not in SHA2_BITS:
        raise TypeFault(f"sha2 has no digest of {bits} bits", hint="write 224, 256, 384 or 512")
    return bits or 256


def charset(name: str) -> str:
    """Return what Python calls a character set that encode and decode name."""
    known = CHARSETS.get(name.strip().upper())
    if known is None:
        raise TypeFault(f"{name!r} is not a character set", hint=f"there are {', '.join(CHARSETS)}")
    return known


def _check_replace(values: Sequence[Value]) -> None:
    check_pattern(str(values[1]), may_be_empty=False)
    if values[2] is not None:
        reference(str(values[2]))


def _check_sha2(values: Sequence[Value]) -> None:
    sha2_bits(int(values[1] or 0))


def _check_backslashes(pattern: str) -> None:
    """Refuse a regular expression as Spark wants it, with two backslashes: here it would look for a backslash."""
    doubled = _DOUBLED.search(pattern)
    if doubled is not None:
        one = doubled[1]
        raise TypeFault(
            f"the regular expression {pattern} looks for a backslash: a text has no escapes, unlike in Spark",
            hint=f"write \\{one} with one backslash; [\\\\] is a backslash",
        )


def _text(check: Callable[[str], object]) -> Callable[[Sequence[Value]], None]:
    def checked(values: Sequence[Value]) -> None:
        check(str(values[1]))

    return checked


def _check_split(values: Sequence[Value]) -> None:
    pattern = str(values[1])
    try:
        with warnings.catch_warnings(action="error", category=FutureWarning):
            re.compile(pattern)
    except FutureWarning as warning:  # of what means something else in other functions, such as [[:alpha:]] and &&
        raise TypeFault(
            f"regular expression {pattern!r}: {str(warning).lower()}",
            hint=r"write [a-z] for classes, and \[ for a bracket",
        ) from warning
    except re.error as error:
        raise TypeFault(f"regular expression {pattern!r}: {error}") from error


def _check_extract_all(values: Sequence[Value]) -> None:
    _check_split(values)
    groups, group = re.compile(str(values[1])).groups, 1 if len(values) == 2 else values[2]
    if isinstance(group, int) and not 0 <= group <= groups:
        raise TypeFault(
            f"the regular expression {values[1]!r} has no group {group}", hint="write 0 for the whole of a match"
        )


def zone(name: str) -> str:
    """Return the name of a time zone, as the column library has it."""
    known = {"Z": "UTC"}.get(name.strip().upper(), name.strip())
    try:
        pl.select(pl.lit(0).cast(pl.Datetime("us")).dt.replace_time_zone(known))
    except pl.exceptions.ComputeError as error:
        raise TypeFault(
            f"{name!r} is not a time zone", hint="write for example 'Europe/Paris', 'America/New_York' or 'UTC'"
        ) from error
    return known


#: Functions whose second argument is a regular expression.
_PATTERNS = (
    "split",
    "rlike",
    "regexp_extract",
    "regexp_extract_all",
    "regexp_substr",
    "regexp_count",
    "regexp_replace",
)
#: Two backslashes, outside of brackets, before a letter or a sign that one backslash gives a meaning.
_DOUBLED = re.compile(r"(?<![\\\[])\\\\([dDwWsSbB.|(){}\[\]*+?^$/-])")
_CHECKS: dict[str, Callable[[Sequence[Value]], None]] = {
    "split": _check_split,
    "rlike": _text(check_pattern),
    "regexp_extract": _text(check_pattern),
    "regexp_extract_all": _check_extract_all,
    "from_utc_timestamp": _text(zone),
    "to_utc_timestamp": _text(zone),
    "regexp_substr": _text(check_pattern),
    "regexp_count": _text(lambda pattern: check_pattern(pattern, may_be_empty=False)),
    "regexp_replace": _check_replace,
    "get_json_object": _text(steps_of),
    "date_format": _text(strftime_format),
    "parse_timestamp": _text(instant_reader),
    "parse_date": _text(instant_reader),
    "next_day": _text(weekday),
    "sha2": _check_sha2,
    "encode": _text(charset),
    "decode": _text(charset),
}
