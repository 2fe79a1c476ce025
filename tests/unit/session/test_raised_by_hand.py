"""RAISE EVENT by hand."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import HeadraceError
from headrace.hosts.local import LocalDeployment
from headrace.session import Message, Session
from headrace.testing.clock import VirtualClock

NEW_YEAR = datetime.datetime.fromisoformat("2026-01-01")
CLOCK = round(NEW_YEAR.replace(tzinfo=datetime.UTC).timestamp()) * 10**6
SCRIPT = """
    CREATE STREAM b (at TIMESTAMP, v INT) TIMESTAMP BY at FROM MEMORY;
    CREATE EVENT up (v INT, why STRING);
    CREATE EVENT pair AS up SEQUENCE b WITHIN 1 MINUTE;
    CREATE QUERY pairs AS SELECT v, why, v_1 FROM pair INTO MEMORY;
    CREATE QUERY all_up AS SELECT v, why, cascade FROM up INTO MEMORY;
"""


def rows(*times: float) -> list[dict[str, Any]]:
    return [{"at": NEW_YEAR + datetime.timedelta(seconds=time), "v": int(time)} for time in times]


def work(session: Session) -> None:
    assert isinstance(session.deployment, LocalDeployment)
    session.deployment.forgetful = True
    while session.deployment.step():
        pass


def said(session: Session, text: str) -> str:
    (outcome,) = session.execute(text)
    assert isinstance(outcome, Message)
    return outcome.text


def test_an_event_that_is_raised_by_hand_is_in_sequence_by_its_time() -> None:
    with Session(host="local", buckets=2) as session:
        session.execute(SCRIPT)
        told = said(session, "RAISE EVENT up(7 + 1, upper('test')) AT '2026-01-01 00:00:02'")
        assert told == "event up raised at 2026-01-01 00:00:02"
        session.push("b", rows(1, 3))
        session.drain(60)
        assert session.results("pairs") == [{"v": 8, "why": "TEST", "v_1": 3}]
        assert session.results("all_up") == [{"v": 8, "why": "TEST", "cascade": 0}]


def test_without_a_time_it_is_that_of_the_clock_and_windows_close_with_the_next_one() -> None:
    with Session(host="local", buckets=2) as session:
        assert isinstance(session.deployment, LocalDeployment)
        clock = session.deployment.clock = VirtualClock(CLOCK)
        session.execute("""
            CREATE EVENT up (v INT);
            CREATE QUERY n AS SELECT window_start, count(*) AS n FROM up [RANGE 10 SECONDS] INTO MEMORY;
        """)
        session.execute("RAISE EVENT up(1); RAISE EVENT up(NULL)")
        work(session)
        clock.advance(11_000_000)
        session.execute("RAISE EVENT up(3)")
        work(session)
        assert session.results("n") == [{"window_start": NEW_YEAR, "n": 2}]


def test_it_is_raised_once_also_after_restarts(tmp_path: Path) -> None:
    with Session(host="local", checkpoint=tmp_path) as session:
        session.execute(SCRIPT)
        work(session)
        session.execute("RAISE EVENT up(1, 'before') AT '2026-01-01 00:00:01'")
    seen = []
    for second in (2, 3):
        with Session(host="local", checkpoint=tmp_path) as session:
            session.start()
            work(session)
            session.execute(f"RAISE EVENT up({second}, 'after') AT '2026-01-01 00:00:0{second}'")
            work(session)
            seen += [row["v"] for row in session.results("all_up")]
    with Session(host="local", checkpoint=tmp_path) as session:
        session.drain(60)
        assert (seen, session.results("all_up")) == ([1, 2, 3], [])


def test_one_that_is_too_late_is_kept_as_late_and_one_that_nothing_reads_is_told() -> None:
    with Session(host="local", buckets=2) as session:
        session.execute("CREATE EVENT up (v INT)")
        assert said(session, "RAISE EVENT up(1)").endswith("; no query, event or rule reads it, so it is lost")
        session.execute("""
            CREATE QUERY now AS SELECT v FROM up INTO MEMORY;
            CREATE QUERY late AS SELECT v FROM up.late INTO MEMORY;
        """)
        session.execute("RAISE EVENT up(2) AT '2026-01-01 00:00:09'")
        work(session)
        session.execute("RAISE EVENT up(3) AT '2026-01-01 00:00:08'; RAISE EVENT up(4) AT '2026-01-01 00:00:09'")
        work(session)
        assert [row["v"] for row in session.results("now")] == [2, 4]
        assert [row["v"] for row in session.results("late")] == [3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("RAISE EVENT up(1)", "up has 2 columns, not 1"),
        ("RAISE EVENT up('x', 'y')", "expected INT, not STRING"),
        ("RAISE EVENT b(1)", "'b' is not an event that rules raise"),
        ("RAISE EVENT up(v, 'y')", "column 'v' does not exist in the values of an event"),
        ("RAISE EVENT up(1, 'y') AT 'noon'", "'noon' is not a timestamp"),
        ("RAISE EVENT nothing(1)", "stream, table or query 'nothing' does not exist"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with Session(host="local") as session:
        session.execute(SCRIPT)
        with pytest.raises(HeadraceError) as raised:
            session.execute(text)
        assert raised.value.message == message


def test_a_drained_deployment_raises_nothing() -> None:
    with Session(host="local") as session:
        session.execute(SCRIPT)
        session.drain(60)
        with pytest.raises(HeadraceError, match="drained"):
            session.execute("RAISE EVENT up(1, 'x')")
