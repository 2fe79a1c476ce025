"""Queries on demand: the same results as a query that always runs, but computed when somebody asks."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.errors import NotSupported, QueryError, SyntaxFault
from headrace.hosts.local import LocalDeployment
from headrace.operators.specs import Hold
from headrace.session import Session

START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
STREAM = "CREATE STREAM s (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM MEMORY"
OTHER = "CREATE STREAM r (at TIMESTAMP, k INT, w INT) TIMESTAMP BY at FROM MEMORY"
COUNTED = "SELECT k, count(*) AS n, sum(v) AS total, window_end FROM s [RANGE 10 SECONDS] GROUP BY k"
QUERIES = (
    COUNTED,
    "SELECT k, v * 2 AS d FROM s WHERE v > 3",
    "SELECT s.k, v, w FROM s [RANGE 5 SECONDS] JOIN r [RANGE 5 SECONDS] ON s.k = r.k WHERE v <> w",
    "SELECT max(n) AS most, window_end FROM (SELECT k, count(*) AS n FROM s [RANGE 5 SECONDS] GROUP BY k) "
    "[RANGE 20 SECONDS]",
    "SELECT k, v FROM s UNION ALL SELECT k, w FROM r",
    "SELECT DISTINCT k FROM s [RANGE 3 SECONDS] LIMIT 4",
)


def rows(first: int, last: int, name: str = "v") -> list[dict[str, Any]]:
    return [{"at": START + dt.timedelta(seconds=i), "k": i % 3, name: i * 7 % 11} for i in range(first, last)]


def step(session: Session) -> None:
    """Run micro-batches until nothing is left to read."""
    assert isinstance(session.deployment, LocalDeployment)
    session.start()
    while session.deployment.step():
        pass


def held(session: Session) -> int:
    """Return how many tuples wait in all buckets."""
    assert isinstance(session.deployment, LocalDeployment)
    engines = [bucket.engine for bucket in session.deployment.kept.values()]
    return sum(
        engine.execution.operators[vertex.id].held()  # type: ignore[attr-defined]
        for engine in engines
        for vertex in engine.graph
        if isinstance(vertex.spec, Hold)
    )


def results(session: Session, query: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in session.results(query)), key=str)


@pytest.mark.slow
@pytest.mark.parametrize("select", QUERIES)
def test_asked_again_and_again_gives_what_a_query_that_always_runs_gives(select: str, tmp_path: Path) -> None:
    with Session(tmp_path, host="local", buckets=2) as session:
        session.execute(f"{STREAM}; {OTHER}")
        session.execute(
            f"CREATE QUERY always AS {select} INTO MEMORY; CREATE QUERY asked ON DEMAND AS {select} INTO MEMORY"
        )
        for first in (0, 20, 40):
            session.push("s", rows(first, first + 20))
            session.push("r", rows(first, first + 20, "w"))
            step(session)
            before = results(session, "asked")
            session.execute("DEMAND asked")
            step(session)
            if "LIMIT" not in select and "UNION" not in select and "max(n)" not in select:
                assert results(session, "asked") == results(session, "always")
            assert len(before) < len(results(session, "asked")) or "LIMIT" in select or "max(n)" in select
        session.drain(30)
        assert results(session, "asked") == results(session, "always") != []


def test_nothing_is_computed_until_somebody_asks_and_then_in_few_steps() -> None:
    with Session(host="local", buckets=1) as session:
        session.execute(f"{STREAM}; CREATE QUERY always AS {COUNTED} INTO MEMORY")
        session.execute(f"CREATE QUERY asked ON DEMAND AS {COUNTED} INTO MEMORY")
        for second in range(60):
            session.push("s", rows(second, second + 1))
            step(session)
        assert results(session, "asked") == []
        assert held(session) == 60
        session.execute("DEMAND asked")
        step(session)
        assert held(session) == 0
        assert results(session, "asked") == results(session, "always") != []
        counts = session.deployment.delivery.statistics.vertices
        running = {query.query: query.graph for query in session.running().queries}
        pages = {
            name: sum(counts[vertex.id].pages_in for vertex in graph if vertex.id.startswith("paneaggregate"))
            for name, graph in running.items()
        }
        assert pages["asked"] * 10 <= pages["always"], pages


def test_tuples_wait_over_a_restart_and_an_answer_is_not_given_twice(tmp_path: Path) -> None:
    with Session(tmp_path, host="local", buckets=2) as session:
        session.execute(f"{STREAM}; CREATE QUERY q ON DEMAND AS {COUNTED} INTO FILES (path '{tmp_path}/out')")
        session.push("s", rows(0, 25))
        step(session)
        assert held(session) == 9
    with Session(tmp_path, host="local", buckets=2) as session:
        session.execute("DEMAND q")
        step(session)
        assert held(session) == 0
    with Session(tmp_path, host="local", buckets=2) as session:
        session.push("s", rows(25, 45))
        session.execute("DEMAND q")
        step(session)
        session.execute("DEMAND q; DEMAND q")
        session.drain(30)
    found = pl.read_parquet(f"{tmp_path}/out/*.parquet")
    assert found["n"].sum() == 45


def test_more_than_may_wait_is_computed_without_being_asked() -> None:
    with Session(host="local", buckets=1) as session:
        session.execute(f"{STREAM}; CREATE QUERY q ON DEMAND KEEP 10 AS {COUNTED} INTO MEMORY")
        session.push("s", rows(0, 15))
        step(session)
        assert (held(session), results(session, "q")) == (6, []), "counts of three keys in two windows"
        session.push("s", rows(15, 35))
        step(session)
        assert held(session) == 0
        assert results(session, "q")


def test_a_query_that_is_dropped_or_replaced_forgets_what_waited() -> None:
    with Session(host="local", buckets=1) as session:
        session.execute(f"{STREAM}; CREATE QUERY q ON DEMAND AS {COUNTED} INTO MEMORY")
        session.push("s", rows(0, 15))
        step(session)
        session.execute("DROP QUERY q")
        session.execute(f"CREATE QUERY q ON DEMAND AS {COUNTED} INTO MEMORY")
        session.push("s", rows(15, 31))
        step(session)
        assert held(session) == 7, "of the new query only"
        session.execute(f"CREATE OR REPLACE QUERY q AS {COUNTED} INTO MEMORY")
        session.push("s", rows(31, 45))
        session.drain(30)
        assert sum(row["n"] for row in session.results("q")) == 14


def test_a_query_that_stops_has_computed_all_and_a_silent_stream_can_be_asked() -> None:
    with Session(host="local", buckets=1) as session:
        session.execute(f"{STREAM}; CREATE QUERY q ON DEMAND AS {COUNTED} INTO MEMORY")
        session.execute("DEMAND q")
        assert results(session, "q") == []
        session.push("s", rows(0, 15))
        step(session)
        session.execute("STOP QUERY q")
        step(session)
        assert sum(row["n"] for row in session.results("q")) == 15


def test_only_queries_on_demand_can_be_asked() -> None:
    with Session(host="local") as session:
        session.execute(f"{STREAM}; CREATE QUERY q AS {COUNTED} INTO MEMORY")
        with pytest.raises(NotSupported, match="always runs"):
            session.execute("DEMAND q")
        with pytest.raises(QueryError, match="no running query 'p'"):
            session.execute("DEMAND p")
        with pytest.raises(SyntaxFault, match="at least one"):
            session.execute(f"CREATE QUERY p ON DEMAND KEEP 0 AS {COUNTED}")
        with pytest.raises(NotSupported, match="cannot promise a latency"):
            session.execute(f"CREATE QUERY p WITH (latency '1 s') ON DEMAND AS {COUNTED}")
        with pytest.raises(NotSupported, match="cannot promise a throughput"):
            session.execute(f"CREATE QUERY p WITH (throughput '5/s') ON DEMAND AS {COUNTED}")
        session.execute(f"CREATE QUERY p ON DEMAND KEEP 5 AS {COUNTED}")
        with pytest.raises(NotSupported, match="cannot promise a latency"):
            session.execute("ALTER QUERY p SET (latency '1 s')")
        assert "ON DEMAND" in str(session.execute("DESCRIBE p"))
