"""Cost of a query after a long time: with a constant window, state and micro-batches should not grow.

The run is ten times the window's length. The start is the second window's length, when the state has reached its size;
the end is the last one.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.parts.bids import Bids, write_bids
from benches.parts.query import Query, hopping, joined

from headrace.hosts.spark.starting.context import session_for
from headrace.model.page import Page
from headrace.session import Session

WINDOW_S = 40
WINDOWS = 10
PER_WINDOW = 10  # micro-batches
TARGET = 0.8


@dataclass(frozen=True, slots=True)
class Moment:
    """One micro-batch, over all buckets."""

    held: int
    state_bytes: int
    chunks: int
    restored: float  # share of buckets whose state came from the store, not from a worker's memory
    busy_ms: float


def main(quick: bool) -> dict[str, Any]:
    """Measure a windowed aggregate and a window join."""
    session_for().conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    per_second = 500 if quick else 5000
    rows = per_second * WINDOW_S * WINDOWS
    per_file = per_second * WINDOW_S // PER_WINDOW
    figures: dict[str, Any] = {
        "bench": "longrun",
        "title": "The last window of ten against the second",
        "cases": {},
        "rows": [],
        "notes": [],
    }
    with tempfile.TemporaryDirectory(prefix="bids-") as name:
        folder = Path(name)
        bids, asks = (
            write_bids(
                folder / kind,
                rows,
                per_file=per_file,
                seed=seed,
                per_second=per_second,
                bidders=20 * per_second,
                tail=0,
            )
            for kind, seed in (("bids", 1), ("asks", 2))
        )
        warm = write_bids(
            folder / "warm", per_file * PER_WINDOW, per_file=per_file, seed=3, per_second=per_second, tail=0
        )
        aggregate, pairs = hopping(WINDOW_S, WINDOW_S // 10), joined(WINDOW_S)
        _run(folder / "a", {"bids": warm}, aggregate)
        _report(figures, "aggregate", *_run(folder / "b", {"bids": bids}, aggregate))
        _run(folder / "c", {"bids": warm, "asks": warm}, pairs)
        _report(figures, "join", *_run(folder / "d", {"bids": bids, "asks": asks}, pairs))
    return figures


def _run(folder: Path, streams: dict[str, Bids], query: Query) -> tuple[list[Moment], list[float]]:
    """Return the state after each micro-batch, and the time that each took."""
    moments: list[Moment] = []
    per_file = next(iter(streams.values())).per_file
    with Session(folder / "checkpoint", limit=per_file) as session:
        delivery = session.deployment.delivery

        def take(batch: int, pages: Sequence[Page]) -> None:
            if delivery.reports:  # those of the micro-batch before
                moments.append(_moment(delivery.reports))

        delivery.subscribers["watched"] = [take]
        script = [bids.stream(name) for name, bids in streams.items()] + [
            f"CREATE QUERY watched AS {query.text} INTO FILES (path '{folder / 'out'}')"
        ]
        session.execute(";\n".join(script))
        running = session.deployment.query  # type: ignore[attr-defined]
        session.drain()
    return moments, [float(progress.durationMs["triggerExecution"]) for progress in running.recentProgress]


def _moment(reports: Sequence[Any]) -> Moment:
    return Moment(
        held=sum(sum(seen.held for seen in report.vertices.values()) for report in reports),
        state_bytes=sum(report.state_bytes for report in reports),
        chunks=sum(report.chunks for report in reports),
        restored=sum(report.restored for report in reports) / len(reports),
        busy_ms=sum(report.busy_ns for report in reports) / 1e6,
    )


def _report(figures: dict[str, Any], case: str, moments: list[Moment], batch_ms: list[float]) -> None:
    # the last window's length, without the micro-batches that close the streams
    end = range(PER_WINDOW * (WINDOWS - 1), min(PER_WINDOW * WINDOWS, len(moments)) - 1)
    start = range(PER_WINDOW, 2 * PER_WINDOW)
    measures: list[tuple[str, str, list[float], Any]] = [
        ("micro-batch time", "ms", batch_ms, statistics.median),
        ("buckets' time", "ms", [moment.busy_ms for moment in moments], statistics.median),
        ("state", "bytes", [float(moment.state_bytes) for moment in moments], statistics.median),
        ("held", "tuples", [float(moment.held) for moment in moments], statistics.median),
        ("chunks", "chunks", [float(moment.chunks) for moment in moments], statistics.median),
        ("restored", "share", [moment.restored for moment in moments], statistics.fmean),
    ]
    for name, unit, series, middle in measures:
        before, after = middle([series[i] for i in start]), middle([series[i] for i in end])
        judged = unit != "share"  # which worker Spark gives a bucket to is its choice
        ratio = before / after if judged and after else None
        measured = {
            "ours": after,
            "peers": {"start": before},
            "unit": unit,
            "ratio": ratio,
            "target": TARGET if judged else None,
        }
        verdict = "" if ratio is None else "met" if ratio >= TARGET else "missed"
        figures["cases"][f"{case}: {name}"] = {**measured, "series": series}
        figures["rows"].append({"case": f"{case}: {name}", **measured, "verdict": verdict})
