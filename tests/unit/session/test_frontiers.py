"""Timestamps ahead of the clock, and frontiers that are reset after one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.driver.intake import Intake
from headrace.driver.offset import START
from headrace.errors import HeadraceError, HostFault
from headrace.hosts.local import LocalDeployment
from headrace.model.time import DAY, HOUR, MINUTE, SECOND, format_instant, parse_instant
from headrace.session import Message, Session
from headrace.testing.clock import VirtualClock

NOON = parse_instant("2026-03-01 12:00:00")
STREAM = "CREATE STREAM s (at TIMESTAMP, v BIGINT) TIMESTAMP BY at SKEW 2 SECONDS {ahead} FROM MEMORY;"
QUERIES = """
    CREATE QUERY q AS SELECT v FROM s INTO MEMORY;
    CREATE QUERY late AS SELECT v FROM s.late INTO MEMORY;
    CREATE QUERY bad AS SELECT record, reason FROM s.bad INTO MEMORY;
"""


class Desk:
    """A session on virtual time, which is noon at first, and whose buckets start anew in each micro-batch."""

    def __init__(self, session: Session) -> None:
        self.session = session
        assert isinstance(session.deployment, LocalDeployment)
        self.deployment = session.deployment
        self.deployment.forgetful = True
        self.clock = VirtualClock(NOON)
        self.deployment.clock = self.clock

    def push(self, *times: float, pieces: int = 1) -> None:
        """Push tuples with these times, in seconds after noon, which are their values too; in so many pieces."""
        rows = [{"at": format_instant(NOON + round(time * SECOND)), "v": int(time)} for time in times]
        size = -(-len(rows) // pieces)
        for begin in range(0, len(rows), size):
            self.session.push("s", rows[begin : begin + size])

    def feed(self, *times: float) -> None:
        """Push tuples, then run all micro-batches that they make."""
        self.push(*times)
        self.work()

    def work(self) -> None:
        for _ in range(100):
            if not self.deployment.step():
                return
        raise AssertionError("micro-batches do not end")

    def values(self, query: str = "q") -> list[int]:
        return sorted(row["v"] for row in self.session.results(query))

    def reasons(self) -> list[str]:
        return [row["reason"] for row in self.session.results("bad")]


@pytest.fixture
def desk() -> Iterator[Desk]:
    with Session(host="local", buckets=2) as session:
        yield Desk(session)


HUNDRED_YEARS = 36525 * DAY // SECOND
AHEAD = "at is more than 1 h ahead of the clock"


def test_one_timestamp_in_the_far_future_does_not_make_later_tuples_late(desk: Desk) -> None:
    desk.session.execute(STREAM.format(ahead="") + QUERIES)
    desk.feed(-1, 0)
    desk.feed(1, HUNDRED_YEARS, 2)
    desk.clock.advance(3 * SECOND)
    desk.feed(3)
    assert (desk.values(), desk.values("late"), desk.reasons()) == ([-1, 0, 1, 2, 3], [], [AHEAD])
    assert "2126-03-02" in desk.session.results("bad")[0]["record"]
    assert desk.session.statistics().streams["s"].bad == 1


@pytest.mark.parametrize("times", [(HUNDRED_YEARS, 0, 1), (0, HUNDRED_YEARS, 1), (0, 1, HUNDRED_YEARS)])
def test_the_first_micro_batch_is_bounded_too_if_part_of_it_is_not_ahead(desk: Desk, times: tuple[int, ...]) -> None:
    desk.session.execute(STREAM.format(ahead="") + QUERIES)
    desk.feed(*times)
    desk.feed(2)
    assert (desk.values(), desk.values("late"), desk.reasons()) == ([0, 1, 2], [], [AHEAD])


def test_history_is_read_as_ever_but_for_what_is_ahead_of_the_clock(desk: Desk) -> None:
    year = 365 * DAY // SECOND
    desk.session.execute(STREAM.format(ahead="") + QUERIES)
    desk.feed(-3 * year, -2 * year, HUNDRED_YEARS, -year)
    desk.feed(-1, HOUR // SECOND, HOUR // SECOND + 1)
    assert (desk.values(), desk.reasons()) == ([-3 * year, -2 * year, -year, -1, 3600], [AHEAD] * 2)


def test_a_stream_that_leads_the_clock_from_its_beginning_is_not_bounded(desk: Desk) -> None:
    desk.session.execute(STREAM.format(ahead="") + QUERIES)
    desk.feed(7200, 7201)
    desk.clock.advance(2 * HOUR)
    desk.feed(7203, 90000)
    desk.clock.advance(DAY)
    desk.feed(HUNDRED_YEARS)
    assert (desk.values(), desk.reasons()) == ([7200, 7201, 7203, 90000, HUNDRED_YEARS], [])


def test_ahead_says_how_far_a_timestamp_may_be_ahead_of_the_clock(desk: Desk) -> None:
    desk.session.execute(STREAM.format(ahead="AHEAD 1 MINUTE") + QUERIES)
    desk.feed(61, 60)
    desk.clock.advance(MINUTE)
    desk.feed(121, 120)
    assert (desk.values(), desk.reasons()) == ([60, 120], ["at is more than 1 min ahead of the clock"] * 2)


def test_ahead_unlimited_takes_every_timestamp(desk: Desk) -> None:
    desk.session.execute(STREAM.format(ahead="AHEAD UNLIMITED") + QUERIES)
    desk.feed(0)
    desk.feed(HUNDRED_YEARS, 1)
    assert (desk.values(), desk.values("late"), desk.reasons()) == ([0, HUNDRED_YEARS], [1], [])


@pytest.mark.parametrize("parallel", [1, 2, 4])
def test_the_number_of_tasks_does_not_change_what_is_ahead_or_late(tmp_path: Path, parallel: int) -> None:
    with Session(tmp_path, host="local") as session:
        desk = Desk(session)
        desk.deployment.intake = Intake(tmp_path, parallel=parallel, limit=1000)
        session.execute(STREAM.format(ahead="") + QUERIES)
        desk.push(0, HUNDRED_YEARS, 10, 7, 11, HUNDRED_YEARS, 8, 9, pieces=4)
        desk.work()
        assert (desk.values(), desk.values("late"), desk.reasons()) == ([0, 9, 10, 11], [7, 8], [AHEAD] * 2)


def test_the_clock_of_a_repeated_micro_batch_is_that_of_its_plan(tmp_path: Path) -> None:
    with Session(tmp_path, host="local") as session:
        desk = Desk(session)
        session.execute(STREAM.format(ahead="") + QUERIES)
        desk.push(0, 7200, 1)
        intake = Intake(tmp_path, parallel=2, limit=100)
        end = intake.latest(START, NOON)
        tasks = intake.tasks(START, end)
        intake.latest(end, NOON + DAY)
        assert Intake(tmp_path, parallel=1, limit=100).tasks(START, end) == tasks
        assert {work.latest for task in tasks for work in task.work} == {NOON + HOUR}


UNLIMITED = STREAM.format(ahead="AHEAD UNLIMITED")


def windows(desk: Desk, query: str = "w") -> list[tuple[int, int]]:
    """Return the beginning, in seconds after noon, and the count of each window that a query has reported."""
    noon = datetime.fromisoformat(format_instant(NOON))
    rows = desk.session.results(query)
    return sorted((round((row["window_start"] - noon).total_seconds()), row["n"]) for row in rows)


def counting(size: str, name: str = "w", end: str = "INTO MEMORY") -> str:
    return f"CREATE QUERY {name} AS SELECT window_start, count(*) AS n FROM s [RANGE {size}] {end};"


def test_a_reset_lets_a_stream_go_on_at_the_clock(desk: Desk) -> None:
    desk.session.execute(UNLIMITED + QUERIES)
    desk.feed(0, HUNDRED_YEARS, 1)
    desk.clock.advance(10 * SECOND)
    assert desk.values("late") == [1]
    (said,) = desk.session.execute("ALTER STREAM s RESET FRONTIER")
    assert said == Message("stream s goes on from 2026-03-01 12:00:08; q, late, bad began anew")
    desk.feed(7, 8, 10, 9)
    assert (desk.values(), desk.values("late")) == ([0, 8, 9, 10, HUNDRED_YEARS], [1, 7])


def test_windows_that_were_closed_are_not_reported_again(desk: Desk) -> None:
    desk.session.execute(UNLIMITED + counting("10 SECONDS"))
    desk.feed(0, 1, HUNDRED_YEARS)
    assert windows(desk) == [(0, 2)], "the wrong tuple closed it"
    desk.session.execute("ALTER STREAM s RESET FRONTIER TO TIMESTAMP '2026-03-01 12:00:02'")
    desk.feed(3, 4, 11, 25)
    assert windows(desk) == [(0, 2), (10, 1), (HUNDRED_YEARS, 1)], "the last when the query began anew"


def test_overlapping_windows_begin_at_the_reset(desk: Desk) -> None:
    desk.session.execute(UNLIMITED + counting("10 SECONDS SLIDE 5 SECONDS"))
    desk.feed(0, 7, HUNDRED_YEARS)
    before = windows(desk)
    desk.session.execute("ALTER STREAM s RESET FRONTIER TO TIMESTAMP '2026-03-01 12:00:08'")
    desk.work()
    closed = windows(desk)
    desk.feed(8, 9, 10, 16, 40)
    assert before == [(-5, 1), (0, 2), (5, 1)]
    fresh = [row for row in windows(desk) if row not in closed]
    assert fresh == [(10, 2), (15, 1)]


def test_a_window_since_a_landmark_counts_from_the_reset_on(desk: Desk) -> None:
    desk.session.execute(UNLIMITED)
    desk.session.execute("CREATE QUERY w AS SELECT count(*) AS n FROM s [UNBOUNDED SLIDE 10 SECONDS] INTO MEMORY")
    desk.feed(0, 1, HUNDRED_YEARS)
    desk.session.execute("ALTER STREAM s RESET FRONTIER TO TIMESTAMP '2026-03-01 12:00:02'")
    desk.work()
    before = desk.session.results("w")
    desk.feed(3, 11, 23)
    assert desk.session.results("w")[len(before) :] == [{"n": 2}]


def test_a_cumulative_window_that_began_before_the_reset_is_not_reported_again(desk: Desk) -> None:
    desk.session.execute(UNLIMITED + counting("20 SECONDS STEP 10 SECONDS"))
    desk.feed(0, 7, HUNDRED_YEARS)
    desk.session.execute("ALTER STREAM s RESET FRONTIER TO TIMESTAMP '2026-03-01 12:00:08'")
    desk.work()
    closed = windows(desk)
    desk.feed(8, 15, 22, 35, 61)
    assert closed[:2] == [(0, 2), (0, 2)]
    assert [row for row in windows(desk) if row not in closed] == [(20, 1), (20, 2)]


def test_joins_begin_empty_and_other_streams_go_on(desk: Desk) -> None:
    desk.session.execute(
        UNLIMITED
        + """
        CREATE STREAM u (at TIMESTAMP, v BIGINT) TIMESTAMP BY at SKEW 2 SECONDS FROM MEMORY;
        CREATE QUERY j AS
          SELECT s.v AS v, u.v AS w FROM s [RANGE 1 HOUR] JOIN u [RANGE 1 HOUR] ON s.v = u.v INTO MEMORY;
        CREATE QUERY of_u AS SELECT window_start, count(*) AS n FROM u [RANGE 10 SECONDS] INTO MEMORY;
    """
    )
    feed_u = lambda *times: desk.session.push(  # noqa: E731
        "u", [{"at": format_instant(NOON + time * SECOND), "v": time} for time in times]
    )
    feed_u(1, 2)
    desk.feed(1, HUNDRED_YEARS)
    desk.session.execute("ALTER STREAM s RESET FRONTIER TO TIMESTAMP '2026-03-01 12:00:03'")
    feed_u(5)
    desk.feed(3, 5)
    feed_u(15)
    desk.work()
    assert [row["v"] for row in desk.session.results("j")] == [1, 5]
    assert windows(desk, "of_u") == [(0, 3)]


def test_a_frontier_can_be_reset_twice_and_before_any_tuple(desk: Desk) -> None:
    desk.session.execute(UNLIMITED + QUERIES)
    desk.session.execute("ALTER STREAM s RESET FRONTIER TO TIMESTAMP '2026-03-01 11:59:00'")
    desk.feed(-61, -60, HUNDRED_YEARS)
    for _ in range(2):
        desk.session.execute("ALTER STREAM s RESET FRONTIER TO TIMESTAMP '2026-03-01 12:00:00'")
    desk.feed(-1, 0, 5)
    desk.session.execute("ALTER STREAM s RESET FRONTIER TO TIMESTAMP '2026-03-01 12:00:01'")
    desk.feed(0.5, 1)
    assert desk.values() == [-60, 0, 1, 5, HUNDRED_YEARS]
    assert desk.values("late") == [-61, -1, 0]


def test_a_query_that_is_created_later_goes_by_the_reset(desk: Desk) -> None:
    desk.session.execute(UNLIMITED + "CREATE QUERY other AS SELECT v FROM s INTO MEMORY")
    desk.feed(0, HUNDRED_YEARS)
    desk.session.execute("DROP QUERY other")
    desk.work()
    desk.session.execute("ALTER STREAM s RESET FRONTIER TO TIMESTAMP '2026-03-01 12:00:00'")
    desk.work()
    desk.session.execute(QUERIES)
    desk.feed(1)
    assert (desk.values(), desk.values("late")) == ([1], [])


def test_a_repeated_delivery_resets_once(desk: Desk) -> None:
    desk.session.execute(UNLIMITED + QUERIES)
    desk.feed(0, HUNDRED_YEARS)
    desk.session.execute("ALTER STREAM s RESET FRONTIER TO TIMESTAMP '2026-03-01 12:00:00'")
    desk.push(10)
    deployment = desk.deployment
    turn, deployment.turn.follow_up = deployment.turn.follow_up, _fail  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        deployment.step()
    deployment.turn.follow_up = turn  # type: ignore[method-assign]
    desk.work()
    desk.feed(7, 8)
    assert (desk.values(), desk.values("late")) == ([0, 8, 10, HUNDRED_YEARS], [7])


def _fail(*arguments: Any, **options: Any) -> None:
    raise RuntimeError("after the delivery")


def test_a_stopped_checkpoint_can_be_reset(tmp_path: Path) -> None:
    with Session(tmp_path, host="local", buckets=2) as session:
        desk = Desk(session)
        session.execute(UNLIMITED + counting("10 SECONDS") + QUERIES)
        desk.feed(0, HUNDRED_YEARS)
    with Session(tmp_path, host="local") as session:
        assert (
            session.repair_frontier("S", NOON)
            == "stream s goes on from 2026-03-01 12:00:00; w, q, late, bad began anew"
        )
    with Session(tmp_path, host="local", buckets=2) as session:
        desk = Desk(session)
        session.start()
        desk.feed(-1, 10, 15, 30)
        assert desk.values() == [10, 15, 30]
        assert desk.values("late") == [-1]
        assert (10, 2) in windows(desk)
        with pytest.raises(HostFault, match="running session"):
            session.repair_frontier("s")


def test_a_rule_begins_anew_and_is_disabled_as_ever(desk: Desk) -> None:
    desk.session.execute(
        UNLIMITED
        + """
        CREATE EVENT pair AS s AS a SEQUENCE s AS b WITHIN 1 MINUTE WHERE a.v + 1 = b.v;
        CREATE RULE r ON pair DO INSERT INTO MEMORY;
    """
    )
    desk.feed(0, HUNDRED_YEARS)
    desk.session.execute("ALTER STREAM s RESET FRONTIER TO TIMESTAMP '2026-03-01 12:00:00'")
    desk.feed(5)
    desk.session.execute("DISABLE RULE r")
    desk.work()
    desk.session.execute("ENABLE RULE r")
    desk.feed(6, 20)
    assert len(desk.session.results("r")) == 1, "it has kept the first tuple while it was disabled"


def test_a_scheduled_query_goes_on_with_the_stint_of_the_time(desk: Desk) -> None:
    desk.session.execute(
        UNLIMITED + "CREATE QUERY q START '2026-03-01 12:00:00' STOP '2026-03-01 12:00:10' EVERY 20 SECONDS AS "
        "SELECT v FROM s INTO MEMORY"
    )
    desk.feed(1, HUNDRED_YEARS)
    desk.session.execute("ALTER STREAM s RESET FRONTIER TO TIMESTAMP '2026-03-01 12:00:12'")
    desk.feed(15, 21, 29, 33)
    desk.feed(41)
    assert desk.values() == [1, 21, 29, 41, HUNDRED_YEARS], "the wrong one is in a stint, too"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("ALTER STREAM t RESET FRONTIER", "'t' does not exist"),
        ("ALTER STREAM q RESET FRONTIER", "'q' is not a stream"),
        ("ALTER STREAM i RESET FRONTIER", "no column holds its timestamps"),
        ("ALTER STREAM s.late RESET FRONTIER", "no column holds its timestamps"),
        ("ALTER STREAM s RESET FRONTIER TO TIMESTAMP 'noon'", "'noon' is not a timestamp"),
        ("ALTER STREAM s RESET FRONTIER TO TIMESTAMP '9999-01-01'", "not between the years 1 and 9000"),
        ("ALTER STREAM s RESET", "expected RESET FRONTIER"),
    ],
)
def test_a_frontier_that_cannot_be_reset_is_an_error(desk: Desk, statement: str, message: str) -> None:
    desk.session.execute(UNLIMITED + QUERIES + "CREATE STREAM i (v INT) FROM MEMORY")
    with pytest.raises(HeadraceError) as error:
        desk.session.execute(statement)
    assert message in str(error.value)
