"""Balancing of a deployment whose reports are made up: which parcels it moves, and what it says."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headrace.commands.command import Allot, Set
from headrace.commands.parcel_groups import ParcelGroup, parcel_groups
from headrace.commands.running import Running
from headrace.commands.settings import Balancing
from headrace.control.balancing import Balancer, ParcelDecision
from headrace.control.decisions import GatherParcel, KeepParcels, MoveParcels, SplitParcel
from headrace.control.policies.heavy_keys import is_worth_splitting
from headrace.engine.statistics import VertexCounts
from headrace.hosts.local import LocalDeployment
from headrace.model.time import SECOND
from headrace.session import Session
from headrace.worker.wire import BucketNote, ParcelCounts, Report, TaskCounts

BUCKETS = (3, 5)
STREAM = "CREATE STREAM s (k INT, v INT) FROM MEMORY; CREATE STREAM t (k INT, v INT) FROM MEMORY;"
COUNTS = "CREATE QUERY counts AS SELECT k, count(*) AS n FROM s [RANGE 2 SECONDS] GROUP BY k INTO MEMORY;"
WHOLE = "CREATE QUERY whole{} AS SELECT sum(v + {}) AS n FROM s [RANGE 2 SECONDS] INTO MEMORY;"
JOINED = """CREATE QUERY joined AS SELECT a.k, b.v FROM s [RANGE 2 SECONDS] AS a JOIN t [RANGE 1 SECOND] AS b
ON a.k = b.k INTO MEMORY;"""
THRIFTY = """CREATE QUERY thrifty AS SELECT a.k, b.v FROM s [RANGE 2 SECONDS] AS a
THRIFTY JOIN s [RANGE 2 SECONDS] AS b ON a.k = b.k INTO MEMORY;"""


def running_of(*texts: str, mode: str = "auto") -> Running:
    with Session(host="local") as session:
        session.execute(STREAM + "".join(texts))
        assert isinstance(session.deployment, LocalDeployment)
        running = session.deployment.intake.deployments.newest()
    return running.after(Set(None, Balancing("auto" if mode == "auto" else "off")))


def simulate(
    balancer: Balancer,
    running: Running,
    counts: dict[int, int],
    seconds: int,
    buckets: Sequence[int] = BUCKETS,
    *,
    since: int = 0,
) -> tuple[Running, list[ParcelDecision]]:
    """Run micro-batches of 100 ms in which a tuple takes 100 us, in the bucket that has its parcel, or one of them."""
    decisions: list[ParcelDecision] = []
    for step in range(10 * since + 1, 10 * (since + seconds) + 1):
        groups = parcel_groups(running, buckets)
        reports = []
        for bucket in buckets:
            vertices: dict[str, VertexCounts] = {}
            for group in groups:
                own = {0: 300} if not group.is_keyed else counts
                work = work_of(group, own, bucket)
                vertices[group.vertices[0]] = VertexCounts(tuples_in=round(work), busy_ns=round(work * 100_000))
            busy = sum(vertex.busy_ns for vertex in vertices.values())
            reports.append(
                Report(buckets=[BucketNote(bucket, busy)], time=step * SECOND // 10, vertices=vertices, busy_ns=busy)
            )
        parcels = {
            route: ParcelCounts(sum(counts.values()), list(counts.items()))
            for group in groups
            if group.is_keyed
            for route in group.routes[:1]  # the tuples of other streams are few
        }
        tasks = [TaskCounts(parcels=parcels)]
        first = Report(buckets=reports[0].buckets, time=reports[0].time, vertices=reports[0].vertices,
                       busy_ns=reports[0].busy_ns, tasks=tasks)  # fmt: skip
        commands, said = balancer.after([first, *reports[1:]], running, step * SECOND // 10, 100.0, buckets)
        decisions += said
        for command in commands:
            assert isinstance(command, Allot)
            assert command.auto
            running = running.after(command)
    return running, decisions


def work_of(group: ParcelGroup, counts: dict[int, int], bucket: int) -> float:
    at = group.allotment
    return sum(n / len(at.holders(parcel)) for parcel, n in counts.items() if bucket in at.holders(parcel))


def evenness(running: Running, counts: dict[int, int], buckets: Sequence[int] = BUCKETS) -> float:
    group = parcel_groups(running, buckets)[0]
    work = [work_of(group, counts, bucket) for bucket in buckets]
    return len(buckets) * max(work) / sum(work)


def test_uneven_parcels_become_even() -> None:
    counts = {parcel: 40 if parcel % 2 == 0 else 8 for parcel in range(40)}
    running, decisions = simulate(Balancer(), running_of(COUNTS), counts, 20)
    assert evenness(running_of(COUNTS), counts) > 1.6
    assert evenness(running, counts) < 1.15
    moves = [decision for decision in decisions if isinstance(decision, MoveParcels)]
    assert 1 <= len(moves) <= 3
    assert moves[0].query == "counts"
    assert "parcels of counts to bucket 5" in moves[0].action
    assert "busiest processor" in moves[0].reason


@pytest.mark.parametrize(
    "text",
    [
        JOINED.replace(" JOIN", " LEFT JOIN"),
        JOINED.replace("JOIN t [RANGE 1 SECOND] AS b\nON a.k = b.k", "JOIN t AS b ON a.k = b.k FOLLOWING CHRONICLE"),
        "CREATE EVENT met AS s SEQUENCE t WITHIN 2 SECONDS WHERE s.k = t.k; "
        "CREATE QUERY joined AS SELECT * FROM met INTO MEMORY;",
    ],
    ids=["outer join", "sequence", "event"],
)
def test_what_waits_becomes_even_as_well(text: str) -> None:
    counts = {parcel: 40 if parcel % 2 == 0 else 8 for parcel in range(40)}
    running, decisions = simulate(Balancer(), running_of(text), counts, 20)
    assert evenness(running_of(text), counts) > 1.6
    assert evenness(running, counts) < 1.15
    assert {decision.query for decision in decisions if isinstance(decision, MoveParcels)} == {"joined"}


def test_even_parcels_stay_where_they_are() -> None:
    counts = dict.fromkeys(range(40), 20)
    running, decisions = simulate(Balancer(), running_of(COUNTS), counts, 20)
    assert not running.allotments
    assert not decisions


def test_nothing_moves_unless_it_is_asked_for() -> None:
    counts = {parcel: 40 if parcel % 2 == 0 else 8 for parcel in range(40)}
    running, decisions = simulate(Balancer(), running_of(COUNTS, mode="off"), counts, 20)
    assert not running.allotments
    assert not decisions


def test_queries_without_keys_do_not_all_stay_in_the_first_bucket() -> None:
    whole = [WHOLE.format(number, number) for number in range(3)]
    whole.append("CREATE QUERY first AS SELECT k, v FROM s LIMIT 5 INTO MEMORY;")
    running, decisions = simulate(Balancer(), running_of(*whole), {}, 40)
    places = [group.allotment.bucket(0) for group in parcel_groups(running, BUCKETS)]
    assert sorted(places) == [3, 3, 5, 5]
    assert any(isinstance(decision, MoveParcels) for decision in decisions)


@pytest.mark.parametrize(
    ("text", "counts", "reason"),
    [(COUNTS, {0: 700, 1: 10}, "one parcel alone has"), (THRIFTY, {0: 400, 2: 400, 1: 10}, "thrifty cannot move")],
)
def test_it_says_once_why_nothing_moves(text: str, counts: dict[int, int], reason: str) -> None:
    running, decisions = simulate(Balancer(), running_of(text), counts, 20)
    assert not running.allotments
    (kept,) = decisions
    assert isinstance(kept, KeepParcels)
    assert reason in kept.reason


def test_a_heavy_key_of_a_join_is_split_and_gathered_when_it_is_heavy_no_more() -> None:
    buckets, balancer = (1, 2, 3, 4, 5, 6, 7), Balancer()
    counts = dict.fromkeys(range(64), 10) | {5: 270}  # 30 % of all
    before = running_of(JOINED)
    running, decisions = simulate(balancer, before, counts, 30, buckets)
    assert evenness(before, counts, buckets) > 2.4
    assert evenness(running, counts, buckets) < 1.15
    (split,) = (decision for decision in decisions if isinstance(decision, SplitParcel))
    assert (split.parcel, split.action) == (5, "split parcel 5 of joined over 7 buckets")
    assert "times the fair share of a processor" in split.reason
    even = dict.fromkeys(range(64), 14)
    running, decisions = simulate(balancer, running, even, 60, buckets, since=30)
    (gathered,) = (decision for decision in decisions if isinstance(decision, GatherParcel))
    assert (gathered.parcel, gathered.query) == (5, "joined")
    assert not any(allotment.splits for allotment in running.allotments.values())


def test_a_key_that_fits_a_processor_is_not_split() -> None:
    counts = dict.fromkeys(range(64), 10) | {5: 270}
    running, decisions = simulate(Balancer(), running_of(JOINED), counts, 30)
    assert evenness(running, counts) < 1.15
    assert any(isinstance(decision, MoveParcels) for decision in decisions)
    assert not any(isinstance(decision, SplitParcel) for decision in decisions)


def test_a_join_whose_readers_cannot_move_is_split() -> None:
    counts = dict.fromkeys(range(64), 10) | {5: 270}
    text = THRIFTY.replace("FROM s", "FROM (SELECT x.k FROM s [RANGE 2 SECONDS] AS x JOIN t [RANGE 1 SECOND] AS y "
                          "ON x.k = y.k)", 1)  # fmt: skip
    running, decisions = simulate(Balancer(), running_of(text), counts, 30, (1, 2, 3, 4, 5, 6, 7))
    assert [type(decision) for decision in decisions if not isinstance(decision, KeepParcels)][:1] == [SplitParcel]
    assert any(allotment.splits for allotment in running.allotments.values())


@pytest.mark.parametrize(
    ("rates", "buckets", "is_worth"),
    [
        ([30.0, 0.1], 8, True),
        ([30.0, 4.0], 8, True),
        ([30.0, 10.0], 8, False),  # seven copies of each of the ten are more than all tuples
        ([30.0, 10.0], 2, True),
        ([30.0, 30.0], 2, False),
        ([30.0, 30.0], 8, False),
        ([0.0, 0.0], 8, True),
    ],
)
def test_a_split_is_worth_while_if_few_tuples_are_copied(rates: list[float], buckets: int, *, is_worth: bool) -> None:
    assert is_worth_splitting(rates, buckets) == is_worth
