"""The local host with a background thread: results come without being asked for; it stops and fails as Spark does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.errors import HeadraceError, HostFault
from headrace.session import Session
from headrace.testing.watching import until

STREAM = "CREATE STREAM s (at TIMESTAMP, n INT) TIMESTAMP BY at FROM MEMORY;"
QUERY = "CREATE QUERY q AS SELECT n FROM s INTO MEMORY;"


def rows(*numbers: int) -> list[dict[str, object]]:
    return [{"at": f"2026-01-01T00:00:{n:02d}Z", "n": n} for n in numbers]


def test_results_come_while_nothing_waits_for_them() -> None:
    with Session(host="local", live=True) as session:
        session.execute(STREAM + QUERY)
        session.push("s", rows(1))
        until(lambda: session.results("q") == [{"n": 1}], 30)
        session.execute("CREATE QUERY later AS SELECT -n AS n FROM s INTO MEMORY")
        session.push("s", rows(2))
        until(lambda: session.results("later") == [{"n": -2}], 30)
        session.execute("DROP QUERY q")
        session.push("s", rows(3))
        until(lambda: len(session.results("later")) == 2, 30)
        session.drain(30)


def test_a_checkpoint_continues_after_a_stop(tmp_path: Path) -> None:
    counts = "CREATE QUERY c AS SELECT count(*) AS n FROM s [UNBOUNDED] INTO MEMORY;"
    with Session(tmp_path, host="local", live=True) as session:
        session.execute(STREAM + counts)
        session.push("s", rows(1, 2))
        until(lambda: session.results("c") == [{"n": 1}], 30)  # the next may have the same time as the last
    with Session(tmp_path, host="local", live=True) as session:
        session.start()
        session.push("s", rows(3))
        until(lambda: session.results("c") == [{"n": 2}], 30)


def test_a_failure_is_raised_where_somebody_waits(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.parquet").write_bytes(b"no parquet")
    os.utime(tmp_path / "in" / "a.parquet", (1000, 1000))  # so nobody may be writing it any more
    statements = (
        f"CREATE STREAM f (n INT) FROM FILES (path '{tmp_path}/in', format 'parquet');"
        "CREATE QUERY q AS SELECT n FROM f INTO MEMORY"
    )

    def run() -> None:
        with Session(host="local", live=True) as session:
            session.execute(statements)
            session.wait(30)

    with pytest.raises(HeadraceError):
        run()


def test_spark_is_always_live() -> None:
    with pytest.raises(HostFault, match="live is for the host 'local'"):
        Session(live=True)
