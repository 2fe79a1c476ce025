"""Parcels that change bucket at any moment: no result is lost, repeated or wrong."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from tests.properties.live import Histories, Live, check_agreement, examples, expected_of, live, until

from headrace.commands.parcel_groups import parcel_groups
from headrace.errors import NotSupported
from headrace.model.events.event import Mode
from headrace.testing.oracle.oracle import Row
from headrace.testing.strategies import queries
from headrace.testing.strategies.queries import stream_histories

EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "5"))
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
#: Outer joins whose tuples wait for a partner for a while, or without limit, and what relies on their time.
_PADDED = "SELECT b.item, b.n, a.n AS m FROM bids [RANGE 4 SECONDS] AS b LEFT JOIN asks [RANGE 2 SECONDS] AS a"
OUTER_JOINS = (
    f"SELECT item, count(*) AS c, count(m) AS k FROM ({_PADDED} ON b.item = a.item) [RANGE 3 SECONDS] GROUP BY item",
    f"SELECT item, count(*) AS c FROM ({_PADDED} ON b.item = a.item AND b.n < a.n) [SESSION 2 SECONDS] GROUP BY item",
    f"{_PADDED} ON b.item = a.item RIGHT JOIN moves [RANGE 3 SECONDS] AS m ON b.item = m.item",
    "SELECT item, count(*) AS c FROM (SELECT coalesce(b.item, a.item) AS item FROM bids [RANGE 2 SECONDS] AS b "
    "FULL JOIN asks [NOW] AS a ON b.item = a.item) [RANGE 2 SECONDS] GROUP BY item",
    "SELECT b.item, b.n, m.n AS m FROM bids [RANGE 3 SECONDS] AS b LEFT JOIN moves [PARTITION BY item ROWS 1] AS m "
    "ON b.item = m.item",
    "SELECT b.item, b.n, a.n AS m FROM bids [PARTITION BY item ROWS 2] AS b LEFT JOIN asks [PARTITION BY item ROWS 1] "
    "AS a ON b.item = a.item",
    "SELECT b.item, b.n, a.n AS m FROM bids [UNBOUNDED] AS b FULL JOIN asks [RANGE 2 SECONDS] AS a ON b.item = a.item",
    "SELECT n, count(*) AS c FROM (SELECT b.n AS n FROM bids [UNBOUNDED] AS b LEFT JOIN asks [UNBOUNDED] AS a "
    "ON b.item = a.item) [RANGE 2 SECONDS] GROUP BY n",
)
#: Every operator of events, on columns and by nodes, and all that divides its history by a key.
EVENTS = (
    "bids SEQUENCE asks WITHIN 4 SECONDS WHERE bids.item = asks.item",
    "bids SEQUENCE asks SEQUENCE moves WITHIN 9 SECONDS WHERE bids.item = asks.item AND asks.item = moves.item",
    "bids SEQUENCE moves+ SEQUENCE asks WITHIN 9 SECONDS WHERE bids.item = moves.item AND moves.item = asks.item",
    "bids AND moves WITHIN 5 SECONDS WHERE bids.n = moves.n AND bids.item <> moves.item",
    "NOT (moves) [bids, asks] WITHIN 8 SECONDS WHERE bids.item = moves.item AND bids.item = asks.item",
    "NOT (moves) [bids, '3 s'] WHERE bids.item = moves.item",
    "APERIODIC* (bids, moves, asks) WITHIN 9 SECONDS WHERE bids.item = moves.item AND moves.item = asks.item",
    "ANY (2, bids, asks, moves) WITHIN 5 SECONDS WHERE bids.item = asks.item AND bids.item = moves.item",
    "PERIODIC (bids, '2 s', asks) WITHIN 9 SECONDS WHERE bids.item = asks.item",
    "bids PLUS '2 s' SEQUENCE asks WITHIN 9 SECONDS WHERE bids.item = asks.item",
    "TIMES (2, bids) SEQUENCE asks WITHIN 9 SECONDS",
)
SUPPRESSED = (
    "SELECT item, n FROM bids [RANGE 5 SECONDS] GROUP BY item HAVING RSUPPRESS(1 OLD)",
    "SELECT item, n FROM moves [RANGE 6 SECONDS] GROUP BY item "
    "HAVING TSUPPRESS(2 SECONDS, CASE WHEN n > 1 THEN 'clean' ELSE 'update' END)",
)
#: Tables that streams feed.
TABLES = """
CREATE TABLE last_bids (at TIMESTAMP, item STRING, n BIGINT, price DOUBLE, PRIMARY KEY (item)) FROM bids;
CREATE TABLE last_moves (at TIMESTAMP, item STRING, n BIGINT, up BOOLEAN, PRIMARY KEY (item, n)) FROM moves;
"""


class Case(NamedTuple):
    """A query, and what it needs."""

    text: str
    setup: str = ""
    options: str = ""


def _detections() -> st.SearchStrategy[Case]:
    """Draw an event in a mode."""
    made = st.tuples(st.sampled_from(EVENTS), st.sampled_from([mode.value for mode in Mode]))
    return made.map(lambda drawn: Case("SELECT * FROM found", f"CREATE EVENT found AS {drawn[0]} CONTEXT {drawn[1]}"))


def _plain(
    texts: st.SearchStrategy[str] | Sequence[str], setup: str = "", options: str = ""
) -> st.SearchStrategy[Case]:
    drawn = texts if isinstance(texts, st.SearchStrategy) else st.sampled_from(texts)
    return drawn.map(lambda text: Case(text, setup, options))


SHAPES = {
    "rows_joins": _plain(ROWS_JOINS),
    "ranks": _plain(queries.ranks()),
    "tops": _plain(queries.tops()),
    "deduplications": _plain(queries.deduplications()),
    "overs": _plain(queries.overs()),
    "matches": _plain(queries.matches()),
    "changelogs": _plain(queries.changelogs()),
    "join_changelogs": _plain(queries.join_changelogs()),
    "sessions": _plain(SESSIONS),
    "sequences": _plain(queries.sequences()),
    "aggregates": _plain(queries.aggregates()),
    "joins": _plain(queries.joins()),
    "outer_joins": _plain(OUTER_JOINS),
    "three_way_joins": _plain(queries.three_way_joins()),
    "multi_way_joins": _plain(queries.multi_way_joins()),
    "impatient_joins": _plain(queries.speaking_joins().map(lambda text: text.replace("THRIFTY", "IMPATIENT"))),
    "distincts": _plain(queries.distincts()),
    "aggregates_of_joins": _plain(queries.aggregates_of_joins()),
    "nested": _plain(queries.nested()),
    "ordered_windows": _plain(ORDERED),
    "events": _detections(),
    "suppressions": _plain(SUPPRESSED),
    "temporal_joins": _plain(queries.temporal_joins(), TABLES),
    "limits": _plain(queries.limits()),
    "merges": _plain(st.one_of(queries.unions(), queries.joins()), options="WITH (ordered merge)"),
}
#: Why some of these queries stay where they are.
STAYING = ("its inputs have different keys", "its tuples wait for a partner without limit")
MORE = (
    "ALTER SYSTEM SET budget = '1 ms'",
    "ALTER SYSTEM SET budget = 'off'",
    "ALTER SYSTEM SET ets = 'periodic 3 s'",
    "ALTER SYSTEM SET ets = 'on demand'",
    "ALTER QUERY live SET scheduler = 'chain'",
    "ALTER QUERY live SET shedding = 0",
)


def moved(run: Live, chance: random.Random) -> int:
    """Move some parcels of the query, if it can, or change the number of buckets; return how many statements did."""
    session = run.session
    if chance.random() < 0.3:
        session.execute(f"ALTER SYSTEM SET buckets = {chance.randint(1, 5)}")
    running, first = run.deployment.intake.deployments.newest(), run.deployment.buckets
    groups = [group for group in parcel_groups(running, first) if "live" in group.queries]
    count = min((group.allotment.parcels for group in groups if group.is_keyed or len(groups) == 1), default=1)
    parcels = ", ".join(map(str, sorted(chance.sample(range(count), max(1, count // 3)))))
    if chance.random() < 0.4 and any(group.joins for group in groups):
        session.execute(f"MOVE PARCELS {parcels} OF live TO ALL BUCKETS")
        return 1
    try:
        session.execute(f"MOVE PARCELS {parcels} OF live TO BUCKET {chance.choice(running.in_use(first))}")
    except NotSupported as refused:
        if "cannot move" in str(refused) and not any(reason in str(refused) for reason in STAYING):
            raise
        return 0
    return 1


def run_moving(
    case: Case, histories: Histories, buckets: int, seed: int, more: Sequence[str]
) -> tuple[list[Row], Counter[object], int]:
    """Push every tuple at its time; move parcels after most of them, with other statements in between."""
    moves, chance = 0, random.Random(seed)
    with live(case.text, histories, buckets, setup=case.setup, options=case.options, forgetful=bool(seed % 2)) as run:
        for number, arrival in enumerate(run.arrivals):
            if chance.random() < 0.8:
                moves += moved(run, chance)
            if more:
                run.session.execute(more[number % len(more)])
            run.push(arrival)
            for _ in range(chance.choice((1, 1, 2))):
                run.deployment.step()
        moves += moved(run, chance)
        run.session.drain(timeout=30)
        expected = expected_of(case.text, histories, run.session.catalog)
        folder = Path(run.deployment.directory) / "moves"
        run.deployment.stop()
        assert not list(folder.glob("*"))
    return run.results, expected, moves


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_random_moves_change_no_result(shape: str) -> None:
    total = 0

    @examples(EXAMPLES)
    @given(
        SHAPES[shape],
        stream_histories(most=8),
        st.integers(2, 4),
        st.integers(0, 10**6),
        st.lists(st.sampled_from(MORE), max_size=3),
    )
    def run(case: Case, histories: Histories, buckets: int, seed: int, more: Sequence[str]) -> None:
        nonlocal total
        note(str(case))
        results, expected, moves = run_moving(case, histories, buckets, seed, more)
        total += moves
        check_agreement(results, expected)

    until(run, lambda: total > 0)
