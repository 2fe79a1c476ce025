"""A budget that does not suffice, another scheduler and a restart in between: what waits is kept, and every result comes once."""

import datetime as dt
import time
from collections import Counter

import pytest

from headrace.hosts.progress import guide, read_progress
from headrace.session import Session

pytestmark = pytest.mark.spark
START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
TUPLES = 2000


def test_what_a_budget_leaves_over_waits_through_another_scheduler_and_a_restart(spark, tmp_path):
    directory = tmp_path / "checkpoint"
    directory.mkdir()
    guide(directory, 1_000_000, {})  # of paneaggregate about 200 tuples in a bucket
    rows = [{"at": START + dt.timedelta(milliseconds=10 * number), "item": number % 7} for number in range(TUPLES)]
    with Session(directory, buckets=2) as session:
        session.execute(f"""
            CREATE STREAM bids (at TIMESTAMP, item INT) TIMESTAMP BY at FROM MEMORY;
            CREATE QUERY counts AS SELECT item, count(*) AS n, window_end FROM bids [RANGE 1 SECONDS] GROUP BY item
              INTO FILES (path '{tmp_path}/counts', format 'json');
            CREATE QUERY sizes AS SELECT item, sum(item) AS n, window_end FROM bids [RANGE 2 SECONDS] GROUP BY item
              INTO FILES (path '{tmp_path}/sizes', format 'json');
            ALTER SYSTEM SET scheduler = 'chain';
            ALTER QUERY sizes SET scheduler = 'path-capacity'""")
        session.push("bids", rows)
        deadline = time.monotonic() + 100
        while not (left := read_progress(directory).unread):
            assert time.monotonic() < deadline, "nothing was left over"
            time.sleep(0.01)
        assert left <= 2 * TUPLES
    assert read_progress(directory).unread, "stopped before all was done"
    with Session(directory) as session:
        session.execute("ALTER SYSTEM SET scheduler = 'memory-optimal'")
        session.drain(150)
    expected = Counter((item, second) for item, second in ((row["item"], (row["at"] - START).seconds) for row in rows))
    assert results(tmp_path / "counts") == {(item, second + 1): n for (item, second), n in expected.items()}
    sizes = Counter[tuple[int, int]]()
    for (item, second), n in expected.items():
        sizes[item, second - second % 2 + 2] += item * n
    assert results(tmp_path / "sizes") == dict(sizes)


def results(folder):
    import polars as pl

    found = {}
    for path in sorted(folder.glob("*.json")):
        if path.stat().st_size:
            for row in pl.read_ndjson(path).iter_rows(named=True):
                end = dt.datetime.fromisoformat(str(row["window_end"])).replace(tzinfo=None)
                key = (row["item"], int((end - START).total_seconds()))
                assert key not in found, f"{key} came twice"
                found[key] = row["n"]
    return found
