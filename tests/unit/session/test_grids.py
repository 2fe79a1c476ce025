"""Joins of streams with different keys: when they run in a grid, and what becomes of them when things change."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace
from tests.unit.session.test_plans import START, explained, listed

from headrace.analysis.joins.join_facts import Tally, facts_of
from headrace.control.planning import COSTS, shape_of
from headrace.errors import NameFault, NotSupported, QueryError
from headrace.language.parser import parse
from headrace.language.syntax.statements import Select
from headrace.operators.specs import MultiJoin
from headrace.optimizer.joins.cost import Model
from headrace.optimizer.joins.join_graph import Estimates
from headrace.session import Listing, Message, Session
from headrace.session.compile import graph_of, plan_select
from headrace.session.grids import GridChoice
from headrace.testing.watching import local_host

STREAMS = "".join(
    f"CREATE STREAM {name} (at TIMESTAMP, x INT, y INT, v INT) TIMESTAMP BY at FROM MEMORY;" for name in "abc"
)
SELECT = "SELECT a.v AS a, b.v AS b, c.v AS c"
JOIN = (
    "FROM a [RANGE 20 SECONDS] AS a JOIN b [RANGE 20 SECONDS] AS b ON a.x = b.x "
    "JOIN c [RANGE 20 SECONDS] AS c ON b.y = c.y"
)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session(tmp_path / "run", host="local", buckets=4) as opened:
        opened.execute(f"{STREAMS} ALTER SYSTEM SET optimizer = 'off'; ALTER SYSTEM SET grid = 'on'")
        yield opened


def feed(session: Session, start: int, count: int = 10, apart: float = 1.0) -> None:
    for port, name in enumerate("abc"):
        rows = [
            {"at": START + datetime.timedelta(seconds=i * apart), "x": i % 5, "y": (i + port) % 3, "v": 100 * port + i}
            for i in range(start, start + count)
        ]
        session.push(name, rows)
    local_host(session).step()


def expected(until: int, start: int = 0) -> Counter[tuple[int, ...]]:
    times = range(start, until)
    return Counter(
        (i, 100 + j, 200 + k)
        for i in times
        for j in times
        for k in times
        if i % 5 == j % 5 and (j + 1) % 3 == (k + 2) % 3 and max(i, j, k) - min(i, j, k) <= 20
    )


def results(session: Session, query: str = "q") -> Counter[tuple[int, ...]]:
    return Counter(tuple(row.values()) for row in session.results(query))


def is_grid(session: Session, query: str = "q") -> bool:
    running = local_host(session).intake.deployments.newest()
    graph = next(each.graph for each in running.queries if each.query == query)
    return any(isinstance(vertex.spec, MultiJoin) and vertex.spec.grid for vertex in graph)


def test_explain_shows_the_grid_and_without_it_the_exchange(session: Session) -> None:
    shown = explained(session, f"{SELECT} {JOIN}")
    assert "receive in all cells of x <- scan a" in shown
    assert "receive in the cell of x, y <- scan b" in shown
    assert "exchange" not in shown
    assert shown.endswith("in a grid of 2 x 2 cells on 4 buckets; each tuple of a to 2 of them, of c to 2 of them")
    session.execute("ALTER SYSTEM SET grid = 'off'")
    shown = explained(session, f"{SELECT} {JOIN}")
    assert "read exchange of" in shown
    assert "so joined rows are exchanged between buckets" in shown
    (settings,) = session.execute("SHOW SETTINGS")
    assert isinstance(settings, Listing)
    assert ("grid", "all", "off", "ALTER") in settings.rows


def test_inputs_are_joined_in_an_order_without_cross_products(session: Session) -> None:
    text = f"{SELECT} FROM a [NOW] AS a, c [NOW] AS c, b [NOW] AS b WHERE a.x = b.x AND b.y = c.y"
    assert "join begins as ((a b) c)" in explained(session, text)


def test_a_copied_tuple_counts_once(session: Session) -> None:
    session.execute(f"CREATE QUERY q AS {SELECT} {JOIN} INTO MEMORY")
    feed(session, 0)
    assert results(session) == expected(10)
    (row,) = listed(session, "PLANS")
    assert (row["tuples in"], row["rows"]) == (30, 50)
    join = next(each for name, each in session.statistics().vertices.items() if each.tuples_in == 30 and each.held)
    assert join.tuples_out == expected(10).total()
    assert "[in 30, out" in explained(session, "ANALYZE q")


def test_the_plan_of_a_grid_changes_and_plans_are_priced_with_copies(session: Session) -> None:
    session.execute(f"CREATE QUERY q AS {SELECT} {JOIN} INTO MEMORY")
    feed(session, 0)
    session.execute("ALTER QUERY q SET plan = '(a (b c))'")
    feed(session, 10)
    session.execute("ALTER QUERY q MIGRATE TO 'mjoin' USING STEPWISE")
    feed(session, 20)
    assert results(session) == expected(30)
    (grid,) = session.execute(f"EXPLAIN PLANS JSON {SELECT} {JOIN}")
    session.execute("ALTER SYSTEM SET buckets = 1")
    (alone,) = session.execute(f"EXPLAIN PLANS JSON {SELECT} {JOIN}")
    assert isinstance(grid, Message)
    assert isinstance(alone, Message)
    assert grid.text != alone.text  # one bucket holds each tuple once


def test_parcels_of_a_grid_are_refused_and_it_stays_in_its_buckets(session: Session) -> None:
    session.execute(f"CREATE QUERY q AS {SELECT} {JOIN} INTO MEMORY")
    feed(session, 0)
    with pytest.raises(NotSupported, match="tuples are copied to several buckets"):
        session.execute("MOVE PARCELS 0 OF q TO BUCKET 1")
    (said,) = session.execute("ALTER SYSTEM SET buckets = 6")
    assert isinstance(said, Message)
    assert "q stays where it is, since it cannot move" in said.text
    feed(session, 10)
    session.execute("ALTER SYSTEM SET buckets = 2")
    feed(session, 20)
    assert results(session) == expected(30)
    session.execute(f"DROP QUERY q; CREATE QUERY q AS {SELECT} {JOIN} INTO MEMORY")
    assert "in a grid of 2 x 1 cells on 2 buckets" in explained(session, "q")
    feed(session, 30)
    assert results(session) == expected(30) + expected(40, 30)


def test_a_replaced_query_and_its_readers_keep_the_grid_with_its_state(session: Session) -> None:
    session.execute(f"CREATE QUERY q AS {SELECT} {JOIN} INTO MEMORY")
    feed(session, 0)
    session.execute("ALTER SYSTEM SET grid = 'off'")
    session.execute(f"CREATE OR REPLACE QUERY q AS SELECT a.v AS a, b.v AS b, c.v AS c, a.v AS d {JOIN} INTO MEMORY")
    session.execute("CREATE QUERY reader AS SELECT a, b, c FROM q WHERE d >= 0 INTO MEMORY")
    session.execute(f"CREATE QUERY other AS {SELECT} {JOIN} INTO MEMORY")
    assert is_grid(session)
    assert is_grid(session, "reader")
    assert not is_grid(session, "other")
    feed(session, 10)
    local_host(session).step()  # what was exchanged
    assert results(session, "reader") == expected(20) - expected(10)
    assert results(session, "other") == expected(20, 10)
    session.execute("ALTER SYSTEM SET grid = 'on'")
    session.execute("CREATE QUERY reads_other AS SELECT a, b, c FROM other INTO MEMORY")
    assert not is_grid(session, "reads_other")  # it shares the state of the joins that run


def test_a_tuple_is_shed_with_all_its_copies_or_not_at_all(session: Session) -> None:
    session.execute(f"CREATE QUERY q WITH (error 0.9) AS {SELECT} {JOIN} INTO MEMORY; ALTER QUERY q SET shedding = 0.4")
    session.execute(f"CREATE QUERY same WITH (error 0.9) AS SELECT a.v + 1 AS a {JOIN} INTO MEMORY")  # reads the same
    feed(session, 0, 20)
    found = results(session)
    left = [{row[port] for row in found} for port in range(3)]
    assert 0 < len(found) < len(expected(20)) / 2
    meeting = {row for row in expected(20) if all(value in left[port] for port, value in enumerate(row))}
    assert set(found) == meeting  # each tuple that is left has met all others that are
    join = next(each for each in session.statistics().vertices.values() if each.tuples_out == len(found) and each.held)
    assert sum(map(len, left)) <= join.tuples_in < 60


def test_assumed_results_are_left_out_in_all_cells(session: Session) -> None:
    session.execute(f"CREATE QUERY q AS {SELECT} {JOIN} INTO MEMORY")
    feed(session, 0)
    session.execute("ASSUME q WHERE a < 5 FOR 1 HOUR; ASSUME q WHERE c > 215 FOR 1 HOUR")
    feed(session, 10)
    late = {row: count for row, count in (expected(20) - expected(10)).items() if row[0] >= 5 and row[2] <= 215}
    assert results(session) == expected(10) + Counter(late)


def test_a_grid_stops_and_starts(session: Session) -> None:
    session.execute(f"CREATE QUERY q AS {SELECT} {JOIN} INTO MEMORY")
    feed(session, 0)
    session.execute("ALTER SYSTEM SET buckets = 3; STOP QUERY q")
    local_host(session).step()
    session.execute("START QUERY q")
    feed(session, 10)
    assert results(session) == expected(10) + expected(20, 10)


def test_a_grid_goes_on_after_a_restart_with_more_buckets(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    with Session(folder, host="local", buckets=2) as session:
        session.execute(f"{STREAMS} CREATE QUERY q AS {SELECT} {JOIN} INTO FILES (path '{tmp_path / 'out'}')")
        feed(session, 0)
    with Session(folder, host="local", buckets=6) as session:
        session.start()
        assert "in a grid of 2 x 1 cells on 2 buckets" in explained(session, "q")
        feed(session, 10)
        session.drain()
    assert Counter(pl.read_parquet(f"{tmp_path / 'out'}/*.parquet").rows()) == expected(20)


def test_wrong_settings_are_refused(session: Session) -> None:
    with pytest.raises(NameFault, match="grid cannot be 'maybe'"):
        session.execute("ALTER SYSTEM SET grid = 'maybe'")
    session.execute(f"CREATE QUERY q AS {SELECT} {JOIN} INTO MEMORY")
    with pytest.raises(QueryError, match="grid applies to all queries alike"):
        session.execute("ALTER QUERY q SET grid = 'off'")


@pytest.mark.parametrize(
    ("buckets", "rates", "is_chosen"),
    [
        (1, {}, True),
        (2, {}, True),
        (4, {}, False),  # nothing is known: two copies for each row that would be exchanged
        (4, {"a": 10.0, "b": 500.0, "c": 500.0}, True),
        (12, {"a": 1.0, "b": 500.0, "c": 500.0}, True),  # copies of a are few
        (12, {"a": 500.0, "b": 500.0, "c": 500.0}, False),
    ],
)
def test_auto_compares_copies_with_what_would_be_exchanged(
    session: Session, buckets: int, rates: dict[str, float], is_chosen: bool
) -> None:
    (statement,) = parse(f"{SELECT} {JOIN}")
    assert isinstance(statement, Select)
    plan = plan_select(statement.select, statement.text, session.catalog)
    graph = graph_of(plan, "q", session.catalog, choose_grid=GridChoice("auto", buckets, lambda: rates, []))
    assert any(isinstance(vertex.spec, MultiJoin) for vertex in graph) == is_chosen


def test_what_is_learned_of_a_join_is_the_same_in_a_grid_and_in_one_bucket(tmp_path: Path) -> None:
    facts = {}
    for buckets in (1, 4, 6):
        with Session(tmp_path / str(buckets), host="local", buckets=buckets) as session:
            session.execute(f"{STREAMS} ALTER SYSTEM SET grid = 'on'; CREATE QUERY q AS {SELECT} {JOIN} INTO MEMORY")
            feed(session, 0, 60, apart=0.25)  # nothing expires
            deployment = local_host(session)
            ((name, seen),) = deployment.control.migrations.boxes.items()
            spec = deployment.intake.deployments.newest().queries[0].graph.by_id()[name].spec
            assert isinstance(spec, MultiJoin)
            shape = shape_of(spec, buckets)
            # pages of a micro-batch come one after the other, so that steps find less in one direction
            facts[buckets] = facts_of(shape, replace(Tally().after(seen, 1.0), steps={}))
            model = Model(facts[buckets].graph, COSTS)
            copies = [model.estimates.copies(1 << port) for port in range(3)]
            assert [port.taken for port in seen.ports] == [60 * count for count in copies]
            stored = sum(model.estimates.held(1 << port) * copies[port] for port in range(3))
            assert stored == sum(port.held for port in seen.ports)
    alone = facts.pop(1)
    for graph in (found.graph for found in facts.values()):
        assert graph.streams == tuple(
            replace(stream, width=pytest.approx(stream.width, rel=0.1)) for stream in alone.graph.streams
        )
        for ports in range(1, 8):
            mine, theirs = Estimates(graph), Estimates(alone.graph)
            assert mine.rate(ports) == pytest.approx(theirs.rate(ports), rel=0.05)
