"""Queries that are suspended for others: what users see of them, and what they can do with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.commands.command import StopQuery, Suspension
from headrace.model.time import SECOND, format_instant, parse_instant
from headrace.session import Listing, Session

FILE = """
CREATE STREAM bids (at TIMESTAMP, item STRING, n INT) TIMESTAMP BY at FROM MEMORY;
CREATE QUERY strict WITH (force, latency '1 hour' MUST) AS SELECT item, n FROM bids WHERE n > 2 INTO MEMORY;
CREATE QUERY lazy AS SELECT item, sum(n) AS s FROM bids [RANGE 10 SECONDS] GROUP BY item INTO MEMORY;
"""
REASON = "strict: latency is 900 ms, promised 500 ms MUST"
NOON = parse_instant("2026-03-01 12:00:00")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "state"


def bid(session: Session, *rows: tuple[int, int]) -> None:
    """Bids at seconds since noon, and the micro-batches that they make."""
    session.push("bids", [{"at": format_instant(NOON + at * SECOND), "item": "pen", "n": n} for at, n in rows])
    settle(session)


def settle(session: Session) -> None:
    while session.deployment.step():  # type: ignore[attr-defined]
        pass


def suspend(session: Session) -> None:
    session.deployment.send(StopQuery("lazy", 0, Suspension(REASON, 0, 0.5)))
    settle(session)


def state(session: Session, query: str = "lazy") -> str:
    (listing,) = session.execute("SHOW QUERIES")
    assert isinstance(listing, Listing)
    return next(str(row[listing.columns.index("state")]) for row in listing.rows if row[0] == query)


def sums(session: Session) -> list[int]:
    return sorted(row["s"] for row in session.results("lazy"))


def test_a_suspended_query_is_shown_with_its_reason_also_after_a_restart(checkpoint: Path) -> None:
    with Session(checkpoint, host="local") as session:
        session.execute(FILE)
        bid(session, (0, 1))
        suspend(session)
        assert state(session) == f"suspended: {REASON}"
        assert state(session, "strict") == "on"
    with Session(checkpoint, host="local") as session:
        assert state(session) == f"suspended: {REASON}"


def test_a_suspended_query_gives_what_its_windows_hold_and_begins_empty_again() -> None:
    with Session(host="local") as session:
        session.execute(FILE)
        bid(session, (1, 1), (2, 2))
        suspend(session)
        assert sums(session) == [3]
        bid(session, (3, 4))  # missed by lazy, not by others
        assert [row["n"] for row in session.results("strict")] == [4]
        session.execute("START QUERY lazy")
        settle(session)
        assert state(session) == "on"
        bid(session, (5, 8), (30, 16))
        assert sums(session) == [3, 8]


def test_a_suspended_query_that_is_stopped_stays_off_until_it_is_started() -> None:
    with Session(host="local") as session:
        session.execute(FILE)
        bid(session, (1, 1))
        suspend(session)
        session.execute("STOP QUERY lazy")
        assert state(session) == "off"
        session.execute("START QUERY lazy")
        settle(session)
        assert state(session) == "on"


def test_a_suspended_query_can_be_altered_dropped_and_created_again() -> None:
    with Session(host="local") as session:
        session.execute(FILE)
        bid(session, (1, 1))
        suspend(session)
        session.execute("ALTER QUERY lazy SET (priority 3)")
        assert state(session) == f"suspended: {REASON}"
        session.execute("DROP QUERY lazy")
        session.execute(FILE.strip().splitlines()[-1])
        assert state(session) == "on"
