"""A stream that is dropped and created again begins anew: no row, no key and no time of the earlier one is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.connectors.spool import stream_spool
from headrace.session import Session

STREAM = "CREATE STREAM s (at TIMESTAMP, n INT) TIMESTAMP BY at FROM MEMORY;"
QUERIES = """
CREATE QUERY q AS SELECT n FROM s INTO MEMORY;
CREATE QUERY late AS SELECT n FROM s.late INTO MEMORY;
"""
EVENT = "CREATE EVENT seen (n INT);"
RULE = "CREATE RULE tell ON q DO RAISE EVENT seen(q.n);"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session(tmp_path, host="local") as session:
        yield session


def push(session: Session, minute: int, n: int, key: str) -> int | None:
    return session.push("s", [{"at": f"2026-01-01T00:{minute:02d}:00Z", "n": n}], key=key)


def numbers(session: Session, query: str) -> list[Any]:
    for _ in range(5):
        session.deployment.step()  # type: ignore[attr-defined]
    return [row["n"] for row in session.results(query)]


def leave_something(session: Session) -> None:
    """Let a stream have rows that were read and some that were not, then drop it."""
    session.execute(STREAM + "CREATE QUERY first AS SELECT n FROM s INTO MEMORY")
    assert push(session, 30, 1, "read") is None
    assert numbers(session, "first") == [1]
    session.execute("DROP QUERY first")
    assert push(session, 31, 2, "unread") is None
    session.execute("DROP STREAM s")


def test_neither_rows_nor_keys_nor_times_of_the_earlier_stream_count(session: Session) -> None:
    leave_something(session)
    session.execute(STREAM + QUERIES)
    assert push(session, 1, 3, "read") is None
    assert push(session, 2, 4, "unread") is None
    assert numbers(session, "q") == [3, 4]
    assert session.results("late") == [], "the times of the earlier stream do not make rows late"
    assert push(session, 3, 5, "unread") == 1, "keys of the stream itself count"


def test_what_the_earlier_stream_left_is_deleted_once_the_new_one_is_read(session: Session) -> None:
    leave_something(session)
    spool = stream_spool("s", session.directory)
    assert [file.rows for file in spool.files()] == [1]
    session.execute(STREAM + QUERIES)
    assert numbers(session, "q") == []
    assert spool.files() == []
    assert push(session, 1, 3, "") is None
    assert numbers(session, "q") == [3]


def test_a_restart_knows_which_rows_and_keys_are_of_the_new_stream(tmp_path: Path) -> None:
    with Session(tmp_path, host="local") as session:
        leave_something(session)
        session.execute(STREAM)
        push(session, 1, 3, "again")
    with Session(tmp_path, host="local") as session:
        session.execute(STREAM)  # a script that runs again changes nothing
        assert push(session, 1, 3, "again") == 1
        assert push(session, 2, 4, "unread") is None
        session.execute(QUERIES)
        assert numbers(session, "q") == [3, 4]


def test_statements_of_one_text_also_make_a_new_stream(session: Session) -> None:
    session.execute(STREAM)
    push(session, 1, 1, "a")
    session.execute(f"DROP STREAM s; {STREAM} {QUERIES}")
    assert push(session, 1, 2, "a") is None
    assert numbers(session, "q") == [2]


def test_a_replaced_stream_goes_on_unless_its_columns_change(session: Session) -> None:
    session.execute(STREAM)
    push(session, 1, 1, "a")
    session.execute(STREAM.replace("CREATE", "CREATE OR REPLACE").replace("BY at", "BY at SKEW 1 SECOND") + QUERIES)
    assert push(session, 1, 2, "a") == 1
    assert numbers(session, "q") == [1]
    session.execute("DROP QUERY q; DROP QUERY late")
    push(session, 2, 2, "b")
    session.execute("CREATE OR REPLACE STREAM s (n STRING, m INT) FROM MEMORY")
    session.execute("CREATE QUERY q AS SELECT n FROM s INTO MEMORY")
    session.push("s", [{"n": "text"}], key="b")
    assert numbers(session, "q") == ["text"], "rows of the earlier columns would not fit"


def test_an_event_that_is_created_again_has_not_been_raised(session: Session) -> None:
    session.execute(STREAM + QUERIES + EVENT + RULE)
    push(session, 1, 1, "")
    assert numbers(session, "q") == [1]  # nobody reads what was raised
    found = "CREATE QUERY found AS SELECT n FROM seen INTO MEMORY"
    session.execute(f"DROP RULE tell; DROP EVENT seen; {EVENT} {RULE} {found}")
    push(session, 2, 2, "")
    assert numbers(session, "found") == [2]
