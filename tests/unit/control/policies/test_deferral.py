"""Stateless work that may wait is deferred: it runs in the buckets, under their budget, and is kept there."""

from __future__ import annotations

import datetime as dt
from typing import Any

import polars as pl
import pytest

from headrace.commands.command import UseDeferrals
from headrace.commands.running import Running
from headrace.commands.running_graph import placement_of, whole_of
from headrace.control.policies.deferral import MIN_DEFERRED_WORK, deferrals
from headrace.driver.progress import guide
from headrace.graph.deferral import deferral_of
from headrace.graph.graph import VertexId
from headrace.hosts.local import LocalDeployment
from headrace.model.expressions.expression import Column
from headrace.model.types import Type
from headrace.session import Session
from headrace.testing.clock import VirtualClock

START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
SCRIPT = """
    CREATE STREAM bids (at TIMESTAMP, item INT, price INT) TIMESTAMP BY at FROM MEMORY;
    CREATE TABLE shops FROM FILES (path '{folder}/shops.parquet', format 'parquet');
    CREATE QUERY quick WITH (force, latency '500 ms' MUST) AS SELECT item, count(*) AS n FROM bids [RANGE 1 SECOND]
      GROUP BY item INTO MEMORY;
"""
LAZY = "CREATE QUERY lazy WITH (force, latency '1 minute' DONT CARE) AS {select} INTO MEMORY"
NEAR = (
    "SELECT bids.item AS i, count(*) AS n FROM bids [RANGE 1 SECOND] JOIN shops ON bids.item = shops.item "
    "WHERE price > cost GROUP BY bids.item"
)


@pytest.fixture
def folder(tmp_path):
    pl.DataFrame(
        {"item": pl.Series([0, 1, 2, 2], dtype=pl.Int32), "cost": pl.Series([1, 1, 1, 50], dtype=pl.Int32)}
    ).write_parquet(tmp_path / "shops.parquet")
    return tmp_path


def running_of(folder, select: str) -> Running:
    with Session(host="local") as session:
        session.execute(SCRIPT.format(folder=folder) + LAZY.format(select=select))
        return session._running()


def named(running: Running, kind: str) -> VertexId:
    (found,) = (vertex.id for vertex in whole_of(running) if vertex.id.startswith(kind))
    return found


def test_tuples_go_where_those_behind_look_for_them(folder):
    running = running_of(folder, NEAR)
    joining = named(running, "tablejoin")
    found = deferral_of(whole_of(running), joining)
    assert found is not None
    assert found.keys == (Column("item", Type.INT),)
    deferred = running.after(UseDeferrals((found,)))
    before, after = placement_of(running), placement_of(deferred)
    assert joining in before.ingest.by_id()
    assert joining not in after.ingest.by_id()
    assert joining in after.keyed.by_id()
    assert before.exchanges() == after.exchanges() == ()


@pytest.mark.parametrize(
    "select",
    [
        "SELECT count(*) AS n FROM bids [RANGE 1 SECOND] JOIN shops ON bids.item = shops.item",  # all in one bucket
        "SELECT cost, count(*) AS n FROM bids [RANGE 1 SECOND] JOIN shops ON bids.item = shops.item "
        "GROUP BY cost",  # by what is not there yet
    ],
)
def test_what_could_not_go_on_in_its_bucket_is_not_put_off(folder, select):
    running = running_of(folder, select)
    assert deferral_of(whole_of(running), named(running, "tablejoin")) is None


def test_results_of_their_own_may_be_made_anywhere(folder):
    running = running_of(folder, "SELECT price FROM bids JOIN shops ON bids.item = shops.item")
    found = deferral_of(whole_of(running), named(running, "tablejoin"))
    assert found is not None
    assert found.keys is None


def test_only_what_is_dear_and_for_nobody_who_must_be_quick(folder):
    running = running_of(folder, NEAR)
    joining = named(running, "tablejoin")
    work = dict.fromkeys(placement_of(running).ingest.by_id(), 2 * MIN_DEFERRED_WORK)
    (found,) = deferrals(
        running, work, frozenset({"lazy"})
    )  # what the quick query counts is dear as well, and what is behind goes along
    assert found.vertex == joining
    assert (
        deferrals(running, work | {joining: MIN_DEFERRED_WORK / 2, named_partial(running): 0.0}, frozenset({"lazy"}))
        == ()
    )
    deferred = running.after(UseDeferrals((found,)))
    assert deferrals(deferred, {}, frozenset({"lazy"})) == (found,)  # it stays, whatever it costs now
    assert deferrals(deferred, work, frozenset()) == ()
    (again,) = [query for query in running.queries if query.query == "lazy"]
    assert deferred.after(again).deferrals == ()


def named_partial(running: Running) -> VertexId:
    (lazy,) = [query for query in running.queries if query.query == "lazy"]
    return next(vertex.id for vertex in lazy.graph if vertex.id.startswith("partial"))


def rows(first: int, count: int) -> list[dict[str, Any]]:
    return [
        {"at": START + dt.timedelta(milliseconds=10 * number), "item": number % 4, "price": number % 100}
        for number in range(first, first + count)
    ]


def expected(count: int) -> int:
    """Pairs of which the price is above the cost."""
    costs = {0: (1,), 1: (1,), 2: (1, 50), 3: ()}
    return sum(number % 100 > cost for number in range(count) for cost in costs[number % 4])


@pytest.mark.parametrize(
    "ends", ["STOP QUERY lazy", "START QUERY lazy", "ALTER QUERY lazy SET (latency '1 s' MUST)", ""]
)
def test_what_is_put_off_is_done_in_the_end_whatever_happens_to_its_query(folder, ends):
    with Session(host="local", buckets=2) as session:
        deployment = session.deployment
        assert isinstance(deployment, LocalDeployment)
        deployment.clock = deployment.delivery.clock = clock = VirtualClock()
        session.execute(SCRIPT.format(folder=folder) + LAZY.format(select=NEAR))
        running = session._running()
        found = deferral_of(whole_of(running), named(running, "tablejoin"))
        assert found is not None
        for batch in range(10):
            if batch == 2:
                deployment.send(UseDeferrals((found,)))
            deployment.forgetful = batch > 5
            guide(session.directory, 1_000, {})  # nanoseconds: for some tuples of a hundred on any machine
            session.push("bids", rows(100 * batch, 100))
            clock.advance(100_000)
            assert deployment.step()
        waiting = session.statistics().vertices[found.vertex].queued
        assert waiting > 100
        if ends:
            session.execute(ends)
        session.drain()
        assert sum(row["n"] for row in session.results("lazy")) == expected(1000)
        assert sum(row["n"] for row in session.results("quick")) == 1000


def test_explain_analyze_shows_a_deferred_operator_where_it_runs(folder):
    with Session(host="local") as session:
        session.execute(SCRIPT.format(folder=folder) + LAZY.format(select=NEAR))
        deployment = session.deployment
        assert isinstance(deployment, LocalDeployment)
        session.push("bids", [{"at": START, "item": 1, "price": 5}])
        deployment.step()
        running = session._running()
        joining = named(running, "tablejoin")

        def half() -> str:
            (message,) = session.execute("EXPLAIN ANALYZE lazy")
            ingest, _, buckets = message.text.partition("buckets (keyed, with state)")
            (line,) = [line for line in message.text.splitlines() if line.startswith("  join bids x table")]
            assert (line in ingest) != (line in buckets)
            assert line.endswith(", deferred]") == (line in buckets)
            return "ingest" if line in ingest else "buckets"

        assert half() == "ingest"
        deferral = deferral_of(whole_of(running), joining)
        assert deferral is not None
        deployment.send(UseDeferrals((deferral,)))
        deployment.step()
        assert half() == "buckets"
