"""Late binding: an event begins when all queries that feed it run, and ends when one of them stops."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest

from headrace.errors import NotSupported
from headrace.hosts.local import LocalDeployment
from headrace.session import Session

START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
SCRIPT = """
CREATE STREAM a (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY;
CREATE STREAM b (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY;
CREATE STREAM go (at TIMESTAMP) TIMESTAMP BY at FROM MEMORY;
CREATE QUERY lows AS SELECT at, k FROM a WHERE k < 100 INTO MEMORY;
CREATE QUERY highs START ON go AS SELECT at, k FROM b WHERE k < 100 INTO MEMORY;
CREATE EVENT pair AS lows SEQUENCE highs WITHIN 1 HOUR CONTEXT CHRONICLE;
"""
READERS = {
    "query": "CREATE QUERY found {late}AS SELECT k, k_1 FROM pair INTO MEMORY",
    "rule": "CREATE RULE found {late}ON pair DO INSERT INTO MEMORY",
}


@pytest.fixture
def session() -> Iterator[Session]:
    with Session(host="local", buckets=2) as made:
        made.execute(SCRIPT)
        yield made


def feed(session: Session, stream: str, second: int, k: int | None = None) -> None:
    row = {"at": START + dt.timedelta(seconds=second)} | ({} if k is None else {"k": k})
    session.push(stream, [row])
    session.start()
    assert isinstance(session.deployment, LocalDeployment)
    while session.deployment.step():
        pass


def pairs(session: Session) -> list[tuple[int, int]]:
    return sorted((row["k"], row["k_1"]) for row in session.results("found"))


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("late", [False, True])
def test_nothing_accumulates_until_all_queries_that_feed_an_event_run(session: Session, kind: str, late: bool) -> None:
    """CE1 on the running query lows and the future query highs waits for highs."""
    session.execute(READERS[kind].format(late="WITH (late_binding) " if late else ""))
    feed(session, "a", 1, 1)
    assert ("found" in {query.query for query in session.running().queries}) != late
    feed(session, "go", 2)
    feed(session, "a", 3, 3)
    feed(session, "b", 4, 4)
    feed(session, "b", 5, 5)
    session.execute("STOP QUERY highs")
    feed(session, "a", 6, 6)
    feed(session, "b", 7, 7)
    session.drain(30)
    assert pairs(session) == ([(3, 4)] if late else [(1, 4), (3, 5), (6, 7)])


@pytest.mark.parametrize("kind", READERS)
def test_it_begins_at_once_if_they_run_already(session: Session, kind: str) -> None:
    feed(session, "go", 0)
    session.execute(READERS[kind].format(late="WITH (late_binding) "))
    feed(session, "a", 1, 1)
    feed(session, "b", 2, 2)
    session.drain(30)
    assert pairs(session) == [(1, 2)]


def test_it_is_turned_on_and_off_by_the_others_only(session: Session) -> None:
    session.execute(READERS["query"].format(late="WITH (late_binding) "))
    feed(session, "go", 1)
    with pytest.raises(NotSupported, match="is on while highs and lows are"):
        session.execute("STOP QUERY found")
    with pytest.raises(NotSupported, match="cannot be combined with START"):
        session.execute("CREATE QUERY other START ON go WITH (late_binding) AS SELECT k FROM pair INTO MEMORY")
