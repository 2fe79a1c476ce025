from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from headrace.errors import NameFault
from headrace.language.parser import parse
from headrace.language.syntax.statements import CreateEvent, Detection
from headrace.model.events.event import (
    Absent,
    And,
    AnyOf,
    Event,
    Mode,
    Or,
    Plus,
    Primitive,
    Retention,
    Sequence,
    Within,
)
from headrace.model.events.text import format_context, format_event
from headrace.model.time import MINUTE, SECOND
from headrace.session import Session
from headrace.session.outcome import Listing, Message

STREAMS = """
CREATE STREAM ups (at TIMESTAMP, host STRING) TIMESTAMP BY at FROM MEMORY;
CREATE STREAM downs (at TIMESTAMP, host STRING) TIMESTAMP BY at FROM MEMORY;
"""
MISSING = "CREATE EVENT missing AS NOT (ups) [downs, '5 s'] WHERE ups.host = downs.host"
NEW_YEAR = datetime.datetime.fromisoformat("2026-01-01")


def read(text: str) -> Detection:
    (statement,) = parse(f"CREATE EVENT e AS {text}")
    assert isinstance(statement, CreateEvent)
    assert isinstance(statement.body, Detection)
    return statement.body


A, B, C = (Primitive(name, port) for port, name in enumerate("abc"))


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("a SEQUENCE b WITHIN 10 MINUTES", Within(Sequence(A, B), 10 * MINUTE)),
        ("a OR b AND c", Or(A, And(B, C))),
        ("a AND b SEQUENCE c", And(A, Sequence(B, C))),
        ("a SEQUENCE b SEQUENCE c", Sequence(Sequence(A, B), C)),
        ("a SEQUENCE (b SEQUENCE c WITHIN '1 s')", Sequence(A, Within(Sequence(B, C), SECOND))),
        ("a SEQUENCE b PLUS 5 SECONDS", Sequence(A, Plus(B, 5 * SECOND))),
        ("NOT (a) [b, 1 MINUTE]", Absent(A, B, MINUTE)),
        ("ANY (2, a, b, c)", AnyOf(2, (A, B, C))),
    ],
)
def test_operators_bind_as_documented(text: str, event: Event) -> None:
    assert read(text).event == event


@pytest.mark.parametrize(
    "text",
    [
        "(a AND b) OR c",
        "(a SEQUENCE b) SEQUENCE c WITHIN '10 min'",
        "NOT (a) [b, c]",
        "NOT (a) [b, '5 s']",
        "ANY (2, a, b, c)",
        "TIMES (3, a) AND (b PLUS '1 s')",
        "APERIODIC (a, b, c)",
        "APERIODIC* (a, b, c)",
        "PERIODIC (a, '5 s', b)",
        "PERIODIC* (a, '5 s', b)",
    ],
)
def test_what_is_written_can_be_read(text: str) -> None:
    assert format_event(read(text).event) == text


def test_a_context_has_a_mode_and_what_is_kept() -> None:
    context = read("a SEQUENCE b CONTEXT CHRONICLE POINT (a BY (x, y) KEEP 3 AGE '5 s', b BY x)").context
    assert (context.mode, context.point) == (Mode.CHRONICLE, True)
    assert context.retentions == (Retention("a", ("x", "y"), 3, 5 * SECOND), Retention("b", ("x",)))
    assert format_context(context) == "CHRONICLE POINT (a BY (x, y) KEEP 3 AGE '5 s', b BY (x))"
    assert read("a SEQUENCE b").context.mode is Mode.RECENT


def test_an_event_survives_the_session_that_created_it(tmp_path: Path) -> None:
    with Session(tmp_path / "checkpoint", host="local") as session:
        session.execute(STREAMS + MISSING)
    with Session(tmp_path / "checkpoint", host="local") as session:
        (listed,) = session.execute("SHOW EVENTS")
        assert listed == Listing(
            ("event", "definition"), (("missing", "NOT (ups) [downs, '5 s'] WHERE ups.host = downs.host"),)
        )
        session.execute("CREATE QUERY q AS SELECT host FROM missing INTO MEMORY")
        session.push("downs", [{"at": NEW_YEAR, "host": "a"}, {"at": NEW_YEAR, "host": "b"}])
        session.push("ups", [{"at": NEW_YEAR + datetime.timedelta(seconds=4), "host": "b"}])
        session.drain(60)
        assert session.results("q") == [{"host": "a"}]


def test_an_event_is_replaced_and_dropped_like_a_view() -> None:
    with Session(host="local") as session:
        session.execute(STREAMS + MISSING)
        assert session.execute(f"{MISSING}") == [Message("event missing already exists")]
        session.execute("CREATE OR REPLACE EVENT missing AS NOT (ups) [downs, '9 s'] WHERE ups.host = downs.host")
        session.execute("CREATE EVENT twice AS missing SEQUENCE missing AS again WITHIN 1 HOUR")
        with pytest.raises(NameFault, match="'missing' cannot be dropped: it is used by twice"):
            session.execute("DROP EVENT missing")
        with pytest.raises(NameFault, match="'ups' cannot be dropped: it is used by missing"):
            session.execute("DROP STREAM ups")
        with pytest.raises(NameFault, match="would read itself"):
            session.execute("CREATE OR REPLACE EVENT missing AS NOT (twice) [downs, '9 s']")
        session.execute("DROP EVENT twice; DROP EVENT missing")
        (listed,) = session.execute("SHOW EVENTS")
        assert isinstance(listed, Listing)
        assert listed.rows == ()


def test_explain_says_how_an_event_is_detected() -> None:
    with Session(host="local") as session:
        session.execute(STREAMS)
        shown = session.explain(f"{MISSING}; EXPLAIN missing")
    assert shown.splitlines()[1] == "Detect NOT (ups) [downs, '5 s'] BY host = host CONTEXT RECENT"
    assert "receive by hash of host" in shown


def test_explain_says_what_tells_when_a_named_event_began() -> None:
    with Session(host="local") as session:
        session.execute(STREAMS)
        session.execute("CREATE EVENT back AS downs SEQUENCE ups WHERE downs.host = ups.host")
        shown = session.explain("CREATE EVENT again AS back SEQUENCE downs WHERE back.host = downs.host; EXPLAIN again")
    assert shown.splitlines()[1] == "Detect back {since event_start} SEQUENCE downs BY host = host CONTEXT RECENT"


def test_a_rule_sees_a_named_event_as_its_context_says() -> None:
    with Session(host="local") as session:
        session.execute(STREAMS + "CREATE STREAM alarms (at TIMESTAMP, level INT) TIMESTAMP BY at FROM MEMORY")
        session.execute("CREATE EVENT back AS downs SEQUENCE ups; CREATE EVENT foreseen AS alarms SEQUENCE back")
        session.execute("CREATE RULE as_intervals ON foreseen DO INSERT INTO MEMORY")
        session.execute("CREATE RULE as_points ON foreseen CONTEXT RECENT POINT DO INSERT INTO MEMORY")
        for stream, second, more in (
            ("downs", 1, {"host": "a"}),
            ("alarms", 2, {"level": 3}),
            ("ups", 3, {"host": "a"}),
        ):
            session.push(stream, [{"at": NEW_YEAR + datetime.timedelta(seconds=second), **more}])
        session.drain(60)
        assert session.results("as_intervals") == []
        (row,) = session.results("as_points")
        assert (row["level"], row["event_start"]) == (3, NEW_YEAR + datetime.timedelta(seconds=1))


@pytest.mark.parametrize(
    ("mode", "pairs"), [("UNRESTRICTED", [(0, 2), (0, 3), (1, 2), (1, 3)]), ("CHRONICLE", [(0, 2), (1, 3)])]
)
def test_a_mode_that_nothing_bounds_runs_with_a_warning(mode: str, pairs: list[tuple[int, int]]) -> None:
    start = datetime.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
    with Session(host="local") as session:
        session.execute("""
            CREATE STREAM downs (at TIMESTAMP, n INT) TIMESTAMP BY at FROM MEMORY;
            CREATE STREAM ups (at TIMESTAMP, n INT) TIMESTAMP BY at FROM MEMORY;""")
        (said,) = session.execute(f"CREATE EVENT outage AS downs SEQUENCE ups CONTEXT {mode}")
        assert f"warning: CONTEXT {mode} keeps every occurrence of downs" in str(said)
        session.execute("CREATE QUERY found AS SELECT * FROM outage INTO MEMORY")
        for number, stream in enumerate(("downs", "downs", "ups", "ups")):
            session.push(stream, [{"at": start + datetime.timedelta(days=number), "n": number}])
        session.drain()
        assert sorted((row["n"], row["n_1"]) for row in session.results("found")) == pairs
