"""A query that makes every micro-batch fail is removed without running one; the others lose nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import HeadraceError, HostFault, NameFault, OperatorFault
from headrace.session import Session
from headrace.testing.watching import local_host

STREAMS = """
CREATE STREAM bids (item INT, price DOUBLE, at TIMESTAMP) TIMESTAMP BY at FROM MEMORY;
CREATE STREAM asks (item INT, price DOUBLE, at TIMESTAMP) TIMESTAMP BY at FROM MEMORY;
CREATE AGGREGATE broken(DOUBLE) RETURNS DOUBLE FROM PYTHON 'headrace.testing.aggregates:Broken';
CREATE AGGREGATE fussy(DOUBLE) RETURNS DOUBLE FROM PYTHON 'headrace.testing.aggregates:Fussy';
"""
GOOD = """
CREATE QUERY counts AS SELECT item, count(*) AS n, sum(price) AS s FROM bids [RANGE 10 SECONDS] GROUP BY item
  INTO MEMORY;
CREATE QUERY pairs AS SELECT b.item, count(*) AS n FROM
  (SELECT b.item AS item, a.price AS p FROM bids [RANGE 5 SECONDS] AS b JOIN asks [RANGE 5 SECONDS] AS a
   ON b.price = a.price) [RANGE 10 SECONDS] AS b GROUP BY b.item INTO MEMORY;
"""
BROKEN = "CREATE QUERY bad AS SELECT item, broken(price) AS b FROM bids [RANGE 10 SECONDS] GROUP BY item INTO MEMORY;"
FUSSY = """
CREATE QUERY bad AS SELECT n, fussy(price) AS f FROM
  (SELECT b.item AS n, a.price AS price FROM bids [RANGE 5 SECONDS] AS b JOIN asks [RANGE 5 SECONDS] AS a
   ON b.item = a.item) [RANGE 10 SECONDS] AS j GROUP BY n INTO MEMORY;
"""
Rows = list[dict[str, Any]]


def rows(first: int, last: int, price: float = 1.0) -> Rows:
    return [
        {"item": i % 3, "price": price * (i % 4 + 1), "at": f"2026-01-01 00:00:{i:02d}"} for i in range(first, last)
    ]


def step_all(session: Session) -> None:
    while local_host(session).step():
        pass


def expected(portions: Sequence[Rows]) -> dict[str, Rows]:
    with Session(host="local", buckets=3) as session:
        session.execute(STREAMS + GOOD)
        for portion in portions:
            session.push("bids", portion)
            session.push("asks", portion)
            step_all(session)
        session.drain(60)
        return {name: ordered(session.results(name)) for name in ("counts", "pairs")}


def ordered(results: Rows) -> Rows:
    return sorted(results, key=lambda row: str(sorted(row.items())))


def test_dropping_the_query_comes_too_late_and_a_repair_does_not(tmp_path: Path) -> None:
    with Session(tmp_path, host="local", buckets=3) as session:
        session.execute(STREAMS + GOOD + BROKEN)
        session.push("bids", rows(0, 12))
        session.push("asks", rows(0, 12))
        with pytest.raises(OperatorFault, match="broken on purpose"):
            step_all(session)
        with pytest.raises(OperatorFault, match="broken on purpose"):
            step_all(session)
    with Session(tmp_path, host="local", buckets=3) as session:
        session.execute("DROP QUERY bad")
        with pytest.raises(OperatorFault, match="broken on purpose"):
            step_all(session)
    with Session(tmp_path, host="local") as session:
        assert session.repair(["bad"]) == ["bad"], "although it was dropped, which came too late"
    assert continued(tmp_path, []) == expected([rows(0, 12)])


def test_the_failing_micro_batch_is_repeated_without_the_query(tmp_path: Path) -> None:
    portions = [rows(0, 12), rows(12, 30)]
    with Session(tmp_path, host="local", buckets=3) as session:
        session.execute(STREAMS + GOOD + BROKEN)
        session.push("bids", portions[0])
        session.push("asks", portions[0])
        with pytest.raises(OperatorFault, match="broken on purpose"):
            step_all(session)
    with Session(tmp_path, host="local") as session:
        assert session.repair(["BAD"]) == ["bad"]
        assert "bad" not in session.catalog
    results = continued(tmp_path, portions[1:])
    assert results == expected(portions)


def test_a_query_that_ran_and_then_fails_leaves_no_trace_in_the_buckets(tmp_path: Path) -> None:
    portions = [rows(0, 8), rows(8, 16, -1.0), rows(16, 30)]
    before: dict[str, Rows] = {}
    with Session(tmp_path, host="local", buckets=3) as session:
        session.execute(STREAMS + GOOD + FUSSY)
        for portion in portions[:2]:
            session.push("bids", portion)
            session.push("asks", portion)
            with suppress(OperatorFault):
                step_all(session)
        before = {name: session.results(name) for name in ("counts", "pairs")}
    with Session(tmp_path, host="local") as session:
        assert session.repair(["bad"]) == ["bad"]
    results = continued(tmp_path, portions[2:], before)
    assert results == expected(portions)


def test_a_removed_query_can_be_created_again(tmp_path: Path) -> None:
    with Session(tmp_path, host="local", buckets=3) as session:
        session.execute(STREAMS + GOOD + BROKEN)
        session.push("bids", rows(0, 3))
        with pytest.raises(OperatorFault):
            step_all(session)
    with Session(tmp_path, host="local") as session:
        session.repair(["bad"])
    with Session(tmp_path, host="local", buckets=3) as session:
        session.execute("CREATE QUERY bad AS SELECT count(*) AS n FROM bids [RANGE 10 SECONDS] INTO MEMORY")
        step_all(session)
        session.push("bids", rows(10, 12))
        session.drain(60)
        assert [row["n"] for row in session.results("bad")] == [2], "it begins after the micro-batch that is repeated"


def test_what_reads_the_query_must_go_with_it(tmp_path: Path) -> None:
    with Session(tmp_path, host="local") as session:
        session.execute(STREAMS + BROKEN + "CREATE QUERY above AS SELECT b FROM bad WHERE b > 1 INTO MEMORY")
        session.push("bids", rows(0, 3))
        with pytest.raises(OperatorFault):
            step_all(session)
    with Session(tmp_path, host="local") as session:
        with pytest.raises(NameFault) as caught:
            session.repair(["bad"])
        assert caught.value.hint == "drop them with it: --drop above"
        assert session.repair(["bad", "above"]) == ["above", "bad"]


def test_a_running_session_and_an_unknown_query_are_refused(tmp_path: Path) -> None:
    with Session(tmp_path, host="local") as session:
        session.execute(STREAMS + GOOD)
        step_all(session)
        with pytest.raises(HostFault, match="running"):
            session.repair(["counts"])
    with Session(tmp_path, host="local") as session:
        with pytest.raises(HeadraceError) as caught:
            session.repair(["count"])
        assert caught.value.hint is not None
        assert "counts" in caught.value.hint


def continued(directory: Path, portions: Sequence[Rows], before: dict[str, Rows] | None = None) -> dict[str, Rows]:
    """Go on with further input, and return all results with those from before."""
    with Session(directory, host="local", buckets=3) as session:
        session.start()
        step_all(session)
        for portion in portions:
            session.push("bids", portion)
            session.push("asks", portion)
            step_all(session)
        session.drain(60)
        return {name: ordered([*(before or {}).get(name, []), *session.results(name)]) for name in ("counts", "pairs")}
