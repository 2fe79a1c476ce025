"""Time is told when somebody waits for it: how many micro-batches that takes.

No mode changes a result of tuples that keep to their skew.
"""

import datetime as dt

import pytest

from headrace.errors import NameFault, QueryError
from headrace.model.time import MILLISECOND, SECOND
from headrace.session import Session
from headrace.testing.clock import VirtualClock
from headrace.testing.watching import local_host

BEGIN = 1_767_225_600 * SECOND
EPOCH = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
STREAMS = """
CREATE STREAM fast (at TIMESTAMP, k INT) TIMESTAMP BY at SKEW 1 SECOND FROM MEMORY;
CREATE STREAM slow (at TIMESTAMP, k INT) TIMESTAMP BY at SKEW 3 SECONDS FROM MEMORY;
CREATE STREAM stamped (k INT) FROM MEMORY;
"""


class Watched:
    """A local deployment whose clock advances in steps of 50 ms, as a trigger looks; notes when micro-batches ran."""

    def __init__(self, script):
        self.clock = VirtualClock(BEGIN)
        self.session = Session(host="local")
        local_host(self.session).clock = self.clock
        self.session.execute(STREAMS + script)
        self.ran = []

    def push(self, stream, second=None, k=1):
        at = {} if second is None else {"at": EPOCH + dt.timedelta(seconds=second)}
        self.session.push(stream, [{**at, "k": k}])

    def until(self, second):
        while self.clock.now() < BEGIN + second * SECOND:
            if local_host(self.session).step():
                self.ran.append((self.clock.now() - BEGIN) / SECOND)
            self.clock.advance(50 * MILLISECOND)

    def punctual(self):
        """Both streams have been seen to follow the clock."""
        self.push("fast", 0)
        self.push("slow", 0)
        self.until(0.2)
        self.ran.clear()


def test_a_window_closes_in_the_micro_batch_in_which_the_clock_reaches_its_end_and_in_no_other():
    watched = Watched(
        "CREATE QUERY counts AS SELECT count(*) AS n FROM fast [RANGE 1 SECOND] UNION slow [RANGE 1 SECOND] INTO MEMORY"
    )
    watched.punctual()
    watched.until(60)
    assert watched.ran == [4.0], "the end of the window and the greatest skew"
    assert [row["n"] for row in watched.session.results("counts")] == [2]


@pytest.mark.parametrize("partner", ["fast", "stamped"])
def test_a_stream_that_is_silent_from_the_start_blocks_nothing_if_those_beside_it_follow_the_clock(partner):
    watched = Watched(
        f"CREATE QUERY alone AS SELECT p.k FROM {partner} [RANGE 1 SECOND] p LEFT JOIN slow [RANGE 1 SECOND] s "
        "ON p.k = s.k INTO MEMORY"
    )
    for second in range(10):
        watched.push(partner, second if partner == "fast" else None)
        watched.until(second + 1)
    watched.until(15)
    assert watched.session.results("alone") == [{"k": 1}] * 10


def test_a_stream_that_is_silent_from_the_start_may_still_bring_old_tuples_if_those_beside_it_are_old():
    watched = Watched(
        "CREATE QUERY pairs AS SELECT f.k FROM fast [RANGE 1 HOUR] f JOIN slow [RANGE 1 HOUR] s ON f.k = s.k "
        "INTO MEMORY"
    )
    watched.push("fast", -5000)
    watched.until(20)
    watched.push("slow", -4990)
    watched.until(30)
    assert watched.session.results("pairs") == [{"k": 1}]


def test_what_a_stream_that_was_silent_says_too_late_is_late():
    watched = Watched(
        "CREATE QUERY counts AS SELECT count(*) AS n FROM fast [RANGE 1 SECOND] UNION slow [RANGE 1 SECOND] "
        "INTO MEMORY; CREATE QUERY late AS SELECT k FROM slow.late INTO MEMORY"
    )
    watched.push("fast", 0)
    watched.until(10)
    watched.push("slow", 0.5, k=7)
    watched.push("slow", 9, k=8)
    watched.until(20)
    assert [row["n"] for row in watched.session.results("counts")] == [1, 1]
    assert watched.session.results("late") == [{"k": 7}]


def test_a_deployment_in_which_nothing_waits_runs_no_micro_batch():
    watched = Watched(
        "CREATE QUERY copy AS SELECT k FROM fast INTO MEMORY; "
        "CREATE QUERY pairs AS SELECT f.k FROM fast [RANGE 1 HOUR] f "
        "JOIN slow [RANGE 1 HOUR] s ON f.k = s.k INTO MEMORY"
    )
    watched.punctual()
    watched.until(60)
    assert watched.ran == []
    assert watched.session.deployment.delivery.statistics.vertices, "the join has been there all the time"


def test_a_lonely_tuple_of_an_outer_join_comes_out_when_its_time_is_over():
    watched = Watched("""
        CREATE QUERY pairs AS SELECT f.k, s.k AS other FROM fast [RANGE 2 SECONDS] f
          LEFT JOIN slow [RANGE 2 SECONDS] s ON f.k = s.k INTO MEMORY""")
    watched.punctual()
    watched.push("fast", 0.2, k=7)
    watched.until(60)
    assert [row for row in watched.session.results("pairs") if row["k"] == 7] == [{"k": 7, "other": None}]
    assert len(watched.ran) <= 3, "one for the tuple, one when the skew of the other stream has passed"


def test_time_reaches_an_operator_behind_an_exchange_though_the_one_before_it_holds_nothing():
    watched = Watched("""
        CREATE QUERY firsts AS SELECT k, count(*) AS n FROM fast [RANGE 1 SECOND] GROUP BY k INTO MEMORY;
        CREATE QUERY sums AS SELECT n, count(*) AS m FROM firsts [RANGE 10 SECONDS] GROUP BY n INTO MEMORY""")
    watched.punctual()
    watched.until(60)
    assert [(row["n"], row["m"]) for row in watched.session.results("sums")] == [(1, 1)]
    assert len(watched.ran) < 20


def test_streams_that_we_stamp_are_asked_when_their_window_ends():
    watched = Watched("CREATE QUERY counts AS SELECT count(*) AS n FROM stamped [RANGE 1 SECOND] INTO MEMORY")
    watched.push("stamped")
    watched.until(30)
    assert [row["n"] for row in watched.session.results("counts")] == [1]
    assert len(watched.ran) == 2


def test_bounds_that_were_asked_for_are_counted():
    watched = Watched(
        "CREATE QUERY counts AS SELECT count(*) AS n FROM fast [RANGE 1 SECOND] UNION slow [RANGE 1 SECOND] INTO MEMORY"
    )
    watched.punctual()
    before = watched.session.deployment.delivery.statistics.asked
    watched.until(10)
    assert watched.session.deployment.delivery.statistics.asked > before


@pytest.mark.parametrize(("mode", "batches"), [("on demand", 1), ("periodic 500 ms", 120), ("none", 0)])
def test_modes_differ_in_when_and_not_in_what(mode, batches):
    watched = Watched(
        "CREATE QUERY counts AS SELECT count(*) AS n, window_end FROM fast [RANGE 1 SECOND] "
        "UNION slow [RANGE 1 SECOND] INTO MEMORY"
    )
    watched.session.execute(f"ALTER SYSTEM SET ets = '{mode}'")
    watched.punctual()
    watched.until(60)
    assert abs(len(watched.ran) - batches) <= 1
    assert len(watched.session.results("counts")) == (0 if mode == "none" else 1)
    watched.push("fast", 60)
    watched.push("slow", 60)
    watched.until(60.5)
    watched.session.drain()
    assert [(row["n"], (row["window_end"] - EPOCH).total_seconds()) for row in watched.session.results("counts")] == [
        (2, 1.0),
        (2, 61.0),
    ]


def test_a_mode_that_does_not_exist_is_refused_where_it_stands():
    session = Session(host="local")
    with pytest.raises(NameFault, match="ets cannot be 'often'") as refused:
        session.execute("ALTER SYSTEM SET ets = 'often'")
    assert "^^^" in refused.value.render("ALTER SYSTEM SET ets = 'often'")
    with pytest.raises(QueryError, match="not a duration"):
        session.execute("ALTER SYSTEM SET ets = 'periodic sometimes'")
    with pytest.raises(NameFault, match="unknown setting 'etc'") as unknown:
        session.execute("ALTER SYSTEM SET etc = 'none'")
    assert unknown.value.hint is not None
    assert "ets" in unknown.value.hint
