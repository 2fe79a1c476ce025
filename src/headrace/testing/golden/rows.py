"""Rows as golden scripts write them: `at=1s price=3` to feed, `10s: n=2` for a result."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headrace.catalog.definitions import Stream
from headrace.model.page import Page
from headrace.model.schema import Schema
from headrace.model.time import DAY, MILLISECOND, SECOND, format_instant
from headrace.model.types import DataType, Type
from headrace.testing.oracle.rows import Row
from headrace.testing.oracle.values import sort_key
from headrace.testing.streams import column, parse_value


def parse_rows(text: str, stream: Stream) -> list[dict[str, Any]]:
    """Read `at=1s price=3, 4s`: rows separated by commas; a bare value belongs to the first column named."""
    rows: list[dict[str, Any]] = []
    first: str | None = None
    for part in _split(text):
        row: dict[str, Any] = {}
        for word in shlex.split(part):
            name, equals, value = word.partition("=")
            if not equals:
                name, value = first or stream.schema.names[0], word
            first = first or name
            field = stream.schema.find(name)
            if field is None:
                raise ValueError(f"{stream.name} has no column {name!r}")
            row[name] = column(field, [parse_value(value, field.type)]).to_list()[0]
        rows.append(row)
    return rows


def print_rows(rows: Iterable[Row], schema: Schema | None = None) -> list[str]:
    """Write one line per row in canonical order: `10s: n=2 at=5s`."""
    formats = {field.name: _FORMATS[field.type] for field in schema or () if field.type in _FORMATS}
    ordered = sorted(rows, key=lambda row: (row.ts, *map(sort_key, row.values.values())))
    return [f"{print_time(row.ts)}: {_columns(row.values, formats)}".rstrip() for row in ordered]


def print_time(instant: int) -> str:
    """Write an instant soon after 1970 as a span (10s, 1500ms), any other as ISO text."""
    if not -DAY < instant < 100 * DAY:
        return format_instant(instant).replace(" ", "T")
    for unit, name in ((SECOND, "s"), (MILLISECOND, "ms")):
        if instant % unit == 0:
            return f"{instant // unit}{name}"
    return f"{instant}us"


def print_value(value: Any) -> str:
    """Write a value: NULL as a dash, text in quotes where it is more than a word."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and not re.fullmatch(r"\w[\w.:/-]*", value):
        return f"'{value}'"
    return str(value)


def schema_of(page: Page) -> Schema:
    """Return the columns of a page that users see; a type matters only where values print differently by it."""
    printed = {known.polars: known for known in _FORMATS}
    return Schema.of(**{name: printed.get(dtype, Type.STRING) for name, dtype in page.visible().schema.items()})


def _split(text: str) -> list[str]:
    """Divide a text at commas outside quotes."""
    return [part.strip() for part in re.findall(r"(?:'[^']*'|[^,'])+", text)]


def _columns(values: Mapping[str, Any], formats: Mapping[str, Callable[[int], str]]) -> str:
    return " ".join(
        f"{name}={formats[name](value) if name in formats and value is not None else print_value(value)}"
        for name, value in values.items()
    )


def _print_date(days: int) -> str:
    return format_instant(days * DAY)[:10]


_FORMATS: dict[DataType, Callable[[int], str]] = {
    Type.TIMESTAMP: print_time,
    Type.INTERVAL: print_time,
    Type.DATE: _print_date,
}
