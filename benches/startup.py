"""A small job from the shell, from the first keystroke to the prompt: `headrace run --once` beside a PySpark script.

Both read 1,000 rows of CSV, sum by key and minute, write the sums and end. They run in turns, so that a busy moment of
the machine meets both. Where the time of ours goes is told by `benches.parts.timed_run`, and where that of a program
goes from `Session()` to the first result, on Spark and on the local host, by `benches.parts.timed_session`.
"""

from __future__ import annotations

import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl
from benches.parts.moments import MARK

ROWS, KEYS = 1_000, 7
#: At most so many times as long as plain Spark.
TARGET = 1.2
_HOSTS = ("spark", "local")
_SCRIPT = """
CREATE STREAM bids (at TIMESTAMP, item INT, price INT) TIMESTAMP BY at FROM FILES (path '{data}', format 'csv');
CREATE QUERY sums AS SELECT item, sum(price) AS s, window_end FROM bids [RANGE 1 MINUTE SLIDE 1 MINUTE] GROUP BY item
  INTO FILES (path '{out}');
"""


def main(quick: bool = False) -> dict[str, Any]:
    """Run both three times (seven, if not quick), and report medians of the whole time."""
    runs: dict[str, list[Took]] = {"ours": [], "spark": [], **{host: [] for host in _HOSTS}}
    for _ in range(3 if quick else 7):
        with tempfile.TemporaryDirectory(prefix="headrace-startup-") as name:
            folder = Path(name)
            write(folder / "data")
            runs["ours"].append(ours(folder))
            runs["spark"].append(timed([sys.executable, "-m", "benches.parts.small_job", name]))
            compare(folder)
            for host in _HOSTS:
                runs[host].append(timed([sys.executable, "-m", "benches.parts.timed_session", host]))
    rows = [_row("whole time", runs), *_parts("", runs["ours"])]
    for host in _HOSTS:
        rows += _parts(f"a session, {host}: ", runs[host])
    ratio = 1 / rows[0]["ratio"]
    return {
        "bench": "startup",
        "title": f"{ROWS:,} rows from the shell to the prompt",
        "times": {who: [asdict(took) for took in each] for who, each in runs.items()},
        "rows": rows,
        "notes": [
            f"ours takes {ratio:.2f} times as long as plain Spark; medians of {len(runs['ours'])} runs in turns",
            "the rows below the first are the parts of our time, one after the other; those of a session begin anew",
        ],
    }


@dataclass(frozen=True, slots=True)
class Took:
    """What a run took, in seconds, and when its parts were over."""

    seconds: float
    parts: dict[str, float]


def _parts(begin: str, runs: list[Took]) -> list[dict[str, Any]]:
    """Return the parts of some runs, one after the other."""
    ends = {what: statistics.median(took.parts[what] for took in runs) for what in runs[0].parts}
    rows, before = [], 0.0
    for what, at in sorted(ends.items(), key=lambda part: part[1]):
        rows.append({"case": f"{begin}until {what}", "ours": at - before, "peers": {}, "unit": "s"})
        before = at
    return rows


def _row(case: str, runs: dict[str, list[Took]]) -> dict[str, Any]:
    mine, theirs = (statistics.median(took.seconds for took in runs[who]) for who in ("ours", "spark"))
    verdict = "met" if mine <= TARGET * theirs else "missed"
    measured = {"ours": mine, "peers": {"spark": theirs}, "unit": "s", "ratio": theirs / mine}
    return {"case": case, **measured, "target": 1 / TARGET, "verdict": verdict}


def write(data: Path) -> None:
    """Write the rows: a second apart, over some minutes."""
    data.mkdir()
    with (data / "bids.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["at", "item", "price"])
        rows.writerows(
            [f"2026-01-01 00:{number // 60:02}:{number % 60:02}", number % KEYS, number % 13] for number in range(ROWS)
        )


def ours(folder: Path) -> Took:
    """Run `headrace run --once`."""
    (folder / "sums.sql").write_text(_SCRIPT.format(data=folder / "data", out=folder / "ours"))
    command = ["run", str(folder / "sums.sql"), "--once", "--checkpoint", str(folder / "checkpoint")]
    return timed([sys.executable, "-m", "benches.parts.timed_run", *command])


def compare(folder: Path) -> None:
    """Check that both have the same sums, but for those of the last minute, which plain Spark does not close."""
    mine, theirs = (
        pl.read_parquet(folder / name / "*.parquet").sort("window_end", "item") for name in ("ours", "plain")
    )
    closed = mine.head(0) if theirs.is_empty() else mine.filter(pl.col("window_end") <= theirs["window_end"].max())
    if closed.is_empty() or closed["s"].to_list() != theirs["s"].to_list():
        raise RuntimeError(f"{closed.height} sums of ours differ from {theirs.height} of Spark's")


def timed(command: list[str]) -> Took:
    """Run a command to its end; RuntimeError if it fails."""
    began = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [_ROOT, os.environ.get("PYTHONPATH")]))}
    done = subprocess.run(command, capture_output=True, env=environment, text=True)
    seconds = time.perf_counter() - began
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    told = [line.partition(MARK)[2] for line in done.stderr.splitlines() if MARK in line]
    return Took(seconds, json.loads(told[-1]) if told else {})


_ROOT = str(Path(__file__).resolve().parents[1])
