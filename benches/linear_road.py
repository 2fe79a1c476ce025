"""Linear Road, scaled: on how many expressways does every car know its toll, or of an accident, within 5 seconds?

Reports come live, a file every half second, 1,000 reports a second and expressway. Accidents are complex events, and
rules tell tolls and accidents. A response time is the time from the report, whose timestamp is that of the wall clock,
to the moment at which the file that tells is there. Expressways are doubled until the slowest response, in a minute
after the start has been caught up with, is above the limit. All tolls and alerts of a run are compared with DuckDB's.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
from benches.parts.comparison import compare
from benches.parts.linear_road import ALERTS, COLUMNS, SECOND, STATEMENTS, TOLLS, reports
from benches.parts.outcome import Disagreement

from headrace.cli.output import err
from headrace.session import Session

SEED = 29
#: The limit of the original, in seconds.
LIMIT = 5.0
#: Cars of an expressway and direction: each reports every 30 seconds.
CARS = 15_000
#: Seconds of reports before the live ones, and between two files.
LEAD, INTERVAL = 330, 0.5
MOST = 64


@dataclass(frozen=True, slots=True)
class Run:
    """The response times of a run (seconds), and how many tolls, alerts and reports it had."""

    median: float
    p99: float
    longest: float
    tolls: int
    alerts: int
    reports: int
    not_free: int


def main(quick: bool, keep: Callable[[dict[str, Any]], None] = lambda _: None) -> dict[str, Any]:
    """Double the expressways until a response takes too long; `keep` gets the figures so far after each number."""
    figures: dict[str, Any] = {
        "bench": "linear_road",
        "title": f"Linear Road, {2 * CARS // 30:,} reports a second and expressway, response within {LIMIT:.0f} s",
        "cases": {},
        "rows": [],
        "notes": [],
    }
    expressways, held = 1, 0
    warm_up, seconds = (25, 20) if quick else (40, 60)
    while expressways <= (1 if quick else MOST):
        name = f"{expressways} expressway{'s' if expressways > 1 else ''}"
        err.print(f"{name}: reports of {LEAD} s at once, then of {warm_up + seconds} s as they come", style="dim")
        run = measure(expressways, warm_up=warm_up, seconds=seconds)
        figures["cases"][str(expressways)] = {
            "median": run.median, "p99": run.p99, "longest": run.longest, "tolls": run.tolls, "alerts": run.alerts,
            "reports": run.reports,
        }  # fmt: skip
        figures["rows"].append(
            {
                "case": f"{name}, longest response",
                "ours": run.longest,
                "unit": "s",
                "peers": {},
                "target": LIMIT,
                "verdict": "met" if run.longest <= LIMIT else "missed",
            }
        )
        figures["notes"].append(
            f"{name}: responses in {run.median:.2f} s (median), {run.p99:.2f} s (p99), {run.longest:.2f} s (longest); "
            f"{run.reports:,} reports, {run.tolls:,} tolls, {run.not_free:,} of them above zero, and {run.alerts:,} "
            "alerts, all as DuckDB has them"
        )
        keep(figures)
        if run.longest > LIMIT:
            break
        held, expressways = expressways, 2 * expressways
    figures["notes"].append(f"most expressways that hold the limit on this machine: {held}")
    return figures


def measure(expressways: int, *, warm_up: float, seconds: float) -> Run:
    """Run the queries over live reports."""
    span = int(LEAD + warm_up + seconds)
    begin = int((time.time() - LEAD) * SECOND)
    rows = reports(expressways, CARS, span, seed=SEED, begin=begin)
    late = int(time.time() * SECOND) - begin - LEAD * SECOND  # what it took to make them is caught up with
    with tempfile.TemporaryDirectory(prefix="linear-road-") as folder:
        data, out = Path(folder) / "in", Path(folder) / "out"
        data.mkdir()
        feeder = threading.Thread(target=feed, args=(data, rows, begin + LEAD * SECOND), daemon=True)
        with Session(Path(folder) / "checkpoint") as session:
            feeder.start()
            session.execute(
                f"CREATE STREAM reports ({COLUMNS}) TIMESTAMP BY at FROM FILES (path '{data}', format 'parquet');"
                + STATEMENTS.format(tolls=out / "tolls", alerts=out / "alerts")
            )
            feeder.join()
            session.drain()
        first = begin + (LEAD + warm_up) * SECOND + late
        responses = response_times(out, first, begin + span * SECOND - 2 * SECOND)
        check(rows, out)
        tolls = pl.read_parquet(out / "tolls" / "*.parquet")["toll"]
        alerts = pl.scan_parquet(out / "alerts" / "*.parquet").select(pl.len()).collect().item()
    median, p99, longest = (float(responses.quantile(share) or 0.0) for share in (0.5, 0.99, 1.0))
    return Run(median, p99, longest, tolls.len(), alerts, rows.height, int((tolls > 0).sum()))


def feed(data: Path, rows: pl.DataFrame, live: int) -> None:
    """Write what lies before a time at once, and then the reports of each half second when it is over."""
    times = rows["at"].to_physical()
    place, number, end = 0, 0, live
    while place < rows.height:
        pause = end / SECOND - time.time()
        if pause > 0:
            time.sleep(pause)
        following = int(times.search_sorted(end))
        if following > place:
            hidden = data / f".{number:06d}.parquet"
            rows[place:following].write_parquet(hidden)
            hidden.rename(data / f"{number:06d}.parquet")
        place, number, end = following, number + 1, end + int(INTERVAL * SECOND)


def response_times(out: Path, first: float, last: float) -> pl.Series:
    """Return the seconds from each report between two times to its toll, and to its alert."""
    found = []
    for path in sorted(out.glob("*/*.parquet")):
        reported = pl.read_parquet(path, columns=["at"])["at"].to_physical()
        reported = reported.filter((reported >= first) & (reported < last))
        found.append((path.stat().st_mtime * SECOND - reported) / SECOND)
    return pl.concat(found)


def check(rows: pl.DataFrame, out: Path) -> None:
    """Raise Disagreement unless tolls and alerts are those of DuckDB."""
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        db.register("reports", rows.to_arrow())
        for name, answer in (("tolls", TOLLS), ("alerts", ALERTS)):
            difference = compare(db, answer, sorted((out / name).glob("*.parquet")))
            if not difference.is_none or not difference.expected:
                raise Disagreement(f"the {name} differ from DuckDB's: {difference}")
