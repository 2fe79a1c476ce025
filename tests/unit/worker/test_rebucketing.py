"""Keys of running queries divided among more or fewer buckets."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.commands.allotments import Allotment
from headrace.commands.rebucketing import dealt
from headrace.commands.running import Running
from headrace.errors import QueryError
from headrace.hosts.local import LocalDeployment
from headrace.session import Session
from headrace.session.outcome import Message

BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
STREAM = "CREATE STREAM s (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM MEMORY;"
#: A count by key, one of all, joins, the first tuples of all, and a join that cannot move.
QUERIES = {
    "counts": "SELECT k, count(*) AS n, sum(v) AS v FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k",
    "whole": "SELECT count(*) AS n FROM s [RANGE 5 SECONDS]",
    "pairs": "SELECT x.k, x.v, y.v AS w FROM s [RANGE 4 SECONDS] AS x JOIN s [RANGE 4 SECONDS] AS y ON x.k = y.k",
    "padded": "SELECT x.k, x.v, y.v AS w FROM s [RANGE 2 SECONDS] AS x LEFT JOIN (SELECT k, v FROM s WHERE v > 3) "
    "[RANGE 2 SECONDS] AS y ON x.k = y.k",
    "firsts": "SELECT k, v FROM s LIMIT 30",
    "thrifty": "SELECT x.k, x.v, y.n FROM s [RANGE 2 SECONDS] AS x THRIFTY JOIN counts [RANGE 2 SECONDS] AS y "
    "ON x.k = y.k",
}
ALL = STREAM + "".join(f"CREATE QUERY {name} AS {text} INTO MEMORY;" for name, text in QUERIES.items())


def host(session: Session) -> LocalDeployment:
    assert isinstance(session.deployment, LocalDeployment)
    return session.deployment


def running(session: Session) -> Running:
    return host(session).intake.deployments.newest()


def push(session: Session, *seconds: int) -> None:
    session.push("s", [{"at": BEGIN + dt.timedelta(seconds=s), "k": k, "v": s} for s in seconds for k in range(20)])
    while host(session).step():
        pass


def use(session: Session, count: int) -> str:
    (said,) = session.execute(f"ALTER SYSTEM SET buckets = {count}")
    assert isinstance(said, Message)
    return said.text


def results(session: Session, names: Sequence[str] = tuple(QUERIES)) -> dict[str, list[dict[str, Any]]]:
    return {name: sorted(session.results(name), key=lambda row: tuple(map(str, row.values()))) for name in names}


def expected(*seconds: int) -> dict[str, list[dict[str, Any]]]:
    with Session(host="local") as session:
        session.execute(ALL)
        push(session, *seconds)
        session.drain(60)
        return results(session)


def test_more_and_fewer_buckets_change_no_result(tmp_path: Path) -> None:
    with Session(tmp_path, host="local", buckets=2) as session:
        session.execute(ALL)
        push(session, 1, 3, 7)
        said = use(session, 5)
        assert said.startswith("all queries: their keys are divided among 5 buckets (0, 1, 2, 3, 4)")
        push(session, 8)
        assert set(host(session).stores) == {0, 1, 2, 3, 4}
        rows = {n: sum(c.held for c in b.engine.observe().vertices.values()) for n, b in host(session).kept.items()}
        assert min(rows.values()) > 0, "the new buckets have their share"
        assert "thrifty stays where it is" in use(session, 1)
        push(session, 12)
        # what cannot move keeps its two buckets, all else is in one
        assert set(host(session).stores) == {0, 1}
        use(session, 3)
        push(session, 21)
        session.execute("DROP QUERY thrifty")
        use(session, 1)
        use(session, 4)
        use(session, 1)  # all in one micro-batch
        push(session, 22)
        assert set(host(session).stores) == {0}
        assert not list((tmp_path / "moves").glob("*"))
        session.drain(60)
        wanted = expected(1, 3, 7, 8, 12, 21, 22)
        assert len(wanted["pairs"]) > 100
        del wanted["thrifty"]
        assert results(session, tuple(wanted)) == wanted


def test_what_cannot_move_gives_the_same_results_while_others_move() -> None:
    with Session(host="local", buckets=2) as session:
        host(session).forgetful = True
        session.execute(ALL)
        for second, count in ((1, 5), (3, 3), (7, 1), (12, 6), (21, 2)):
            push(session, second)
            use(session, count)
        session.drain(60)
        assert results(session) == expected(1, 3, 7, 12, 21)


@pytest.mark.parametrize("is_first", [True, False])
def test_queries_may_come_in_the_same_micro_batch(*, is_first: bool) -> None:
    second = "CREATE QUERY later AS SELECT k, sum(v) AS v FROM s [RANGE 5 SECONDS] GROUP BY k INTO MEMORY;"
    with Session(host="local") as session:
        session.execute(ALL + second)
        push(session, 8, 12, 21)
        session.drain(60)
        wanted = results(session, ("later",))
    with Session(host="local", buckets=2) as session:
        session.execute(ALL)
        push(session, 1, 3)
        session.push("s", [{"at": BEGIN + dt.timedelta(seconds=8), "k": k, "v": 8} for k in range(20)])
        if is_first:
            session.execute(second)
        use(session, 5)
        if not is_first:
            session.execute(second)
        while host(session).step():
            pass
        use(session, 3)
        push(session, 12, 21)
        session.drain(60)
        assert results(session) == expected(1, 3, 8, 12, 21)
        assert results(session, ("later",)) == wanted


#: Buckets that come and go within one micro-batch, in which queries come, stop and start.
HASTY = (
    ("buckets = 3", "CREATE", "buckets = 1"),
    ("CREATE", "STOP", "buckets = 4", "START", "buckets = 3"),
    ("buckets = 2", "CREATE", "buckets = 4", "MOVE", "buckets = 1"),
    ("CREATE", "step", "buckets = 3", "DROP", "CREATE", "buckets = 2", "buckets = 1"),
)


@pytest.mark.parametrize("hasty", HASTY)
def test_buckets_may_come_and_go_in_one_micro_batch(hasty: Sequence[str]) -> None:
    text = f"CREATE QUERY counts AS {QUERIES['counts']} INTO MEMORY"
    statements = {
        "CREATE": text,
        "STOP": "STOP QUERY counts",
        "START": "START QUERY counts",
        "DROP": "DROP QUERY counts",
    }
    statements["MOVE"] = "MOVE PARCELS 1, 2, 3, 70 OF counts TO BUCKET 3"

    def answer(steps: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        with Session(host="local") as session:
            session.execute(STREAM)
            for step in steps:
                if step == "step":
                    push(session, 1, 2)
                else:
                    session.execute(statements.get(step, f"ALTER SYSTEM SET {step}"))
            push(session, 3, 4, 9)
            push(session, 11, 30)
            session.drain()
            return results(session, ["counts"])

    assert answer(hasty) == answer(
        [step for step in hasty if (step in statements and step != "MOVE") or step == "step"]
    )


def test_another_number_at_a_restart(tmp_path: Path) -> None:
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in QUERIES}
    for count, seconds in ((2, (1, 3, 7)), (5, (8, 12)), (None, (13,)), (3, (21, 22))):
        with Session(tmp_path, host="local", buckets=count) as session:
            if count == 2:
                session.execute(ALL)
            session.start()
            push(session, *seconds)
            assert len(running(session).in_use(host(session).buckets)) == (count or 5)
            if seconds[-1] == 22:
                session.drain(60)
            for name, rows in results(session).items():
                found[name] += rows
    ordered = {name: sorted(rows, key=lambda row: tuple(map(str, row.values()))) for name, rows in found.items()}
    assert ordered == expected(1, 3, 7, 8, 12, 13, 21, 22)


@pytest.mark.parametrize("value", ["0", "'many'", "-1", "100000", "'auto'"])
def test_a_number_that_cannot_be_is_refused(value: str) -> None:
    with Session(host="local") as session, pytest.raises(QueryError):
        session.execute(f"ALTER SYSTEM SET buckets = {value}")


def test_as_many_buckets_as_there_are_need_no_command() -> None:
    with Session(host="local", buckets=3) as session:
        session.execute(ALL)
        before = running(session).commands
        assert use(session, 3) == "all queries: their keys are divided among 3 buckets already"
        assert running(session).commands == before


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 64, 200])
def test_parcels_are_dealt_evenly_and_few_move(count: int) -> None:
    allotment = Allotment("a", (), 128, (3, 5), {0: 5, 9: 3, 11: 3})
    buckets = (5, 3, *range(10, 10 + count))[:count]
    moves = dealt(allotment, buckets)
    places = [moves.get(parcel, allotment.bucket(parcel)) for parcel in range(128)]
    shares = [places.count(bucket) for bucket in buckets]
    assert sum(shares) == 128
    assert max(shares) - min(shares) <= 1
    stayed = sum(min(share, places_before) for share, places_before in zip(shares[:2], (63, 65), strict=False))
    assert len(moves) <= 128 - stayed + 1
