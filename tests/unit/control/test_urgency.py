"""Two queries of one stream, an urgent one and an unimportant one, with less work done at a time than arrives."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from typing import Any

import pytest

from headrace.control import scheduling
from headrace.control.policies import budget
from headrace.control.policies.budget import MAX_WAITING, left_unread
from headrace.driver.progress import guide, read_progress
from headrace.hosts.local import LocalDeployment
from headrace.session import Session
from headrace.testing.clock import VirtualClock

pytestmark = pytest.mark.slow

START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
SCRIPT = """
    CREATE STREAM bids (at TIMESTAMP, item INT) TIMESTAMP BY at FROM MEMORY;
    CREATE QUERY quick WITH (force, latency '500 ms' MUST) AS
      SELECT item, count(*) AS n FROM bids [SESSION 1 SECONDS] WHERE item < 3 GROUP BY item INTO MEMORY;
    CREATE QUERY lazy WITH (force, latency '5 s' DONT CARE) AS
      SELECT item, count(*) AS n FROM bids [SESSION 2 SECONDS] GROUP BY item INTO MEMORY;
    ALTER SYSTEM SET scheduler = 'edf';
    ALTER SYSTEM SET fairness = 'none';
"""


def rows(first: int, count: int) -> list[dict[str, Any]]:
    return [
        {"at": START + dt.timedelta(milliseconds=100 * number), "item": number % 6}
        for number in range(first, first + count)
    ]


def test_what_must_be_quick_waits_for_nothing_and_what_may_wait_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "send_costs", lambda memory, seen: (memory, []))  # a tuple costs what is assumed
    with Session(host="local") as session:
        deployment = session.deployment
        assert isinstance(deployment, LocalDeployment)
        deployment.clock = deployment.delivery.clock = clock = VirtualClock()
        session.execute(SCRIPT)
        late = []
        for batch in range(20):
            guide(
                session.directory, 20 * 700, {}
            )  # for the other query; of 100 tuples 50 are for the one and 100 for the other
            session.push("bids", rows(100 * batch, 100))
            clock.advance(100_000)
            assert deployment.step()
            late.append(session.statistics().queries["lazy"].latency_ms or 0.0)
            assert (session.statistics().queries["quick"].latency_ms or 0.0) <= 200.0
        assert read_progress(session.directory).unread > 500
        assert late[-1] > 1000.0 > late[0]
        guide(session.directory, None, {})
        session.drain()
        assert sum(row["n"] for row in session.results("quick")) == sum(number % 6 < 3 for number in range(2000))
        assert sum(row["n"] for row in session.results("lazy")) == 2000


ONE, BOTH = frozenset({"lazy"}), frozenset({"lazy", "quick"})


def test_a_stream_is_left_unread_if_all_who_read_it_may_wait_and_have_enough() -> None:
    readers = {"a": ONE, "b": BOTH}
    assert left_unread(readers, {"lazy": MAX_WAITING + 1}, ONE, frozenset()) == {"a"}
    assert left_unread(readers, {"lazy": MAX_WAITING}, ONE, frozenset()) == frozenset()
    assert left_unread(readers, {"lazy": MAX_WAITING}, ONE, frozenset({"a"})) == {"a"}  # until half of them are gone
    assert left_unread(readers, {"lazy": MAX_WAITING // 2}, ONE, frozenset({"a"})) == frozenset()
    assert left_unread(readers, {"lazy": 2 * MAX_WAITING}, frozenset(), frozenset({"a"})) == frozenset()


def test_what_may_wait_waits_unread_and_comes_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MAX_WAITING", 200)
    with Session(host="local") as session:
        deployment = session.deployment
        assert isinstance(deployment, LocalDeployment)
        deployment.clock = deployment.delivery.clock = clock = VirtualClock()
        session.execute("""
            CREATE STREAM bids (at TIMESTAMP, item INT) TIMESTAMP BY at FROM MEMORY;
            CREATE STREAM asks (at TIMESTAMP, item INT) TIMESTAMP BY at FROM MEMORY;
            CREATE QUERY quick WITH (force, latency '500 ms' MUST) AS
              SELECT item, count(*) AS n FROM bids [SESSION 1 SECONDS] GROUP BY item INTO MEMORY;
            CREATE QUERY lazy WITH (force, latency '5 s' DONT CARE) AS
              SELECT item, count(*) AS n FROM asks [SESSION 2 SECONDS] GROUP BY item INTO MEMORY;
        """)
        read = []
        for batch in range(30):
            session.push("bids", rows(10 * batch, 10))
            session.push("asks", rows(1000 * batch, 1000) if batch < 10 else [])
            clock.advance(100_000)
            deployment.step()
            guide(session.directory, 100 * 700, read_progress(session.directory).limits)
            read.append(session.statistics().streams["asks"].tuples if "asks" in session.statistics().streams else 0)
        assert any(before == after < 10_000 for before, after in pairwise(read[5:]))  # when it resumes depends on speed
        decided = [each.action for each in deployment.control.decisions.all()]
        assert "pause reading of asks" in decided
        session.drain()
        assert sum(row["n"] for row in session.results("lazy")) == 10_000
        assert sum(row["n"] for row in session.results("quick")) == 300
