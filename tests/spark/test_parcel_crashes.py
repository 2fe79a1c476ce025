"""Killed while parcels change bucket, driver or worker, and started again: the files hold what the oracle says."""

import os
import random
import signal
import time
from pathlib import Path

from tests.spark.crash_case import expected, wait_for_batches, written
from tests.spark.test_crashes import ended, finish, start, workers_of
from tests.spark.test_migration_crashes import LIMIT, SCRIPT, write_streams

from headrace.commands.log import CommandLog
from headrace.commands.running import Running

COUNTS = """
CREATE QUERY counts AS SELECT k, count(*) AS n, sum(v) AS total, window_end FROM a [RANGE 20 SECONDS SLIDE 5 SECONDS]
  GROUP BY k INTO FILES (path '{out}/counts', format 'parquet');
CREATE QUERY pairs AS SELECT x.k, x.v AS a, y.v AS b FROM a [RANGE 30 SECONDS] AS x JOIN b [RANGE 20 SECONDS] AS y
  ON x.k = y.k INTO FILES (path '{out}/pairs', format 'parquet');
CREATE QUERY kinds AS SELECT DISTINCT k FROM c [RANGE 10 SECONDS] INTO FILES (path '{out}/kinds', format 'parquet');
"""
MOVING = "moving=counts,pairs,kinds"


def test_killing_drivers_and_workers_while_parcels_move_loses_and_repeats_nothing(tmp_path: Path) -> None:
    frames = write_streams(tmp_path / "data")
    streams = SCRIPT.partition("CREATE FUNCTION")[0]
    text = (streams + COUNTS).format(data=tmp_path / "data", out=tmp_path / "out")
    script, checkpoint, chance = tmp_path / "script.sql", tmp_path / "checkpoint", random.Random(47)
    script.write_text(text)
    answers = expected(text, frames)
    assert all(len(answers[query]) > 100 for query in ("counts", "pairs", "kinds"))
    for _ in range(2):
        process = start(checkpoint, script, MOVING, "waiting", limit=LIMIT)
        wait_for_batches(checkpoint, chance.randint(3, 6), is_over=ended(process))
        time.sleep(chance.random() * 0.4)  # somewhere within a micro-batch
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    process = start(checkpoint, script, MOVING, limit=LIMIT)
    wait_for_batches(checkpoint, 2, is_over=ended(process))
    for worker in workers_of(process.pid)[:1]:
        os.kill(worker, signal.SIGKILL)
    finish(process, tmp_path)
    assert written(tmp_path / "out", answers) == answers
    log = CommandLog(checkpoint / "commands")
    allotments = log.running(log.count(), Running()).allotments
    assert len(allotments) == 3
    assert min(allotment.number for allotment in allotments.values()) > 4
    assert not list((checkpoint / "moves").glob("*"))
