"""Shedding on Spark, switched while it runs, over a restart and over kill -9: the reported loss is the loss."""

import datetime as dt
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from headrace.session import Session
from headrace.testing.watching import delivered, until

pytestmark = pytest.mark.spark
START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
ROWS = 600
SCRIPT = """
CREATE STREAM t (at TIMESTAMP, k INT, v DOUBLE) TIMESTAMP BY at SKEW 10 SECONDS
  FROM FILES (path '{folder}/data', format 'parquet');
CREATE QUERY q WITH (error 0.5) AS SELECT at, k, v FROM t WHERE v >= 0 INTO FILES (path '{folder}/q', format 'parquet');
CREATE QUERY windows WITH (error 0.5, shed SMALLEST v) AS SELECT k, count(*) AS n FROM t [RANGE 1 HOUR] GROUP BY k
  INTO FILES (path '{folder}/windows', format 'parquet');
CREATE QUERY whole AS SELECT at FROM t INTO FILES (path '{folder}/whole', format 'parquet');
CREATE QUERY told AS SELECT at, query, seen, dropped FROM headrace.shed
  INTO FILES (path '{folder}/told', format 'parquet');
"""


def write(folder: Path, number: int) -> None:
    """A minute of readings."""
    (folder / "data").mkdir(exist_ok=True)
    rows = [
        {"at": START + dt.timedelta(minutes=number, milliseconds=i * 100), "k": i % 5, "v": float(i * 7 % 100)}
        for i in range(ROWS)
    ]
    frame = pl.DataFrame(rows, schema={"at": pl.Datetime("us"), "k": pl.Int32, "v": pl.Float64})
    frame.write_parquet(folder / "data" / f".{number}.parquet")
    (folder / "data" / f".{number}.parquet").rename(folder / "data" / f"{number:03d}.parquet")


def check(folder: Path, count: int) -> pl.DataFrame:
    """Of each query just what the stream of losses says is missing."""
    told = delivered(folder / "told")
    lost = dict(told.group_by("query").agg(pl.col("dropped").sum()).iter_rows())
    assert delivered(folder / "whole").height == count
    assert delivered(folder / "q").height == count - lost["q"]
    assert delivered(folder / "windows")["n"].sum() == count - lost["windows"]
    return told


@pytest.mark.timeout(600)
def test_shedding_is_switched_on_and_off_and_goes_on_after_a_restart(spark, tmp_path):
    def feed(number):
        write(tmp_path, number)
        until(lambda: delivered(tmp_path / "whole").height == (number + 1) * ROWS)

    (tmp_path / "data").mkdir()
    with Session(tmp_path / "checkpoint", buckets=2) as session:
        session.execute(SCRIPT.format(folder=tmp_path))
        feed(0)
        session.execute("ALTER QUERY q SET shedding = 0.25; ALTER QUERY windows SET shedding = 0.5")
        feed(1)
        feed(2)
    with Session(tmp_path / "checkpoint") as session:
        session.start()
        feed(3)
        (listing,) = session.execute("SHOW SHEDDING")
        assert {row[0] for row in listing.rows} == {"q", "windows"}
        session.execute("ALTER QUERY q SET shedding = 'off'; ALTER QUERY windows SET shedding = 'auto'")
        feed(4)
        session.drain(300)
    told = check(tmp_path, 5 * ROWS)
    seen = dict(told.group_by("query").agg(pl.col("seen").sum()).iter_rows())
    assert seen == {"q": 3 * ROWS, "windows": 3 * ROWS}
    dropped = dict(told.group_by("query").agg(pl.col("dropped").sum()).iter_rows())
    assert 300 < dropped["q"] < 600
    assert dropped["windows"] == pytest.approx(900, abs=60)


@pytest.mark.timeout(600)
def test_killed_at_random_moments_it_tells_of_each_loss_once(tmp_path):
    for number in range(8):
        write(tmp_path, number)
    script = tmp_path / "script.sql"
    script.write_text(
        SCRIPT.format(folder=tmp_path) + "ALTER QUERY q SET shedding = 0.25; ALTER QUERY windows SET shedding = 0.5;"
    )
    checkpoint, child, chance = tmp_path / "checkpoint", Path(__file__).with_name("crash_child.py"), random.Random(31)

    def start():
        with open(tmp_path / "child.log", "ab") as log:
            return subprocess.Popen(
                [sys.executable, str(child), str(checkpoint), str(script), str(ROWS)],
                start_new_session=True,
                stdout=log,
                stderr=log,
            )

    def committed():
        return len(list((checkpoint / "spark" / "commits").glob("[0-9]*")))

    def has_ended_or_committed(process, batches):
        return process.poll() is not None or committed() >= batches

    for _ in range(2):
        process, wanted = start(), committed() + chance.randint(2, 4)
        try:
            until(partial(has_ended_or_committed, process, wanted), 120)
            time.sleep(chance.random() * 0.3)  # somewhere within a micro-batch
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert start().wait(200) == 0, (tmp_path / "child.log").read_text()[-3000:]
    told = check(tmp_path, 8 * ROWS)
    assert told.filter(query="q")["seen"].sum() == told.filter(query="windows")["seen"].sum() == 8 * ROWS
