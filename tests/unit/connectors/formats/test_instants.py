"""Timestamps in text: whole blocks give what single lines give."""

from __future__ import annotations

import datetime as dt

import pytest

from headrace.connectors.formats import text
from headrace.connectors.formats.text import Csv, Json, lines_of, parse
from headrace.model.schema import Schema
from headrace.model.types import Type

SCHEMA = Schema.of(at=Type.TIMESTAMP)
FORMS = {
    "seconds": ["2026-01-31 23:59:59", "2026-02-01T00:00:00"],
    "fractions": ["2026-01-31 23:59:59.1", "2026-01-31T23:59:59.123456", "0001-01-01 00:00:00.5"],
    "nanoseconds": ["2026-01-31 23:59:59.123456789", "2026-01-31 23:59:59.1"],
    "zones": ["2026-01-31 23:59:59Z", "2026-01-31T23:59:59+01:00", "2026-01-31 23:59:59"],
    "a minute of 61 seconds": ["2026-01-31 23:59:60", "2026-01-31 23:59:59"],
    "short": ["2026-01-31", "2026-01-31 23", "2026-01-31 23:59", "2026-01-31 23:59:59"],
    "microseconds": ["1769903999000000", "2026-01-31 23:59:59.000000"],
    "wrong": ["2026-02-30 00:00:00.000", "2026-01-31 24:00:00", "2026-01-31 23:59:59,5", "yesterday at twelve o'clock"],
    "null": ["", "2026-01-31 23:59:59"],
}


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("texts", FORMS.values(), ids=FORMS)
def test_a_block_of_timestamps_is_read_as_each_of_them_is(
    texts: list[str], form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(values: list[str]) -> list[dt.datetime | None]:
        if form == "csv":
            parsed = parse(lines_of([f'"{value}"'.encode() for value in values]), SCHEMA, Csv(("at",)))
        else:
            written = ["null" if not value else f'"{value}"' for value in values]
            parsed = parse(lines_of([f'{{"at": {value}}}'.encode() for value in written]), SCHEMA, Json())
        return parsed.rows["at"].to_list()

    whole = read(texts)
    monkeypatch.setattr(text, "_with_instants", lambda table, schema: table)
    assert whole == read(texts)
