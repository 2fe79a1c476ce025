"""Too small a budget, another scheduler and a restart: waiting tuples are kept, and every result comes once."""

import datetime as dt
import time
from collections import Counter

import polars as pl
import pytest

from headrace.driver.progress import read_progress
from headrace.session import Session
from headrace.testing.watching import until

pytestmark = pytest.mark.spark
START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
#: Tuples before the restart, and after it.
TUPLES, MORE = 8000, 2000


def waiting(session):
    """Return peak, time in queue and idle share of each operator, as SHOW STATISTICS has them."""
    (shown,) = session.execute("SHOW STATISTICS")
    rows = [dict(zip(shown.columns, row, strict=True)) for row in shown.rows]
    return [(row["peak"], row["ms in queue"], row["idle share"]) for row in rows] or [(0, 0, 0)]


def test_what_a_budget_leaves_over_waits_through_another_scheduler_and_a_restart(spark, tmp_path):
    directory = tmp_path / "checkpoint"
    directory.mkdir()
    rows = [{"at": START + dt.timedelta(milliseconds=number), "item": number % 7} for number in range(TUPLES + MORE)]
    with Session(directory, buckets=2) as session:
        session.execute(f"""
            CREATE STREAM bids (at TIMESTAMP, item INT) TIMESTAMP BY at FROM MEMORY;
            CREATE QUERY counts AS SELECT item, count(*) AS n FROM bids [SESSION 5 SECONDS] GROUP BY item
              INTO FILES (path '{tmp_path}/counts', format 'parquet');
            CREATE QUERY pairs AS SELECT a.item, b.at FROM bids [NOW] AS a JOIN bids [NOW] AS b ON a.item = b.item
              INTO FILES (path '{tmp_path}/pairs', format 'parquet');
            ALTER SYSTEM SET budget = '1 ms';
            ALTER SYSTEM SET scheduler = 'chain';
            ALTER QUERY pairs SET scheduler = 'path-capacity'""")
        session.push("bids", rows[:TUPLES])
        deadline = time.monotonic() + 150
        while not (left := read_progress(directory).unread):
            assert time.monotonic() < deadline, "nothing was left over"
            time.sleep(0.01)
        assert left <= 4 * TUPLES
        until(lambda: session.statistics().queues.peak_bytes > 0, session=session)  # known a moment after the progress
    with Session(directory) as session:
        session.execute("ALTER SYSTEM SET scheduler = 'memory-optimal'")
        session.start()
        session.push("bids", rows[TUPLES:])
        # waiting is measured again after the restart: of what was left, and of what comes
        until(lambda: all(any(column) for column in zip(*waiting(session), strict=True)), session=session)
        assert session.statistics().queues.peak_bytes > 0
        session.execute("ALTER SYSTEM SET budget = 'off'")
        session.drain(200)
    counts = pl.read_parquet(tmp_path / "counts" / "*.parquet")
    assert Counter(counts.select("item", "n").rows()) == Counter(Counter(row["item"] for row in rows).items())
    pairs = pl.read_parquet(tmp_path / "pairs" / "*.parquet")
    assert Counter(pairs.select("item", "at").rows()) == Counter((row["item"], row["at"]) for row in rows)
