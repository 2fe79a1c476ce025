"""Some of the late and bad records of a task as texts, for people who ask what was set aside and why."""

from __future__ import annotations

import polars as pl

from headrace.catalog.definitions import Stream, Timing
from headrace.engine.statistics import Aside
from headrace.model.schema import SEQ, TS
from headrace.model.time import format_duration

#: A task tells of so many late records of a stream, and of as many bad ones.
SAMPLES = 3
#: Texts are cut off after so many characters.
_LONGEST = 300


def late_records(late: pl.DataFrame, stream: Stream, newest: int, time: int) -> list[Aside]:
    """Return the last late tuples of some; `newest` is the newest timestamp of their stream."""
    last = late.tail(SAMPLES)
    texts = as_texts(last.drop(TS, SEQ, strict=False))
    rows = [", ".join(f"{name}={value}" for name, value in row.items()) for row in texts.iter_rows(named=True)]
    reasons = [_why_late(stream, newest - at) for at in last[TS].to_list()]
    return [Aside("late", _cut(row), reason, time) for row, reason in zip(rows, reasons, strict=True)]


def as_texts(rows: pl.DataFrame) -> pl.DataFrame:
    """Return what rows hold as texts, whatever the types are; Python has no dates after year 9999."""
    return pl.DataFrame([_text(column) for column in rows.get_columns()])


def _text(column: pl.Series) -> pl.Series:
    match column.dtype:
        case pl.Binary():
            return column.bin.encode("hex")
        case pl.Duration():
            micros = column.dt.total_microseconds()
            texts = [None if span is None else format_duration(span) for span in micros.to_list()]
            return pl.Series(column.name, texts, dtype=pl.String)
        case dtype if dtype.is_nested():
            texts = [None if value is None else str(value) for value in column.to_list()]
            return pl.Series(column.name, texts, dtype=pl.String)
        case _:
            return column.cast(pl.String, strict=False)


def bad_records(bad: pl.DataFrame, time: int) -> list[Aside]:
    """Return the last bad records of some."""
    last = bad.tail(SAMPLES).select("record", "reason", "origin").iter_rows()
    return [Aside("bad", _cut(record), _cut(reason), time, _cut(origin)) for record, reason, origin in last]


def _why_late(stream: Stream, behind: int) -> str:
    if stream.timing is Timing.CAUSED:
        return "raised after the frontier had passed its cause"
    return f"{format_duration(behind)} behind the newest timestamp; the skew is {format_duration(stream.skew)}"


def _cut(text: str | None) -> str:
    if text is None:
        return ""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
