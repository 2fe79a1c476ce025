"""A small job from the shell, from the first keystroke to the prompt: `headrace run --once` beside a PySpark script.

Both read 1,000 rows of CSV, sum by key and minute, write the sums and end. They run in turns, so that a busy moment of
the machine meets both. Where the time of ours goes is read from what it prints.
"""

from __future__ import annotations

import csv
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import polars as pl

ROWS, KEYS = 1_000, 7
#: At most so many times as long as plain Spark.
TARGET = 1.2
_SCRIPT = """
CREATE STREAM bids (at TIMESTAMP, item INT, price INT) TIMESTAMP BY at FROM FILES (path '{data}', format 'csv');
CREATE QUERY sums AS SELECT item, sum(price) AS s, window_end FROM bids [RANGE 1 MINUTE SLIDE 1 MINUTE] GROUP BY item
  INTO FILES (path '{out}');
"""
_STARTED = "Spark started"


def main(quick: bool = False) -> dict[str, Any]:
    """Run both three times (seven, if not quick), and report medians of the whole time."""
    times: dict[str, list[float]] = {"ours": [], "spark": [], "until Spark has started": [], "the rest": []}
    for _ in range(3 if quick else 7):
        with tempfile.TemporaryDirectory(prefix="headrace-startup-") as name:
            folder = Path(name)
            write(folder / "data")
            whole, started = ours(folder)
            times["ours"].append(whole)
            times["until Spark has started"].append(started)
            times["the rest"].append(whole - started)
            times["spark"].append(_timed([sys.executable, "-m", "benches.parts.small_job", name]))
            compare(folder)
    medians = {what: statistics.median(each) for what, each in times.items()}
    ratio = medians["ours"] / medians["spark"]
    return {
        "bench": "startup",
        "title": f"{ROWS:,} rows from the shell to the prompt",
        "times": times,
        "rows": [
            {
                "case": "whole time",
                "ours": medians["ours"],
                "peers": {"spark": medians["spark"]},
                "unit": "s",
                "ratio": medians["spark"] / medians["ours"],
                "target": 1 / TARGET,
                "verdict": "met" if ratio <= TARGET else "missed",
            },
            *(
                {"case": part, "ours": medians[part], "peers": {}, "unit": "s"}
                for part in ("until Spark has started", "the rest")
            ),
        ],
        "notes": [
            f"ours takes {ratio:.2f} times as long as plain Spark; medians of {len(times['ours'])} runs in turns"
        ],
    }


def write(data: Path) -> None:
    """Write the rows: a second apart, over some minutes."""
    data.mkdir()
    with (data / "bids.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["at", "item", "price"])
        rows.writerows(
            [f"2026-01-01 00:{number // 60:02}:{number % 60:02}", number % KEYS, number % 13] for number in range(ROWS)
        )


def ours(folder: Path) -> tuple[float, float]:
    """Run `headrace run --once`; return the seconds until it has ended, and until Spark had started."""
    (folder / "sums.sql").write_text(_SCRIPT.format(data=folder / "data", out=folder / "ours"))
    command = ["headrace", "run", str(folder / "sums.sql"), "--once", "--checkpoint", str(folder / "checkpoint")]
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    started, lines = 0.0, []
    for line in process.stdout:
        lines.append(line)
        if _STARTED in line:
            started = time.perf_counter() - began
    if process.wait():
        raise RuntimeError("".join(lines[-20:]))
    return time.perf_counter() - began, started


def compare(folder: Path) -> None:
    """Check that both have the same sums, but for those of the last minute, which plain Spark does not close."""
    mine, theirs = (
        pl.read_parquet(folder / name / "*.parquet").sort("window_end", "item") for name in ("ours", "plain")
    )
    closed = mine.head(0) if theirs.is_empty() else mine.filter(pl.col("window_end") <= theirs["window_end"].max())
    if closed.is_empty() or closed["s"].to_list() != theirs["s"].to_list():
        raise RuntimeError(f"{closed.height} sums of ours differ from {theirs.height} of Spark's")


def _timed(command: list[str]) -> float:
    began = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [_ROOT, os.environ.get("PYTHONPATH")]))}
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return time.perf_counter() - began


_ROOT = str(Path(__file__).resolve().parents[1])
