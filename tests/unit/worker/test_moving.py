"""Parcels between two micro-batches: restarts, drops, damage, feedback."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.commands.parcel_groups import parcel_groups
from headrace.driver.progress import read_progress
from headrace.errors import HostFault
from headrace.hosts.local import LocalDeployment
from headrace.session import Session
from headrace.session.outcome import Listing, Message

BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
STREAM = "CREATE STREAM s (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM MEMORY;"
COUNTS = """CREATE QUERY counts AS SELECT k, count(*) AS n, sum(v) AS total FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS]
GROUP BY k INTO MEMORY;"""
ALL = ", ".join(map(str, range(128)))


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session(tmp_path, host="local", buckets=2) as session:
        session.execute(STREAM + COUNTS)
        step(session)
        yield session


def step(session: Session) -> None:
    assert isinstance(session.deployment, LocalDeployment)
    while session.deployment.step():
        pass


def once(session: Session) -> None:
    assert isinstance(session.deployment, LocalDeployment)
    assert session.deployment.step()


def push(session: Session, *seconds: int) -> None:
    session.push("s", [{"at": BEGIN + dt.timedelta(seconds=s), "k": k, "v": s} for s in seconds for k in range(6)])


def move(session: Session, bucket: int) -> str:
    (said,) = session.execute(f"MOVE PARCELS {ALL} OF counts TO BUCKET {bucket}")
    assert isinstance(said, Message)
    return said.text


def moves(directory: Path) -> list[Path]:
    return sorted((directory / "moves").glob("*"))


def rows_in(session: Session, bucket: int) -> int:
    """Return how many rows of state a bucket has."""
    assert isinstance(session.deployment, LocalDeployment)
    kept = session.deployment.kept[bucket].engine
    return sum(counts.held for name, counts in kept.observe().vertices.items() if name.startswith("paneaggregate"))


def groups(session: Session, bucket: int) -> set[str]:
    """Return the groups that a bucket has found to be settled."""
    assert isinstance(session.deployment, LocalDeployment)
    guards = session.deployment.kept[bucket].engine.guards.in_force()
    return {str(guard.pattern) for guard in guards if guard.kind == "group"}


def results(session: Session, query: str = "counts") -> list[dict[str, Any]]:
    return sorted(session.results(query), key=lambda row: tuple(map(str, row.values())))


def expected(*seconds: int) -> list[dict[str, Any]]:
    with Session(host="local") as session:
        session.execute(STREAM + COUNTS)
        push(session, *seconds)
        session.drain(60)
        return results(session)


def test_state_goes_to_the_other_bucket_and_files_are_deleted(session: Session, tmp_path: Path) -> None:
    push(session, 1, 3, 7)
    step(session)
    assert "go to bucket 1" in move(session, 1)
    once(session)
    (file,) = moves(tmp_path)
    assert [moved.name for moved in read_progress(tmp_path).moved] == [file.name]
    assert rows_in(session, 0) == 0
    once(session)
    assert not moves(tmp_path)
    assert rows_in(session, 1) == 12
    push(session, 8, 12, 21)
    session.drain(60)
    assert results(session) == expected(1, 3, 7, 8, 12, 21)


def test_a_move_to_where_parcels_are_does_nothing(session: Session) -> None:
    move(session, 1)
    assert move(session, 1) == "counts: these parcels are in bucket 1 already"


def test_a_session_that_stops_in_between_goes_on_with_the_parcels(tmp_path: Path) -> None:
    with Session(tmp_path, host="local", buckets=2) as session:
        session.execute(STREAM + COUNTS)
        push(session, 1, 3, 7)
        step(session)
        move(session, 0)
        once(session)
        assert moves(tmp_path)
        first = results(session)
    with Session(tmp_path, host="local", buckets=2) as session:
        session.start()
        push(session, 8, 12, 21)
        step(session)
        assert not moves(tmp_path)
        move(session, 1)
        move(session, 0)  # both in one micro-batch
        session.drain(60)
        both = sorted([*first, *results(session)], key=lambda row: tuple(map(str, row.values())))
        assert both == expected(1, 3, 7, 8, 12, 21)


@pytest.mark.parametrize("statement", ["DROP QUERY counts", "STOP QUERY counts", "CREATE OR REPLACE " + COUNTS[7:]])
def test_a_query_may_go_while_its_parcels_are_under_way(session: Session, tmp_path: Path, statement: str) -> None:
    push(session, 1, 3, 7)
    step(session)
    before = expected(1, 3, 7)
    move(session, 1)
    once(session)
    session.execute(statement)
    step(session)
    assert not moves(tmp_path)
    if "STOP" in statement:
        assert results(session) == before
    if "REPLACE" in statement:
        session.drain(60)
        assert results(session) == before


@pytest.mark.parametrize("is_first", [True, False])
def test_a_query_that_cannot_move_may_come_in_the_micro_batch_of_a_move(session: Session, *, is_first: bool) -> None:
    thrifty = """CREATE QUERY thrifty AS SELECT counts.k, counts.n, s.v FROM counts [RANGE 4 SECONDS]
    THRIFTY JOIN s [RANGE 4 SECONDS] ON counts.k = s.k INTO MEMORY;"""
    push(session, 1, 3, 7)
    step(session)
    with Session(host="local") as other:
        other.execute(STREAM + COUNTS)
        push(other, 1, 3, 7)
        step(other)
        other.execute(thrifty)
        push(other, 8, 12, 21)
        other.drain(60)
        wanted = results(other, "thrifty")
    if is_first:  # of which a balancer that looked before does not know
        assert isinstance(session.deployment, LocalDeployment)
        (group,) = parcel_groups(session.deployment.intake.deployments.newest(), [0, 1])
        session.execute(thrifty)
        session.deployment.send(group.moving(dict.fromkeys(range(128), 1), auto=True))
    else:
        move(session, 1)
        session.execute(thrifty)
    step(session)
    assert rows_in(session, 1)
    assert not rows_in(session, 0)
    push(session, 8, 12, 21)
    step(session)
    move(session, 0)  # what cannot move does not hinder the others
    session.drain(60)
    assert results(session) == expected(1, 3, 7, 8, 12, 21)
    assert len(wanted) > 6
    assert results(session, "thrifty") == wanted


@pytest.mark.parametrize("harm", ["missing", "damaged"])
def test_a_file_that_is_gone_or_damaged_is_a_fault(session: Session, tmp_path: Path, harm: str) -> None:
    push(session, 1, 3, 7)
    step(session)
    move(session, 1)
    once(session)
    (file,) = moves(tmp_path)
    if harm == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-40] + b"0" * 40)
    with pytest.raises(HostFault, match=harm):
        once(session)


def test_a_group_that_was_found_to_be_settled_does_not_begin_again_elsewhere(tmp_path: Path) -> None:
    text = """CREATE QUERY counts AS SELECT k, count(*) AS n FROM s [RANGE 100 SECONDS] GROUP BY k INTO MEMORY;"""
    with Session(tmp_path, host="local", buckets=2) as session:
        session.execute(STREAM + text)
        push(session, 0)
        step(session)
        session.execute("ASSUME counts WHERE n > 2 FOR 10 MINUTES")
        push(session, 1, 2, 3, 4)
        step(session)
        settled = groups(session, 0) | groups(session, 1)
        assert len(settled) == 2
        for bucket in (1, 0):
            move(session, bucket)
            push(session, 10 + bucket)
            step(session)
            assert groups(session, bucket) == settled
        push(session, 101)
        session.drain(60)
        # a group of the first window had seven tuples, of the second one
        assert {row["n"] for row in results(session)} <= {1, 7}


def test_parcels_are_listed_with_their_buckets(session: Session) -> None:
    move(session, 1)
    push(session, 1, 3, 7)
    step(session)
    (listing,) = session.execute("SHOW PARCELS")
    assert isinstance(listing, Listing)
    assert {row[3] for row in listing.rows} == {1}
    assert {row[0] for row in listing.rows} == {"counts"}
    assert {row[-2:] for row in listing.rows} == {("yes", "")}
