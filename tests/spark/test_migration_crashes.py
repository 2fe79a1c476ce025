"""Killed while plans change, driver or worker, and started again: the files hold exactly what the oracle says."""

import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import polars as pl
from tests.spark.crash_case import expected, wait_for_batches, written
from tests.spark.test_crashes import ended, finish, start, workers_of

from headrace.control.migration_log import MigrationLog

SCRIPT = """
CREATE STREAM a (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at SKEW 1 SECOND
  FROM FILES (path '{data}/a', format 'parquet');
CREATE STREAM b (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM FILES (path '{data}/b', format 'parquet');
CREATE STREAM c (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM FILES (path '{data}/c', format 'parquet');
CREATE QUERY triples AS SELECT x.k, x.v AS a, y.v AS b, z.v AS c
  FROM a [RANGE 30 SECONDS] AS x JOIN b [RANGE 20 SECONDS] AS y ON x.k = y.k JOIN c [RANGE 40 SECONDS] AS z ON y.k = z.k
  INTO FILES (path '{out}/triples', format 'parquet');
"""
#: Tuples of a stream in a micro-batch, so few that there are some left for each process.
LIMIT = 20


def write_streams(directory: Path) -> dict[str, pl.DataFrame]:
    """Three streams in small files, the first with some disorder within its skew."""
    rng, frames = np.random.default_rng(3), {}
    for name in "abc":
        ts = np.sort(rng.integers(0, 240_000_000, 400))
        if name == "a":
            ts = ts - rng.integers(0, 450_000, 400)
        at = pl.Series(ts + 1_767_225_600_000_000).cast(pl.Datetime("us"))
        keys, values = (pl.Series(rng.integers(0, most, 400), dtype=pl.Int32) for most in (25, 1000))
        frames[name] = pl.DataFrame({"at": at, "k": keys, "v": values})
        (directory / name).mkdir(parents=True)
        for i in range(20):
            frames[name][i * 20 : (i + 1) * 20].write_parquet(directory / name / f"{i:03d}.parquet")
    return frames


def test_killing_drivers_and_workers_while_plans_change_loses_and_repeats_nothing(tmp_path):
    frames = write_streams(tmp_path / "data")
    text = SCRIPT.format(data=tmp_path / "data", out=tmp_path / "out")
    script, checkpoint, chance = tmp_path / "script.sql", tmp_path / "checkpoint", random.Random(31)
    script.write_text(text)
    answers = expected(text, frames)
    assert len(answers["triples"]) > 200
    for _ in range(3):
        process = start(checkpoint, script, "migrating", "waiting", limit=LIMIT)
        wait_for_batches(checkpoint, chance.randint(2, 5), is_over=ended(process))
        time.sleep(chance.random() * 0.4)  # somewhere within a micro-batch
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    process = start(checkpoint, script, "migrating", limit=LIMIT)
    wait_for_batches(checkpoint, 2, is_over=ended(process))
    for worker in workers_of(process.pid)[:1]:
        os.kill(worker, signal.SIGKILL)
    finish(process, tmp_path)
    assert written(tmp_path / "out", answers) == answers
    migrations = MigrationLog(checkpoint).all()
    assert {migration.how for migration in migrations} == {"moving", "stepwise", "parallel"}
    assert len(migrations) > 4
