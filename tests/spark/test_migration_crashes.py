"""Killed at points of a change of plan, and started again: the files hold exactly what the oracle says."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.spark.crash_case import multiset, wait_for_batches, written
from tests.spark.test_crashes import ended, finish, start, workers_of

from headrace.control.decision_log import DecisionLog
from headrace.control.decisions import ChangePlan
from headrace.control.migration_log import MigrationLog
from headrace.operators.expressions.hashing import hash_columns

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
#: Of the uneven ones: the streams that have few keys in each bucket, how many these are, and how many the others have.
ALIKE, FEW, MANY = ("ab", "bc", "ac", "ab"), 1, 40
Draw = Callable[[np.random.Generator, str, int], np.ndarray]
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


def alike(rng: np.random.Generator, name: str, count: int) -> np.ndarray:
    """Draw keys of a stream that are as likely in each bucket."""
    return rng.integers(0, KEYS[name], count)


def uneven(rng: np.random.Generator, name: str, count: int) -> np.ndarray:
    """Draw keys of which two streams have few in a bucket, and two others in another one: no tree is best in all."""
    numbers = pl.Series(range(500), dtype=pl.Int32)
    places = hash_columns([numbers]) % np.uint64(len(ALIKE))
    keys = np.array([np.flatnonzero(places == place)[:MANY] for place in range(len(ALIKE))])
    bucket = rng.integers(0, len(ALIKE), count)
    most = np.array([FEW if name in names else MANY for names in ALIKE])
    return keys[bucket, rng.integers(0, most[bucket])]


def write_streams(directory: Path, draw: Draw = alike) -> dict[str, pl.DataFrame]:
    """Three streams in small files, the first with some disorder within its skew."""
    rng, frames, count = np.random.default_rng(3), {}, LIMIT * FILES
    for name in "abc":
        ts = np.sort(rng.integers(0, 6_000_000 * FILES, count))
        if name == "a":
            ts = ts - rng.integers(0, 450_000, count)
        at = pl.Series(ts + 1_767_225_600_000_000).cast(pl.Datetime("us"))
        columns = (pl.Series(each, dtype=pl.Int32) for each in (draw(rng, name, count), rng.integers(0, 1000, count)))
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


def case_of(directory: Path, where: str = "", more: str = "", draw: Draw = alike) -> tuple[Path, Path, dict[str, list]]:
    """Return the script, the checkpoint, and what the files shall hold."""
    frames = write_streams(directory / "data", draw)
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
    """The optimizer changes the plan of all buckets, and then that of each."""
    is_full = request.config.getoption("--all-points")
    common, local = (POINTS, POINTS) if is_full else (POINTS[1:2], POINTS[3::2])
    script, checkpoint, answers = case_of(tmp_path, draw=uneven)
    monkeypatch.setenv("HEADRACE_ALLOW_PYTHON", "headrace.testing.migrations")
    monkeypatch.setenv("EAGER", "1")
    each_bucket = script.with_name("each_bucket.sql")
    each_bucket.write_text(script.read_text() + "ALTER SYSTEM SET local_plans = 'auto';")
    for point, statements in (*((point, script) for point in common), *((point, each_bucket) for point in local)):
        monkeypatch.setenv("DIE_AT", point)
        is_killed(start(checkpoint, statements, "waiting", limit=LIMIT, path=FAIL_POINTS), tmp_path)
        is_first = (point, statements) == ("before the log", script)
        assert not is_first or not MigrationLog(checkpoint).all(), "a change that is not in the log did not happen"
    decided = [each.decision for each in DecisionLog(checkpoint).all()]
    assert [each for each in decided if isinstance(each, ChangePlan)], "the optimizer changed the plan by itself"
    monkeypatch.delenv("DIE_AT")
    shown = tmp_path / "plans.txt"
    finish(start(checkpoint, each_bucket, f"plans={shown}", limit=LIMIT, path=FAIL_POINTS), tmp_path)
    assert written(tmp_path / "out", answers) == answers
    plans = [line.partition(" by Headrace in ") for line in shown.read_text().splitlines()]
    assert len({plan for plan, _, buckets in plans if buckets}) > 1, "buckets run different trees"
    first, *others = MigrationLog(checkpoint).all()
    assert (first.auto, first.how, first.before, first.buckets) == (True, "stepwise", "((x y) z)", None)
    assert [each for each in others if each.auto and each.buckets], "some buckets changed alone"
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
