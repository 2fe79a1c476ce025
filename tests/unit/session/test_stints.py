"""Queries that are turned on and off: by hand, at times, by what happens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.errors import NameFault, NotSupported
from headrace.hosts.local import LocalDeployment
from headrace.model.stint import Schedule
from headrace.model.time import BEGIN, DAY, END, HOUR, SECOND, format_instant, parse_instant
from headrace.session import Listing, Message, Session
from headrace.testing.clock import VirtualClock

BIDS = "CREATE STREAM bids (at TIMESTAMP, item STRING, n INT) TIMESTAMP BY at FROM MEMORY;"
SUMS = "SELECT item, sum(n) AS s FROM bids [RANGE 10 SECONDS] GROUP BY item INTO MEMORY"
NIGHT = parse_instant("2026-03-01 00:00:00")


class Desk:
    """A session on virtual time whose buckets start anew in each micro-batch."""

    def __init__(self, session: Session) -> None:
        self.session = session
        assert isinstance(session.deployment, LocalDeployment)
        self.deployment = session.deployment
        self.deployment.forgetful = True
        self.clock = VirtualClock(NIGHT)
        self.deployment.clock = self.clock

    def bid(self, *rows: tuple[float, str, int]) -> None:
        """Bids at seconds since midnight, then all micro-batches that they make."""
        at = [{"at": format_instant(NIGHT + round(second * SECOND)), "item": item, "n": n} for second, item, n in rows]
        self.session.push("bids", at)
        self.work()

    def work(self) -> None:
        for _ in range(100):
            if not self.deployment.step():
                return
        raise AssertionError("micro-batches do not end")

    def pass_to(self, instant: int) -> None:
        self.clock.sleep_until(instant)
        self.work()

    def do(self, text: str) -> list[Any]:
        found = self.session.execute(text)
        self.work()
        return found

    def sums(self, query: str = "q") -> list[tuple[str, int]]:
        return sorted((row["item"], row["s"]) for row in self.session.results(query))


@pytest.fixture
def desk() -> Iterator[Desk]:
    with Session(host="local", buckets=3) as session:
        yield Desk(session)


def test_a_query_that_is_stopped_gives_what_is_due_and_those_it_shares_with_go_on(desk: Desk) -> None:
    desk.do(f"{BIDS} CREATE QUERY q AS {SUMS}; CREATE QUERY p AS {SUMS}")
    desk.bid((1, "a", 1), (2, "b", 2))
    assert desk.sums() == []
    assert desk.do("STOP QUERY q") == [Message("query q stopped")]
    assert desk.sums() == [("a", 1), ("b", 2)]
    assert desk.sums("p") == []
    desk.bid((3, "a", 10), (12, "a", 5))
    assert desk.sums() == [("a", 1), ("b", 2)]
    assert desk.sums("p") == [("a", 11), ("b", 2)]


def test_a_query_that_is_started_again_begins_with_nothing_and_does_not_see_what_came_meanwhile(desk: Desk) -> None:
    desk.do(f"{BIDS} CREATE QUERY q AS {SUMS}")
    desk.bid((1, "a", 1))
    desk.session.stop_query("q")
    desk.bid((2, "a", 10))
    desk.session.start_query("q")
    desk.bid((3, "a", 100))
    desk.session.drain()
    assert desk.sums() == [("a", 1), ("a", 100)]


def test_turning_on_what_is_on_or_off_what_is_off_does_nothing(desk: Desk) -> None:
    desk.do(f"{BIDS} CREATE QUERY q AS {SUMS}")
    desk.bid((1, "a", 1))
    assert desk.do("START QUERY q") == [Message("query q is already on")]
    desk.do("STOP QUERY q")
    assert desk.do("STOP QUERY q") == [Message("query q is already off")]
    assert desk.sums() == [("a", 1)]
    with pytest.raises(NameFault, match="no query 'x'"):
        desk.do("STOP QUERY x")


def test_a_query_stopped_and_started_at_once_has_two_stints(desk: Desk) -> None:
    desk.do(f"{BIDS} CREATE QUERY q AS {SUMS}")
    desk.bid((1, "a", 1))
    desk.do("STOP QUERY q; START QUERY q; SHOW QUERIES")
    desk.bid((2, "a", 2))
    desk.do("STOP QUERY q; START QUERY q; STOP QUERY q")
    assert desk.sums() == [("a", 1), ("a", 2)]
    (listing,) = desk.do("SHOW QUERIES")
    assert isinstance(listing, Listing)
    assert [(row[0], row[-1]) for row in listing.rows] == [("q", "off")]


TWO_STAGES = (
    "SELECT count(*) AS s, 'all' AS item FROM (SELECT item, sum(n) AS n FROM bids [RANGE 10 SECONDS] GROUP BY item) "
    "[RANGE 20 SECONDS] INTO MEMORY"
)


def test_what_is_on_its_way_between_buckets_comes_out_too(desk: Desk) -> None:
    desk.do(f"{BIDS} CREATE QUERY q AS {TWO_STAGES}")
    desk.bid((1, "a", 1), (2, "b", 2), (3, "c", 3))
    desk.session.push("bids", [{"at": format_instant(NIGHT + 11 * SECOND), "item": "a", "n": 1}])
    assert desk.deployment.step()  # the first window's sums are between two micro-batches now
    desk.do("STOP QUERY q")
    assert desk.sums() == [("all", 1), ("all", 3)]
    desk.do(f"CREATE QUERY again AS {TWO_STAGES}")
    desk.bid((15, "a", 1))
    desk.session.drain()
    assert (desk.sums(), desk.sums("again")) == ([("all", 1), ("all", 3)], [("all", 1)])


def test_a_query_whose_exchange_is_shared_is_not_stopped_alone(desk: Desk) -> None:
    desk.do(
        f"{BIDS} CREATE QUERY q AS {TWO_STAGES}; CREATE QUERY p AS {TWO_STAGES}; "
        f"CREATE QUERY r START ON bids.late AS {TWO_STAGES}"
    )
    with pytest.raises(NotSupported, match="shares operators"):
        desk.do("STOP QUERY q")
    desk.do("START QUERY r")
    desk.bid((1, "a", 1))
    desk.do("STOP QUERY r")
    assert desk.sums("r") == [("all", 1)]


def test_a_query_is_on_at_night_by_the_time_of_its_tuples(desk: Desk) -> None:
    desk.clock.advance(20 * HOUR)
    desk.do(
        f"{BIDS} CREATE QUERY q START '22:00' STOP '06:00' AS SELECT item, sum(n) AS s FROM bids [RANGE 12 HOURS] "
        "GROUP BY item INTO MEMORY"
    )
    hours = [21.9, 22.0, 23.5, 29.9, 30.0, 30.1, 45.0, 46.5, 50.0]
    for number, hour in enumerate(hours):
        desk.pass_to(NIGHT + round(hour * HOUR))
        desk.bid((hour * 3600, "a", 2**number))
    assert sum(s for _, s in desk.sums()) == 2**1 + 2**2 + 2**3 + 2**7
    assert ("a", 2**3) in desk.sums(), "the window from 0:00 to 12:00 ends at 6:00"
    desk.session.drain()
    assert sorted(desk.sums()) == sorted([("a", 2**1 + 2**2), ("a", 2**3), ("a", 2**7), ("a", 2**8)])


def test_a_query_stops_in_its_time_although_nothing_comes(desk: Desk) -> None:
    desk.clock.advance(22 * HOUR)
    desk.do(
        f"{BIDS} CREATE QUERY q START '22:00' STOP '06:00' AS SELECT item, sum(n) AS s FROM bids [RANGE 12 HOURS] "
        "GROUP BY item INTO MEMORY"
    )
    desk.pass_to(NIGHT + 24 * HOUR + SECOND)
    desk.bid((24 * 3600 + 1, "a", 1))
    desk.pass_to(NIGHT + 30 * HOUR - 1)
    assert desk.sums() == []
    desk.pass_to(NIGHT + 30 * HOUR)
    assert desk.sums() == [("a", 1)]


def test_a_night_without_any_tuple_ends_too(desk: Desk) -> None:
    desk.clock.advance(22 * HOUR)
    desk.do(f"{BIDS} CREATE QUERY q START '22:00' STOP '06:00' AS {SUMS}")
    for hour in (25, 30, 31, 47):
        desk.pass_to(NIGHT + hour * HOUR)
    desk.bid((47 * 3600, "a", 1))
    desk.session.drain()
    assert desk.sums() == [("a", 1)]


def test_a_query_with_dates_is_on_once_or_every_so_often(desk: Desk) -> None:
    desk.do(f"{BIDS} CREATE QUERY once START '2026-03-01 00:01' STOP '2026-03-01 00:02' AS {SUMS}")
    desk.do(f"CREATE QUERY often START '2026-03-01 00:01' STOP '2026-03-01 00:02' EVERY 5 MINUTES AS {SUMS}")
    for minute in range(12):
        desk.bid((minute * 60 + 30, "a", 2**minute))
    desk.session.drain()
    assert desk.sums("once") == [("a", 2**1)]
    assert desk.sums("often") == [("a", 2**1), ("a", 2**6), ("a", 2**11)]


def test_an_event_starts_a_query_and_another_stops_it(desk: Desk) -> None:
    desk.do(
        f"{BIDS} CREATE EVENT high AS SELECT item FROM bids WHERE n > 100; "
        "CREATE EVENT low AS SELECT item FROM bids WHERE n < 0;"
        f"CREATE QUERY q START ON high STOP ON low AS {SUMS}"
    )
    for second, n in enumerate((1, 500, 2, 600, 4, -1, 8, 700, 16)):
        desk.bid((second, "a", n))
    assert desk.sums() == [("a", 2 + 600 + 4 - 1)]
    desk.session.drain()
    assert desk.sums() == [("a", 16), ("a", 2 + 600 + 4 - 1)]


def test_what_a_switch_watches_is_not_dropped(desk: Desk) -> None:
    desk.do(
        f"{BIDS} CREATE EVENT high AS SELECT item FROM bids WHERE n > 100; "
        f"CREATE QUERY q START ON high STOP '06:00' AS {SUMS}"
    )
    with pytest.raises(NameFault, match="'high' cannot be dropped: it is used by q"):
        desk.do("DROP EVENT high")
    (listing,) = desk.do("DESCRIBE q")
    assert isinstance(listing, Listing)
    assert listing.rows[-2:] == (("SCHEDULE", "STOP 06:00"), ("START ON", "high"))
    desk.do("DROP QUERY q; DROP EVENT high")


def test_a_file_that_is_run_again_does_not_turn_its_queries_on(desk: Desk) -> None:
    text = (
        f"{BIDS} CREATE EVENT high AS SELECT item FROM bids WHERE n > 100; "
        f"CREATE QUERY q START ON high AS {SUMS}; CREATE QUERY p AS {SUMS}"
    )
    desk.do(text)
    desk.do("STOP QUERY p")
    desk.do(text)
    desk.bid((1, "a", 1), (20, "a", 1))
    assert (desk.sums(), desk.sums("p")) == ([], [])


NIGHTLY = Schedule(22 * HOUR, 30 * HOUR, DAY, daily=True)
DATED = Schedule(22 * HOUR, 30 * HOUR, DAY)
ONCE = Schedule(22 * HOUR, 30 * HOUR)


@pytest.mark.parametrize(
    ("schedule", "now", "first", "following"),
    [
        (NIGHTLY, 10, (22, 30), (22, 30)),
        (NIGHTLY, 22, (22, 30), (22, 30)),
        (NIGHTLY, 23, (22, 30), (46, 54)),
        (NIGHTLY, 30, (46, 54), (46, 54)),
        (DATED, 100, (22, 30), (118, 126)),
        (ONCE, 23, (22, 30), None),
        (ONCE, 31, (22, 30), None),
        (Schedule(22 * HOUR, None, DAY, daily=True), 23, (46, END // HOUR), (46, END // HOUR)),
        (Schedule(None, 6 * HOUR, DAY, daily=True), 7, (BEGIN // HOUR, 30), None),
    ],
)
def test_a_schedule_says_which_stint_comes(schedule: Schedule, now: int, first: Any, following: Any) -> None:
    found = [schedule.first(now * HOUR), schedule.following(now * HOUR)]
    assert [None if stint is None else tuple(instant // HOUR for instant in stint) for stint in found] == [
        first,
        following,
    ]


def test_stints_that_are_over_before_they_could_begin_are_left_out() -> None:
    assert NIGHTLY.following(30 * HOUR, come=54 * HOUR) == (70 * HOUR, 78 * HOUR)
    assert NIGHTLY.following(30 * HOUR, come=53 * HOUR) == (46 * HOUR, 54 * HOUR)


def test_old_tuples_are_read_by_the_dates_of_a_schedule_also_while_draining(desk: Desk) -> None:
    desk.clock.advance(100 * DAY)
    desk.deployment.intake.limit = 1
    desk.session.execute(
        f"{BIDS} CREATE QUERY often START '2026-03-01 00:01' STOP '2026-03-01 00:02' EVERY 5 MINUTES AS {SUMS}"
    )
    for minute in range(12):
        desk.session.push("bids", [{"at": format_instant(NIGHT + minute * 60 * SECOND), "item": "a", "n": 2**minute}])
    desk.session.drain()
    assert desk.sums("often") == [("a", 2**1), ("a", 2**6), ("a", 2**11)]


def test_micro_batches_before_the_first_tuple_skip_no_stint_of_old_data(desk: Desk) -> None:
    desk.clock.advance(100 * DAY)
    desk.do(f"{BIDS} CREATE QUERY p AS {SUMS}")
    desk.do(f"CREATE QUERY often START '2026-03-01 00:01' STOP '2026-03-01 00:02' EVERY 5 MINUTES AS {SUMS}")
    for second in range(5):
        desk.pass_to(NIGHT + 100 * DAY + second * SECOND)
        desk.do("ALTER SYSTEM SET scheduler = 'fifo'")  # a command is reason enough for a micro-batch
    for minute in range(12):
        desk.bid((minute * 60, "a", 2**minute))
    desk.session.drain()
    assert desk.sums("often") == [("a", 2**1), ("a", 2**6), ("a", 2**11)]


def repeat_every_micro_batch(deployment: LocalDeployment) -> None:
    """Lose each micro-batch after its delivery and run it again, as after a crash: its commands are there already."""
    once = deployment.step

    def step() -> bool:
        offset, batch = deployment.offset, deployment.batch
        values = {number: dict(store.values) for number, store in deployment.stores.items()}
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(deployment.intake, "forget", lambda end: None)  # which follows the commit
            if not once():
                return False
        end = deployment.offset
        deployment.offset, deployment.batch, deployment.ended = offset, batch, False
        for number, store in deployment.stores.items():
            store.values = values[number]
        deployment.kept.clear()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(deployment.intake, "latest", lambda start, now: end)
            assert once()
        return True

    deployment.step = step  # type: ignore[method-assign]


@pytest.mark.slow
@pytest.mark.parametrize("repeated", [False, True])
def test_a_crash_in_any_micro_batch_changes_nothing_of_stints(desk: Desk, repeated: bool) -> None:
    if repeated:
        repeat_every_micro_batch(desk.deployment)
    desk.do(
        f"{BIDS} CREATE EVENT high AS SELECT item FROM bids WHERE n > 100; "
        "CREATE EVENT low AS SELECT item FROM bids WHERE n < 0;"
        f"CREATE QUERY often START '2026-03-01 00:01' STOP '2026-03-01 00:02' EVERY 5 MINUTES AS {SUMS};"
        f"CREATE QUERY q START ON high STOP ON low AS {SUMS};"
        f"CREATE QUERY plain AS {SUMS}; CREATE QUERY stages AS {TWO_STAGES}"
    )
    for minute, n in enumerate((1, 500, 2, 600, 4, -1, 8, 700, 16, 32, 64, 99)):
        if minute in (3, 8):
            desk.do("STOP QUERY plain; STOP QUERY stages")
        if minute in (5, 10):
            desk.do("START QUERY plain; START QUERY stages")
        desk.bid((minute * 60, "a", n), (minute * 60 + 1, "b", n))
    desk.session.drain()
    assert desk.sums("often") == [("a", 8), ("a", 99), ("a", 500), ("b", 8), ("b", 99), ("b", 500)]
    assert [s for item, s in desk.sums() if item == "a"] == [-1, 2, 4, 16, 32, 64, 99, 600]
    assert [s for item, s in desk.sums("plain") if item == "a"] == [-1, 1, 2, 8, 64, 99, 500, 700]
    assert desk.sums("stages") == [("all", 2)] * 8


@pytest.mark.parametrize("repeated", [False, True])
def test_a_micro_batch_with_many_stints_can_be_repeated(desk: Desk, repeated: bool) -> None:
    if repeated:
        repeat_every_micro_batch(desk.deployment)
    times = "START '2026-03-01 00:01' STOP '2026-03-01 00:02' EVERY 5 MINUTES"
    desk.do(f"{BIDS} CREATE QUERY often {times} AS {SUMS}; CREATE QUERY stages {times} AS {TWO_STAGES}")
    desk.bid(*((minute * 60, item, 2**minute) for minute in range(12) for item in "ab"))
    desk.bid((12 * 60, "a", 2**12), (16 * 60, "a", 2**16), (26 * 60, "a", 2**26))
    desk.session.drain()
    assert desk.sums("often") == [
        *(("a", 2**minute) for minute in (1, 6, 11, 16, 26)),
        *(("b", 2**minute) for minute in (1, 6, 11)),
    ]
    assert desk.sums("stages") == [("all", 1), ("all", 1), ("all", 2), ("all", 2), ("all", 2)]


def test_operators_of_stints_that_have_ended_are_not_counted_for_ever(desk: Desk) -> None:
    times = "START '2026-03-01 00:00:01' STOP '2026-03-01 00:00:02' EVERY 5 SECONDS"
    desk.do(f"{BIDS} CREATE QUERY often {times} AS {SUMS}")
    counts = []
    for minute in range(3):
        desk.bid(*((minute * 60 + second, "a", 1) for second in range(60)))
        counts.append(len(desk.session.statistics().vertices))
    assert len(set(counts)) == 1
    assert len(desk.sums("often")) == 36
