"""A silent stream that follows the clock does not hold others up, and loses nothing that comes within its skew."""

import datetime as dt

import pytest

from headrace.hosts.local import LocalDeployment
from headrace.model.time import SECOND
from headrace.session import Session
from headrace.testing.clock import VirtualClock
from headrace.testing.watching import local_host

SCRIPT = """
CREATE STREAM fast (at TIMESTAMP, v INT) TIMESTAMP BY at SKEW 1 SECOND FROM MEMORY;
CREATE STREAM slow (at TIMESTAMP, v INT) TIMESTAMP BY at SKEW 3 SECONDS FROM MEMORY;
CREATE QUERY counts AS SELECT count(*) AS n, window_end FROM fast [RANGE 1 SECOND] UNION slow [RANGE 1 SECOND]
  INTO MEMORY;
CREATE QUERY late AS SELECT v FROM slow.late INTO MEMORY;
"""
EPOCH = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone


def micros(seconds):
    return 1_767_225_600 * SECOND + round(seconds * SECOND)


def run(until, slow, *, step=0.1, behind=None):
    """Feed five fast tuples a second, slow ones as (arrival, timestamp); return when windows came, and the session.

    The clock of both streams may be `behind` ours.
    """
    clock = VirtualClock(micros(behind or 0))
    session = Session(host="local")
    assert isinstance(session.deployment, LocalDeployment)
    local_host(session).clock = clock
    session.execute(SCRIPT if behind is None else SCRIPT.replace(" FROM MEMORY", " BEHIND CLOCK FROM MEMORY"))
    seen = {}
    waiting = sorted(slow)
    for tick in range(round(until / step)):
        now = tick * step
        clock.advance(micros(now + (behind or 0)) - clock.now())
        if tick % 2 == 0:
            session.push("fast", [{"at": EPOCH + dt.timedelta(seconds=now), "v": tick}])
        while waiting and waiting[0][0] <= now:
            session.push("slow", [{"at": EPOCH + dt.timedelta(seconds=waiting.pop(0)[1]), "v": 1}])
        local_host(session).step()
        for row in session.results("counts"):
            seen.setdefault((row["window_end"] - EPOCH).total_seconds(), (now, row["n"]))
    return seen, session


@pytest.mark.slow
def test_windows_close_when_the_skew_has_passed_though_one_input_is_silent():
    slow = [(3.0, 0.0), (8.0, 5.0), (28.0, 25.0)]
    seen, session = run(40, slow)
    delays = sorted(when - end for end, (when, _) in seen.items() if end > 10)
    assert delays[len(delays) // 2] <= 3.2 + 1e-9, "the skew and a tick"
    counted = sum(n for _, n in seen.values())
    assert counted == sum(1 for i in range(200) if i / 5 < max(seen)) + len(slow), "nothing was lost"
    assert session.results("late") == []


def test_a_tuple_that_comes_later_than_its_skew_is_late_and_kept_aside():
    seen, session = run(20, [(3.0, 0.0), (8.0, 5.0), (15.0, 9.0)])
    assert max(seen) > 12
    assert session.results("late") == [{"v": 1}]


def test_old_data_is_read_by_its_own_time_however_slowly():
    clock = VirtualClock(micros(1_000_000))
    session = Session(host="local")
    local_host(session).clock = clock
    session.execute(SCRIPT)
    for second in range(30):
        for stream in ("fast", "slow"):
            session.push(stream, [{"at": EPOCH + dt.timedelta(seconds=second), "v": 1}])
        local_host(session).step()
        clock.advance(60 * SECOND)
    session.drain()
    assert sum(row["n"] for row in session.results("counts")) == 60
    assert session.results("late") == []


@pytest.mark.slow
def test_a_stream_whose_clock_is_an_hour_behind_does_not_hold_others_up():
    """The last timestamp, plus the time since, less the skew: exact where delays differ by no more than the skew."""
    slow = [(3.0, 0.0), (8.0, 5.0), (28.0, 27.9), (33.5, 30.6)]
    seen, session = run(40, slow, behind=3600)
    delays = sorted(when - end for end, (when, _) in seen.items() if end > 10)
    assert delays[len(delays) // 2] <= 6.3 + 1e-9, "the delay of the last tuple, the skew, and ticks"
    counted = sum(n for _, n in seen.values())
    assert counted == sum(1 for i in range(200) if i / 5 < max(seen)) + len(slow), "nothing was lost"
    assert session.results("late") == []


def test_a_stream_whose_distance_grows_has_late_tuples_until_it_is_known_again():
    seen, session = run(30, [(3.0, 0.0), (15.0, 5.0), (20.0, 16.0), (27.0, 22.0)], behind=3600)
    assert session.results("late") == [{"v": 1}]
    assert 20 <= max(seen) <= 23, "16 was read at 20, so at 30 no more than 23 can be over"
