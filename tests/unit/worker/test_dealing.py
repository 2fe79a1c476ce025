"""A key in several buckets: where its tuples go, what each bucket keeps and works, and restarts."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from headrace.commands.allotments import Allotment
from headrace.commands.command import KeySplit
from headrace.hosts.local import LocalDeployment
from headrace.session import Session
from headrace.session.outcome import Listing, Message
from headrace.worker.dealing import Dealer

BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
STREAMS = "".join(
    f"CREATE STREAM {name} (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM MEMORY;\n" for name in ("s", "t")
)
PAIRS = """CREATE QUERY pairs AS SELECT s.k, s.v, t.v AS w
FROM s [RANGE 100 SECONDS] JOIN t [RANGE 100 SECONDS] ON s.k = t.k INTO MEMORY;"""
COUNTS = "CREATE QUERY counts AS SELECT k, count(*) AS n FROM pairs [RANGE 5 SECONDS] GROUP BY k INTO MEMORY;"
ALL = ", ".join(map(str, range(64 * 4)))


def step(session: Session) -> list[int]:
    """Do all that is to do; return how many tuples the join takes in each bucket."""
    assert isinstance(session.deployment, LocalDeployment)
    taken: Counter[int] = Counter()
    while session.deployment.step():
        for report in session.deployment.delivery.reports:
            joins = [counts for name, counts in report.vertices.items() if name.startswith("join")]
            taken[report.buckets[0].bucket] += sum(counts.tuples_in for counts in joins)
    return [taken[bucket] for bucket in sorted(taken)]


def push(session: Session, second: int) -> None:
    """Push 40 tuples of one key to one stream, and two to the other."""
    at = BEGIN + dt.timedelta(seconds=second)
    session.push("s", [{"at": at, "k": 7, "v": n} for n in range(40)])
    session.push("t", [{"at": at, "k": 7, "v": n} for n in range(2)])


def held(session: Session) -> list[int]:
    """Return how many rows the join keeps in each bucket."""
    assert isinstance(session.deployment, LocalDeployment)
    kept = [bucket for _, bucket in sorted(session.deployment.kept.items())]
    observed = [bucket.engine.observe().vertices for bucket in kept]
    return [sum(counts.held for name, counts in one.items() if name.startswith("join")) for one in observed]


def say(session: Session, where: str) -> str:
    (said,) = session.execute(f"MOVE PARCELS {ALL} OF pairs TO {where}")
    assert isinstance(said, Message)
    return said.text


def results(session: Session, query: str = "pairs") -> list[dict[str, Any]]:
    return sorted(session.results(query), key=lambda row: tuple(map(str, row.values())))


def test_tuples_of_one_port_are_dealt_and_those_of_others_copied() -> None:
    split = Allotment("a=b", (), 64, (3, 5), {2: 5}, splits={1: KeySplit(0, (3, 5, 8))})
    parcels = np.array([0, 1, 1, 2, 1, 1], np.int64)
    numbers, places = Dealer(split, 0, (3, 5, 8), turn=2).send(parcels)
    assert numbers is not None
    assert (numbers.tolist(), places.tolist()) == ([0, 1, 2, 3, 4, 5], [0, 2, 0, 1, 1, 2])
    numbers, places = Dealer(split, 1, (3, 5, 8), turn=2).send(parcels)
    assert numbers is not None
    assert numbers.tolist() == [0, 1, 1, 1, 2, 2, 2, 3, 4, 4, 4, 5, 5, 5]
    assert places.tolist() == [0, 0, 1, 2, 0, 1, 2, 1, 0, 1, 2, 0, 1, 2]
    assert Dealer(split, 0, (3, 5, 8), turn=2).send(np.array([0, 2]))[0] is None


def test_the_work_for_one_key_is_divided_and_gathered_again(tmp_path: Path) -> None:
    with Session(tmp_path, host="local", buckets=4) as session:
        session.execute(STREAMS + PAIRS + COUNTS)
        push(session, 1)
        assert sorted(step(session)) == [0, 0, 0, 42]
        assert "all buckets; what reads the results of the join by key gets them a micro-batch later" in say(
            session, "ALL BUCKETS"
        )
        step(session)
        assert sorted(held(session)) == [2, 2, 2, 42]  # the other stream's rows are everywhere
        push(session, 2)
        assert step(session) == [12, 12, 12, 12]
        counted = session.statistics().vertices
        (join,) = (counts for name, counts in counted.items() if name.startswith("join"))
        assert join.tuples_in == 2 * 42, "a copy is no tuple of its own: costs and selectivities are those of tuples"
        assert say(session, "ALL BUCKETS") == "pairs: these parcels are in all buckets already"
        first = results(session)
    with Session(tmp_path, host="local", buckets=4) as session:
        session.start()
        push(session, 3)
        step(session)
        assert sorted(held(session)) == [10 + 6 + 10, 10 + 6 + 10, 10 + 6 + 10, 40 + 10 + 6 + 10]
        say(session, "BUCKET 2")
        step(session)
        assert held(session) == [0, 0, 3 * 42, 0]
        push(session, 4)
        session.drain(60)
        both = [*first, *results(session)]
        assert len(both) == 4 * 40 * 4 * 2
        assert len({(row["v"], row["w"]) for row in both}) == 80
        assert sum(row["n"] for row in results(session, "counts")) == len(both)


def test_parcels_that_are_split_are_listed(tmp_path: Path) -> None:
    with Session(tmp_path, host="local", buckets=2) as session:
        session.execute(STREAMS + PAIRS)
        step(session)
        session.execute("MOVE PARCELS 3, 9 OF pairs TO ALL BUCKETS")
        step(session)
        (listing,) = session.execute("SHOW PARCELS")
        assert isinstance(listing, Listing)
        assert {row[1]: row[-1] for row in listing.rows} == {3: "0, 1", 9: "0, 1"}
        (explained,) = session.execute("EXPLAIN pairs")
        assert isinstance(explained, Message)
        line = "join s x t on k: parcel 9 is in buckets 0, 1; tuples of s are dealt to them, all others go to each"
        assert line in explained.text


def test_readers_of_a_split_join_may_come_and_go(tmp_path: Path) -> None:
    with Session(tmp_path, host="local", buckets=4) as session:
        session.execute(STREAMS + PAIRS + COUNTS)
        push(session, 1)
        step(session)
        say(session, "ALL BUCKETS")
        push(session, 2)
        step(session)
        session.execute("DROP QUERY counts;" + COUNTS.replace("counts", "later"))
        step(session)
        push(session, 3)
        session.drain(60)
        assert len(results(session)) == 9 * 80
        assert sum(row["n"] for row in results(session, "later")) == (9 - 4) * 80
