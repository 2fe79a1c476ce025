"""Streams written as text tables, for tests that a reader can check by eye.

    ts      id:int  speed:double  name:string
    1s      1       3.5           'a b'
    1500ms  2       -             x
    -- bound 10s
    -- fail

A dash is NULL. `-- bound` is a punctuation, `-- fail`, `-- pause` and `-- end` say what the source does at this point.
Timestamps are spans since 1970 (`1s`, `1500ms`, `00:01:00`), ISO instants (`2026-01-01T12:00`) or plain microseconds.
"""

from __future__ import annotations

import datetime
import json
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import polars as pl

from headrace.model.nested_values import shaped
from headrace.model.page import Element, Page, Punctuation
from headrace.model.schema import SEQ, TS, Field, Schema
from headrace.model.time import END, HOUR, MINUTE, SECOND, parse_duration, parse_instant
from headrace.model.types import ArrayType, DataType, DecimalType, MapType, StructType, Type
from headrace.testing.oracle.rows import Row
from headrace.testing.oracle.values import plain_value


@dataclass(frozen=True, slots=True)
class Bound:
    """The stream promises that nothing below `ts` follows."""

    ts: int


@dataclass(frozen=True, slots=True)
class Pause:
    """The source has nothing new when it is asked next."""


@dataclass(frozen=True, slots=True)
class Fail:
    """The source fails, `times` times in a row."""

    times: int = 1


@dataclass(frozen=True, slots=True)
class End:
    """The stream is over."""


Entry: TypeAlias = Row | Bound | Pause | Fail | End


@dataclass(frozen=True, slots=True)
class TextStream:
    """A stream's columns and what happens on it, in order."""

    schema: Schema
    entries: tuple[Entry, ...]

    @property
    def rows(self) -> list[Row]:
        """Return the tuples alone, in arrival order."""
        return [entry for entry in self.entries if isinstance(entry, Row)]

    def elements(self) -> list[Element]:
        """Return pages and punctuations; a page goes on until something else happens."""
        elements: list[Element] = []
        run: list[Row] = []
        for entry in (*self.entries, Pause()):
            if isinstance(entry, Row):
                run.append(entry)
                continue
            if run:
                elements.append(page(self.schema, run))
                run = []
            if isinstance(entry, Bound):
                elements.append(Punctuation(entry.ts))
            elif isinstance(entry, End):
                elements.append(Punctuation(END))
        return elements


def stream_from_text(text: str) -> TextStream:
    """Read a text table; ValueError says which line is wrong."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    head = lines[0].split()
    if head[0] != "ts":
        raise ValueError(f"the first column must be ts, not {head[0]!r}")
    schema = Schema(tuple(_field(word) for word in head[1:]))
    entries: list[Entry] = []
    arrived = 0
    for line in lines[1:]:
        if line.startswith("--"):
            entries.append(_mark(line))
        else:
            entries.append(_tuple(line, schema, arrived))
            arrived += 1
    return TextStream(schema, tuple(entries))


def script(*texts: str) -> list[tuple[int, Element]]:
    """Return elements for an operator's ports, the n-th text feeding port n; one port after the other."""
    return [(port, element) for port, text in enumerate(texts) for element in stream_from_text(text).elements()]


def interleave(*ports: Sequence[Element]) -> list[tuple[int, Element]]:
    """Return elements for an operator's ports, taken in turn."""
    longest = max(map(len, ports), default=0)
    return [
        (port, elements[turn]) for turn in range(longest) for port, elements in enumerate(ports) if turn < len(elements)
    ]


def page(schema: Schema, rows: Iterable[Row], *, seq: bool = True) -> Page:
    """Return a page of tuples as the oracle holds them; with arrival numbers where the tuples have them."""
    held = list(rows)
    columns = [column(field, [row.values[field.name] for row in held]) for field in schema]
    columns.append(pl.Series(TS, [row.ts for row in held], dtype=pl.Int64))
    if seq and all(row.seq is not None for row in held):
        columns.append(pl.Series(SEQ, [row.seq for row in held], dtype=pl.Int64))
    return Page(pl.DataFrame(columns))


def column(field: Field, values: Sequence[Any]) -> pl.Series:
    """Return a column of plain values."""
    match field.type:
        case Type.TIMESTAMP | Type.INTERVAL:
            return pl.Series(field.name, values, dtype=pl.Int64).cast(field.type.polars)
        case Type.DATE:
            return pl.Series(field.name, values, dtype=pl.Int32).cast(pl.Date)
        case ArrayType() | MapType() | StructType():
            held = [None if value is None else shaped(value, field.type) for value in values]
            return pl.Series(field.name, held, dtype=field.type.polars)
        case _:
            return pl.Series(field.name, values, dtype=field.type.polars)


def parse_time(text: str) -> int:
    """Read `1s`, `00:01:00`, an ISO instant or plain microseconds."""
    if re.fullmatch(r"-?[0-9]+", text):
        return int(text)
    clock = re.fullmatch(r"([0-9]+):([0-9]{2}):([0-9]{2}(?:\.[0-9]+)?)", text)
    if clock is not None:
        return int(clock[1]) * HOUR + int(clock[2]) * MINUTE + round(float(clock[3]) * SECOND)
    if re.match(r"[0-9]{4}-", text):
        return parse_instant(text)
    return parse_duration(text)


def parse_value(text: str, type_: DataType) -> Any:
    """Read a value of a type; a dash is NULL."""
    if text == "-":
        return None
    match type_:
        case Type.BOOLEAN:
            return {"true": True, "false": False}[text.lower()]
        case Type.INT | Type.BIGINT:
            return int(text)
        case Type.FLOAT | Type.DOUBLE:
            return float(text)
        case Type.STRING:
            return text
        case DecimalType():
            return Decimal(text)
        case Type.BINARY:
            return text.encode()
        case Type.DATE:
            return plain_value(datetime.date.fromisoformat(text))
        case Type.TIMESTAMP | Type.INTERVAL:
            return parse_time(text)
        case ArrayType() | MapType() | StructType():
            return shaped(json.loads(text), type_)
        case Type.NULL:
            return None


def _field(word: str) -> Field:
    name, _, type_ = word.partition(":")
    return Field(name, Type(type_.upper() or "BIGINT"))


def _tuple(line: str, schema: Schema, position: int) -> Row:
    words = shlex.split(line)
    if len(words) != len(schema) + 1:
        raise ValueError(f"{line!r} has {len(words)} values, the header {len(schema) + 1}")
    return Row(
        parse_time(words[0]),
        {field.name: parse_value(word, field.type) for field, word in zip(schema, words[1:], strict=True)},
        position,
    )


def _mark(line: str) -> Entry:
    match line.removeprefix("--").split():
        case ["bound", at]:
            return Bound(parse_time(at))
        case ["pause"]:
            return Pause()
        case ["fail"]:
            return Fail()
        case ["fail", times]:
            return Fail(int(times))
        case ["end"]:
            return End()
        case _:
            raise ValueError(f"{line!r} is no mark; marks are -- bound 10s, -- pause, -- fail [n], -- end")
