"""Parcels in several buckets: which rows go where when that changes."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.commands.allotments import Allotment, allotted
from headrace.commands.command import Allot, KeySplit, decode_command, encode_command
from headrace.commands.key_splits import changed_parcels, dealing, is_moving, transfer, transfers
from headrace.commands.parcel_groups import parcel_groups
from headrace.commands.rebucketing import rebucketing
from headrace.commands.running import Running
from headrace.commands.running_graph import placement_of
from headrace.hosts.local import LocalDeployment
from headrace.operators.specs import Exchange, Receive
from headrace.session import Session

BUCKETS = (3, 5, 8)
PORTS = 3
JOIN = """
CREATE STREAM s (k INT, j INT, v INT) FROM MEMORY;
CREATE STREAM t (k INT, j INT, v INT) FROM MEMORY;
CREATE QUERY pairs AS SELECT s.k, s.j, s.v, t.v AS w
FROM s [RANGE 2 SECONDS] JOIN t [RANGE 2 SECONDS] ON s.k = t.k INTO MEMORY;
CREATE QUERY sums AS SELECT k, j, sum(w) AS total FROM pairs [RANGE 2 SECONDS] GROUP BY k, j INTO MEMORY;
"""


@st.composite
def layouts(draw: st.DrawFn) -> tuple[int, KeySplit | None]:
    """Draw where a parcel is: in one bucket, or in several with that one among them."""
    home = draw(st.sampled_from(BUCKETS))
    if draw(st.booleans()):
        return home, None
    others = draw(st.sets(st.sampled_from(BUCKETS)))
    return home, KeySplit(draw(st.integers(0, PORTS - 1)), tuple(sorted({home, *others})))


@settings(max_examples=300, deadline=None)
@given(st.lists(layouts(), min_size=2, max_size=5), st.integers(0, 1000))
def test_each_row_is_where_it_belongs_after_every_change(layouts: list[tuple[int, KeySplit | None]], seed: int) -> None:
    chance = random.Random(seed)
    rows: dict[int, set[tuple[int, int]]] = {bucket: set() for bucket in BUCKETS}  # port and number
    numbers = [0] * PORTS
    allotments = [
        Allotment("a=b", (), 64 * 3, BUCKETS, {7: home}, splits={} if split is None else {7: split})
        for home, split in layouts
    ]
    for place, now in enumerate(allotments):
        if place:
            before = allotments[place - 1]
            sent: dict[int, set[tuple[int, int]]] = {bucket: set() for bucket in BUCKETS}
            kept: dict[int, set[tuple[int, int]]] = {bucket: set() for bucket in BUCKETS}
            for bucket in before.holders(7):
                for port in range(PORTS):
                    action = transfer(before, now, 7, bucket, port)
                    own = {row for row in rows[bucket] if row[0] == port}
                    assert bucket not in action.to
                    for other in action.to:
                        assert not sent[other] & own  # no row comes twice
                        sent[other] |= own
                    kept[bucket] |= own if action.keeps else set()
            assert not any(sent[bucket] & kept[bucket] for bucket in BUCKETS)
            rows = {bucket: sent[bucket] | kept[bucket] for bucket in BUCKETS}
        split = now.splits.get(7)
        for port in range(PORTS):
            for number in range(numbers[port]):
                where = {bucket for bucket in BUCKETS if (port, number) in rows[bucket]}
                if split is not None and split.port == port:
                    assert len(where) == 1
                    assert where <= now.holders(7)
                else:
                    assert where == now.holders(7)
            for _ in range(3):  # new tuples come by the layout in force
                row = (port, numbers[port])
                numbers[port] += 1
                is_dealt = split is not None and split.port == port
                into = {chance.choice(split.buckets)} if is_dealt and split is not None else now.holders(7)
                for bucket in into:
                    rows[bucket].add(row)


def running_of(text: str) -> Running:
    with Session(host="local") as session:
        session.execute(text)
        assert isinstance(session.deployment, LocalDeployment)
        return session.deployment.intake.deployments.newest()


def split(running: Running, parcel: int, port: int = 0) -> Running:
    group = next(group for group in parcel_groups(running, BUCKETS) if group.joins)
    (vertex,) = group.joins
    for command in dealing(group, {parcel: {vertex: port}}, BUCKETS):
        running = running.after(decode_command(encode_command(command)))
    return running


def test_a_join_leaves_its_group_and_the_others_read_it_by_an_exchange() -> None:
    before = running_of(JOIN)
    (whole,) = parcel_groups(before, BUCKETS)
    moved = before.after(whole.moving({7: 8, 9: 3}))
    after = split(moved, 7)
    join, sums = parcel_groups(after, BUCKETS)
    assert join.allotment.splits == {7: KeySplit(0, BUCKETS)}
    assert join.allotment.places == sums.allotment.places == {7: 8, 9: 3}
    assert changed_parcels(moved.allotments, after.allotments) == {join.allotment.name: [7]}
    placement = placement_of(after)
    assert [vertex for vertex in placement.keyed if isinstance(vertex.spec, Exchange)]
    ports = [vertex.spec.port for vertex in placement.keyed if isinstance(vertex.spec, Receive)]
    assert sorted(map(str, ports)) == ["0", "1", "None"]
    # the sums lie by the key of the join as before, not by both of theirs
    assert placement.lays[sums.vertices[0]].keys == placement_of(moved).lays[sums.vertices[0]].keys


def test_a_second_split_changes_nothing_else() -> None:
    once = split(running_of(JOIN), 7)
    twice = split(once, 100, port=1)
    assert placement_of(once).keyed == placement_of(twice).keyed
    (name,) = changed_parcels(once.allotments, twice.allotments)
    assert twice.allotments[name].splits == {7: KeySplit(0, BUCKETS), 100: KeySplit(1, BUCKETS)}


def test_a_parcel_that_is_moved_is_in_one_bucket_again() -> None:
    once = split(running_of(JOIN), 7)
    group = next(group for group in parcel_groups(once, BUCKETS) if group.allotment.splits)
    back = once.after(group.moving({7: 3}))
    assert not back.allotments[group.allotment.name].splits
    there = transfers(once.allotments, back.allotments, group.allotment.name, 5, 2)
    ((dealt, copied),) = there
    assert (dealt.to, dealt.keeps, copied.to, copied.keeps) == ((3,), False, (), False)


def test_other_buckets_get_the_parcels_that_are_split() -> None:
    once = split(running_of(JOIN), 7)
    after = once
    for command in rebucketing(once, BUCKETS, (3, 5)):
        after = after.after(command)
    group = next(group for group in parcel_groups(after, BUCKETS) if group.joins)
    assert group.allotment.splits == {7: KeySplit(0, (3, 5))}
    assert group.allotment.used() == {3, 5}
    assert after.all_buckets(BUCKETS) == [3, 5]
    assert is_moving(once.allotments, after.allotments)


def test_a_vertex_is_in_one_allotment() -> None:
    first = allotted({}, Allot("a", 1, ("u", "v"), 64, (0,), {1: 0}))
    second = allotted(first, Allot("a=v", 1, ("v",), 64, (0,), {}, origin="a"))
    assert {name: allotment.vertices for name, allotment in second.items()} == {"a": ("u",), "a=v": ("v",)}
