"""Killed at any moment, driver or worker, and started again: the files hold exactly what the oracle says."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from headrace.catalog.catalog import Catalog
from headrace.catalog.define import define_stream
from headrace.language.parser import parse
from headrace.language.syntax.statements import CreateQuery, CreateStream
from headrace.model.schema import Schema
from headrace.plan.binding.binder import bind
from headrace.testing.oracle.oracle import Row, answer
from headrace.testing.oracle.rows import rounded
from headrace.testing.oracle.values import plain

SCRIPT = """
CREATE STREAM bids (at TIMESTAMP, auction INT, price DOUBLE) TIMESTAMP BY at SKEW 1 SECOND
  FROM FILES (path '{data}/bids', format 'parquet');
CREATE STREAM asks (at TIMESTAMP, auction INT, ask DOUBLE) TIMESTAMP BY at
  FROM FILES (path '{data}/asks', format 'parquet');
CREATE QUERY counts AS SELECT auction, count(*) AS n, sum(price) AS total, max(price) AS top, window_end
  FROM bids [RANGE 20 SECONDS SLIDE 5 SECONDS] GROUP BY auction INTO FILES (path '{out}/counts', format 'parquet');
CREATE QUERY pairs AS SELECT b.auction, b.price, a.ask FROM bids [RANGE 4 SECONDS] AS b
  LEFT JOIN asks [RANGE 4 SECONDS] AS a
  ON b.auction = a.auction AND a.ask < b.price INTO FILES (path '{out}/pairs', format 'json');
CREATE QUERY dear AS SELECT auction, price * 2 AS double_price FROM bids WHERE price > 90
  INTO FILES (path '{out}/dear', format 'csv');
CREATE QUERY spells START '2026-01-01 00:00:10' STOP '2026-01-01 00:00:35' EVERY 1 MINUTE
  AS SELECT auction, count(*) AS n, max(price) AS top, window_end FROM bids [RANGE 20 SECONDS] GROUP BY auction
  INTO FILES (path '{out}/spells', format 'parquet');
CREATE QUERY changes AS SELECT auction, OLD(price) AS before, RDIFF(price PSEUDO 0.01) OVER (PARTITION BY auction) AS
  change
  FROM bids
  INTO FILES (path '{out}/changes', format 'parquet');
CREATE QUERY repeats AS SELECT auction, OLD(price) AS before, price FROM bids [RANGE 2 SECONDS] GROUP BY auction
  HAVING RSUPPRESS(3)
  INTO FILES (path '{out}/repeats', format 'parquet');
CREATE QUERY standing AS SELECT auction, ask, OLD(ask) AS began FROM asks [RANGE 30 SECONDS] GROUP BY auction
  HAVING TSUPPRESS(7 SECONDS, CASE WHEN ask > 80 THEN 'clean' WHEN ask > 60 THEN 'update' ELSE 'new' END)
  INTO FILES (path '{out}/standing', format 'parquet');
CREATE QUERY early AS SELECT auction, price FROM bids LIMIT 700 INTO FILES (path '{out}/early', format 'parquet');
CREATE QUERY busiest AS SELECT max(n) AS most, window_end FROM counts [RANGE 20 SECONDS]
  INTO FILES (path '{out}/busiest', format 'parquet');
"""


def write_data(directory: Path, number: int) -> dict[str, pl.DataFrame]:
    """Two streams in small files, the first with some disorder within its skew."""
    rng = np.random.default_rng(number)
    made = {}
    for name, value, count, files in (("bids", "price", 2000, 20), ("asks", "ask", 200, 10)):
        ts = np.sort(rng.integers(0, 120_000_000, count))
        if name == "bids":
            ts = ts - rng.integers(0, 450_000, count)
        frame = pl.DataFrame(
            {
                "at": pl.Series(ts + 1_767_225_600_000_000).cast(pl.Datetime("us")),
                "auction": pl.Series(rng.integers(0, 12, count), dtype=pl.Int32),
                value: np.round(rng.uniform(0, 100, count), 2),
            }
        )
        (directory / name).mkdir(parents=True)
        size = count // files
        for i in range(files):
            frame[i * size : (i + 1) * size].write_parquet(directory / name / f"{i:03d}.parquet")
        made[name] = frame
    return made


def expected(script: str, frames: dict[str, pl.DataFrame]) -> dict[str, list]:
    catalog = Catalog()
    histories = {}
    answers = {}
    for statement in parse(script):
        if isinstance(statement, CreateStream):
            stream = define_stream(statement, statement.columns or Schema(()))
            catalog.add(stream)
            rows = plain(frames[stream.name].to_dicts())
            histories[stream.name] = [Row(row["at"], row) for row in rows]
        elif isinstance(statement, CreateQuery):
            from headrace.catalog.define import define_query

            plan = bind(statement.select, statement.text, catalog)
            catalog.add(define_query(statement, plan.schema))
            stints = [histories] if statement.stint is None else stints_of(histories)
            answers[statement.name.text] = multiset([row.values for stint in stints for row in answer(plan, stint)])
    return answers


def stints_of(histories: dict[str, list[Row]]) -> list[dict[str, list[Row]]]:
    """What each stint of `spells` sees."""
    start = 1_767_225_600_000_000
    spans = [(start + begin * 1_000_000, start + (begin + 25) * 1_000_000) for begin in (10, 70)]
    return [
        {name: [row for row in rows if begin <= row.ts < end] for name, rows in histories.items()}
        for begin, end in spans
    ]


def multiset(rows) -> list:
    return sorted(tuple((name, repr(rounded(value))) for name, value in row.items()) for row in rows)


def written(out: Path, answers: dict[str, list]) -> dict[str, list]:
    readers = {".parquet": pl.read_parquet, ".csv": pl.read_csv, ".json": pl.read_ndjson, ".jsonl": pl.read_ndjson}
    found = {}
    for name in answers:
        rows = []
        for path in sorted((out / name).iterdir()):
            if path.suffix in readers and not path.name.startswith("."):
                rows += plain(readers[path.suffix](path).to_dicts())
        found[name] = multiset(rows)
    return found


def start(checkpoint: Path, script: Path) -> subprocess.Popen:
    child = Path(__file__).with_name("crash_child.py")
    command = [sys.executable, str(child), str(checkpoint), str(script), "100"]
    with open(checkpoint.parent / "child.log", "ab") as log:
        return subprocess.Popen(command, start_new_session=True, stdout=log, stderr=log)


def wait_for_batches(checkpoint: Path, more: int, process: subprocess.Popen, seconds: float = 120) -> None:
    """Wait until `more` further micro-batches are committed, or the process has ended."""
    commits = checkpoint / "spark" / "commits"
    count = lambda: len(list(commits.glob("[0-9]*"))) if commits.exists() else 0  # noqa: E731
    before, deadline = _newest(commits), time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline and (count() == 0 or _newest(commits) < before + more):
        time.sleep(0.02)


def _newest(commits: Path) -> int:
    return max((int(path.name) for path in commits.glob("[0-9]*")), default=-1) if commits.exists() else -1


def finish(process: subprocess.Popen, directory: Path) -> None:
    assert process.wait(200) == 0, "".join(
        log.read_text()[-3000:] for log in (directory / "child.log", directory / "checkpoint" / "spark.log")
    )


@pytest.fixture
def case(tmp_path):
    frames = write_data(tmp_path / "data", 5)
    text = SCRIPT.format(data=tmp_path / "data", out=tmp_path / "out")
    script = tmp_path / "script.sql"
    script.write_text(text)
    return tmp_path, script, expected(text, frames)


def test_killing_the_driver_at_random_moments_loses_and_repeats_nothing(case):
    directory, script, answers = case
    chance = random.Random(23)
    checkpoint = directory / "checkpoint"
    for _ in range(3):
        process = start(checkpoint, script)
        wait_for_batches(checkpoint, chance.randint(1, 6), process)
        time.sleep(chance.random() * 0.3)  # somewhere within a micro-batch
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    finish(start(checkpoint, script), directory)
    assert written(directory / "out", answers) == answers


def test_killing_python_workers_loses_and_repeats_nothing(case):
    directory, script, answers = case
    checkpoint = directory / "checkpoint"
    chance = random.Random(29)
    process = start(checkpoint, script)
    killed = 0
    for _ in range(4):
        wait_for_batches(checkpoint, 2, process)
        workers = _workers(process.pid)
        if workers:
            os.kill(chance.choice(workers), signal.SIGKILL)
            killed += 1
    finish(process, directory)
    assert killed
    assert (directory / "child.log").read_text() == "", "what Spark and its workers say is in spark.log"
    assert written(directory / "out", answers) == answers


def _workers(leader: int) -> list[int]:
    """Forked workers (their parent is a worker daemon) below a process."""
    parents = {}
    commands = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                commands[int(entry.name)] = (entry / "cmdline").read_bytes().decode().replace("\0", " ")
            except (OSError, IndexError):
                continue
            parents[int(entry.name)] = int(stat[1])
    daemon = "headrace.hosts.spark.daemon"

    def below(pid: int) -> bool:
        while pid in parents and pid > 1:
            pid = parents[pid]
            if pid == leader:
                return True
        return False

    return [
        pid
        for pid, command in commands.items()
        if daemon in command and daemon in commands.get(parents[pid], "") and below(pid) and "java" not in command
    ]
