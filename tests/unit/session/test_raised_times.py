"""Raised events have the time of their cause."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace.catalog.definitions import Stream, Timing
from headrace.hosts.local import LocalDeployment
from headrace.session import Message, Session
from headrace.testing.clock import VirtualClock

NEW_YEAR = datetime.datetime.fromisoformat("2026-01-01")
STREAMS = """
    CREATE STREAM a (at TIMESTAMP, v INT) TIMESTAMP BY at SKEW 2 SECONDS FROM MEMORY;
    CREATE STREAM b (at TIMESTAMP, v INT) TIMESTAMP BY at SKEW 2 SECONDS FROM MEMORY;
    CREATE EVENT up (v INT);
    CREATE RULE rise ON a WHEN v > 0 DO RAISE EVENT up(v);
"""
COUNTED = "CREATE QUERY counted AS SELECT window_start, count(*) AS n FROM up [RANGE 10 SECONDS] INTO MEMORY;"
PAIRED = """
    CREATE EVENT pair AS up SEQUENCE b WITHIN 1 MINUTE CONTEXT {mode};
    CREATE QUERY pairs AS SELECT v, v_1 FROM pair INTO MEMORY;
"""


def rows(*times: float) -> list[dict[str, Any]]:
    """Return tuples that are named after their seconds."""
    return [{"at": NEW_YEAR + datetime.timedelta(seconds=time), "v": int(time)} for time in times]


def local(session: Session) -> LocalDeployment:
    assert isinstance(session.deployment, LocalDeployment)
    session.deployment.forgetful = True
    return session.deployment


def work(session: Session) -> None:
    for _ in range(100):
        if not local(session).step():
            return
    raise AssertionError("micro-batches do not end")


def pairs(session: Session) -> list[tuple[int, int]]:
    return sorted((row["v"], row["v_1"]) for row in session.results("pairs"))


def windows(session: Session, query: str = "counted") -> list[tuple[int, int]]:
    found = session.results(query)
    return sorted((round((row["window_start"] - NEW_YEAR).total_seconds()), row["n"]) for row in found)


MODES = {
    "UNRESTRICTED": [(1, 3), (1, 5), (1, 6), (2, 3), (2, 5), (2, 6), (4, 5), (4, 6)],
    "RECENT": [(2, 3), (4, 5), (4, 6)],
    "CHRONICLE": [(1, 3), (2, 5), (4, 6)],
    "CONTINUOUS": [(1, 3), (2, 3), (4, 5)],
    "CUMULATIVE": [(2, 3), (4, 5)],
    "PROXIMAL": [(2, 3), (4, 5)],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("limit", [1, 2, 100])
def test_a_raised_event_is_in_sequence_with_others_by_the_time_of_its_cause(mode: str, limit: int) -> None:
    with Session(host="local", buckets=2, limit=limit) as session:
        session.execute(STREAMS + PAIRED.format(mode=mode))
        session.push("a", rows(1, 2, 4))
        session.push("b", rows(3, 5, 6))
        session.drain(60)
        assert pairs(session) == MODES[mode]


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_windows_of_a_raised_event_are_those_of_its_causes(limit: int) -> None:
    with Session(host="local", buckets=2, limit=limit) as session:
        session.execute(STREAMS + COUNTED)
        session.push("a", rows(1, 2, 11, 10, 0, 25, 24, 23, 41, 55))
        work(session)
        assert windows(session) == [(0, 2), (10, 2), (20, 3), (40, 1)], "0 is late, and 55 has not closed its window"
        session.drain(60)
        assert windows(session)[-1] == (50, 1)


def test_a_chain_of_rules_keeps_the_time_of_the_first_cause() -> None:
    with Session(host="local", buckets=2) as session:
        session.execute(
            STREAMS
            + """
            CREATE EVENT higher (v INT);
            CREATE RULE again ON up DO RAISE EVENT higher(v);
            CREATE EVENT both AS higher SEQUENCE b WITHIN 1 MINUTE;
            CREATE QUERY pairs AS SELECT v, v_1 FROM both INTO MEMORY;
            CREATE QUERY counted AS SELECT window_start, count(*) AS n FROM higher [RANGE 10 SECONDS] INTO MEMORY;
        """
        )
        session.push("a", rows(1, 12))
        session.push("b", rows(2, 13))
        work(session)
        session.drain(60)
        assert windows(session) == [(0, 1), (10, 1)]
        assert pairs(session) == [(1, 2), (12, 13)]


def test_a_cycle_of_rules_keeps_the_time_of_the_first_cause() -> None:
    with Session(host="local", buckets=2) as session:
        session.execute(STREAMS + COUNTED + "CREATE RULE echo WITH (cascade 3) ON up DO RAISE EVENT up(v);")
        session.push("a", rows(1, 12))
        work(session)
        assert windows(session) == [(0, 3)], "the first has been raised three times, and nothing earlier can follow"
        session.push("a", rows(33))
        work(session)
        assert windows(session) == [(0, 3), (10, 3)]
        session.drain(60)
        assert windows(session) == [(0, 3), (10, 3), (30, 3)]


def test_a_raised_event_does_not_hold_others_up_while_its_causes_follow_the_clock() -> None:
    with Session(host="local", buckets=2) as session:
        clock = local(session).clock = VirtualClock(round(NEW_YEAR.replace(tzinfo=datetime.UTC).timestamp()) * 10**6)
        session.execute(STREAMS + PAIRED.format(mode="RECENT"))
        clock.advance(1_500_000)
        session.push("a", rows(1))
        session.push("b", rows(1.5))
        work(session)
        assert pairs(session) == [], "another may come before it"
        for _ in range(5):
            clock.advance(1_000_000)
            work(session)
        assert pairs(session) == [(1, 1)]


def test_what_a_new_rule_raises_below_the_frontier_is_late() -> None:
    with Session(host="local", buckets=2) as session:
        session.execute(STREAMS + COUNTED + "CREATE QUERY late AS SELECT v FROM up.late INTO MEMORY")
        session.push("a", rows(1, 30, 42))
        work(session)
        assert windows(session) == [(0, 1), (30, 1)]
        session.execute("CREATE RULE other ON b DO RAISE EVENT up(v)")
        session.push("b", rows(5, 45))
        work(session)
        session.drain(60)
        assert windows(session) == [(0, 1), (30, 1), (40, 2)]
        assert session.results("late") == [{"v": 5}]
        assert session.statistics().streams["up"].late == 1


def test_raised_events_keep_their_times_over_a_restart(tmp_path: Path) -> None:
    with Session(tmp_path, host="local", buckets=2) as session:
        session.execute(STREAMS + COUNTED)
        session.push("a", rows(1, 2))
        assert local(session).step()
    with Session(tmp_path, host="local", buckets=2) as session:
        session.start()
        session.push("a", rows(12, 25))
        work(session)
        assert windows(session) == [(0, 2), (10, 1)]


def test_a_reset_of_the_cause_resets_the_event() -> None:
    with Session(host="local", buckets=2) as session:
        session.execute(
            STREAMS.replace("SKEW 2 SECONDS", "SKEW 2 SECONDS AHEAD UNLIMITED")
            + PAIRED.format(mode="RECENT")
            + "CREATE QUERY late AS SELECT v FROM up.late INTO MEMORY"
        )
        session.push("a", [*rows(1), {"at": "2100-01-01", "v": 7}])
        session.push("b", rows(2))
        work(session)
        work(session)
        (said,) = session.execute("ALTER STREAM a RESET FRONTIER TO TIMESTAMP '2026-01-01 00:00:03'")
        assert said == Message("stream a goes on from 2026-01-01 00:00:03; rise, pairs, late began anew")
        session.push("a", rows(4))
        session.push("b", rows(5))
        work(session)
        session.drain(60)
        assert pairs(session) == [(1, 2), (4, 5)]
        assert session.results("late") == []


def test_an_event_of_an_earlier_version_goes_on_by_the_time_of_reading() -> None:
    with Session(host="local") as session:
        session.execute(STREAMS)
        known = session.catalog.find("up")
        assert isinstance(known, Stream)
        session.catalog.replace(msgspec.structs.replace(known, timing=Timing.INTERNAL))
        assert session.execute("CREATE EVENT up (v INT)") == [Message("event up already exists")]


def test_an_event_that_no_rule_raises_does_not_hold_up_what_is_read_with_it(tmp_path: Path) -> None:
    with Session(tmp_path, host="local", buckets=2) as session:
        session.execute(STREAMS.replace("CREATE RULE rise", "-- CREATE RULE rise"))
        session.execute(
            """CREATE QUERY both AS SELECT window_start, count(*) AS n FROM
               (SELECT v FROM up UNION ALL SELECT v FROM b) [RANGE 10 SECONDS] INTO MEMORY"""
        )
        session.push("b", rows(1, 2, 15, 40))
        work(session)
        assert windows(session, "both") == [(0, 2), (10, 1)]
    with Session(tmp_path, host="local") as session:  # a rule that comes later raises what is not late
        session.execute("CREATE RULE rise ON a WHEN v > 0 DO RAISE EVENT up(v)")
        session.push("a", rows(20, 39, 41, 80))
        session.push("b", rows(80))
        work(session)
        session.drain(60)
        assert windows(session, "both") == [(30, 1), (40, 2), (80, 2)]
        assert session.statistics().streams["up"].late == 1
