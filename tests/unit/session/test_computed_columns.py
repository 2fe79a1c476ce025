"""Columns that are computed when a record is read give what records with these columns would."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import NameFault, NotSupported
from headrace.session import Session
from headrace.testing.watching import local_host

COMPUTED = """CREATE STREAM s (written STRING, v INT, at AS to_timestamp(written, 'dd/MM/yyyy HH:mm:ss'), k AS v % 3,
  WATERMARK FOR at AS at - INTERVAL '4' SECOND)"""
RECORDED = "CREATE STREAM s (at TIMESTAMP, v INT, k INT) TIMESTAMP BY at SKEW 4 SECONDS"
QUERY = "CREATE QUERY q AS SELECT k, count(*) AS n, sum(v) AS v FROM s [RANGE 5 SECONDS] GROUP BY k INTO MEMORY"
LATE = "CREATE QUERY late AS SELECT k, v FROM s.late INTO MEMORY"
BAD = "CREATE QUERY bad AS SELECT count(*) AS n FROM s.bad [RANGE 1 DAY] INTO MEMORY"


def written(second: int) -> str:
    return f"01/02/2026 12:{second // 60:02d}:{second % 60:02d}"


def answers(stream: str, parts: list[list[dict[str, Any]]], *, restarts: bool, folder: Path) -> list[Any]:
    """Return the results of all queries; between two parts the session may be left and continued."""
    found: dict[str, list[str]] = {"q": [], "late": [], "bad": []}
    groups = [[part] for part in parts] if restarts else [parts]
    for number, group in enumerate(groups, 1):
        with Session(folder, host="local") as session:
            session.execute(f"{stream} FROM MEMORY; {QUERY}; {LATE}; {BAD}")
            for part in group:
                session.push("s", part)
                while local_host(session).step():
                    pass
            if number == len(groups):
                session.drain()
            for name, rows in found.items():
                rows += map(str, session.results(name))
    return [sorted(rows) for rows in found.values()]


@settings(max_examples=12)
@given(st.integers(0, 2**32), st.booleans())
def test_computed_columns_are_as_good_as_recorded_ones(tmp_path_factory: Any, seed: int, restarts: bool) -> None:
    chance = random.Random(seed)
    seconds = [max(0, i + chance.randint(-7, 4)) for i in range(24)]
    values = [chance.randint(0, 9) for _ in seconds]
    good = [chance.random() > 0.1 for _ in seconds]
    mine = [
        {"written": written(second) if fits else "soon", "v": v}
        for second, v, fits in zip(seconds, values, good, strict=True)
    ]
    theirs = [
        {"at": f"2026-02-01 12:{second // 60:02d}:{second % 60:02d}" if fits else None, "v": v, "k": v % 3}
        for second, v, fits in zip(seconds, values, good, strict=True)
    ]
    cuts = sorted(chance.sample(range(24), 2))
    cut = [(low, high) for low, high in zip([0, *cuts], [*cuts, 24], strict=True) if low < high]
    first, second = (
        answers(
            stream,
            [rows[low:high] for low, high in cut],
            restarts=restarts,
            folder=tmp_path_factory.mktemp("checkpoint"),
        )
        for stream, rows in ((COMPUTED, mine), (RECORDED, theirs))
    )
    assert first == second
    assert first[0]


def test_files_are_read_without_the_columns_that_nothing_needs(tmp_path: Path) -> None:
    rows = pl.DataFrame({"written": [written(i) for i in range(40)], "v": range(40), "wide": ["x" * 50] * 40})
    rows.write_parquet(tmp_path / "part.parquet")
    with Session(tmp_path / "checkpoint", host="local") as session:
        session.execute(f"""{COMPUTED[:-1].replace("v INT", "v BIGINT, wide STRING, w AS length(wide)")})
            FROM FILES (path '{tmp_path}/*.parquet', format 'parquet');
            CREATE QUERY q AS SELECT k, count(*) AS n FROM s [RANGE 10 SECONDS] GROUP BY k INTO MEMORY""")
        deployments = local_host(session).intake.deployments
        needed = deployments.at(deployments.count()).needed
        assert needed.columns("s") == ("written", "v")
        session.drain()
        assert sum(row["n"] for row in session.results("q")) == 40


@pytest.mark.parametrize("time", ["at AS to_timestamp(written, 'dd/MM/yyyy HH:mm:ss')", "at TIMESTAMP"])
def test_assumptions_about_computed_columns_leave_out_the_same(tmp_path: Path, time: str) -> None:
    key = "written" if "AS" in time else "at"
    for part in range(4):
        lines = [
            {key: written(part * 10 + i) if key == "written" else f"2026-02-01 12:00:{part * 10 + i:02d}", "v": i}
            for i in range(10)
        ]
        (tmp_path / f"{part}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    columns = f"{'written STRING, ' if key == 'written' else ''}v INT, k AS v % 5, {time}"
    with Session(tmp_path / "checkpoint", host="local", limit=10) as session:
        session.execute(f"""CREATE STREAM s ({columns}, WATERMARK FOR at AS at) FROM FILES
            (path '{tmp_path}/*.json', format 'json');
            CREATE QUERY q AS SELECT k, v FROM s INTO MEMORY;
            ASSUME q WHERE k = 3 AND rowtime < TIMESTAMP '2027-01-01 00:00:00'""")
        session.drain()
        assert sorted(row["k"] for row in session.results("q")) == sorted([0, 1, 2, 4] * 8)


def test_only_columns_of_the_records_are_pushed() -> None:
    with Session(host="local") as session:
        session.execute(f"{COMPUTED} FROM MEMORY")
        with pytest.raises(NameFault, match="no column 'k'"):
            session.push("s", [{"written": written(1), "v": 1, "k": 2}])
        session.push("s", [(written(1), 4)])


def test_the_records_of_a_stream_are_tried_with_its_computed_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("written,v\n01/02/2026 12:00:01,4\n")
    with Session(host="local") as session:
        trial = session.try_stream(f"{COMPUTED} FROM FILES (path '{tmp_path}/a.csv', format 'csv')")
    assert trial.rows.select("v", "k").rows() == [(4, 1)]
    assert trial.rows.columns == ["written", "v", "at", "k"]


def test_a_stream_is_replaced_by_one_that_computes_something_else(tmp_path: Path) -> None:
    with Session(tmp_path, host="local") as session:
        session.execute(f"{COMPUTED} FROM MEMORY")
        session.push("s", [(written(1), 4)])
        session.execute(f"{COMPUTED.replace('v % 3', 'v * 100').replace('CREATE', 'CREATE OR REPLACE')} FROM MEMORY")
        session.execute("CREATE QUERY q AS SELECT k FROM s INTO MEMORY")
        session.drain()
        assert session.results("q") == [{"k": 400}]
        assert [row[:2] for row in session.execute("DESCRIBE s")[0].rows][-1] == ("k", "BIGINT")


def test_a_function_in_python_is_refused(tmp_path: Path) -> None:
    with Session(host="local") as session:
        session.execute("CREATE FUNCTION f(INT) RETURNS INT FROM PYTHON 'operator:neg'")
        with pytest.raises(NotSupported, match="cannot call a function in Python") as refused:
            session.execute("CREATE STREAM s (a INT, b AS f(a)) FROM MEMORY")
        assert "CREATE VIEW" in str(refused.value.hint)
