"""Streams whose tuples get the time of their micro-batch: joins below aggregates take few rows of them."""

from __future__ import annotations

import pytest

from headrace.session import Session
from headrace.session.outcome import Message
from headrace.testing.watching import local_host

STREAMS = "".join(f"CREATE STREAM {name} (k INT, v INT, w DOUBLE) TIMESTAMP INTERNAL FROM MEMORY;" for name in "abc")
TWO = "a [RANGE 1 DAY], b [RANGE 1 DAY] WHERE a.k = b.k"
THREE = "a [RANGE 1 DAY], b [RANGE 1 DAY], c [RANGE 1 DAY] WHERE a.k = b.k AND b.k = c.k"


def rows(count: int) -> list[dict[str, object]]:
    return [{"k": i % 4, "v": i, "w": i / 2} for i in range(count)]


@pytest.mark.parametrize(("tables", "streams"), [(TWO, "ab"), (THREE, "abc")])
def test_a_join_takes_a_row_for_all_tuples_of_a_micro_batch_that_are_alike(tables: str, streams: str) -> None:
    with Session(host="local", buckets=2) as session:
        session.execute(
            f"{STREAMS} CREATE QUERY q AS "
            f"SELECT a.k, count(*) AS n, sum(b.v) AS s FROM {tables} GROUP BY a.k INTO MEMORY"
        )
        (shown,) = session.execute("EXPLAIN q")
        assert isinstance(shown, Message)
        assert shown.text.count("Condense what agrees in time, k: ") == len(streams)
        for name in streams:
            session.push(name, rows(80))
        local_host(session).step()
        counts: dict[str, int] = {}
        for name, seen in session.statistics().vertices.items():
            kind = name.partition("-")[0]
            counts[kind] = counts.get(kind, 0) + seen.tuples_in
        assert counts["condense"] == 80 * len(streams)
        assert counts["join" if len(streams) == 2 else "multijoin"] == 4 * len(streams), "not 80 of each"
        session.drain()
        found = {row["k"]: (row["n"], row["s"]) for row in session.results("q")}
    times = 20 ** (len(streams) - 1)
    assert found == {k: (20 * times, times * sum(range(k, 80, 4))) for k in range(4)}


@pytest.mark.parametrize(
    "select",
    [
        f"SELECT a.k, sum(b.w) AS s FROM {TWO} GROUP BY a.k",  # sums of DOUBLE depend on what is added first
        f"SELECT a.k, count(DISTINCT b.v) AS n FROM {TWO} GROUP BY a.k",
        f"SELECT a.k, a.v, b.v AS other FROM {TWO}",
        "SELECT a.k, count(*) AS n FROM a [RANGE 1 DAY] LEFT JOIN b [RANGE 1 DAY] ON a.k = b.k GROUP BY a.k",
    ],
)
def test_other_queries_join_each_tuple(select: str) -> None:
    with Session(host="local") as session:
        session.execute(STREAMS)
        (shown,) = session.execute(f"EXPLAIN {select}")
        assert isinstance(shown, Message)
        assert "ondense" not in shown.text
