"""A FILES sink that keeps the results of the last days."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.catalog.definitions import Connector
from headrace.connectors.files.rolling_sink import RollingFilesSink, files_sink
from headrace.connectors.files.sink import FilesSink
from headrace.errors import HeadraceError
from headrace.model.page import Page, page_of
from headrace.model.schema import Schema
from headrace.model.types import Type
from headrace.session import Session

SCHEMA = Schema.of(n=Type.BIGINT, v=Type.BIGINT)
DAY = 86_400


def page(*numbers: int) -> Page:
    return page_of(SCHEMA, [{"n": n, "v": n} for n in numbers], list(numbers))


def made(root: Path, **options: str) -> FilesSink | RollingFilesSink:
    options = {"path": str(root / "out"), "keep": "7 days", **options}
    sink = files_sink("q", Connector("FILES", options), SCHEMA, root / "checkpoint")  # type: ignore[arg-type]
    assert isinstance(sink, FilesSink | RollingFilesSink)
    return sink


def age(path: Path, days: float) -> None:
    stamp = path.stat().st_mtime - days * DAY
    os.utime(path, (stamp, stamp))


def names(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root / "out")) for path in (root / "out").rglob("*") if path.is_file())


def test_files_of_the_last_days_stay_and_older_ones_go_and_others_are_not_touched(tmp_path: Path) -> None:
    sink = made(tmp_path)
    for batch in range(3):
        sink.write(batch, [page(batch)])
    (tmp_path / "out" / "notes.parquet").write_text("of somebody else")
    for name, days in (("part-000000000000", 8), ("part-000000000001", 6), ("notes", 30)):
        age(tmp_path / "out" / f"{name}.parquet", days)
    assert isinstance(sink, FilesSink)
    assert sink.retention is not None
    looked = sink.retention.clock()
    sink.retention.clock = lambda: looked + 1  # too early to look again
    sink.write(3, [])
    assert len(names(tmp_path)) == 4
    sink.retention.clock = lambda: looked + DAY / 10
    sink.write(4, [])
    assert names(tmp_path) == ["notes.parquet", "part-000000000001.parquet", "part-000000000002.parquet"]


def test_folders_of_a_partitioned_sink_go_with_their_last_file(tmp_path: Path) -> None:
    sink = made(tmp_path, partition_by="n", roll_bytes="1 kB")
    sink.write(0, [page(1, 2)])
    sink.close()
    assert len(names(tmp_path)) == 2
    age(next((tmp_path / "out" / "n=1").iterdir()), 8)
    again = made(tmp_path, partition_by="n", roll_bytes="1 kB")
    again.write(1, [page(2)])
    again.close()
    assert not (tmp_path / "out" / "n=1").exists()
    assert len(names(tmp_path)) == 2


def test_a_query_logs_the_last_days_and_wrong_durations_are_named(tmp_path: Path) -> None:
    out = tmp_path / "log"
    with Session(host="local") as session:
        session.execute(f"""
            CREATE STREAM s (n INT) FROM MEMORY;
            CREATE QUERY log AS SELECT n FROM s INTO FILES (path '{out}', format 'json', keep '7 days');
        """)
        session.push("s", [{"n": 1}])
        session.drain(30)
        assert len(list(out.glob("part-*.json"))) == 1
        with pytest.raises(HeadraceError, match="keep"):
            session.execute(f"CREATE QUERY bad AS SELECT n FROM s INTO FILES (path '{out}', keep 'long')")
        with pytest.raises(HeadraceError, match="object store"):
            session.execute("CREATE QUERY bad AS SELECT n FROM s INTO FILES (path 's3://bucket/log', keep '1 day')")
