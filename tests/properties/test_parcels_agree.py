"""Parcels that change bucket at any moment: no result is lost, repeated or wrong."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from headrace.catalog.catalog import Catalog
from headrace.commands.parcel_groups import parcel_groups
from headrace.errors import NotSupported
from headrace.hosts.local import LocalDeployment
from headrace.language.parser import parse
from headrace.language.syntax.statements import Select
from headrace.model.page import Page
from headrace.plan.binding.binder import bind
from headrace.session import Session, Started
from headrace.testing.clock import VirtualClock
from headrace.testing.oracle.oracle import Row, answer, as_multiset, rows_of
from headrace.testing.strategies import queries
from headrace.testing.strategies.queries import STREAMS, TABLE_ROWS, stream_histories, stream_statements
from headrace.testing.streams import page

CATALOG = Catalog()
for definition in STREAMS:
    CATALOG.add(definition)
EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "6"))
#: Windows over tuples in order: what is sorted before them moves, too.
ORDERED = (
    "SELECT item, count(*) AS c, sum(n) AS s, first(n) AS f FROM bids [PARTITION BY item ROWS 3 SLIDE 2] GROUP BY item",
    "SELECT item, count(*) AS c, max(n) AS m FROM bids [PARTITION BY item ROWS 2] GROUP BY item",
    "SELECT item, count(*) AS c, sum(n) AS s, last(n) AS l FROM bids [RANGE 4 SECONDS SLIDE TUPLE] GROUP BY item",
    "SELECT item, count(*) AS c, first(n) AS f FROM bids [UNBOUNDED] GROUP BY item",
    "SELECT item, count(*) AS c, sum(n) AS s FROM bids [PARTITION BY item WHILE n > 1] GROUP BY item",
)
SESSIONS = (
    "SELECT item, count(*) AS c, sum(n) AS s, window_end FROM bids [SESSION 2 SECONDS] GROUP BY item",
    "SELECT item, max(c) AS m, count(*) AS k "
    "FROM (SELECT item, count(*) AS c FROM bids [SESSION 3 SECONDS] GROUP BY item) [RANGE 4 SECONDS] GROUP BY item",
)
#: Joins that keep the last tuples of each key.
ROWS_JOINS = (
    "SELECT b.item, b.n, a.n AS m FROM bids [PARTITION BY item ROWS 3] AS b JOIN asks [PARTITION BY item ROWS 2] AS a "
    "ON b.item = a.item",
    "SELECT b.item, b.n, m.n AS m FROM bids [NOW] AS b JOIN moves [PARTITION BY item ROWS 1] AS m ON b.item = m.item",
)
SHAPES = {
    "rows_joins": st.sampled_from(ROWS_JOINS),
    "ranks": queries.ranks(),
    "tops": queries.tops(),
    "deduplications": queries.deduplications(),
    "overs": queries.overs(),
    "matches": queries.matches(),
    "changelogs": queries.changelogs(),
    "sessions": st.sampled_from(SESSIONS),
    "aggregates": queries.aggregates(),
    "joins": queries.joins(),
    "three_way_joins": queries.three_way_joins(),
    "multi_way_joins": queries.multi_way_joins(),
    "distincts": queries.distincts(),
    "aggregates_of_joins": queries.aggregates_of_joins(),
    "nested": queries.nested(),
    "ordered_windows": st.sampled_from(ORDERED),
}
PLANS = ("((x y) z)", "(x (y z))", "((x z) y)", "mjoin", "left-deep")
MORE = (
    "ALTER SYSTEM SET budget = '1 ms'",
    "ALTER SYSTEM SET budget = 'off'",
    "ALTER SYSTEM SET ets = 'periodic 3 s'",
    "ALTER SYSTEM SET ets = 'on demand'",
    "ALTER QUERY live SET scheduler = 'chain'",
    "ALTER QUERY live SET shedding = 0",
)


def moved(session: Session, chance: random.Random) -> int:
    """Move some parcels of the query, if it can, or change the number of buckets; return how many statements did."""
    if chance.random() < 0.3:
        session.execute(f"ALTER SYSTEM SET buckets = {chance.randint(1, 5)}")
    assert isinstance(session.deployment, LocalDeployment)
    running, first = session.deployment.intake.deployments.newest(), session.deployment.buckets
    groups = [group for group in parcel_groups(running, first) if "live" in group.queries]
    count = min((group.allotment.parcels for group in groups if group.is_keyed or len(groups) == 1), default=1)
    parcels = ", ".join(map(str, sorted(chance.sample(range(count), max(1, count // 3)))))
    if chance.random() < 0.4 and any(group.joins for group in groups):
        session.execute(f"MOVE PARCELS {parcels} OF live TO ALL BUCKETS")
        return 1
    try:
        session.execute(f"MOVE PARCELS {parcels} OF live TO BUCKET {chance.choice(running.in_use(first))}")
    except NotSupported:
        return 0
    return 1


def run_moving(
    text: str, histories: dict[str, Sequence[Row]], buckets: int, seed: int, more: Sequence[str]
) -> tuple[list[Row], int]:
    """Push every tuple at its time; move parcels after most of them, with other statements in between."""
    arrivals = []
    for stream in STREAMS:
        newest = -(2**62)
        for row in histories[stream.name]:
            newest = max(newest, row.ts)
            arrivals.append((newest, stream.name, row))
    arrivals.sort(key=lambda arrival: arrival[:2])
    schemas = {stream.name: stream.schema for stream in STREAMS}
    found: list[Row] = []
    moves, chance = 0, random.Random(seed)

    def take(batch: int, pages: Sequence[Page]) -> None:
        found.extend(row for each in pages for row in rows_of(each.rows.iter_rows(named=True)))

    with Session(host="local", buckets=buckets) as session:
        assert isinstance(session.deployment, LocalDeployment)
        session.deployment.clock = clock = VirtualClock(arrivals[0][0] if arrivals else 0)
        session.deployment.forgetful = bool(seed % 2)
        session.execute(stream_statements())
        (started,) = session.execute(f"CREATE QUERY live AS {text} INTO MEMORY")
        assert isinstance(started, Started)
        session.deployment.delivery.subscribers.setdefault(started.query, []).append(take)
        for number, (time, name, row) in enumerate(arrivals):
            if chance.random() < 0.8:
                moves += moved(session, chance)
            if more:
                session.execute(more[number % len(more)])
            clock.advance(max(0, time - clock.now()))
            session.push(name, page(schemas[name], [row]).visible().to_dicts())
            for _ in range(chance.choice((1, 1, 2))):
                session.deployment.step()
        moves += moved(session, chance)
        session.drain(timeout=30)
        folder = Path(session.deployment.directory) / "moves"
        session.deployment.stop()
        assert not list(folder.glob("*"))
    return found, moves


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_random_moves_change_no_result(shape: str) -> None:
    total = 0

    @settings(
        deadline=None,
        max_examples=EXAMPLES,
        suppress_health_check=[HealthCheck.too_slow],
        phases=[Phase.generate, Phase.shrink],
    )
    @given(
        SHAPES[shape],
        stream_histories(most=8),
        st.integers(2, 4),
        st.integers(0, 10**6),
        st.lists(st.sampled_from(MORE), max_size=3),
    )
    def run(text: str, histories: dict[str, Sequence[Row]], buckets: int, seed: int, more: Sequence[str]) -> None:
        nonlocal total
        note(text)
        (statement,) = parse(text)
        assert isinstance(statement, Select)
        plan = bind(statement.select, statement.text, CATALOG)
        expected = as_multiset(answer(plan, histories, TABLE_ROWS))
        results, moves = run_moving(text, histories, buckets, seed, more)
        found = as_multiset(results)
        total += moves
        assert found == expected, f"missing {dict(expected - found)}, too many {dict(found - expected)}"

    run()
    assert total, "nothing has moved"
