"""Aggregates that are written in SQL, over restarts, replacements and cuts of the input."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.session import Listing, Session

STREAM = "CREATE STREAM bids (at TIMESTAMP, item INT, price DOUBLE) TIMESTAMP BY at FROM MEMORY;"
ONLINE = """CREATE AGGREGATE online(x DOUBLE) RETURNS DOUBLE { TABLE state(total DOUBLE, n INT);
  INITIALIZE: INSERT INTO state VALUES (x, 1); INSERT INTO RETURN VALUES (x);
  ITERATE: UPDATE state SET total = total + x, n = n + 1; INSERT INTO RETURN SELECT total / n FROM state; };"""
SMOOTH = """CREATE AGGREGATE smooth(x DOUBLE) RETURNS DOUBLE { TABLE state(y DOUBLE);
  INITIALIZE: INSERT INTO state VALUES (x); ITERATE: UPDATE state SET y = 0.5 * y + 0.5 * x;
  TERMINATE: INSERT INTO RETURN SELECT y FROM state; };"""
RUNNING = """CREATE QUERY q AS
  SELECT item, online(price) OVER (PARTITION BY item ORDER BY at) AS m FROM bids INTO MEMORY;"""
WINDOWS = "CREATE QUERY w AS SELECT item, smooth(price) AS s FROM bids [RANGE 10 SECONDS] GROUP BY item INTO MEMORY;"
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def rows(*seconds: int) -> list[dict[str, object]]:
    return [{"at": START + dt.timedelta(seconds=s), "item": s % 2, "price": float(s)} for s in seconds]


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "state")


def test_state_continues_after_a_restart(checkpoint: str) -> None:
    with Session(checkpoint, host="local") as session:
        session.execute(STREAM + ONLINE + SMOOTH + RUNNING + WINDOWS)
        session.push("bids", rows(1, 2, 3, 4))
        while session.deployment.step():  # type: ignore[attr-defined]
            pass
    with Session(checkpoint, host="local") as session:
        session.push("bids", rows(5, 6, 30))
        session.drain()
        assert {(row["item"], row["m"]) for row in session.results("q")} >= {(1, 3.0), (0, 4.0), (0, 10.5)}
        assert {(row["item"], row["s"]) for row in session.results("w")} == {(1, 3.5), (0, 4.5), (0, 30.0)}


def test_a_replaced_aggregate_is_used_by_later_queries(checkpoint: str) -> None:
    with Session(checkpoint, host="local") as session:
        session.execute(STREAM + SMOOTH + WINDOWS)
        session.execute("CREATE OR REPLACE " + SMOOTH.removeprefix("CREATE ").replace("0.5 * y + 0.5 * x", "x - y"))
        session.execute(WINDOWS.replace("QUERY w", "QUERY v"))
        session.push("bids", rows(2, 4, 8))
        session.drain()
        assert [row["s"] for row in session.results("w")] == [5.5]
        assert [row["s"] for row in session.results("v")] == [6.0]


def test_an_aggregate_can_be_dropped_and_made_again(checkpoint: str) -> None:
    with Session(checkpoint, host="local") as session:
        session.execute(STREAM + SMOOTH)
        session.execute("DROP AGGREGATE smooth")
        with pytest.raises(HeadraceError):
            session.execute(WINDOWS)
        session.execute(SMOOTH)
        (shown,) = session.execute("SHOW AGGREGATES")
        assert isinstance(shown, Listing)
        assert shown.rows == (("smooth", "x DOUBLE", "DOUBLE", "SQL"),)


def test_a_group_without_a_value_returns_nothing(checkpoint: str) -> None:
    with Session(checkpoint, host="local") as session:
        session.execute(STREAM + SMOOTH + WINDOWS)
        session.push("bids", [{**row, "price": None} for row in rows(1, 2)])
        session.drain()
        assert [row["s"] for row in session.results("w")] == [None, None]
