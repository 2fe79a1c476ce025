"""State larger than memory: a join that keeps everything, in workers with a memory limit below the size of its state.

Each worker has a hard limit on its own memory (`HEADRACE_WORKER_MEMORY`); pages mapped from files do not count, because
the system can drop them at any time. The limit is on address space, of which an idle worker uses 200 MB. The results
are compared with a join of the whole input at once.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

LIMIT_MB = 1024  # about twice what a worker was seen to reserve
PER_FILE = 100_000
TEXT = 96  # bytes that a tuple carries besides its numbers
WORKER = b"headrace.hosts.spark.daemon"


def main(quick: bool) -> dict[str, Any]:
    """Join two streams without forgetting, and record the workers' memory."""
    os.environ["HEADRACE_WORKER_MEMORY"] = str(LIMIT_MB)  # before Spark starts its workers
    files = 20 if quick else 80
    with tempfile.TemporaryDirectory(prefix="spill-") as name:
        folder = Path(name)
        for number, name in enumerate(("bids", "asks")):
            _write(folder / name, files, bidders=4 * files * PER_FILE, seed=number)
        watch = Watch()
        states, batch_ms = _run(folder)
        watch.end()
        right = _sums(pl.scan_parquet(folder / "out" / "*.parquet")) == _sums(_wanted(folder))
    return _figures(states, batch_ms, watch, right=right)


class Watch(threading.Thread):
    """Records the largest private memory of any worker, and of the JVM."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.worker_mb = self.jvm_mb = 0.0
        self._ended = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._ended.wait(0.02):
            for process in Path("/proc").iterdir():
                if not process.name.isdigit():
                    continue
                try:
                    command = (process / "cmdline").read_bytes()
                    if WORKER not in command:
                        continue
                    own = _own_mb(process)
                except (OSError, StopIteration):
                    continue  # it has ended
                if b"java" in command.partition(b"\0")[0]:
                    self.jvm_mb = max(self.jvm_mb, own)
                else:
                    self.worker_mb = max(self.worker_mb, own)

    def end(self) -> None:
        self._ended.set()
        self.join()


def _own_mb(process: Path) -> float:
    return next(
        int(line.split()[1]) / 1024
        for line in (process / "status").read_text().splitlines()
        if line.startswith("RssAnon")
    )


def _run(folder: Path) -> tuple[list[list[float]], list[float]]:
    """Return the state of each bucket after each micro-batch in megabytes, and the time that each took."""
    from headrace.hosts.spark.starting.context import session_for
    from headrace.model.page import Page
    from headrace.session import Session

    session_for().conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    states: list[list[float]] = []
    with Session(folder / "checkpoint", limit=PER_FILE) as session:
        delivery = session.deployment.delivery

        def take(batch: int, pages: Sequence[Page]) -> None:
            states.append([report.state_bytes / 1e6 for report in delivery.reports])

        delivery.subscribers["pairs"] = [take]
        columns = "at TIMESTAMP, bidder BIGINT, amount BIGINT, note STRING"
        streams = [
            f"CREATE STREAM {name} ({columns}) TIMESTAMP BY at FROM FILES (path '{folder / name}', format 'parquet')"
            for name in ("bids", "asks")
        ]
        pairs = (
            "CREATE QUERY pairs AS "
            "SELECT b.bidder AS bidder, b.amount AS one, a.amount AS two, b.note AS note, a.note AS other "
            "FROM bids [UNBOUNDED] AS b JOIN asks [UNBOUNDED] AS a ON b.bidder = a.bidder "
            f"INTO FILES (path '{folder / 'out'}')"
        )
        session.execute(";\n".join([*streams, pairs]))
        running = session.deployment.query  # type: ignore[attr-defined]
        session.drain()
    return states, [float(progress.durationMs["triggerExecution"]) for progress in running.recentProgress]


def _write(folder: Path, files: int, *, bidders: int, seed: int) -> None:
    """Write files whose times grow with their order, because the source uses them."""
    folder.mkdir()
    chance = np.random.default_rng(seed)
    for number in range(files):
        letters = chance.integers(97, 123, (PER_FILE, TEXT), dtype=np.uint8).view(f"S{TEXT}").ravel()
        at = (number * PER_FILE + np.arange(PER_FILE)) * 100
        columns = {
            "at": at,
            "bidder": chance.integers(0, bidders, PER_FILE),
            "amount": chance.integers(0, 10**6, PER_FILE),
        }
        frame = pl.DataFrame(columns).with_columns(
            pl.col("at").cast(pl.Datetime("us", "UTC")), pl.Series("note", letters.tolist()).cast(pl.String)
        )
        path = folder / f"{number:05d}.parquet"
        frame.write_parquet(path)
        os.utime(path, (1_750_000_000 + number, 1_750_000_000 + number))


def _wanted(folder: Path) -> pl.LazyFrame:
    left, right = (pl.scan_parquet(folder / name / "*.parquet").drop("at") for name in ("bids", "asks"))
    pairs = left.rename({"amount": "one"}).join(right.rename({"amount": "two", "note": "other"}), on="bidder")
    return pairs.select("bidder", "one", "two", "note", "other")


def _sums(rows: pl.LazyFrame) -> tuple[Any, ...]:
    """Return the number of rows, and sums that are unlikely to agree for different results."""
    columns = ("bidder", "one", "two", "note", "other")
    hashes = [(pl.struct(columns).hash(seed=seed) // 2**32).sum().alias(f"hash{seed}") for seed in (1, 2)]
    return rows.select(pl.len(), *hashes).collect().row(0)


def _figures(states: list[list[float]], batch_ms: list[float], watch: Watch, *, right: bool) -> dict[str, Any]:
    quarter = max(1, len(batch_ms) // 4)
    start, end = (
        statistics.median(batch_ms[1 : 1 + quarter]),
        statistics.median(batch_ms[-quarter - 3 : -3] or batch_ms),
    )
    state, largest = max(map(sum, states)), max(max(each, default=0.0) for each in states)
    rows: list[dict[str, Any]] = [
        {"case": "state", "ours": state, "peers": {}, "unit": "MB"},
        {
            "case": "state of the largest bucket",
            "ours": largest,
            "peers": {"limit": float(LIMIT_MB)},
            "unit": "MB",
            "ratio": largest / LIMIT_MB,
            "verdict": "met" if largest > LIMIT_MB else "",  # a quick run does not get that far
        },
        {
            "case": "a worker's own memory at most",
            "ours": watch.worker_mb,
            "peers": {"limit": float(LIMIT_MB)},
            "unit": "MB",
        },
        {"case": "the JVM's own memory at most", "ours": watch.jvm_mb, "peers": {}, "unit": "MB"},
        {
            "case": "micro-batch, last quarter",
            "ours": end,
            "peers": {"start": start},
            "unit": "ms",
            "ratio": start / end,
        },
        {
            "case": "results exact",
            "ours": float(right),
            "peers": {},
            "unit": "",
            "verdict": "met" if right else "missed",
        },
    ]
    cases = {row["case"]: {key: value for key, value in row.items() if key != "case"} for row in rows}
    cases["state"]["series"], cases["micro-batch, last quarter"]["series"] = [sum(each) for each in states], batch_ms
    return {
        "bench": "spill",
        "title": "A join that outgrows its workers",
        "cases": cases,
        "rows": rows,
        "notes": [time.strftime("%Y-%m-%d")],
    }
