"""How much of a source is not read yet."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from headrace.catalog.definitions import Connector, Stream, Timing
from headrace.connectors.connector import MeasuredSource, Source
from headrace.connectors.kinds import make_source, unread_unit
from headrace.connectors.memory import push
from headrace.model.option import Option
from headrace.model.schema import Schema
from headrace.model.time import SECOND
from headrace.model.types import Type

SCHEMA = Schema.of(v=Type.INT)


def source_of(checkpoint: Path, kind: str, **options: Option) -> Source:
    return make_source(Stream("s", SCHEMA, Connector(kind, options), Timing.INTERNAL), checkpoint)


def unread(source: Source, limit: int, now: int = 0) -> list[int]:
    """Return how much is unread at the beginning and after each micro-batch, up to the end."""
    assert isinstance(source, MeasuredSource)
    at = None
    amounts = [source.unread(at)]
    while amounts[-1] and len(amounts) < 100:
        at = source.latest(at, now=now, limit=limit)
        amounts.append(source.unread(at))
    return amounts


def test_memory_counts_rows(tmp_path: Path) -> None:
    stream = Stream("s", SCHEMA, Connector("MEMORY", {}), Timing.INTERNAL)
    for rows in (3, 2, 4):
        push(stream, tmp_path, [{"v": 1}] * rows)
    assert unread(make_source(stream, tmp_path), 3) == [9, 6, 4, 0]


def test_text_files_count_bytes_also_those_that_are_added(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    lines = b"".join(b'{"v": %d}\n' % n for n in range(10))
    (tmp_path / "in" / "a.json").write_bytes(lines)
    (tmp_path / "in" / "b.json").write_bytes(lines)
    source = source_of(tmp_path / "state", "FILES", path=str(tmp_path / "in"), format="json")
    assert isinstance(source, MeasuredSource)
    at = source.latest(None, now=0, limit=15)
    part = source.unread(at)
    assert 0 < part < len(lines)
    at = source.latest(at, now=0, limit=100)
    assert source.unread(at) == 0
    (tmp_path / "in" / "c.json").write_bytes(lines)
    source.latest(at, now=0, limit=0)
    assert source.unread(at) == len(lines)


def test_parquet_files_count_bytes_in_proportion_to_rows(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = pl.DataFrame({"v": pl.Series(range(1000), dtype=pl.Int32)})
    rows.write_parquet(tmp_path / "in" / "a.parquet", row_group_size=100)
    size = (tmp_path / "in" / "a.parquet").stat().st_size
    source = source_of(tmp_path / "state", "FILES", path=str(tmp_path / "in"), format="parquet")
    assert isinstance(source, MeasuredSource)
    at = source.latest(None, now=0, limit=300)
    assert source.unread(at) == pytest.approx(0.7 * size, abs=2)
    assert source.unread(source.latest(at, now=0, limit=1000)) == 0


def test_a_generator_counts_rows_that_are_due(tmp_path: Path) -> None:
    source = source_of(tmp_path, "GENERATOR", rate=100)
    assert isinstance(source, MeasuredSource)
    start = source.latest(None, now=0, limit=10)
    at = source.latest(start, now=2 * SECOND, limit=50)
    assert source.unread(at) == pytest.approx(150, abs=2)
    at = source.latest(at, now=2 * SECOND, limit=1000)
    assert source.unread(at) == 0


def test_files_and_sockets_are_measured_in_bytes() -> None:
    assert {kind: unread_unit(kind) for kind in ("FILES", "SOCKET", "KAFKA", "MEMORY", "GENERATOR")} == {
        "FILES": "bytes",
        "SOCKET": "bytes",
        "KAFKA": "rows",
        "MEMORY": "rows",
        "GENERATOR": "rows",
    }
