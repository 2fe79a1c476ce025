"""ARRAY, MAP and STRUCT through files and pushed rows."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from headrace.errors import HeadraceError
from headrace.session import Session

COLUMNS = (
    "at TIMESTAMP, id INT, tags ARRAY<STRING>, buyer STRUCT<name: STRING, since: DATE, at: STRUCT<x: DOUBLE>>, "
    "counts MAP<STRING, BIGINT>, prices ARRAY<DECIMAL(6, 2)>"
)
RECORDS: list[dict[str, Any]] = [
    {
        "at": "2026-01-01T00:00:01",
        "id": 1,
        "tags": ["a", None],
        "buyer": {"name": "Ann", "since": "2020-02-29", "at": {"x": 1.5}, "unknown": 7},
        "counts": {"p": 1, "q": None},
        "prices": [1.25, "2.50"],
    },
    {"at": "2026-01-01T00:00:02", "id": 2, "tags": [], "buyer": None, "counts": {}, "prices": None},
    {"at": "2026-01-01T00:00:03", "id": 3, "buyer": {"name": "Bob"}},
]
BAD: list[dict[str, Any]] = [
    {"at": "2026-01-01T00:00:04", "id": 4, "tags": "a"},
    {"at": "2026-01-01T00:00:05", "id": 5, "counts": {"p": "many"}},
    {"at": "2026-01-01T00:00:06", "id": 6, "buyer": {"since": "soon"}},
]
FOUND: list[dict[str, Any]] = [
    {
        "id": 1,
        "tags": ["a", None],
        "buyer": {"name": "Ann", "since": date(2020, 2, 29), "at": {"x": 1.5}},
        "counts": {"p": 1, "q": None},
        "prices": [Decimal("1.25"), Decimal("2.50")],
    },
    {"id": 2, "tags": [], "buyer": None, "counts": {}, "prices": None},
    {"id": 3, "tags": None, "buyer": {"name": "Bob", "since": None, "at": None}, "counts": None, "prices": None},
]


def run(folder: Path, *statements: str, read: str = "q") -> list[dict[str, Any]]:
    with Session(folder / "checkpoint", host="local", buckets=2) as session:
        session.execute(";\n".join(statements))
        session.drain(60)
        return sorted(session.results(read), key=lambda row: row["id"]) if read else []


def write_records(folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "a.json").write_text("".join(json.dumps(record) + "\n" for record in RECORDS + BAD))


def stream(folder: Path, name: str, form: str) -> str:
    path = folder / name
    return f"CREATE STREAM s ({COLUMNS}) TIMESTAMP BY at FROM FILES (path '{path}', format '{form}')"


QUERY = "CREATE QUERY q AS SELECT id, tags, buyer, counts, prices FROM s"


def test_json_records_are_read_and_those_that_do_not_fit_are_bad(tmp_path: Path) -> None:
    write_records(tmp_path)
    bad = "CREATE QUERY wrong AS SELECT reason, 0 AS id FROM s.bad INTO MEMORY"
    with Session(tmp_path / "checkpoint", host="local") as session:
        session.execute(f"{stream(tmp_path, 'in', 'json')}; {QUERY} INTO MEMORY; {bad}")
        session.drain(60)
        assert sorted(session.results("q"), key=lambda row: row["id"]) == FOUND
        reasons = sorted(row["reason"] for row in session.results("wrong"))
    assert [reason.split(":")[0] for reason in reasons] == ["column buyer", "column counts", "column tags"]


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_what_is_written_is_read_again(tmp_path: Path, form: str) -> None:
    write_records(tmp_path)
    out = f"INTO FILES (path '{tmp_path / 'out'}', format '{form}')"
    run(tmp_path, stream(tmp_path, "in", "json"), f"{QUERY.replace('SELECT', 'SELECT at,')} {out}", read="")
    again = tmp_path / "again"
    again.mkdir()
    assert run(again, stream(tmp_path, "out", form), f"{QUERY} INTO MEMORY") == FOUND


def test_duckdb_reads_the_same_from_parquet(tmp_path: Path) -> None:
    write_records(tmp_path)
    out = f"INTO FILES (path '{tmp_path / 'out'}', format 'parquet')"
    run(tmp_path, stream(tmp_path, "in", "json"), f"{QUERY} {out}", read="")
    with duckdb.connect() as db:
        rows = db.sql(
            f"SELECT id, tags[1], buyer.at.x, counts['p'], prices[2] FROM '{tmp_path}/out/*.parquet' ORDER BY id"
        ).fetchall()
    assert rows == [(1, "a", 1.5, 1, Decimal("2.50")), (2, None, None, None, None), (3, None, None, None, None)]


def test_the_types_of_a_table_are_those_of_its_file(tmp_path: Path) -> None:
    pl.DataFrame({"k": [1, 2], "xs": [[1, 2], []], "s": [{"a": "x"}, {"a": None}]}).write_parquet(
        tmp_path / "t.parquet"
    )
    statements = (
        f"CREATE TABLE t FROM FILES (path '{tmp_path / 't.parquet'}')",
        "CREATE STREAM s (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY",
        "CREATE QUERY q AS SELECT s.k AS id, t.xs[1] AS x, t.s.a AS a FROM s JOIN t ON s.k = t.k INTO MEMORY",
    )
    with Session(tmp_path / "checkpoint", host="local") as session:
        session.execute(";".join(statements))
        session.push("s", [{"at": "2026-01-01 00:00:00", "k": 1}, {"at": "2026-01-01 00:00:00", "k": 2}])
        session.drain(60)
        assert sorted(session.results("q"), key=lambda row: row["id"]) == [
            {"id": 1, "x": 2, "a": "x"},
            {"id": 2, "x": None, "a": None},
        ]


def test_pushed_rows_are_checked(tmp_path: Path) -> None:
    with Session(tmp_path / "checkpoint", host="local") as session:
        session.execute("CREATE STREAM s (id INT, xs ARRAY<INT>) FROM MEMORY")
        with pytest.raises(HeadraceError, match=r"row 1: column xs: 'a' is not an INT"):
            session.push("s", [{"id": 1, "xs": [1]}, {"id": 2, "xs": ["a"]}])
        session.execute("CREATE STREAM t (names MAP<STRING, STRING>) FROM MEMORY")
        with pytest.raises(HeadraceError, match=r"row 0: column names: .*surrogates not allowed"):
            session.push("t", [{"names": {"a": "\ud800"}}])


def test_a_csv_sink_writes_nested_values_as_json(tmp_path: Path) -> None:
    write_records(tmp_path)
    out = f"INTO FILES (path '{tmp_path / 'out'}', format 'csv')"
    run(tmp_path, stream(tmp_path, "in", "json"), f"{QUERY} {out}", read="")
    with duckdb.connect() as db:
        rows = db.sql(f"SELECT tags, buyer FROM read_csv('{tmp_path}/out/*.csv') ORDER BY id LIMIT 1").fetchall()
    assert [json.loads(text) for text in rows[0]] == [
        ["a", None],
        {"name": "Ann", "since": "2020-02-29", "at": {"x": 1.5}},
    ]
