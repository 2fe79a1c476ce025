"""Timestamps ahead of the clock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.driver.intake import Intake
from headrace.driver.offset import START
from headrace.hosts.local import LocalDeployment
from headrace.model.time import DAY, HOUR, MINUTE, SECOND, format_instant, parse_instant
from headrace.session import Session
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
