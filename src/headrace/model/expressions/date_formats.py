"""Formats of dates and times, in the letters of Java's DateTimeFormatter that Spark knows."""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Callable, Iterator

from headrace.errors import NotSupported
from headrace.model.time import DAY, SECOND

_HINT = (
    "letters are yyyy, MM, dd, HH, hh, mm, ss, SSS, SSSSSS, a, MMM, MMMM, E, EEEE, DDD, X, XXX, Z; "
    "other text stands in quotes"
)
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LONG_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
#: Offsets from UTC: how that of UTC is written, and the regular expression that reads one.
_OFFSETS = {
    "X": ("Z", r"Z|[+-]\d{2}(?:\d{2})?"), "XX": ("Z", r"Z|[+-]\d{4}"), "XXX": ("Z", r"Z|[+-]\d{2}:\d{2}"),
    "x": ("+00", r"[+-]\d{2}(?:\d{2})?"), "xx": ("+0000", r"[+-]\d{4}"), "xxx": ("+00:00", r"[+-]\d{2}:\d{2}"),
    **dict.fromkeys(("Z", "ZZ", "ZZZ"), ("+0000", r"[+-]\d{4}")), "ZZZZZ": ("Z", r"Z|[+-]\d{2}:\d{2}"),
}  # fmt: skip
#: What means something else in Java than itself, and is neither a letter nor the bracket of a part that may be missing.
_RESERVED = "{}#"
#: A run of one letter, and how the library writes it.
_WRITTEN = {
    "yyyy": "%Y", "yy": "%y", "M": "%-m", "MM": "%m", "MMM": "%b", "MMMM": "%B", "d": "%-d", "dd": "%d",
    "D": "%-j", "DDD": "%j", "H": "%-H", "HH": "%H", "h": "%-I", "hh": "%I", "m": "%-M", "mm": "%M", "s": "%-S",
    "ss": "%S", "SSS": "%3f", "SSSSSS": "%6f", "a": "%p", "E": "%a", "EE": "%a", "EEE": "%a", "EEEE": "%A",
    "[": "", "]": "", **{run: written for run, (written, _) in _OFFSETS.items()},
}  # fmt: skip
#: Letters of parts of a day, and how long such a part lasts.
_LASTING = {"S": 1, "s": SECOND, "m": 60 * SECOND, "H": 3600 * SECOND, "h": 3600 * SECOND, "a": 3600 * SECOND}
#: A run of one letter, and the regular expression that reads it.
_READ = {
    "yyyy": r"(?P<year>\d{4})", "yy": r"(?P<short>\d{2})",
    "M": r"(?P<month>\d{1,2})", "MM": r"(?P<month>\d{2})", "MMM": rf"(?P<name>{'|'.join(_MONTHS)})",
    "MMMM": rf"(?P<name>{'|'.join(_LONG_MONTHS)})", "d": r"(?P<day>\d{1,2})", "dd": r"(?P<day>\d{2})",
    "H": r"(?P<hour>\d{1,2})", "HH": r"(?P<hour>\d{2})", "h": r"(?P<half>\d{1,2})", "hh": r"(?P<half>\d{2})",
    "m": r"(?P<minute>\d{1,2})", "mm": r"(?P<minute>\d{2})", "s": r"(?P<second>\d{1,2})", "ss": r"(?P<second>\d{2})",
    "a": r"(?P<noon>[AaPp][Mm])",
    **{"S" * count: rf"(?P<fraction>\d{{1,{count}}})" for count in range(1, 7)},
    "[": "(?:", "]": ")?", **{run: f"(?P<offset>{read})" for run, (_, read) in _OFFSETS.items()},
}  # fmt: skip


def strftime_format(pattern: str) -> str:
    """Return the pattern as strftime of the column library writes it."""
    runs = _runs(pattern, _WRITTEN)
    return "".join(_WRITTEN[run] if is_letters else run.replace("%", "%%") for run, is_letters in runs)


def lasting(pattern: str) -> int:
    """Return how long, in microseconds from midnight on, all instants are written alike."""
    letters = (run[0] for run, is_letters in _runs(pattern, _WRITTEN) if is_letters)
    return min((_LASTING.get(letter, DAY) for letter in letters), default=DAY)


def instant_reader(pattern: str) -> Callable[[str], int | None]:
    """Return the function that reads a text in a format as microseconds since 1970; None if it does not fit."""
    runs = [run for run, is_letters in _runs(pattern, _READ) if is_letters]
    letters = ["X" if run in _OFFSETS else run[0] for run in runs if run not in ("[", "]")]
    if len(set(letters)) < len(letters):
        raise NotSupported(f"the format {pattern!r} has a part twice", hint=_HINT)
    if ("h" in letters) != ("a" in letters) or ("h" in letters and "H" in letters):
        raise NotSupported(f"the format {pattern!r} needs hh and a together, or HH", hint=_HINT)
    expression = re.compile(
        "".join(_READ[run] if is_letters else re.escape(run) for run, is_letters in _runs(pattern, _READ)), re.ASCII
    )

    def read(text: str) -> int | None:
        match = expression.fullmatch(text)
        return None if match is None else _instant({part: text for part, text in match.groupdict().items() if text})

    return read


def _runs(pattern: str, known: dict[str, str]) -> Iterator[tuple[str, bool]]:
    """Cut a pattern into runs of one letter and other text; the brackets of a part that may be missing are letters."""
    brackets = "".join(re.findall(r"[\[\]]", re.sub(r"'[^']*'", "", pattern)))
    if brackets.replace("[]", ""):
        raise NotSupported(f"the brackets in the format {pattern!r} are not in pairs", hint=_HINT)
    for index, part in enumerate(re.split(r"'((?:[^']|'')*)'", pattern)):
        if index % 2:  # in quotes; two quotes are one
            yield part.replace("''", "'") or "'", False
            continue
        if "'" in part:
            raise NotSupported(f"a quote in the format {pattern!r} is not closed", hint=_HINT)
        for _, group in itertools.groupby(part):
            run = "".join(group)
            is_letters = run[0].isascii() and (run[0].isalpha() or run[0] in "[]")
            if (is_letters and run not in known) or run[0] in _RESERVED:
                raise NotSupported(f"{run!r} in the format {pattern!r} is not supported", hint=_HINT)
            yield run, is_letters


def _instant(parts: dict[str, str]) -> int | None:
    year = int(parts["year"]) if "year" in parts else 2000 + int(parts["short"]) if "short" in parts else 1970
    name = parts.get("name", "Jan")
    month = int(parts.get("month", _MONTHS.index(name[:3]) + 1))
    hour, minute, second = (int(parts.get(part, 0)) for part in ("hour", "minute", "second"))
    if "half" in parts:
        half = int(parts["half"])
        if not 1 <= half <= 12:
            return None
        hour = half % 12 + (12 if parts["noon"].upper() == "PM" else 0)
    try:
        day = datetime.date(year, month, int(parts.get("day", 1))).toordinal() - _EPOCH
        datetime.time(hour, minute, second)
    except ValueError:
        return None
    fraction = int(parts.get("fraction", "0").ljust(6, "0"))
    ahead = _minutes(parts.get("offset", "Z"))
    return day * DAY + (hour * 3600 + (minute - ahead) * 60 + second) * SECOND + fraction


def _minutes(offset: str) -> int:
    """Return how far a place is ahead of UTC: 120 of +02:00."""
    if offset == "Z":
        return 0
    digits = offset[1:].replace(":", "").ljust(4, "0")
    return (-1 if offset[0] == "-" else 1) * (int(digits[:2]) * 60 + int(digits[2:]))
