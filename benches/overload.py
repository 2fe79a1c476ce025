"""More comes than the machine can do: what happens to the latency, and what is lost?

Probes are matched with the road points of their zone, by great-circle distance, and those near a road are counted each second. They come at 1.5 times
what the machine can work off, then at half of it. Ours with a promise and a tolerable error, ours without, and plain Spark, one after the other on
the same input. The capacity is what ours works off in micro-batches that are short enough for the promise.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from benches.parts.probes import COLUMNS, FILE_S, Phase, probes, release, write, write_points

from headrace.session import Session

PROMISE_S, ERROR = 2.0, 0.35
POINTS = 60  # of each zone
NEAR = 0.05
OVERLOAD, AFTER = 1.5, 0.5
#: Results of the first seconds do not count: the load has to be noticed.
FIRST_S = 15.0
#: How long a run may take to bring what is left when the input has ended.
REST_S = 60.0

H = "pow(sin((y - py) / 2), 2) + cos(y) * cos(py) * pow(sin((x - px) / 2), 2)"


@dataclass(slots=True)
class Seen:
    """What came of one run: for each window when it was delivered (seconds after its end) and its counts by zone."""

    delays: dict[float, float] = field(default_factory=dict)  # by the window's end, seconds after the beginning
    counts: dict[tuple[int, int], int] = field(default_factory=dict)  # by zone and window
    read: int = 0
    taken: int = 0  # tuples behind the shedders
    dropped: int = 0  # as reported
    notes: list[str] = field(default_factory=list)


def main(quick: bool) -> dict[str, Any]:
    """Overload for two minutes (40 s if quick), then half of the capacity for half as long."""
    seconds = 40.0 if quick else 120.0
    figures: dict[str, Any] = {
        "bench": "overload",
        "title": f"{OVERLOAD} times the capacity for {seconds:.0f} s",
        "cases": {},
        "rows": [],
        "notes": [],
    }
    with tempfile.TemporaryDirectory(prefix="overload-") as name:
        folder = Path(name)
        write_points(folder / "points.parquet", POINTS)
        capacity = measure_capacity(folder)
        phases = [Phase(OVERLOAD * capacity, seconds), Phase(AFTER * capacity, seconds / 2)]
        runs: dict[str, Callable[[], Seen]] = {
            "ours, promise kept by shedding": lambda: ours(
                folder / "shed", folder, phases, f"WITH (force, latency '{PROMISE_S} s' MUST, error {ERROR})"
            ),
            "ours, nothing shed": lambda: ours(folder / "plain", folder, phases, ""),
            "plain Spark": lambda: spark(folder / "spark", folder, phases),
        }
        seen = {case: run() for case, run in runs.items()}
        truth = counted(folder, phases)
    figures["notes"].append(f"capacity {capacity:,.0f} tuples/s in micro-batches of at most {PROMISE_S / 2:.1f} s")
    for case, found in seen.items():
        _add(case, found, seconds, truth, figures)
    figures["series"] = {case: sorted(found.delays.items()) for case, found in seen.items()}
    return figures


def _add(case: str, found: Seen, seconds: float, truth: dict[tuple[int, int], int], figures: dict[str, Any]) -> None:
    whole = seconds * 1.5
    during = [delay for end, delay in found.delays.items() if FIRST_S <= end <= seconds]
    missing = sum(1 for end in range(int(FIRST_S) + 1, int(whole)) if float(end) not in found.delays)
    p99 = float(np.percentile(during, 99)) if during else float("inf")
    errors = [abs(found.counts.get(key, 0) - count) / count for key, count in truth.items() if key in found.counts and key[1] > FIRST_S]
    error = statistics.fmean(errors) if errors else 1.0
    last = max((delay for end, delay in found.delays.items() if seconds - 5 <= end <= seconds), default=float("inf"))
    kept = p99 <= PROMISE_S and error <= ERROR and found.dropped == found.read - found.taken
    measured = {"ours": p99, "peers": {"promise": PROMISE_S}, "unit": "s", "ratio": PROMISE_S / p99, "target": 1.0 if found.dropped else None}
    figures["cases"][case] = {**measured, "error": error, "last": last, "read": found.read, "dropped": found.dropped, "missing": missing}
    figures["rows"].append({"case": case, **measured, **({"verdict": "met" if kept else "missed"} if found.dropped else {})})
    figures["notes"].append(
        f"{case}: latency median {statistics.median(during or [float('inf')]):.2f} s, p99 {p99:.2f} s, at the end of the overload {last:.2f} s; "
        f"relative error of a count {error:.3f} in the mean, {max(errors, default=1.0):.3f} at most; {missing} windows never came; "
        f"{found.read:,} tuples read, {found.dropped:,} reported as shed, {found.read - found.taken:,} not processed"
    )
    figures["notes"] += [f"{case}: {note}" for note in found.notes]


def measure_capacity(folder: Path) -> float:
    """Tuples a second that ours works off, all of them there at once, in micro-batches of about half the promised latency; the second run counts."""
    rate = 100_000.0
    for attempt in range(3):
        spot = folder / f"capacity-{attempt}"
        spot.mkdir()
        phases, files = [Phase(rate, 8.0)], round(8.0 / FILE_S)
        for number in range(files):
            rows = probes(phases, number, 1_767_225_600_000_000)
            assert rows is not None
            write(spot, number, rows)
        with Session(spot / "checkpoint", limit=int(rate * PROMISE_S / 2)) as session:
            session.execute(_statements(spot, folder, ""))
            running = session.deployment.query  # type: ignore[attr-defined]
            session.drain()
            batches = [(each.numInputRows, each.durationMs["triggerExecution"]) for each in running.recentProgress]
            counts = len(batches)
        steady = [float(ms) for _, ms in batches[2:-2]]
        rate = rate * PROMISE_S / 2 / (statistics.median(steady) / 1e3) if steady else rate
        del counts
    return rate


def ours(spot: Path, folder: Path, phases: Sequence[Phase], promise: str) -> Seen:
    """Run the query while the probes come."""
    source = spot / "probes"
    source.mkdir(parents=True)
    seen = Seen()
    with Session(spot / "checkpoint") as session:
        session.execute(_statements(source, folder, promise))
        begin_us = _begin()
        lock = threading.Lock()

        def take(batch: int, rows: list[dict[str, Any]]) -> None:
            now = time.time()
            with lock:
                for row in rows:
                    _note(seen, row["zone"], row["window_end"].timestamp(), row["n"], begin_us, now)

        session.subscribe("near", take)
        _wait(release(source, phases, begin_us), seen, phases)
        statistics_ = session.statistics()
        seen.read = statistics_.streams["probes"].tuples
        behind = [counts.tuples_in for name, counts in statistics_.vertices.items() if name.startswith("tablejoin")]
        seen.taken = sum(behind)
        seen.dropped = seen.read - seen.taken if not hasattr(statistics_, "shed") else _dropped(statistics_)
    return seen


def _dropped(found: Any) -> int:
    return sum(shed.dropped for shed in found.shed.values())


def spark(spot: Path, folder: Path, phases: Sequence[Phase]) -> Seen:
    """The same with plain Structured Streaming in the session that ours used."""
    from pyspark.sql.functions import col, expr, window

    from headrace.hosts.spark.host import spark_session

    source = spot / "probes"
    source.mkdir(parents=True)
    seen = Seen()
    session = spark_session()
    points = session.read.parquet(str(folder / "points.parquet"))
    stream = session.readStream.schema(COLUMNS).parquet(str(source)).withWatermark("at", "0 seconds")
    near = stream.join(points, col("zone") == col("area")).where(expr(f"{H} < {NEAR * NEAR}"))
    counts = near.groupBy(window("at", "1 second"), "zone").count()
    begin_us = _begin()

    def take(frame: Any, batch: int) -> None:
        rows = frame.selectExpr("zone", "unix_micros(window.end) AS e", "count AS n").collect()
        now = time.time()
        for row in rows:
            _note(seen, row.zone, row.e / 1e6, row.n, begin_us, now)

    running = counts.writeStream.foreachBatch(take).option("checkpointLocation", str(spot / "checkpoint")).start()
    try:
        _wait(release(source, phases, begin_us), seen, phases)
    finally:
        running.stop()
    seen.read = seen.taken = _total(phases)
    return seen


def counted(folder: Path, phases: Sequence[Phase]) -> dict[tuple[int, int], int]:
    """What each count is without any loss."""
    points = pl.read_parquet(folder / "points.parquet")
    found: dict[tuple[int, int], int] = {}
    number = 0
    while (rows := probes(phases, number, 0)) is not None:
        near = rows.join(points, left_on="zone", right_on="area").filter(pl.sql_expr(H) < NEAR * NEAR)
        ends = near.group_by("zone", (pl.col("at").to_physical() // 1_000_000 + 1).alias("end")).len()
        for zone, end, count in ends.iter_rows():
            found[zone, end] = found.get((zone, end), 0) + count
        number += 1
    return found


def _statements(source: Path, folder: Path, promise: str) -> str:
    return f"""
        CREATE STREAM probes ({COLUMNS}) TIMESTAMP BY at FROM FILES (path '{source}', format 'parquet');
        CREATE TABLE points FROM FILES (path '{folder / "points.parquet"}', format 'parquet');
        CREATE QUERY near {promise} AS SELECT zone, count(*) AS n, window_end FROM probes [RANGE 1 SECOND] JOIN points ON zone = area
          WHERE {H} < {NEAR * NEAR} GROUP BY zone INTO MEMORY;
    """


def _begin() -> int:
    """A little later, at a full second: time for what was started to be there."""
    return (int(time.time()) + 6) * 1_000_000


def _note(seen: Seen, zone: int, end: float, count: int, begin_us: int, now: float) -> None:
    after = round(end - begin_us / 1e6)
    seen.delays.setdefault(float(after), now - end)
    seen.counts[zone, after] = count


def _wait(process: Any, seen: Seen, phases: Sequence[Phase]) -> None:
    """Until the input has ended and its last window has come, or the time is up."""
    process.wait()
    last, deadline = float(int(sum(phase.seconds for phase in phases)) - 1), time.monotonic() + REST_S
    while last not in seen.delays and time.monotonic() < deadline:
        time.sleep(0.1)


def _total(phases: Sequence[Phase]) -> int:
    return sum(round(phase.rate * FILE_S) * round(phase.seconds / FILE_S) for phase in phases)
