"""Latency and loss under overload, with and without promises, and with plain Spark.

Probes are matched with the road points of their zone, by great-circle distance, and those near a road are counted each
second. They arrive at 1.5 times the capacity of the machine, then at half of it. Headrace with a promise and a
tolerable error, Headrace without, and plain Spark run one after the other on the same input. The capacity is the rate
at which Headrace's micro-batches are short enough for the promise.

A second part runs two queries of one stream at 1.2 times the load that both need, without shedding: one must answer
within half a second, the other has no promise. The expensive work of the other is a join of streams, which keeps state,
or a join with a table, which runs before the shuffle unless a query is urgent.
"""

from __future__ import annotations

import datetime as dt
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from benches.parts.probes import COLUMNS, FILE_S, ZONES, Phase, probes, release, write_points

from headrace.cli.output import err
from headrace.errors import HostFault
from headrace.experiments.experiment import Panel, Series
from headrace.session import Session

PROMISE_S, ERROR = 2.0, 0.35
QUICK_S = 0.5
#: A probe is in a file so long after its time at most; a result could have been there so long after its window's end.
SKEW_S = 0.3
POINTS = 100  # of each zone
NEAR = 0.05
#: A micro-batch may take this share of the promise: a tuple waits for one micro-batch and is processed in the next.
SHARE = 0.4
OVERLOAD, AFTER = 1.5, 0.5
#: To measure the capacity, the rate grows by a factor every few seconds: first fast, then slowly, from a share of
#: the first result.
FAST, SLOW, FROM = (1.3, 8.0), (1.06, 20.0), 0.75
#: The largest number of steps.
STEPS = 16
#: Results of the first seconds do not count: the load has to be noticed.
FIRST_S = 15.0
#: How long a run may take to bring what is left when the input has ended.
REST_S = 60.0

#: Statements for a directory of probes, that of the points, and what is promised.
Statements = Callable[[Path, Path, str], str]

H = "pow(sin((y - py) / 2), 2) + cos(y) * cos(py) * pow(sin((x - px) / 2), 2)"
NEAR_QUERY = (
    "SELECT zone, count(*) AS n, window_end FROM probes [RANGE 1 SECOND] JOIN points ON zone = area "
    f"WHERE {H} < {NEAR * NEAR} GROUP BY zone"
)


@dataclass(slots=True)
class Seen:
    """The results of one run: for each window its delivery time (seconds after its end) and its counts by zone."""

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
        err.print("how much can it do? The rate grows until micro-batches are too long", style="dim")
        capacity = measure_capacity(folder, near_statements, 20_000.0, SHARE * PROMISE_S)
        phases = [Phase(OVERLOAD * capacity, seconds), Phase(AFTER * capacity, seconds / 2)]
        runs: dict[str, Callable[[], Seen]] = {
            "ours, promise kept by shedding": lambda: ours(
                folder / "shed", folder, phases, f"WITH (force, latency '{PROMISE_S} s' MUST, error {ERROR})"
            ),
            "ours, nothing shed": lambda: ours(folder / "plain", folder, phases, ""),
            "plain Spark": lambda: spark(folder / "spark", folder, phases),
        }
        seen: dict[str, Seen] = {}
        for case, run in runs.items():
            err.print(f"{case}: {phases[0].rate:,.0f} tuples/s for {seconds:.0f} s", style="dim")
            seen[case] = run()
        truth = counted(folder, phases)
    figures["notes"].append(f"capacity {capacity:,.0f} tuples/s in micro-batches of {SHARE * PROMISE_S:.1f} s")
    for case, result in seen.items():
        _add(case, result, seconds, truth, figures)
    for case, statements, rate in (("pairs", pairs_statements, 2_000.0), ("matches", matches_statements, 20_000.0)):
        err.print(f"two queries, one of which must be quick, the other {case}", style="dim")
        with tempfile.TemporaryDirectory(prefix="urgency-") as name:
            write_points(Path(name) / "points.parquet", POINTS)
            _add_urgency(Path(name), seconds / 2, case, statements, rate, figures)
    figures["panels"] = [_latencies(seen, seconds), _counts(seen["ours, promise kept by shedding"], truth)]
    return figures


def _latencies(seen: Mapping[str, Seen], seconds: float) -> Panel:
    curves = tuple(Series(case, tuple(sorted(run.delays.items()))) for case, run in seen.items())
    top = max((delay for run in seen.values() for delay in run.delays.values()), default=PROMISE_S)
    bounds = (
        Series("promise", ((0.0, PROMISE_S),), "level"),
        Series("the overload ends", ((seconds, 0.0), (seconds, top)), "dashed"),
    )
    return Panel("How late the results of a window are", "end of the window (s)", "seconds", (*curves, *bounds))


def _counts(run: Seen, truth: Mapping[tuple[int, int], int]) -> Panel:
    """Return true and estimated counts over all zones."""
    real, estimated = (
        tuple(
            (float(end), float(sum(each.get((zone, end), 0) for zone in range(ZONES))))
            for end in sorted({end for _, end in run.counts})
        )
        for each in (truth, run.counts)
    )
    return Panel(
        "Probes near a road, a second",
        "end of the window (s)",
        "count",
        (Series("all", real), Series("estimated from what was kept", estimated, "dashed")),
    )


def _add(case: str, run: Seen, seconds: float, truth: dict[tuple[int, int], int], figures: dict[str, Any]) -> None:
    whole = seconds * 1.5
    during = [delay for end, delay in run.delays.items() if FIRST_S <= end <= seconds]
    missing = sum(1 for end in range(int(FIRST_S) + 1, int(whole)) if float(end) not in run.delays)
    p99 = float(np.percentile(during, 99)) if during else float("inf")
    errors = [
        abs(run.counts.get(key, 0) - count) / count
        for key, count in truth.items()
        if key in run.counts and key[1] > FIRST_S
    ]
    error = statistics.fmean(errors) if errors else 1.0
    last = max((delay for end, delay in run.delays.items() if seconds - 5 <= end <= seconds), default=float("inf"))
    kept = p99 <= PROMISE_S and error <= ERROR and run.dropped == run.read - run.taken
    measured = {
        "ours": p99,
        "peers": {"promise": PROMISE_S},
        "unit": "s",
        "ratio": PROMISE_S / p99,
        "target": 1.0 if run.dropped else None,
    }
    figures["cases"][case] = {
        **measured,
        "error": error,
        "last": last,
        "read": run.read,
        "dropped": run.dropped,
        "missing": missing,
    }
    figures["rows"].append(
        {"case": case, **measured, **({"verdict": "met" if kept else "missed"} if run.dropped else {})}
    )
    figures["notes"].append(
        f"{case}: latency median {statistics.median(during or [float('inf')]):.2f} s, p99 {p99:.2f} s, "
        f"at the end of the overload {last:.2f} s; "
        f"relative error of a count {error:.3f} on average, {max(errors, default=1.0):.3f} at most; "
        f"{missing} windows were never delivered; "
        f"{run.read:,} tuples read, {run.dropped:,} reported as shed, {run.read - run.taken:,} not processed"
    )
    figures["notes"] += [f"{case}: {note}" for note in run.notes]


def _add_urgency(
    folder: Path, seconds: float, case: str, statements: Statements, rate: float, figures: dict[str, Any]
) -> None:
    """Run both queries at 1.2 times the capacity, then as long at a third of it, so that the second catches up."""
    capacity = measure_capacity(folder, statements, rate, 1.0)
    phases = [Phase(1.2 * capacity, seconds), Phase(capacity / 3, seconds)]
    source = folder / "both" / "probes"
    source.mkdir(parents=True)
    quick, lazy = Seen(), Seen()
    with Session(folder / "both" / "checkpoint") as session:
        session.execute(statements(source, folder, "force"))
        begin_us = _begin()
        for query, seen in (("quick", quick), ("lazy", lazy)):
            session.subscribe(query, _taker(seen, begin_us))
        _wait(release(source, phases, begin_us), lazy, phases)
        decided = [(decision.action, decision.reason) for decision in session.deployment.control.decisions.all()]
        session.drain(REST_S * 2)
        got = {
            query: {(row["zone"], row["window_end"].timestamp()): row["n"] for row in session.results(query)}
            for query in ("quick", "lazy")
        }
    during = [delay for end, delay in quick.delays.items() if min(FIRST_S, seconds / 2) <= end <= seconds]
    lag = [delay for end, delay in lazy.delays.items() if seconds - 5 <= end <= seconds]
    mean = statistics.fmean(during or [float("inf")])
    exact = got == at_once(source, folder, statements)
    measured = {"ours": mean, "peers": {"promise": QUICK_S}, "unit": "s", "ratio": QUICK_S / mean, "target": 1.0}
    figures["cases"][f"two queries, {case}"] = {**measured, "lag": max(lag, default=None), "exact": exact}
    figures["rows"].append(
        {
            "case": f"two queries, the urgent one beside {case}",
            **measured,
            "verdict": "met" if mean <= QUICK_S and exact else "missed",
        }
    )
    p99 = float(np.percentile(during, 99)) if during else float("inf")
    figures["notes"].append(
        f"two queries, {case}: capacity {capacity:,.0f} tuples/s; the urgent one answers after {mean:.2f} s "
        f"on average, {p99:.2f} s p99, the other "
        f"is up to {max(lag, default=float('inf')):.1f} s late at the end of the overload; "
        f"in the end all results are {'right' if exact else 'WRONG'}"
    )
    figures["notes"] += [f"two queries, {case}, decided: {action} ({reason})" for action, reason in decided[:6]]


def _taker(seen: Seen, begin_us: int) -> Callable[[int, list[dict[str, Any]]], None]:
    def take(batch: int, rows: list[dict[str, Any]]) -> None:
        now = time.time()
        for row in rows:
            _note(seen, row["zone"], row["window_end"].timestamp(), row["n"], begin_us, now)

    return take


def pairs_statements(source: Path, folder: Path, promise: str) -> str:
    """Return a cheap count, and an expensive one over pairs."""
    return _both(
        source,
        promise,
        """SELECT a.zone, count(*) AS n, window_end FROM probes [RANGE 1 SECOND] AS a JOIN probes [RANGE 1 SECOND] AS b
          ON a.zone = b.zone AND a.x < b.y GROUP BY a.zone""",
    )


def matches_statements(source: Path, folder: Path, promise: str) -> str:
    """Return a cheap count, and one of probes near a road."""
    points = f"CREATE TABLE points FROM FILES (path '{folder / 'points.parquet'}', format 'parquet');"
    return points + _both(source, promise, NEAR_QUERY)


def _both(source: Path, promise: str, select: str) -> str:
    quick, lazy = (
        (f"WITH (force, latency '{QUICK_S} s' MUST)", "WITH (force, latency '1 minute' DONT CARE)")
        if promise
        else ("", "")
    )
    return f"""
        CREATE STREAM probes ({COLUMNS}) TIMESTAMP BY at SKEW {SKEW_S} SECONDS
          FROM FILES (path '{source}', format 'parquet');
        CREATE QUERY quick {quick} AS
          SELECT zone, count(*) AS n, window_end FROM probes [RANGE 1 SECOND] GROUP BY zone INTO MEMORY;
        CREATE QUERY lazy {lazy} AS {select} INTO MEMORY;
    """


def at_once(source: Path, folder: Path, statements: Statements) -> dict[str, dict[tuple[int, float], int]]:
    """Return the counts of both queries without promises and budgets, by zone and window's end."""
    with Session(folder / "at-once") as session:
        session.execute(statements(source, folder, ""))
        session.drain()
        return {
            query: {(row["zone"], row["window_end"].timestamp()): row["n"] for row in session.results(query)}
            for query in ("quick", "lazy")
        }


def measure_capacity(folder: Path, statements: Statements, first: float, seconds: float) -> float:
    """Return the rate at which micro-batches take this long; the second pass grows slowly, until they stop growing."""
    rough = _grow(folder / "rough", lambda source, promise: statements(source, folder, promise), first, *FAST, seconds)
    err.print(f"about {rough:,.0f} tuples/s; once more, slowly", style="dim")
    return _grow(
        folder / "capacity", lambda source, promise: statements(source, folder, promise), FROM * rough, *SLOW, seconds
    )


def _grow(
    spot: Path, statements: Callable[[Path, str], str], first: float, growth: float, step_s: float, seconds: float
) -> float:
    """Return the rate at which micro-batches take this long, growing it by a factor in each step."""
    steps = [first * growth**number for number in range(STEPS)]
    source = spot / "probes"
    source.mkdir(parents=True)
    with Session(spot / "checkpoint") as session:
        session.execute(statements(source, ""))
        begin_us = _begin()
        process = release(source, [Phase(rate, step_s) for rate in steps], begin_us)
        try:
            rates = [math.inf] * 2  # the first two warm up
            while rates[-1] > 1 / seconds and len(rates) < STEPS:
                rates.append(1 / _batch_seconds(session, begin_us / 1e6 + len(rates) * step_s, step_s))
        finally:
            process.terminate()
            process.wait()
    if rates[-1] > 1 / seconds:
        raise HostFault(
            f"micro-batches stay short up to {steps[-1]:,.0f} tuples a second",
            hint="make the query of this benchmark dearer",
        )
    # how many there are in a second falls in proportion to the rate
    above, below, rate = rates[-2], rates[-1], steps[len(rates) - 1]
    part = (above - 1 / seconds) / (above - below) if math.isfinite(above) else 1.0
    return rate / growth + part * (rate - rate / growth)


def _batch_seconds(session: Session, begin: float, step_s: float) -> float:
    """Return the time of a micro-batch in the second half of a step that begins at a clock time (seconds)."""
    time.sleep(max(0.0, begin + step_s - time.time()))
    running = session.deployment.query  # type: ignore[attr-defined]
    took = []
    for progress in running.recentProgress:
        seconds, start = (
            progress.durationMs["triggerExecution"] / 1e3,
            dt.datetime.fromisoformat(progress.timestamp).timestamp(),
        )
        if start + seconds > begin + step_s / 2:
            took.append(seconds)
    return statistics.median(took) if took else step_s  # none has ended


def ours(spot: Path, folder: Path, phases: Sequence[Phase], promise: str) -> Seen:
    """Run the query while the probes arrive."""
    source = spot / "probes"
    source.mkdir(parents=True)
    seen = Seen()
    with Session(spot / "checkpoint") as session:
        session.execute(near_statements(source, folder, promise))
        begin_us = _begin()
        session.subscribe("near", _taker(seen, begin_us))
        _wait(release(source, phases, begin_us), seen, phases)
        statistics_ = session.statistics()
        seen.read = statistics_.streams["probes"].tuples
        behind = [counts.tuples_in for name, counts in statistics_.vertices.items() if name.startswith("tablejoin")]
        seen.taken = sum(behind)
        seen.dropped = sum(shed.dropped for shed in statistics_.shed.values())
        seen.notes += [
            f"decided: {each.action} ({each.reason})" for each in session.deployment.control.decisions.all()[:4]
        ]
    return seen


def spark(spot: Path, folder: Path, phases: Sequence[Phase]) -> Seen:
    """Run the same with plain Structured Streaming, in the session that Headrace used."""
    from pyspark.sql.functions import col, expr, window

    from headrace.hosts.spark.starting.context import session_for

    source = spot / "probes"
    source.mkdir(parents=True)
    seen = Seen()
    session = session_for()
    points = session.read.parquet(str(folder / "points.parquet"))
    stream = session.readStream.schema(COLUMNS).parquet(str(source)).withWatermark("at", f"{SKEW_S} seconds")
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
    """Return each count without any loss."""
    points = pl.read_parquet(folder / "points.parquet")
    counts: dict[tuple[int, int], int] = {}
    number = 0
    while (rows := probes(phases, number, 0)) is not None:
        near = rows.join(points, left_on="zone", right_on="area").filter(pl.sql_expr(H) < NEAR * NEAR)
        ends = near.group_by("zone", (pl.col("at").to_physical() // 1_000_000 + 1).alias("end")).len()
        for zone, end, count in ends.iter_rows():
            counts[zone, end] = counts.get((zone, end), 0) + count
        number += 1
    return counts


def near_statements(source: Path, folder: Path, promise: str) -> str:
    return f"""
        CREATE STREAM probes ({COLUMNS}) TIMESTAMP BY at SKEW {SKEW_S} SECONDS
          FROM FILES (path '{source}', format 'parquet');
        CREATE TABLE points FROM FILES (path '{folder / "points.parquet"}', format 'parquet');
        CREATE QUERY near {promise} AS {NEAR_QUERY} INTO MEMORY;
    """


def _begin() -> int:
    """Return a start time a little later, at a full second, so that started processes are ready."""
    return (int(time.time()) + 6) * 1_000_000


def _note(seen: Seen, zone: int, end: float, count: int, begin_us: int, now: float) -> None:
    after = round(end - begin_us / 1e6)
    seen.delays.setdefault(float(after), now - end - SKEW_S)
    seen.counts[zone, after] = count


def _wait(process: Any, seen: Seen, phases: Sequence[Phase]) -> None:
    """Wait until the input has ended and its last window has arrived, or the time is up."""
    process.wait()
    last, deadline = float(int(sum(phase.seconds for phase in phases)) - 1), time.monotonic() + REST_S
    while last not in seen.delays and time.monotonic() < deadline:
        time.sleep(0.1)


def _total(phases: Sequence[Phase]) -> int:
    return sum(round(phase.rate * FILE_S) * round(phase.seconds / FILE_S) for phase in phases)
