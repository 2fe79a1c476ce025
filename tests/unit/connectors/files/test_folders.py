"""Results in folders by their values: read back as they were, each once, whenever the process dies."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from headrace.catalog.definitions import Connector
from headrace.connectors.files.rolling_sink import RollingFilesSink
from headrace.errors import QueryError
from headrace.model.page import Page, page_of
from headrace.model.schema import Schema
from headrace.model.types import Type
from headrace.session import Session
from headrace.storage.storage import mounted
from headrace.testing.dying_disk import DyingDisk, Killed

SCHEMA = Schema.of(n=Type.BIGINT, zone=Type.STRING, day=Type.DATE)
STREAM = "CREATE STREAM s (at TIMESTAMP, n BIGINT, zone STRING, ok BOOLEAN) TIMESTAMP BY at FROM MEMORY;"
BEGIN = dt.datetime(2026, 1, 1)  # noqa: DTZ001
ZONES = ["a", "b c", "x/y=z%20", "ä", "", None]


def rows(count: int = 24) -> list[dict[str, Any]]:
    return [
        {
            "at": BEGIN + dt.timedelta(hours=n),
            "n": n,
            "zone": ZONES[n % len(ZONES)],
            "ok": n % 5 == 0 if n % 7 else None,
        }
        for n in range(count)
    ]


@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
def test_what_is_written_to_folders_is_read_back(tmp_path: Path, form: str) -> None:
    out = tmp_path / "out"
    with Session(host="local") as session:
        session.execute(
            f"{STREAM} CREATE QUERY q AS SELECT n, zone, ok, at FROM s "
            f"INTO FILES (path '{out}', format '{form}', partition_by 'zone, ok')"
        )
        session.push("s", rows())
        session.drain(60)
    assert len({path.parent for path in out.rglob(f"*.{form}")}) > 10
    with Session(host="local") as session:
        session.execute(
            "CREATE STREAM back (n BIGINT, at TIMESTAMP, zone STRING, ok BOOLEAN) TIMESTAMP BY at SKEW 9 DAYS "
            f"FROM FILES (path '{out}', format '{form}');"
            "CREATE QUERY q AS SELECT n, zone, ok, at FROM back INTO MEMORY"
        )
        session.drain(60)
        delivered = sorted((tuple(row.values()) for row in session.results("q")), key=str)
    expected = [(row["n"], row["zone"], row["ok"], row["at"]) for row in rows()]
    assert delivered == sorted(expected, key=str)


def test_duckdb_reads_the_folders_of_times_and_numbers(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Session(host="local") as session:
        session.execute(
            f"{STREAM} CREATE QUERY q AS SELECT n, n % 3 AS part, CAST(at AS DATE) AS day FROM s "
            f"INTO FILES (path '{out}', partition_by 'day, part')"
        )
        session.push("s", rows(40))
        session.drain(60)
    query = f"SELECT n, part, day FROM read_parquet('{out}/*/*/*.parquet', hive_partitioning = true) ORDER BY n"
    assert duckdb.sql(query).fetchall() == [(row["n"], row["n"] % 3, row["at"].date()) for row in rows(40)]


@pytest.mark.parametrize(
    ("by", "reason"),
    [
        ("zones", "no column 'zones'"),
        ("", "names no column"),
        ("zone, zone", "twice"),
        ("price", "is DOUBLE"),
        ("zone, price2, n", "no column 'price2'"),
        ("zone, n, half", "is DOUBLE"),
        ("_x", "cannot be a part of a folder's name"),
    ],
)
def test_columns_that_cannot_be_folders_are_refused(tmp_path: Path, by: str, reason: str) -> None:
    with Session(host="local") as session, pytest.raises(QueryError, match=reason):
        session.execute(
            f"{STREAM} CREATE QUERY q AS SELECT n, zone, n / 2.0 AS price, n / 2.0 AS half, n AS _x FROM s "
            f"INTO FILES (path '{tmp_path}', partition_by '{by}')"
        )


def test_not_all_columns_can_be_folders(tmp_path: Path) -> None:
    with Session(host="local") as session, pytest.raises(QueryError, match="names all columns"):
        session.execute(f"{STREAM} CREATE QUERY q AS SELECT n FROM s INTO FILES (path '{tmp_path}', partition_by 'n')")


def test_a_text_that_is_too_long_for_a_folder_is_set_aside(tmp_path: Path) -> None:
    with Session(host="local") as session:
        session.execute(
            f"{STREAM} CREATE QUERY q AS SELECT n, zone FROM s INTO FILES (path '{tmp_path}', partition_by 'zone')"
        )
        long = [{**rows()[0], "zone": "ä" * 60}, {**rows()[1], "zone": "ok"}]
        session.push("s", long)
        session.drain(60)
        assert session.statistics().queries["q"].failed == 1
    assert [path.parent.name for path in tmp_path.rglob("*.parquet")] == ["zone=ok"]


def deliver(root: Path, first: int) -> None:
    """Deliver four micro-batches; two of them are enough for files."""
    connector = Connector("FILES", {"path": str(root / "out"), "partition_by": "zone", "roll_bytes": 2000})
    sink = RollingFilesSink("q", connector, SCHEMA, root / "checkpoint")
    sink.has_timer = False
    sink.resume()
    for batch in range(first, 4):
        sink.write(batch, [page(batch)])
    sink.close()


def page(batch: int) -> Page:
    values = [{"n": batch * 10 + n, "zone": ZONES[n], "day": BEGIN.date()} for n in range(6)]
    return page_of(SCHEMA, values, list(range(6)))


@pytest.mark.slow
def test_a_crash_after_any_change_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    changes = 0
    while True:
        root = tmp_path / str(changes)
        disk = DyingDisk(changes)
        with mounted(root, disk), suppress(Killed):
            deliver(root, 0)
        deliver(root, 0)
        numbers = [
            n for path in (root / "out").rglob("*.parquet") for n in pl.read_parquet(path, hive_partitioning=False)["n"]
        ]
        assert sorted(numbers) == sorted(batch * 10 + n for batch in range(4) for n in range(6)), changes
        if disk.changes:
            break
        changes += 1
    assert changes > 15
