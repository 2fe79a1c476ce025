"""Killed at points of a change of plan, and started again: the files hold exactly what the oracle says."""

import os
import signal
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.spark.crash_case import multiset, wait_for_batches, written
from tests.spark.test_crashes import ended, finish, start, workers_of

from headrace.control.decision_log import DecisionLog
from headrace.control.decisions import ChangePlan
from headrace.control.migration_log import MigrationLog

SCRIPT = """
CREATE STREAM a (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at SKEW 1 SECOND
  FROM FILES (path '{data}/a', format 'parquet');
CREATE STREAM b (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM FILES (path '{data}/b', format 'parquet');
CREATE STREAM c (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM FILES (path '{data}/c', format 'parquet');
CREATE FUNCTION kept(BIGINT) RETURNS BOOLEAN FROM PYTHON 'headrace.testing.migrations:is_kept';
CREATE QUERY triples AS SELECT x.k, x.v AS a, y.v AS b, z.v AS c
  FROM a [RANGE 30 SECONDS] AS x JOIN b [RANGE 20 SECONDS] AS y ON x.k = y.k JOIN c [RANGE 40 SECONDS] AS z ON y.k = z.k
  {where} INTO FILES (path '{out}/triples', format 'parquet');
"""
#: A condition that can be tested late, which would take more time than all plans of so small a join.
CONDITION = "WHERE kept(z.v % 2)"
#: Read beside it: the tuples of a micro-batch have one time, and are condensed before they are joined.
COUNTED = """
ALTER SYSTEM SET optimizer = 'off';
CREATE STREAM d (at TIMESTAMP, k INT, v INT) TIMESTAMP INTERNAL FROM FILES (path '{data}/a', format 'parquet');
CREATE STREAM e (at TIMESTAMP, k INT, v INT) TIMESTAMP INTERNAL FROM FILES (path '{data}/b', format 'parquet');
CREATE QUERY counted AS SELECT d.k, count(*) AS n, sum(e.v) AS s FROM d [RANGE 1 DAY], e [RANGE 1 DAY]
  WHERE d.k = e.k GROUP BY d.k INTO FILES (path '{out}/counted', format 'parquet');
"""
#: The windows of the streams, in seconds.
WINDOWS = {"a": 30, "b": 20, "c": 40}
#: Tuples of a stream in a micro-batch, so few that there are some left for each process.
LIMIT, FILES = 20, 60
#: The number of keys of each stream: the pairs that the first plan stores are seldom of use.
KEYS = {"a": 4, "b": 4, "c": 160}
FAIL_POINTS = Path(__file__).with_name("fail_points")
#: Where each process dies while the optimizer changes the plan.
POINTS = (
    "before the log",
    "after the log",
    "in a bucket",  # of the micro-batch that takes the change, after one bucket has saved its state
    "before the delivery",  # of the same micro-batch
    "in the delivery",
    "between portions",
)


def write_streams(directory: Path) -> dict[str, pl.DataFrame]:
    """Three streams in small files, the first with some disorder within its skew."""
    rng, frames, count = np.random.default_rng(3), {}, LIMIT * FILES
    for name in "abc":
        ts = np.sort(rng.integers(0, 6_000_000 * FILES, count))
        if name == "a":
            ts = ts - rng.integers(0, 450_000, count)
        at = pl.Series(ts + 1_767_225_600_000_000).cast(pl.Datetime("us"))
        columns = (pl.Series(rng.integers(0, most, count), dtype=pl.Int32) for most in (KEYS[name], 1000))
        frames[name] = pl.DataFrame(dict(zip(("at", "k", "v"), (at, *columns), strict=True)))
        (directory / name).mkdir(parents=True)
        for i in range(FILES):
            frames[name][i * LIMIT : (i + 1) * LIMIT].write_parquet(directory / name / f"{i:03d}.parquet")
    return frames


def triples(frames: dict[str, pl.DataFrame]) -> list:
    """Return what the query means: the oracle would take as long as Spark for so many tuples."""
    x, y, z = (
        frames[name].select("k", pl.col("v").alias(name), pl.col("at").cast(pl.Int64).alias(f"at_{name}"))
        for name in "abc"
    )
    ends = [pl.col(f"at_{name}") + seconds * 1_000_000 for name, seconds in WINDOWS.items()]
    met = x.join(y, on="k").join(z, on="k").filter(pl.max_horizontal("at_a", "at_b", "at_c") <= pl.min_horizontal(ends))
    return multiset(met.select("k", "a", "b", "c").to_dicts())


def case_of(directory: Path, where: str = "", more: str = "") -> tuple[Path, Path, dict[str, list]]:
    """Return the script, the checkpoint, and what the files shall hold."""
    frames = write_streams(directory / "data")
    if where:
        frames["c"] = frames["c"].filter(pl.col("v") % 2 != 1)
    answers = {"triples": triples(frames)}
    assert len(answers["triples"]) > 200
    script, text = directory / "script.sql", SCRIPT + more
    script.write_text(text.format(data=directory / "data", out=directory / "out", where=where))
    return script, directory / "checkpoint", answers


def is_killed(process, directory):
    """Wait for a process that kills itself."""
    assert process.wait(300) == -signal.SIGKILL, (directory / "child.log").read_text()[-3000:]


@pytest.mark.timeout(1200)
def test_killed_at_points_of_a_change_of_plan_nothing_is_lost_or_repeated(tmp_path, monkeypatch, request):
    points = POINTS if request.config.getoption("--all-points") else POINTS[1::2]
    script, checkpoint, answers = case_of(tmp_path)
    monkeypatch.setenv("HEADRACE_ALLOW_PYTHON", "headrace.testing.migrations")
    monkeypatch.setenv("EAGER", "1")
    taken = []
    for point in points:
        monkeypatch.setenv("DIE_AT", point)
        is_killed(start(checkpoint, script, "waiting", limit=LIMIT, path=FAIL_POINTS), tmp_path)
        taken.append(len(MigrationLog(checkpoint).all()))
        assert point != "before the log" or taken == [0], "a change that is not in the log did not happen"
    assert taken[-1] == 1
    decided = [each.decision for each in DecisionLog(checkpoint).all()]
    assert [each for each in decided if isinstance(each, ChangePlan)], "the optimizer changed the plan by itself"
    monkeypatch.delenv("EAGER")
    monkeypatch.delenv("DIE_AT")
    finish(start(checkpoint, script, limit=LIMIT, path=FAIL_POINTS), tmp_path)
    assert written(tmp_path / "out", answers) == answers
    first, *_ = MigrationLog(checkpoint).all()
    assert (first.auto, first.how, first.before) == (True, "stepwise", "((x y) z)")
    lasting = [each.decision for each in DecisionLog(checkpoint).all()]
    assert lasting[: len(decided)] == decided, "what was decided is still listed"


@pytest.mark.timeout(1200)
def test_killed_while_two_plans_run_and_conditions_change_their_place_nothing_is_lost_or_repeated(
    tmp_path, monkeypatch
):
    script, checkpoint, answers = case_of(tmp_path, CONDITION, COUNTED)
    monkeypatch.setenv("HEADRACE_ALLOW_PYTHON", "headrace.testing.migrations")
    monkeypatch.setenv("DIE_AT", "between portions")
    late = "change=((x z) y) late z USING PARALLEL TRACK"  # pulled up
    is_killed(start(checkpoint, script, late, "waiting", limit=LIMIT, path=FAIL_POINTS), tmp_path)
    monkeypatch.delenv("DIE_AT")
    early = "change=(x (y z)) USING PARALLEL TRACK"  # pushed down; the process lives, and loses a worker meanwhile
    process = start(checkpoint, script, early, limit=LIMIT, path=FAIL_POINTS)
    wait_for_batches(checkpoint, 2, is_over=ended(process))
    for worker in workers_of(process.pid)[:1]:
        os.kill(worker, signal.SIGKILL)
    finish(process, tmp_path)
    assert written(tmp_path / "out", answers) == answers
    pairs = [pl.read_parquet(tmp_path / "data" / name).select("k", v=pl.col("v").cast(pl.Int64)) for name in "ab"]
    met = pairs[0].select("k").join(pairs[1], on="k").group_by("k").agg(n=pl.len(), s=pl.col("v").sum()).sort("k")
    counted = pl.read_parquet(tmp_path / "out" / "counted").group_by("k").agg(pl.col("n", "s").sum()).sort("k")
    assert counted.rows() == met.rows(), "in however many windows"
    first, second = MigrationLog(checkpoint).all()
    assert [each.how for each in (first, second)] == ["parallel", "parallel"]
    assert second.ended is not None
