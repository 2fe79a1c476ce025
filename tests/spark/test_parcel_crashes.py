"""Killed while parcels change bucket and buckets change their trees, and started again: the files hold the answer."""

import os
import signal
from pathlib import Path

import polars as pl
import pytest
from tests.spark.crash_case import expected, multiset, wait_for_batches, written
from tests.spark.test_crashes import ended, finish, start, workers_of
from tests.spark.test_migration_crashes import FAIL_POINTS, LIMIT, SCRIPT, is_killed, triples, write_streams

from headrace.commands.log import CommandLog
from headrace.commands.running import Running
from headrace.control.migration_log import MigrationLog

QUERIES = """
CREATE QUERY counts AS SELECT k, count(*) AS n, sum(v) AS total, window_end FROM a [RANGE 20 SECONDS SLIDE 5 SECONDS]
  GROUP BY k INTO FILES (path '{out}/counts', format 'parquet');
CREATE QUERY kinds AS SELECT DISTINCT k FROM c [RANGE 10 SECONDS] INTO FILES (path '{out}/kinds', format 'parquet');
CREATE QUERY visits AS SELECT k, count(*) AS n, sum(v) AS total FROM a [SESSION 2 SECONDS] GROUP BY k
  INTO FILES (path '{out}/visits', format 'parquet');
CREATE QUERY steps AS SELECT k, v - lag(v) OVER (PARTITION BY k ORDER BY at) AS step FROM b
  INTO FILES (path '{out}/steps', format 'parquet');
CREATE QUERY totals AS SELECT k, count(*) AS n FROM a GROUP BY k EMIT CHANGES STATE TTL '9 s'
  INTO FILES (path '{out}/totals', format 'parquet');
CREATE QUERY firsts AS SELECT DISTINCT ON (k) k, v FROM c [RANGE 10 SECONDS]
  INTO FILES (path '{out}/firsts', format 'parquet');
CREATE QUERY best AS SELECT k, v, row_number() OVER (PARTITION BY k, window_start, window_end ORDER BY v DESC) AS place
  FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(at), INTERVAL '10' SECOND)) QUALIFY place <= 2
  INTO FILES (path '{out}/best', format 'parquet');
CREATE QUERY lone AS SELECT k, count(*) AS n, count(w) AS met FROM (SELECT x.k, z.v AS w
  FROM (SELECT k, v FROM a WHERE v < 300) [RANGE 5 SECONDS] AS x LEFT JOIN c [RANGE 10 SECONDS] AS z ON x.k = z.k)
  [RANGE 4 SECONDS] GROUP BY k INTO FILES (path '{out}/lone', format 'parquet');
CREATE QUERY follow AS SELECT x.k, x.v AS a, y.v AS b FROM (SELECT k, v FROM a WHERE v < 300) [RANGE 9 SECONDS] AS x
  JOIN b AS y ON x.k = y.k FOLLOWING CHRONICLE INTO FILES (path '{out}/follow', format 'parquet');
CREATE EVENT low AS SELECT k, v FROM a WHERE v < 200;
CREATE EVENT silence AS NOT (c) [low, '3 s'] WHERE low.k = c.k;
CREATE QUERY quiet AS SELECT k, v FROM silence INTO FILES (path '{out}/quiet', format 'parquet');
CREATE QUERY first AS SELECT k, v FROM b LIMIT 700 INTO FILES (path '{out}/first', format 'parquet');
ALTER SYSTEM SET grid = 'on';
CREATE QUERY apart AS SELECT x.v AS a, y.v AS b, z.v AS c FROM (SELECT v FROM a WHERE v < 300) [RANGE 30 SECONDS] AS x
  JOIN (SELECT k, v FROM b WHERE v < 300) [RANGE 20 SECONDS] AS y ON x.v % 20 = y.v % 20
  JOIN (SELECT k, v FROM c WHERE v < 300) [RANGE 40 SECONDS] AS z ON y.k = z.k % 8
  INTO FILES (path '{out}/apart', format 'parquet');
"""
JOINS = """
CREATE QUERY pairs AS SELECT x.k, x.v AS a, y.v AS b FROM a [RANGE 30 SECONDS] AS x JOIN b [RANGE 20 SECONDS] AS y
  ON x.k = y.k INTO FILES (path '{out}/pairs', format 'parquet');
CREATE QUERY tallies AS SELECT k, count(*) AS n, sum(b) AS total FROM pairs [RANGE 15 SECONDS] GROUP BY k
  INTO FILES (path '{out}/tallies', format 'parquet');
"""
#: `apart` has a grid of 2 x 2 cells on 4 buckets: it stays there, whatever moves. `first` lies in one bucket, which is
#: another one if there are more or fewer.
MOVED = (
    "counts",
    "pairs",
    "triples",
    "kinds",
    "visits",
    "steps",
    "totals",
    "firsts",
    "best",
    "lone",
    "follow",
    "quiet",
)
MOVING = f"moving={','.join(MOVED)}"
#: Where each process dies while joins come to have keys in several buckets, or in one again.
POINTS = ("rows are given", "rows are taken in", "the delivery of given rows")


def joins(frames: dict[str, pl.DataFrame]) -> dict[str, list]:
    """Return what the joins of two streams mean, for which the oracle would take too long."""
    x, y = (frames[name].select("k", pl.col("v").alias(name), pl.col("at").alias(f"at_{name}")) for name in "ab")
    ends = pl.min_horizontal(pl.col("at_a") + pl.duration(seconds=30), pl.col("at_b") + pl.duration(seconds=20))
    met = x.join(y, on="k").with_columns(pl.max_horizontal("at_a", "at_b").alias("at")).filter(pl.col("at") <= ends)
    tallies = met.group_by("k", pl.col("at").dt.truncate("15s")).agg(pl.len().alias("n"), pl.sum("b").alias("total"))
    shown = {"pairs": met.select("k", "a", "b"), "tallies": tallies.select("k", "n", "total")}
    return {query: multiset(rows.to_dicts()) for query, rows in shown.items()}


@pytest.mark.timeout(600)
def test_killing_drivers_and_workers_while_parcels_move_loses_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    frames = write_streams(tmp_path / "data")
    streams, _, rest = SCRIPT.partition("CREATE FUNCTION")
    joined = "CREATE QUERY" + rest.partition("CREATE QUERY")[2]
    text = (streams + QUERIES).format(data=tmp_path / "data", out=tmp_path / "out")
    script, checkpoint = tmp_path / "script.sql", tmp_path / "checkpoint"
    script.write_text(text + (JOINS + joined).format(out=tmp_path / "out", where=""))
    answers = {**expected(text, frames), **joins(frames), "triples": triples(frames)}
    assert min(map(len, answers.values())) > 90
    for point in POINTS if request.config.getoption("--all-points") else POINTS[:2]:
        monkeypatch.setenv("DIE_AT", point)
        is_killed(start(checkpoint, script, MOVING, "waiting", limit=LIMIT, path=FAIL_POINTS), tmp_path)
    monkeypatch.delenv("DIE_AT")
    process = start(checkpoint, script, MOVING, limit=LIMIT)
    wait_for_batches(checkpoint, 2, is_over=ended(process))
    for worker in workers_of(process.pid)[:1]:
        os.kill(worker, signal.SIGKILL)
    finish(process, tmp_path)
    assert written(tmp_path / "out", answers) == answers
    log = CommandLog(checkpoint / "commands")
    running = log.running(log.count(), Running())
    changes = [change for change in MigrationLog(checkpoint).all() if change.buckets is not None]
    assert len({(change.after, change.how) for change in changes}) > 1, "buckets ran different trees"
    allotments = running.allotments
    assert len(allotments) >= len(MOVED)
    assert max(allotment.number for allotment in allotments.values()) > 4
    assert 4 in [len(stays.buckets) for stays in allotments.values() if stays.is_common]  # the grid
    assert not list((checkpoint / "moves").glob("*"))
