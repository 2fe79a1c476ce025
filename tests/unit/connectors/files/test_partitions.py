"""Files in directories that say the value of a column: what is read, found and left unopened."""

import datetime as dt
import os

import polars as pl
import pytest

from headrace.catalog.definitions import Connector, Stream, Table, Timing
from headrace.connectors.connector import Skipped
from headrace.connectors.files.source import FilesSource
from headrace.connectors.files.tables import infer_schema, read_table
from headrace.errors import SourceFault
from headrace.model.expressions.expression import Column
from headrace.model.patterns.match import IsNull, equal, unequal
from headrace.model.patterns.pattern import pattern
from headrace.model.schema import Schema
from headrace.model.types import Type
from headrace.session import Session

START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
SCHEMA = Schema.of(v=Type.INT, segment=Type.INT, place=Type.STRING)
SEGMENT, PLACE = Column("segment", Type.INT), Column("place", Type.STRING)


def save(folder, form, values):
    folder.mkdir(parents=True, exist_ok=True)
    rows = pl.DataFrame({"v": values}, schema={"v": pl.Int32})
    write = {"parquet": rows.write_parquet, "csv": rows.write_csv, "json": rows.write_ndjson, "arrow": rows.write_ipc}[
        form
    ]
    write(folder / f"{values[0]}.{form}")


def source(tmp_path, form, schema=SCHEMA, path="data"):
    where = Connector("FILES", {"path": str(tmp_path / path), "format": form})
    return FilesSource(Stream("s", schema, where, Timing.INTERNAL), tmp_path / "checkpoint")


def read(files, columns=None, unneeded=None, start=None):
    end = files.latest(start, now=0, limit=1000)
    rows, skipped = [], []
    for split in files.splits(start, end, parallel=1):
        for found in files.read(split, columns) if unneeded is None else files.read_without(split, columns, unneeded):
            if isinstance(found, Skipped):
                skipped.append(found)
            else:
                rows += found.rows.rows()
    return sorted(rows), skipped, end


@pytest.mark.parametrize("form", ["parquet", "csv", "json", "arrow"])
def test_directories_give_columns(tmp_path, form):
    save(tmp_path / "data" / "segment=3" / "place=a%20b", form, [1, 2])
    save(tmp_path / "data" / "segment=4" / "place=__HIVE_DEFAULT_PARTITION__", form, [3])
    save(tmp_path / "data" / "segment=4", form, [9])
    files = source(tmp_path, form, SCHEMA if form == "json" else Schema.of(v=Type.INT, segment=Type.INT))
    if form == "json":
        assert read(files)[0] == [(1, 3, "a b"), (2, 3, "a b"), (3, 4, None), (9, 4, None)]
    assert read(files, ("v", "segment"))[0] == [(1, 3), (2, 3), (3, 4), (9, 4)]
    assert read(files, ("segment",))[0] == [(3,), (3,), (4,), (4,)]


@pytest.mark.parametrize("form", ["parquet", "csv", "json", "arrow"])
def test_files_that_nobody_needs_are_not_opened(tmp_path, form):
    for segment in range(4):
        save(tmp_path / "data" / f"segment={segment}", form, [segment * 10, segment * 10 + 1])
    files = source(tmp_path, form, Schema.of(v=Type.INT, segment=Type.INT))
    for segment in (0, 2, 3):
        path = tmp_path / "data" / f"segment={segment}" / f"{segment * 10}.{form}"
        if form in ("csv", "json"):  # those have nothing that says how many rows there are
            path.write_bytes(b"x" * (path.stat().st_size - 1) + b"\n")
    rows, skipped, _ = read(files, None, [pattern((SEGMENT, unequal(1)))])
    assert rows == [(10, 1), (11, 1)]
    assert sum(one.records for one in skipped) == (0 if form in ("csv", "json") else 6)
    assert all(one.size > 0 for one in skipped)
    assert files.latest_without(None, None, [pattern((SEGMENT, unequal(1)))], now=0, limit=8) == [4, 0], (
        "they count for little"
    )
    assert files.latest(None, now=0, limit=2)[0] < 3


def test_text_and_null_are_matched_too(tmp_path):
    save(tmp_path / "data" / "place=north", "csv", [1])
    save(tmp_path / "data" / "place=__HIVE_DEFAULT_PARTITION__", "csv", [2])
    files = source(tmp_path, "csv", Schema.of(v=Type.INT, place=Type.STRING))
    assert read(files, None, [pattern((PLACE, equal("north")))])[0] == [(2, None)]
    assert read(files, None, [pattern((PLACE, IsNull()))])[0] == [(1, "north")]


def test_a_file_with_a_time_column_must_be_opened_unless_its_directory_says_the_time(tmp_path):
    where = Connector("FILES", {"path": str(tmp_path / "data"), "format": "csv"})
    schema = Schema.of(v=Type.INT, segment=Type.INT, at=Type.TIMESTAMP)
    (tmp_path / "data" / "segment=1" / "at=2026-01-01T00%3A00%3A05").mkdir(parents=True)
    save(tmp_path / "data" / "segment=1" / "at=2026-01-01T00%3A00%3A05", "csv", [7])
    files = FilesSource(Stream("s", schema, where, Timing.EXTERNAL, "at"), tmp_path / "checkpoint")
    assert read(files)[0] == [(7, 1, START + dt.timedelta(seconds=5))]
    _, (skipped,), _ = read(files, None, [pattern((SEGMENT, equal(1)))])
    assert skipped.newest == 1_767_225_605_000_000
    save(tmp_path / "more" / "segment=1", "csv", [7])
    where = Connector("FILES", {"path": str(tmp_path / "more"), "format": "csv"})
    files = FilesSource(
        Stream("t", Schema.of(segment=Type.INT, v=Type.TIMESTAMP), where, Timing.EXTERNAL, "v"), tmp_path / "checkpoint"
    )
    assert read(files, None, [pattern((SEGMENT, equal(1)))])[1] == [], "else time would stand still"


def test_a_directory_that_does_not_fit_its_column_is_refused(tmp_path):
    save(tmp_path / "data" / "segment=x", "csv", [1])
    with pytest.raises(SourceFault, match="segment=x: column segment: 'x' is not an INT"):
        read(source(tmp_path, "csv"))


def test_new_directories_and_new_files_in_old_ones_are_found(tmp_path):
    save(tmp_path / "data" / "segment=1", "csv", [1])
    files = source(tmp_path, "csv", Schema.of(v=Type.INT, segment=Type.INT))
    rows, _, end = read(files)
    assert rows == [(1, 1)]
    long_ago = 1_700_000_000
    for folder in (tmp_path / "data", tmp_path / "data" / "segment=1"):
        os.utime(folder, (long_ago, long_ago))
    assert files.latest(end, now=0, limit=10) == end
    save(tmp_path / "data" / "segment=1", "csv", [2])
    rows, _, end = read(files, start=end)
    assert rows == [(2, 1)]
    save(tmp_path / "data" / "segment=2", "csv", [3])
    assert read(files, start=end)[0] == [(3, 2)]


def test_a_glob_and_a_table_know_their_directories(tmp_path):
    save(tmp_path / "data" / "segment=1", "csv", [1])
    save(tmp_path / "data" / "segment=2", "csv", [2])
    assert read(source(tmp_path, "csv", Schema.of(v=Type.INT, segment=Type.INT), path="data/*/*.csv"))[0] == [
        (1, 1),
        (2, 2),
    ]
    where = Connector("FILES", {"path": str(tmp_path / "data"), "format": "csv"})
    schema = infer_schema(where)
    assert [(field.name, field.type) for field in schema] == [("v", Type.BIGINT), ("segment", Type.BIGINT)]
    assert sorted(read_table(Table("t", schema, where)).rows()) == [(1, 1), (2, 2)]


def test_feedback_leaves_whole_files_unread(tmp_path):
    for segment in range(9):
        folder = tmp_path / "data" / f"segment={segment}"
        folder.mkdir(parents=True)
        rows = pl.DataFrame(
            {"at": [START + dt.timedelta(seconds=second) for second in range(40)], "speed": [50.0] * 40}
        )
        rows.write_parquet(folder / "0.parquet", statistics=True)
    with Session(tmp_path / "checkpoint", host="local") as session:
        session.execute(f"""
            CREATE STREAM detectors (at TIMESTAMP, segment INT, speed DOUBLE) TIMESTAMP BY at SKEW 1 MINUTE
              FROM FILES (path '{tmp_path / "data"}', format 'parquet');
            CREATE QUERY speeds AS SELECT segment, count(*) AS n, window_end FROM detectors [RANGE 10 SECONDS]
              GROUP BY segment INTO MEMORY;
            ASSUME speeds WHERE segment <> 3 AND window_end <= TIMESTAMP '2026-01-02 00:00:00'""")
        session.drain()
        assert [(row["segment"], row["n"]) for row in session.results("speeds")] == [(3, 10)] * 4
        assert session.statistics().streams["detectors"].skipped == 8 * 40
