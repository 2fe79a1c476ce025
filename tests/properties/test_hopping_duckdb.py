"""Ranks and sums of the tuples of windows that overlap give what DuckDB gives over copies of the tuples."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import duckdb
import pytest

from headrace.session import Session

BEGIN = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
COLUMNS = """k, x, rank() OVER (PARTITION BY window_start, window_end, k ORDER BY x DESC NULLS LAST) AS r,
    row_number() OVER (PARTITION BY window_start, window_end ORDER BY x, at) AS n,
    sum(x) OVER (PARTITION BY window_start, window_end, k) AS s, window_end AS until"""
#: Windows by how they are written: the copies of a tuple, as (start, end) in seconds.
HOP = "HOP(TABLE t, DESCRIPTOR(at), INTERVAL '4' SECOND, INTERVAL '10' SECOND)"
CUMULATE = "CUMULATE(TABLE t, DESCRIPTOR(at), INTERVAL '5' SECOND, INTERVAL '20' SECOND)"
SHIFTED = "TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '10' SECOND, INTERVAL '3' SECOND)"


def windows(call: str, second: int) -> list[tuple[int, int]]:
    """Return the windows of a tuple, by their definition."""
    if call == CUMULATE:
        start = second // 20 * 20
        return [(start, start + 5 * j) for j in range(1, 5) if second < start + 5 * j]
    slide, offset = (4, 0) if call == HOP else (10, 3)
    first = (second - offset) // slide * slide + offset
    return [(start, start + 10) for start in range(first, first - 10, -slide) if start <= second < start + 10]


@pytest.mark.parametrize("call", [HOP, CUMULATE, SHIFTED], ids=["hop", "cumulate", "offset"])
def test_ranks_over_windows_that_overlap_are_those_of_duckdb(call: str) -> None:
    chance = random.Random(7)
    rows = [
        (BEGIN + timedelta(seconds=second), chance.choice([1, 2, None]), chance.choice([None, 1, 2, 3, 4]))
        for second in sorted(chance.sample(range(100), 50))
    ]
    with duckdb.connect() as db:
        db.execute('CREATE TABLE copies ("at" TIMESTAMP, k INT, x INT, window_start TIMESTAMP, window_end TIMESTAMP)')
        for at, k, x in rows:
            for start, end in windows(call, int((at - BEGIN).total_seconds())):
                ends = BEGIN + timedelta(seconds=start), BEGIN + timedelta(seconds=end)
                db.execute("INSERT INTO copies VALUES (?, ?, ?, ?, ?)", [at, k, x, *ends])
        db.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
        quoted = COLUMNS.replace("at)", '"at")')
        expected = db.execute(f"SELECT {quoted} FROM copies").fetchall()
    with Session(host="local", buckets=2) as session:
        session.execute("CREATE STREAM t (at TIMESTAMP, k INT, x INT) TIMESTAMP BY at FROM MEMORY")
        session.execute(f"CREATE QUERY q AS SELECT {COLUMNS} FROM TABLE({call}) INTO MEMORY")
        session.push("t", [dict(zip(("at", "k", "x"), row, strict=True)) for row in rows])
        session.drain()
        found = [tuple(row.values()) for row in session.results("q")]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert len(found) > 40
