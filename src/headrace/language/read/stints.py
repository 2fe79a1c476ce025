"""Reads when a query runs: `START '22:00' STOP ON accident EVERY 1 DAY`, START QUERY and STOP QUERY."""

from __future__ import annotations

import re

from headrace.errors import Span, SyntaxFault
from headrace.language.reader import Reader
from headrace.language.syntax.names import Name
from headrace.language.syntax.stints import StintClause, TurnQuery
from headrace.model.stint import Schedule
from headrace.model.time import DAY, HOUR, MINUTE, SECOND, parse_instant

_HINT = (
    "START '22:00' STOP '06:00', START '2026-01-31 10:00' STOP '2026-01-31 22:00' EVERY 7 DAYS, "
    "or START ON event STOP ON event"
)
_TIME = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)(?::([0-5]\d))?")


def read_turn(reader: Reader, offset: int) -> TurnQuery:
    """Read START QUERY name or STOP QUERY name."""
    on = reader.accept("START")
    if not on:
        reader.expect("STOP")
    reader.expect("QUERY", hint=f"{'START' if on else 'STOP'} QUERY name")
    return TurnQuery(reader.text, offset, on, reader.name("the query's name"))


def read_stint(reader: Reader) -> StintClause | None:
    """Read START, STOP and EVERY before WITH or AS; None if there are none."""
    if reader.word() not in ("START", "STOP", "EVERY"):
        return None
    began = reader.here()
    times: dict[str, tuple[int, bool, Span]] = {}  # instant, whether it is a time of day
    events: dict[str, Name] = {}
    for word in ("START", "STOP"):
        if reader.accept(word):
            if reader.accept("ON"):
                events[word] = _source(reader)
            else:
                times[word] = _time(reader)
    if reader.word() in ("START", "STOP"):
        raise SyntaxFault(
            f"unexpected {reader.word()}: START stands before STOP, each at most once", span=reader.here(), hint=_HINT
        )
    every = _every(reader, times, began) if reader.accept("EVERY") else None
    return StintClause(_schedule(times, every), events.get("START"), events.get("STOP"))


def _source(reader: Reader) -> Name:
    name = reader.name("an event, stream or query")
    while reader.accept("."):
        part = reader.name()
        name = Name(f"{name.text}.{part.text}", Span(name.span.start, part.span.end))
    return name


def _time(reader: Reader) -> tuple[int, bool, Span]:
    span = reader.here()
    text = reader.string("a time")
    parsed = _TIME.fullmatch(text.strip())
    if parsed is not None:
        hour, minute, second = (int(part or 0) for part in parsed.groups())
        return hour * HOUR + minute * MINUTE + second * SECOND, True, span
    try:
        return parse_instant(text), False, span
    except ValueError as error:
        raise SyntaxFault(f"{text!r} is neither a time of day nor a timestamp", span=span, hint=_HINT) from error


def _every(reader: Reader, times: dict[str, tuple[int, bool, Span]], began: Span) -> int:
    span = reader.here()
    every = reader.duration()
    if not times:
        raise SyntaxFault("EVERY needs a time after START or STOP", span=began, hint=_HINT)
    if every <= 0:
        raise SyntaxFault("EVERY needs a duration above zero", span=span, hint=_HINT)
    return every


def _schedule(times: dict[str, tuple[int, bool, Span]], every: int | None) -> Schedule | None:
    """Make a schedule: times of day repeat every day; a stop is after its start and before the next start."""
    if not times:
        return None
    start, stop = times.get("START"), times.get("STOP")
    daily = any(is_daily for _, is_daily, _ in times.values())
    if daily and not all(is_daily for _, is_daily, _ in times.values()):
        message = "START and STOP must both be times of day or both have a date"
        raise SyntaxFault(message, span=times["STOP"][2], hint="write both as '22:00', or both with a date")
    every = every or (DAY if daily else None)
    if start is None or stop is None:
        return Schedule(None if start is None else start[0], None if stop is None else stop[0], every, daily)
    begin, end = start[0], stop[0]
    if daily and end < begin:
        end += DAY  # of the next day
    if end <= begin:
        raise SyntaxFault(
            f"the query would stop {'when' if end == begin else 'before'} it starts", span=stop[2], hint=_HINT
        )
    if every is not None and end - begin >= every:
        raise SyntaxFault(
            "the query would start again before it stops",
            span=stop[2],
            hint="choose an earlier STOP or a longer EVERY",
        )
    return Schedule(begin, end, every, daily)
