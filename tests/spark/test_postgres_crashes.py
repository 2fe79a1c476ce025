"""Killed between results, the tables of a database hold each result once, and the newest row of each key.

The rows of a LEFT JOIN without windows are taken back when an answer comes, before the kill or after it.
"""

import datetime as dt
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
from tests.postgres.server import database, postgres

from headrace.testing.watching import until

__all__ = ["database", "postgres"]

START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone


def bids(seed=11, count=12_000):
    draw = random.Random(seed)
    return pl.DataFrame(
        {
            "at": [START + dt.timedelta(milliseconds=10 * number) for number in range(count)],
            "id": range(count),
            "item": [draw.randrange(40) for _ in range(count)],
            "price": [draw.randrange(100) for _ in range(count)],
        }
    )


def answers(rows, seed=12):
    """Return an answer to each third bid, up to 20 seconds later."""
    draw = random.Random(seed)
    late = pl.Series([dt.timedelta(milliseconds=draw.randrange(20_000)) for _ in range(rows.height)])
    answered = rows.select(pl.col("at") + late, "id", ask=pl.col("price") + 1)
    return answered.filter(pl.Series([draw.random() < 0.3 for _ in range(rows.height)])).sort("at")


def statements(folder, url):
    return f"""
        CREATE STREAM bids (at TIMESTAMP, id BIGINT, item INT, price BIGINT) TIMESTAMP BY at
          FROM FILES (path '{folder}/bids', format 'parquet');
        CREATE STREAM answers (at TIMESTAMP, id BIGINT, ask BIGINT) TIMESTAMP BY at
          FROM FILES (path '{folder}/answers', format 'parquet');
        CREATE QUERY answered AS SELECT b.id, b.price, a.ask FROM bids AS b LEFT JOIN answers AS a ON b.id = a.id
          EMIT CHANGES STATE TTL '15 s' INTO POSTGRES (url '{url}', table 'answered', key 'id');
        CREATE QUERY standings AS SELECT item, count(*) AS n, sum(price) AS total FROM bids GROUP BY item
          HAVING count(*) < 310 EMIT CHANGES STATE TTL '1 day'
          INTO POSTGRES (url '{url}', table 'standings', key 'item');
        CREATE QUERY sums AS SELECT item, sum(price) AS total, window_end FROM bids [RANGE 5 SECONDS] GROUP BY item
          INTO POSTGRES (url '{url}', table 'sums')"""


def test_killed_between_results_a_table_has_each_once(database, tmp_path):
    import psycopg

    rows, script = bids(), tmp_path / "script.sql"
    for name, fed in (("bids", rows), ("answers", answers(rows))):
        (tmp_path / "in" / name).mkdir(parents=True)
        fed.write_parquet(tmp_path / "in" / name / "rows.parquet")
    script.write_text(statements(tmp_path / "in", database))

    def start():
        with (tmp_path / "child.log").open("ab") as log:
            child = Path(__file__).with_name("crash_child.py")
            command = [sys.executable, str(child), str(tmp_path / "checkpoint"), str(script), "1600"]
            return subprocess.Popen(command, start_new_session=True, stdout=log, stderr=log)

    with psycopg.connect(database, autocommit=True) as connection:

        def noted():
            ((there,),) = connection.execute("SELECT to_regclass('headrace_deliveries')").fetchall()
            if there is None:
                return 0
            ((total,),) = connection.execute("SELECT sum(batch) FROM headrace_deliveries").fetchall()
            return total or 0

        process = start()
        # a transaction of one sink is through, that of the other perhaps not
        until(lambda: noted() >= 9 or process.poll() is not None, 120)
        assert process.poll() is None, (tmp_path / "child.log").read_text()[-3000:]
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, (tmp_path / "child.log").read_text()[-3000:]
        assert start().wait(200) == 0, (tmp_path / "child.log").read_text()[-3000:]
        standings = connection.execute("SELECT * FROM standings ORDER BY item").fetchall()
        answered = connection.execute("SELECT * FROM answered ORDER BY id").fetchall()
        sums = connection.execute(
            "SELECT item, total, window_end AT TIME ZONE 'UTC' FROM sums ORDER BY window_end, item"
        ).fetchall()
    groups = rows.group_by("item").agg(n=pl.len().cast(pl.Int64), total=pl.col("price").sum())
    assert standings == groups.filter(pl.col("n") < 310).sort("item").rows()
    assert 0 < len(standings) < 40, "some rows were deleted, some were not"
    windows = rows.group_by("item", end=pl.col("at").dt.truncate("5s") + pl.duration(seconds=5)).agg(
        total=pl.col("price").sum()
    )
    assert sums == windows.sort("end", "item").select("item", "total", "end").rows()
    in_time = rows.join(answers(rows), on="id", how="left", suffix="_of_answer").with_columns(
        ask=pl.when(pl.col("at_of_answer") - pl.col("at") <= pl.duration(seconds=15)).then("ask")
    )
    assert answered == in_time.sort("id").select("id", "price", "ask").rows()
    assert 2_000 < in_time["ask"].count() < 3_500, "some bids were answered in time"
