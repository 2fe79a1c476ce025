"""Rules on events that have no name of their own."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from headrace.errors import HeadraceError, NameFault
from headrace.session import Listing, Session

STREAMS = """CREATE STREAM a (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY;
CREATE STREAM b (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM MEMORY;"""
RULE = "RULE r ON a SEQUENCE b WITHIN 10 SECONDS WHERE a.k = b.k CONTEXT CHRONICLE WHEN b.v > 1 DO INSERT INTO MEMORY"
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def feed(session: Session, *, begin: int = 0) -> None:
    session.push("a", [{"at": START + dt.timedelta(seconds=begin + s), "k": s % 2} for s in (1, 2)])
    session.push("b", [{"at": START + dt.timedelta(seconds=begin + s), "k": s % 2, "v": s} for s in (1, 3, 4)])


def events(session: Session) -> list[str]:
    (shown,) = session.execute("SHOW EVENTS")
    assert isinstance(shown, Listing)
    return [str(row[0]) for row in shown.rows]


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "state")


def test_a_rule_on_an_expression_is_one_on_an_event_with_that_definition(checkpoint: str) -> None:
    with Session(checkpoint, host="local") as session:
        session.execute(STREAMS + f"CREATE {RULE};")
        session.execute("CREATE EVENT e AS a SEQUENCE b WITHIN 10 SECONDS WHERE a.k = b.k CONTEXT CHRONICLE")
        session.execute("CREATE RULE s ON e WHEN b.v > 1 DO INSERT INTO MEMORY")
        feed(session)
        session.drain()
        assert sorted(row["v"] for row in session.results("r")) == [3, 4]
        assert session.results("r") == session.results("s")
        assert events(session) == ["r_event", "e"]


def test_it_goes_on_after_a_restart_and_is_created_again_without_effect(checkpoint: str) -> None:
    with Session(checkpoint, host="local") as session:
        session.execute(STREAMS + f"CREATE {RULE};")
        feed(session)
        while session.deployment.step():  # type: ignore[attr-defined]
            pass
    with Session(checkpoint, host="local") as session:
        (outcome,) = session.execute(f"CREATE {RULE}")
        assert "already exists" in str(outcome)
        session.execute(f"CREATE {RULE.replace('RULE r', 'RULE IF NOT EXISTS r')}")
        feed(session, begin=20)
        session.drain()
        assert sorted(row["v"] for row in session.results("r")) == [3, 3, 4, 4]


def test_a_replaced_rule_has_a_new_event_also_after_a_restart(checkpoint: str) -> None:
    with Session(checkpoint, host="local") as session:
        session.execute(STREAMS + f"CREATE {RULE};")
        session.execute("CREATE OR REPLACE RULE r ON (b) WHEN v < 4 DO INSERT INTO MEMORY")
        session.execute("CREATE OR REPLACE RULE r ON NOT (a) [b, b AS c] DO INSERT INTO MEMORY")
    with Session(checkpoint, host="local") as session:
        assert events(session) == ["r_event"]
        feed(session)
        session.drain()
        assert [row["v"] for row in session.results("r")] == [3]


def test_a_dropped_rule_takes_its_event_along_unless_another_reads_it(checkpoint: str) -> None:
    with Session(checkpoint, host="local") as session:
        session.execute(STREAMS + f"CREATE {RULE};")
        session.execute("CREATE QUERY q AS SELECT * FROM r_event INTO MEMORY")
        session.execute("DROP RULE r")
        assert events(session) == ["r_event"]
        session.execute("DROP QUERY q; DROP EVENT r_event")
        session.execute(f"CREATE {RULE}; DROP RULE r")
        assert events(session) == []
        session.execute(f"CREATE {RULE}")
        with pytest.raises(NameFault, match="used by r"):
            session.execute("DROP EVENT r_event")


def test_a_select_may_stand_for_the_name_of_an_event(checkpoint: str) -> None:
    with Session(checkpoint, host="local") as session:
        session.execute(STREAMS)
        session.execute("CREATE RULE r ON (SELECT k, v FROM b WHERE v > 1) AS big SEQUENCE a DO INSERT INTO MEMORY")
        session.execute("CREATE RULE s ON (SELECT v + 1 AS w FROM b) WHEN w > 4 DO INSERT INTO MEMORY")
        with pytest.raises(NameFault, match="used by"):
            session.execute("DROP STREAM b")
    with Session(checkpoint, host="local") as session:
        feed(session)
        session.push("a", [{"at": START + dt.timedelta(seconds=5), "k": 7}])
        session.drain()
        assert [row["v"] for row in session.results("r")] == [4]
        assert [row["w"] for row in session.results("s")] == [5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE RULE r ON a SEQUENCE nobody DO INSERT INTO MEMORY", "nobody"),
        ("CREATE RULE r ON a SEQUENCE DO INSERT INTO MEMORY", "expected DO|expected the name"),
        ("CREATE RULE r ON a SEQUENCE b WHERE a.x = 1 DO INSERT INTO MEMORY", "'x'"),
        ("CREATE EVENT e AS (SELECT x FROM a) SEQUENCE b", "'x'"),
        ("CREATE EVENT e AS (SELECT k FROM a UNION ALL SELECT k FROM b) SEQUENCE b", "needs a name"),
        ("CREATE EVENT e AS (SELECT k FROM a", "closing parenthesis"),
        (
            "CREATE QUERY r_event AS SELECT * FROM a INTO MEMORY; CREATE RULE r ON a AND b DO INSERT INTO MEMORY",
            "already",
        ),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_defined(checkpoint: str, text: str, message: str) -> None:
    with Session(checkpoint, host="local") as session:
        session.execute(STREAMS)
        with pytest.raises(HeadraceError, match=message):
            session.execute(text)
        assert events(session) == []
