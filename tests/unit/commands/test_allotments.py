"""Tables of parcels."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from headrace.commands.allotments import Allotment, moved_parcels
from headrace.commands.command import Allot, DropQuery, decode_command, encode_command
from headrace.commands.parcel_groups import parcel_groups
from headrace.commands.running import Running
from headrace.commands.running_graph import placement_of
from headrace.graph.graph import Graph
from headrace.hosts.local import LocalDeployment
from headrace.operators.expressions.hashing import hash_columns
from headrace.operators.specs import Receive
from headrace.session import Session
from headrace.worker.router import places_of

STREAMS = """
CREATE STREAM s (k INT, j INT, v INT) FROM MEMORY;
CREATE STREAM t (k INT, j INT, v INT) FROM MEMORY;
"""
COUNTS = "CREATE QUERY counts AS SELECT k, count(*) AS n FROM s [RANGE 2 SECONDS] GROUP BY k INTO MEMORY;"
PAIRS = """CREATE QUERY pairs AS SELECT s.k, s.v, t.v AS w
FROM s [RANGE 2 SECONDS] JOIN t [RANGE 2 SECONDS] ON s.k = t.k INTO MEMORY;"""
BUCKETS = (3, 5, 8)
#: An outer join whose tuples wait for a partner for ever.
UNLIMITED = "SELECT s.k, t.v AS w FROM s [UNBOUNDED] LEFT JOIN t [RANGE 2 SECONDS] ON s.k = t.k"


def running_of(*texts: str) -> Running:
    with Session(host="local") as session:
        session.execute(STREAMS + "".join(texts))
        assert isinstance(session.deployment, LocalDeployment)
        return session.deployment.intake.deployments.newest()


def move(number: int, moves: dict[int, int]) -> Allot:
    vertices = parcel_groups(running_of(COUNTS), BUCKETS)[0].vertices
    return Allot("a", number, vertices, 192, BUCKETS, moves)


def test_a_table_without_moves_sends_keys_where_their_hash_does() -> None:
    hashes = hash_columns([pl.Series(range(5000))])
    table = Allotment("a", (), 64 * 3, BUCKETS).table(BUCKETS)
    assert (places_of(hashes, table) == places_of(hashes, np.arange(3))).all()


def test_a_moved_parcel_goes_elsewhere_and_no_other_does() -> None:
    hashes = hash_columns([pl.Series(range(5000))])
    allotment = Running().after(move(1, {7: 8})).allotments["a"]
    before, after = places_of(hashes, np.arange(3)), places_of(hashes, allotment.table(BUCKETS))
    changed = hashes % np.uint64(192) == 7
    assert changed.any()
    assert (after[changed] == 2).all()
    assert (before[~changed] == after[~changed]).all()


def test_a_change_with_a_number_that_was_there_does_nothing() -> None:
    first = running_of(COUNTS).after(decode_command(encode_command(move(1, {0: 5}))))
    again = first.after(move(1, {0: 8}))
    assert again.allotments["a"].places == {0: 5}
    assert again.after(move(2, {0: 8})).allotments["a"].places == {0: 8}


def test_parcels_that_come_back_within_a_micro_batch_do_not_move() -> None:
    before = running_of(COUNTS)
    there = before.after(move(1, {0: 5, 1: 8, 2: 8}))
    back = there.after(move(2, {0: 3}))
    assert moved_parcels(before.allotments, there.allotments) == {"a": {0: (3, 5), 1: (5, 8)}}
    assert moved_parcels(before.allotments, back.allotments) == {"a": {1: (5, 8)}}
    assert moved_parcels(there.allotments, back.allotments) == {"a": {0: (5, 3)}}


def test_a_query_that_shares_a_stream_and_key_keeps_its_own_route() -> None:
    running = running_of(COUNTS, PAIRS)
    counts = next(group for group in parcel_groups(running, BUCKETS) if group.queries == ("counts",))
    after = running.after(counts.moving({3: 5}))
    receives = [v.spec for v in placement_of(after).keyed if isinstance(v.spec, Receive)]
    assert sorted(spec.allotment for spec in receives) == ["", "", counts.allotment.name]
    (moved,) = [group for group in parcel_groups(after, BUCKETS) if group.queries == ("counts",)]
    assert moved.allotment.places == {3: 5}
    assert moved.moving({4: 8}).number == 2


def test_vertices_behind_follow_without_an_exchange() -> None:
    behind = "CREATE QUERY tops AS SELECT k, max(n) AS m FROM counts [RANGE 4 SECONDS] GROUP BY k INTO MEMORY;"
    running = running_of(COUNTS, behind)
    (group,) = parcel_groups(running, BUCKETS)
    assert group.queries == ("counts", "tops")
    placement = placement_of(running.after(group.moving({3: 5})))
    assert not placement.exchanges()
    assert {lay.allotment for lay in placement.lays.values()} == {group.allotment.name}


def test_streams_that_meet_but_lie_by_different_tables_are_exchanged() -> None:
    views = """CREATE QUERY a AS SELECT k, count(*) AS n FROM s [RANGE 2 SECONDS] GROUP BY k INTO MEMORY;
    CREATE QUERY b AS SELECT k, count(*) AS n FROM t [RANGE 2 SECONDS] GROUP BY k INTO MEMORY;"""
    both = """CREATE QUERY c AS SELECT a.k, a.n, b.n AS m FROM a [RANGE 2 SECONDS] JOIN b [RANGE 2 SECONDS]
    ON a.k = b.k INTO MEMORY;"""
    running = running_of(views, both)
    (together,) = parcel_groups(running, BUCKETS)
    assert not placement_of(running.after(together.moving({0: 5}))).exchanges()
    first = next(vertex for vertex in together.vertices if "paneaggregate" in vertex)
    alone = running.after(Allot("x", 1, (first,), 192, BUCKETS, {0: 5}))
    assert len(placement_of(alone).exchanges()) == 1


def test_a_query_that_stops_takes_its_table_along() -> None:
    with Session(host="local", buckets=2) as session:
        session.execute(STREAMS + COUNTS)
        session.execute("MOVE PARCELS 1 OF counts TO BUCKET 0")
        assert isinstance(session.deployment, LocalDeployment)
        before = session.deployment.intake.deployments.newest()
        session.execute("STOP QUERY counts")
        after = session.deployment.intake.deployments.newest()
    (ending,) = after.ending
    assert after.allotted.keys() > before.allotted.keys()
    assert {vertex.id for vertex in ending.graph} & after.allotted.keys()
    placed = {lay.allotment for lay in placement_of(after).lays.values()}
    assert placed == {*before.allotments}


@pytest.mark.parametrize(
    ("select", "reason"),
    [
        ("SELECT s.k, t.v AS w FROM s [RANGE 2 SECONDS] LEFT JOIN t [RANGE 2 SECONDS] ON s.k = t.k", None),
        ("SELECT k, v FROM s LIMIT 3", None),
        ("SELECT s.k, t.v AS w FROM s [RANGE 2 SECONDS] IMPATIENT JOIN t [RANGE 2 SECONDS] ON s.k = t.k", None),
        ("SELECT s.k, t.v AS w FROM s [RANGE 2 SECONDS] THRIFTY JOIN t [RANGE 2 SECONDS] ON s.k = t.k", "a THRIFTY"),
        (UNLIMITED, None),
        (f"SELECT k, count(*) AS n FROM ({UNLIMITED}) [RANGE 2 SECONDS] GROUP BY k", "time cannot go back where count"),
        (f"SELECT w, count(*) AS n FROM ({UNLIMITED}) [RANGE 2 SECONDS] GROUP BY w", None),  # behind an exchange
    ],
)
def test_what_cannot_move_says_why(select: str, reason: str | None) -> None:
    groups = parcel_groups(running_of(f"CREATE QUERY q AS {select} INTO MEMORY;"), BUCKETS)
    hindrances = [group.hindrance for group in groups]
    if reason is None:
        assert not any(hindrances)
    else:
        assert reason in str(hindrances[0])


def test_the_commands_of_an_empty_graph_place_nothing() -> None:
    assert parcel_groups(Running(), BUCKETS) == []
    assert not placement_of(Running()).lays
    assert Graph() == placement_of(Running()).keyed


def test_a_table_goes_with_the_last_of_its_vertices() -> None:
    running = running_of(COUNTS, PAIRS).after(move(1, {0: 5}))
    pairs = next(group for group in parcel_groups(running, BUCKETS) if group.queries == ("pairs",))
    assert set(running.after(pairs.moving({1: 3})).allotments) == {"a", pairs.allotment.name}
    assert set(running.after(DropQuery("counts")).after(pairs.moving({1: 3})).allotments) == {pairs.allotment.name}
