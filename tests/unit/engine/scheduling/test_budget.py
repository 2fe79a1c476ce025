"""A work budget on the local host: the rest waits, is visible, continues in the scheduler's order, and is saved."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from headrace.commands.command import Cost, UseCosts
from headrace.control import scheduling
from headrace.driver.progress import guide, read_progress
from headrace.engine.scheduling.schedulers import SCHEDULERS
from headrace.hosts.local import LocalDeployment
from headrace.model.page import Page
from headrace.session import Listing, Message, Session
from headrace.testing.clock import VirtualClock

START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
STREAM = "CREATE STREAM bids (at TIMESTAMP, item INT) TIMESTAMP BY at FROM MEMORY;"
COUNTS = "SELECT item, count(*) AS n, window_end FROM bids [RANGE 1 SECONDS] GROUP BY item INTO MEMORY"
#: Nanoseconds that a tuple of a session window is taken to cost.
SERVICE = 700


def rows(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [
        {"at": START + dt.timedelta(milliseconds=10 * number), "item": number % 3}
        for number in range(first, first + count)
    ]


@pytest.fixture(autouse=True)
def _assumed_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tuple costs what is assumed of its operator, not what is measured."""
    monkeypatch.setattr(scheduling, "send_costs", lambda memory, seen: (memory, []))


def local(**options: Any) -> tuple[Session, LocalDeployment]:
    session = Session(host="local", **options)
    assert isinstance(session.deployment, LocalDeployment)
    session.deployment.clock = VirtualClock()
    session.execute(STREAM)
    return session, session.deployment


SESSIONS = "SELECT item, count(*) AS n FROM bids [SESSION 1 SECONDS] GROUP BY item"


def waiting(session: Session) -> dict[str, int]:
    return {name: seen.queued for name, seen in session.statistics().vertices.items() if seen.queued}


def test_a_micro_batch_does_what_its_budget_is_worth_and_the_next_goes_on() -> None:
    session, deployment = local()
    with session:
        session.execute(f"CREATE QUERY counts AS {SESSIONS} INTO MEMORY")
        guide(session.directory, 100 * SERVICE, {})
        session.push("bids", rows(250))
        seen = []
        for _ in range(3):
            assert deployment.step()
            seen.append((read_progress(session.directory).unread, sum(waiting(session).values())))
        assert [unread for unread, _ in seen] == [150, 50, 0]
        assert [queued for _, queued in seen] == [150, 50, 0]
        assert not deployment.step(), "nothing is left"


@pytest.mark.parametrize(("budget", "taken"), [(10, 400), (600, 400), (1000, 600), (5400, 5000)])
def test_a_page_is_not_cut_so_small_that_executions_cost_more_than_tuples(budget: int, taken: int) -> None:
    session, deployment = local()
    with session:
        session.execute(f"CREATE QUERY counts AS {SESSIONS} INTO MEMORY")
        # an execution costs as much as 400 tuples
        costs = {vertex: Cost(SERVICE, 0.0, 8.0, 8.0) for vertex in session._running().own("counts")}
        aggregate = next(vertex for vertex in costs if vertex.startswith("session"))
        costs[aggregate] = msgspec.structs.replace(costs[aggregate], page_ns=400 * SERVICE)
        deployment.send(UseCosts(costs))
        guide(session.directory, budget * SERVICE, {})
        session.push("bids", rows(5000))
        deployment.step()
        assert session.statistics().vertices[aggregate].tuples_in == taken


def test_what_waits_is_shown_at_its_operator_and_since_when() -> None:
    session, deployment = local()
    with session:
        session.execute(f"CREATE QUERY counts AS {SESSIONS} INTO MEMORY")
        session.execute("ALTER QUERY counts SET scheduler = 'chain'")
        guide(session.directory, 100 * SERVICE, {})
        assert isinstance(deployment.clock, VirtualClock)
        deployment.clock.advance(7_000_000)
        session.push("bids", rows(250))
        deployment.step()
        deployment.clock.advance(3_000_000)
        guide(session.directory, 100 * SERVICE, {})
        deployment.step()
        assert list(waiting(session).values()) == [50]
        (report,) = deployment.delivery.reports
        assert list(report.waiting.values()) == [7_000_000], "when the oldest of what waits arrived"
        (shown,) = session.execute("EXPLAIN ANALYZE counts")
        assert isinstance(shown, Message)
        assert any("count per item" in text and "50 unread" in text for text in shown.text.splitlines())
        (described,) = session.execute("DESCRIBE counts")
        assert isinstance(described, Listing)
        assert ("queued at count per item, sessions with gap 1 s", "50") in described.rows
        assert ("SCHEDULER", "chain") in described.rows


def test_a_page_that_waits_is_not_written_again_though_some_of_it_was_taken() -> None:
    session, deployment = local()
    with session:
        session.execute(f"CREATE QUERY counts AS {SESSIONS} INTO MEMORY")
        guide(session.directory, 100 * SERVICE, {})
        session.push("bids", rows(20_000))
        deployment.step()
        (store,) = deployment.stores.values()
        (page,) = (name for name in store.values if "@page" in name)
        before = store.values[page]
        deployment.step()
        assert store.values[page] is before


def test_a_limit_of_a_stream_is_what_a_micro_batch_reads_of_it() -> None:
    session, deployment = local()
    with session:
        session.execute(f"CREATE QUERY counts AS {SESSIONS} INTO MEMORY")
        for number in range(4):
            session.push("bids", rows(10, 10 * number))
        guide(session.directory, None, {"bids": 10})
        for number in range(1, 5):
            deployment.step()
            assert session.statistics().streams["bids"].tuples == 10 * number


def per_batch(forgetful: bool, scheduler: str) -> list[tuple[int, list[Any]]]:
    session, deployment = local(buckets=2, page=7)
    found: list[tuple[int, list[Any]]] = []
    with session:
        for number in range(3):
            session.execute(
                f"CREATE QUERY q{number} WITH (priority {number + 1}) AS "
                f"{COUNTS.replace('1 SECONDS', f'{number + 1} SECONDS')}"
            )

            def take(batch: int, pages: Sequence[Page], number: int = number) -> None:
                found.append((batch, [number, *(sorted(page.rows.rows()) for page in pages)]))

            deployment.delivery.subscribers[f"q{number}"] = [take]
        session.execute(f"ALTER SYSTEM SET scheduler = '{scheduler}'; ALTER QUERY q1 SET scheduler = 'chain'")
        deployment.forgetful = forgetful
        for number in range(6):
            guide(session.directory, 90_000, {})
            session.push("bids", rows(60, 60 * number))
            deployment.step()
        session.drain(60)
    return found


@pytest.mark.parametrize("scheduler", ["round-robin", "weighted-round-robin", "threshold 1 kB", "push-up", "fifo"])
def test_a_restored_bucket_does_the_same_in_each_micro_batch_as_one_that_was_kept(scheduler: str) -> None:
    assert per_batch(True, scheduler) == per_batch(False, scheduler)


@pytest.mark.parametrize(
    "schedulers",
    [
        "",
        "ALTER SYSTEM SET scheduler = 'fifo'",
        "ALTER QUERY lazy SET scheduler = 'round-robin'; ALTER QUERY urgent SET scheduler = 'edf'",
    ],
)
def test_a_budget_is_for_what_nobody_cares_for_and_holds_up_nothing_that_must_be_quick(schedulers: str) -> None:
    session, deployment = local(page=10)
    with session:
        session.execute(f"""
            CREATE QUERY lazy WITH (latency '1 s' DONT CARE) AS {SESSIONS.replace("1 SECONDS", "2 SECONDS")}
              INTO MEMORY;
            CREATE QUERY urgent WITH (latency '100 ms' MUST) AS {SESSIONS} INTO MEMORY;
            {schedulers}""")
        vertices = {query.query: {vertex.id for vertex in query.graph} for query in session._running().queries}
        guide(session.directory, 3000 * SERVICE, {})
        session.push("bids", rows(5000))
        deployment.step()
        left = {
            name: sum(count for vertex, count in waiting(session).items() if vertex in mine)
            for name, mine in vertices.items()
        }
        assert left == {"lazy": 2000, "urgent": 0}


def test_every_scheduler_can_be_named_in_a_statement_and_is_kept_over_a_restart(tmp_path) -> None:
    for name in ("none", *SCHEDULERS):
        with Session(tmp_path / name, host="local") as session:
            session.execute(f"{STREAM} CREATE QUERY counts AS {COUNTS}; ALTER SYSTEM SET scheduler = '{name}'")
        with Session(tmp_path / name, host="local") as session:
            session.push("bids", rows(30))
            session.drain(30)
            assert sum(row["n"] for row in session.results("counts")) == 30


def test_the_inputs_of_a_join_keep_pace_and_its_pairs_do_not_wait() -> None:
    session, deployment = local()
    with session:
        session.execute("""
            CREATE QUERY pairs AS SELECT a.item, count(*) AS n FROM bids [NOW] AS a
              JOIN bids [NOW] AS b ON a.item = b.item GROUP BY a.item
              INTO MEMORY""")
        guide(session.directory, 100_000, {})  # some tens of tuples
        session.push("bids", rows(1000))
        for _ in range(10):
            deployment.step()
            (join,) = (counts for name, counts in session.statistics().vertices.items() if name.startswith("join-"))
            others = sum(
                counts.queued for name, counts in session.statistics().vertices.items() if not name.startswith("join-")
            )
            assert abs(join.tuples_in - 2 * join.tuples_out) <= 110, "one input was read far ahead"
            assert others <= 10
        assert 0 < join.tuples_in < 2000
        session.drain()
        assert sum(row["n"] for row in session.results("pairs")) == 1000
