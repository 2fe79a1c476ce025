"""Peak queue, time in queue, idle share and burstiness of a deployment."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from headrace.control import scheduling
from headrace.driver.waiting_times import Burstiness
from headrace.engine.statistics import QueryStatistics
from headrace.hosts.local import LocalDeployment
from headrace.session import Listing, Session
from headrace.testing.clock import VirtualClock

START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
SECOND = 1_000_000
#: Nanoseconds that a tuple of a session window is taken to cost, and how many fit into a budget of one millisecond.
SERVICE = 700
FITTING = 1_000_000 // SERVICE


def deployed(script: str) -> tuple[Session, LocalDeployment, VirtualClock]:
    session = Session(host="local", buckets=1)
    assert isinstance(session.deployment, LocalDeployment)
    clock = VirtualClock(0)
    session.deployment.clock = session.deployment.delivery.clock = clock
    session.execute(script)
    return session, session.deployment, clock


def rows(*seconds: float) -> list[dict[str, Any]]:
    return [{"at": START + dt.timedelta(seconds=second), "k": int(second)} for second in seconds]


def shown(session: Session, operator: str) -> dict[str, Any]:
    (listing,) = session.execute("SHOW STATISTICS")
    assert isinstance(listing, Listing)
    (row,) = [row for row in listing.rows if operator in row[0]]
    return dict(zip(listing.columns, row, strict=True))


def work(deployment: LocalDeployment) -> None:
    while deployment.step():
        pass


def test_an_operator_is_idle_while_it_waits_for_the_other_stream() -> None:
    session, deployment, clock = deployed("""
        CREATE STREAM a (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY;
        CREATE STREAM b (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY;
        ALTER SYSTEM SET ets = 'none';
        CREATE QUERY both WITH (ordered merge) AS SELECT k FROM a UNION SELECT k FROM b INTO MEMORY;
    """)
    with session:
        work(deployment)
        session.push("a", rows(1, 2, 3))
        work(deployment)  # b is silent: what a has brought waits
        clock.advance(30 * SECOND)
        session.push("b", rows(4))
        work(deployment)  # now they go on
        assert shown(session, "union")["idle share"] == 1.0
        session.push("a", rows(5))
        work(deployment)
        clock.advance(90 * SECOND)
        session.push("a", rows(6))
        work(deployment)
        assert shown(session, "union")["idle share"] == 0.25, "30 of 120 seconds"
        assert shown(session, "union")["ms in queue"] == pytest.approx(2 * 30_000 / shown(session, "union")["in"])
        assert shown(session, "union")["peak"] == 2, "the newest of a waits to be sorted"
        assert deployment.delivery.statistics.peak_tuples == 3


def test_tuples_that_a_budget_leaves_wait_in_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "send_costs", lambda memory, seen: (memory, []))
    session, deployment, clock = deployed("""
        CREATE STREAM bids (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY;
        CREATE QUERY n AS SELECT k, count(*) AS n FROM bids [SESSION 1 SECONDS] GROUP BY k INTO MEMORY;
        ALTER SYSTEM SET budget = '1 ms';
    """)
    with session:
        session.push("bids", rows(*(number / 1000 for number in range(2 * FITTING))))
        deployment.step()
        waiting = deployment.delivery.statistics.queues.tuples
        assert waiting == pytest.approx(FITTING, abs=10)
        clock.advance(10 * SECOND)
        work(deployment)
        operator = shown(session, "session")
        # by Little's law: half of the tuples waited ten seconds
        assert operator["ms in queue"] == pytest.approx(waiting * 10_000 / (2 * FITTING), rel=0.01)
        assert (operator["queued"], operator["peak"]) == (0, 2 * FITTING)


def test_burstiness_is_the_spread_of_results_per_second() -> None:
    burstiness, queries = Burstiness(), {"even": QueryStatistics(), "bursts": QueryStatistics()}
    found: dict[str, QueryStatistics] = {}
    for second in range(40):
        results = {"even": 5, "bursts": 40 if second % 10 == 0 else 0}
        found = burstiness.add(queries, results, second * SECOND)
    assert found["even"].burstiness == 0.0
    bins = [40 if second % 10 == 0 else 0 for second in range(1, 39)]
    assert found["bursts"].burstiness == pytest.approx((max(bins) - min(bins)) / (sum(bins) / len(bins)))
    for second in range(40, 120):
        found = burstiness.add(queries, {"even": 5, "bursts": 5}, second * SECOND)
    assert found["bursts"].burstiness == 0.0, "more than a minute ago"
    assert burstiness.add({"new": QueryStatistics()}, {}, 121 * SECOND)["new"].burstiness is None
