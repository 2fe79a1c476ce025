"""ALTER SYSTEM SET budget: what does not fit waits, whatever else changes, and everything comes in the end."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from headrace.commands.command import Cost, UseCosts
from headrace.control import scheduling
from headrace.control.policies import budget as budget_policy
from headrace.driver.progress import read_progress
from headrace.engine.statistics import QueueStatistics
from headrace.hosts.local import LocalDeployment
from headrace.session import Listing, Session
from headrace.testing.clock import VirtualClock

START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
SCRIPT = """
    CREATE STREAM bids (at TIMESTAMP, item INT) TIMESTAMP BY at FROM MEMORY;
    CREATE QUERY counts AS SELECT item, count(*) AS n FROM bids [SESSION 1 SECONDS] GROUP BY item INTO MEMORY;
"""
#: Nanoseconds that a tuple of a session window is taken to cost.
SERVICE = 700
#: The tuples that a bucket takes for a budget of one millisecond.
FITTING = 1_000_000 // SERVICE


@pytest.fixture(autouse=True)
def _assumed_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tuple costs what is assumed of its operator, not what is measured."""
    monkeypatch.setattr(scheduling, "send_costs", lambda memory, seen: (memory, []))


def local(directory: Path | None = None, script: str = SCRIPT) -> tuple[Session, LocalDeployment]:
    session = Session(directory, host="local")
    assert isinstance(session.deployment, LocalDeployment)
    session.deployment.clock = VirtualClock()
    if script:
        session.execute(script)
    return session, session.deployment


def rows(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [
        {"at": START + dt.timedelta(milliseconds=number), "item": number % 3} for number in range(first, first + count)
    ]


def unread(session: Session) -> int:
    return read_progress(session.directory).unread


def settings(session: Session) -> dict[str, tuple[str, str]]:
    (listing,) = session.execute("SHOW SETTINGS")
    assert isinstance(listing, Listing)
    return {setting: (value, chosen_by) for setting, query, value, chosen_by in listing.rows if query == "all"}


def counted(session: Session) -> int:
    return sum(row["n"] for row in session.results("counts"))


def test_a_bucket_works_no_longer_than_its_budget_and_goes_on_in_the_next_micro_batch() -> None:
    session, deployment = local()
    with session:
        session.execute("ALTER SYSTEM SET budget = '1 ms'")
        session.push("bids", rows(3 * FITTING))
        waiting = []
        while deployment.step():
            waiting.append(unread(session))
        assert waiting[:3] == pytest.approx([2 * FITTING, FITTING, 0], abs=10)
        session.drain()
        assert counted(session) == 3 * FITTING


def test_the_last_budget_counts_and_is_shown(tmp_path: Path) -> None:
    session, _ = local(tmp_path)
    with session:
        assert settings(session)["budget"] == ("auto", "default")
        session.execute("ALTER SYSTEM SET budget = '1 ms'")
        session.execute("ALTER SYSTEM SET budget = '20 ms'")
        assert settings(session)["budget"] == ("20 ms", "ALTER")
        (described,) = session.execute("DESCRIBE counts")
        assert isinstance(described, Listing)
        assert ("BUDGET", "20 ms") in described.rows
    with Session(tmp_path, host="local") as again:
        assert settings(again)["budget"] == ("20 ms", "ALTER")


def test_a_budget_can_be_set_before_anything_runs() -> None:
    session, deployment = local(script="ALTER SYSTEM SET budget = '1 ms'")
    with session:
        session.execute(SCRIPT)
        session.push("bids", rows(2 * FITTING))
        deployment.step()
        assert unread(session) == pytest.approx(FITTING, abs=10)


def test_what_waits_is_processed_at_once_when_the_budget_is_off() -> None:
    session, deployment = local()
    with session:
        session.execute("ALTER SYSTEM SET budget = '1 ms'")
        session.push("bids", rows(5 * FITTING))
        deployment.step()
        assert unread(session) > 3 * FITTING
        session.execute("ALTER SYSTEM SET budget = 'off'")
        assert deployment.step()
        assert unread(session) == 0
        assert session.statistics().queues.tuples == 0


def test_the_least_budget_makes_progress_though_a_tuple_costs_more() -> None:
    session, deployment = local()
    with session:
        session.execute("ALTER SYSTEM SET budget = '1 ms'")
        costs = {vertex: Cost(50e6, 1.0, 8.0, 8.0) for vertex in session._running().own("counts")}
        deployment.send(UseCosts(costs))
        session.push("bids", rows(10))
        for waiting in range(9, -1, -1):
            assert deployment.step()
            assert unread(session) == max(waiting, 1)  # the bound behind the last tuple comes with the next one


def test_a_huge_budget_is_no_limit() -> None:
    session, deployment = local()
    with session:
        session.execute("ALTER SYSTEM SET budget = '1 day'")
        session.push("bids", rows(20_000))
        deployment.step()
        assert unread(session) == 0


@pytest.mark.parametrize("scheduler", ["none", "chain", "fifo"])
def test_a_drain_ends_and_delivers_all_that_waited(scheduler: str) -> None:
    session, deployment = local()
    with session:
        session.execute(f"ALTER SYSTEM SET budget = '1 ms'; ALTER SYSTEM SET scheduler = '{scheduler}'")
        session.push("bids", rows(10 * FITTING))
        deployment.step()
        assert unread(session)
        session.drain(60)
        assert counted(session) == 10 * FITTING


def test_what_waits_survives_a_restart_and_so_does_the_budget(tmp_path: Path) -> None:
    session, deployment = local(tmp_path)
    with session:
        session.execute("ALTER SYSTEM SET scheduler = 'memory-optimal'; ALTER SYSTEM SET budget = '1 ms'")
        session.push("bids", rows(4 * FITTING))
        deployment.step()
        before = unread(session)
    session, deployment = local(tmp_path, "")
    with session:
        session.start()
        deployment.step()
        assert unread(session) == pytest.approx(before - FITTING, abs=10)
        session.drain(60)
        assert counted(session) == 4 * FITTING


@pytest.mark.parametrize("change", ["budget = 'off'", "budget = 'auto'", "scheduler = 'none'"])
def test_a_stream_that_was_left_unread_is_read_again_after_a_restart_without_a_budget(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget_policy, "MAX_WAITING", 1000)
    session, deployment = local(tmp_path)
    with session:
        session.execute("ALTER SYSTEM SET budget = '1 ms'")
        for batch in range(3):
            session.push("bids", rows(2 * FITTING, 2 * FITTING * batch))
            deployment.step()
        assert read_progress(session.directory).limits == {"bids": 0}
    session, deployment = local(tmp_path, "")
    with session:
        session.execute(f"ALTER SYSTEM SET {change}")
        steps = 0
        while session.statistics().queues.tuples or steps < 3:
            deployment.step()
            steps += 1
        assert read_progress(session.directory).limits == {}
        session.drain()
        assert counted(session) == 6 * FITTING


def test_a_scheduler_brings_a_budget_with_it_and_takes_it_away() -> None:
    session, deployment = local()
    with session:
        for number, scheduler in enumerate(("path-capacity", "none")):
            session.execute(f"ALTER SYSTEM SET scheduler = '{scheduler}'")
            for batch in range(3):
                session.push("bids", rows(100, 1000 * number + 100 * batch))
                deployment.step()
            assert (read_progress(session.directory).budget is not None) == (scheduler != "none")
        decided = [(made.action.split(" to ")[0], made.reason) for made in deployment.control.decisions.all()]
        assert decided == [
            ("limit the work of a bucket", "a scheduler was chosen"),
            ("lift the work limit of buckets", "no query has priority"),
        ]


def test_a_budget_alone_leaves_the_order_to_the_strategy() -> None:
    session, deployment = local()
    with session:
        session.execute("ALTER SYSTEM SET budget = '1 ms'")
        session.push("bids", rows(3 * FITTING))
        while deployment.step():
            pass
        assert settings(session)["scheduler"] == ("none", "default")
        assert deployment.control.decisions.all() == []


def most_queued(scheduler: str) -> QueueStatistics:
    """Return what waits at most while a micro-batch of fifty pages is processed."""
    with Session(host="local", page=100) as session:
        assert isinstance(session.deployment, LocalDeployment)
        session.deployment.clock = VirtualClock()
        session.execute(SCRIPT)
        session.execute(f"ALTER SYSTEM SET scheduler = '{scheduler}'; ALTER SYSTEM SET budget = 'off'")
        session.push("bids", rows(5000))
        session.deployment.step()
        return session.statistics().queues


@pytest.mark.parametrize("scheduler", ["chain", "memory-optimal", "round-robin", "fifo"])
def test_without_a_budget_no_scheduler_lets_more_wait_than_none_does(scheduler: str) -> None:
    assert 0 < most_queued(scheduler).peak_tuples <= most_queued("none").peak_tuples <= 100


def test_sizes_are_measured() -> None:
    sizes = {}
    for name, text in (("short", "x"), ("long", "x" * 500)):
        session, deployment = local(
            script="""
            CREATE STREAM bids (at TIMESTAMP, item STRING) TIMESTAMP BY at FROM MEMORY;
            CREATE QUERY counts AS SELECT item, count(*) AS n FROM bids [SESSION 1 SECONDS] GROUP BY item INTO MEMORY;
            ALTER SYSTEM SET budget = '1 ms'"""
        )
        with session:
            session.push("bids", [{"at": row["at"], "item": text} for row in rows(10_000)])
            deployment.step()
            queues = session.statistics().queues
            sizes[name] = queues.bytes / queues.tuples
            assert queues.peak_tuples == 10_000
            assert queues.peak_bytes == pytest.approx(10_000 * sizes[name], rel=0.01)
            (counts,) = (count for count in session.statistics().vertices.values() if count.queued)
            assert counts.queued_bytes == queues.bytes
            assert counts.bytes_in / counts.tuples_in == pytest.approx(sizes[name], rel=0.01)
    assert sizes["long"] - sizes["short"] == pytest.approx(499)
