"""Latency predicted by EXPLAIN CAPACITY and measured on Spark, at 50, 70 and 85 % of the machine's capacity.

Probes are generated at a rate and matched with the road points of their zone. The latency of a result is the time from
its probe's timestamp, when the probe was generated, to delivery. The rate for each load follows from the utilization
that was predicted at the previous rate.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.parts.probes import ZONES, write_points

from headrace.cli.output import err
from headrace.session import Message, Session

POINTS = 40
LOADS = (0.5, 0.7, 0.85)
H = "pow(sin((y - py) / 2), 2) + cos(y) * cos(py) * pow(sin((x - px) / 2), 2)"
#: The target for the relative error of a forecast.
TARGET = 0.15
#: Seconds of the runs that search for a rate, and the tolerated difference between utilization and load.
SEARCH_S, NEAR = 15.0, 0.04
#: The largest number of runs.
RUNS = 7


@dataclass(frozen=True, slots=True)
class Run:
    """One rate, with predicted and measured latency."""

    rate: float
    utilization: float
    predicted: float
    measured: float
    results: int


def main(quick: bool) -> dict[str, Any]:
    """Run a minute at each load (40 s if quick), after a warm-up run that gives the first utilization."""
    seconds = 40.0 if quick else 60.0
    figures: dict[str, Any] = {
        "bench": "forecast",
        "title": "Predicted latency beside measured latency",
        "cases": {},
        "rows": [],
        "notes": [],
    }
    with tempfile.TemporaryDirectory(prefix="forecast-") as name:
        folder = Path(name)
        write_points(folder / "points.parquet", POINTS)
        run = watch(folder, 40_000.0, 20.0)
        for load in LOADS:
            err.print(f"load {load:.0%}", style="dim")
            run = at_load(folder, load, run, seconds)
            _add(load, run, figures)
    figures["notes"].append("utilization and latency are predicted at the end of each run, from its own counters")
    return figures


def at_load(folder: Path, load: float, run: Run, seconds: float) -> Run:
    """Run until the utilization is near the load, or return the last attempt."""
    is_long = False
    for number in range(RUNS):
        is_long |= number == RUNS - 1
        run = watch(folder, _next(run, load), seconds if is_long else SEARCH_S)
        if abs(run.utilization - load) <= NEAR:
            if is_long:
                break
            is_long = True
    return run


def _next(run: Run, load: float) -> float:
    """Return the next rate toward the utilization `load`, in limited steps: a tuple's cost depends on the rate."""
    return run.rate * min(2.0, max(0.5, load / max(run.utilization, 1e-3)))


def _add(load: float, run: Run, figures: dict[str, Any]) -> None:
    error = abs(run.predicted - run.measured) / run.measured
    measured = {
        "ours": run.predicted,
        "peers": {"measured": run.measured},
        "unit": "s",
        "ratio": run.predicted / run.measured,
        "target": None,
    }
    figures["cases"][f"load {load}"] = {
        **measured,
        "rate": run.rate,
        "utilisation": run.utilization,
        "error": error,
        "results": run.results,
    }
    figures["rows"].append({"case": f"load {load:.0%}", **measured, "verdict": "met" if error <= TARGET else "missed"})
    figures["notes"].append(
        f"load {load:.0%}: {run.rate:,.0f} tuples/s, utilization {run.utilization:.2f} predicted; "
        f"latency {run.predicted:.3f} s predicted, "
        f"{run.measured:.3f} s measured over {run.results:,} results, {error:.0%} off"
    )


def watch(folder: Path, rate: float, seconds: float) -> Run:
    """Run at a rate; ignore the first half, which includes the backlog of the start."""
    delays: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory(prefix="forecast-") as name, Session(Path(name) / "checkpoint") as session:
        session.execute(f"""
            CREATE STREAM probes (at TIMESTAMP, zone INT, x DOUBLE, y DOUBLE) TIMESTAMP BY at
              FROM GENERATOR (rate {rate:.0f}, process 'poisson', seed 3,
                col.zone 'uniform(0, {ZONES - 1})', col.x 'uniform(0.0, 1.0)', col.y 'uniform(0.0, 1.0)');
            CREATE TABLE points FROM FILES (path '{folder / "points.parquet"}', format 'parquet');
            CREATE QUERY near AS
              SELECT at, zone FROM probes JOIN points ON zone = area WHERE {H} < 0.000002 INTO MEMORY;
        """)

        def take(batch: int, rows: list[dict[str, Any]]) -> None:
            now = time.time()
            delays.extend((now, now - row["at"].timestamp()) for row in rows)

        session.subscribe("near", take)
        began = time.time()
        time.sleep(seconds)
        (message,) = session.execute("EXPLAIN CAPACITY JSON near")
        assert isinstance(message, Message)
        report = json.loads(message.text)
    late = [delay for at, delay in delays if at - began > seconds / 2]
    (line,) = report["queries"]
    came = report["streams"]["probes"]  # of a stream that comes faster than it can be read, what was read
    return Run(
        came, report["utilisation"], line["latency"], statistics.fmean(late) if late else float("inf"), len(late)
    )
