"""Detect patterns of bids: Headrace on Spark and Flink's MATCH_RECOGNIZE, on the same input with the same results.

Both systems have all cores. Headrace checkpoints state and results after every micro-batch; Flink takes no checkpoints,
which favors it. A rate is that of the steady run, as in Nexmark: the bids of the second half of the input divided by
the time that they took, in a JVM that has run the same pattern before. Ours is the time of the micro-batches that read
them, Flink's the time between the moments at which its sources had read half of the bids and all of them. The notes
also give whole times (all of our micro-batches, Flink's job from start to end) and compare processor time, of all
processes of both, which others that use the machine change less: ours from the first statement to the last result, with
the work of Spark's driver.

The semantics agree as follows. AFTER MATCH SKIP TO NEXT ROW gives each first row at most one match, and X* with the
negated condition makes it the first row that fits: this is CONTEXT CONTINUOUS, in which each start waits for the first
matching end. MATCH_RECOGNIZE has strict contiguity only, so X* is needed. WITHIN is exclusive in Flink and inclusive
here, so Flink's is longer by a millisecond, the resolution of the bids. Bids of one auction with equal timestamps do
not occur: in Flink they would be consecutive, here simultaneous. Two cases run the text of Flink in both systems.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from benches.parts import flink, matching, processes
from benches.parts.channels import Bids, write_bids
from benches.parts.outcome import Disagreement
from benches.parts.patterns import PATTERNS, Pattern

from headrace.hosts.spark.starting.context import session_for
from headrace.session import Session


@dataclass(frozen=True, slots=True)
class Run:
    """The results, how long processing took, and the bids per second of the second half of the input."""

    found: pl.DataFrame
    seconds: float
    rate: float
    #: Processor time.
    cpu: float
    batches: int = 0


def main(quick: bool, only: str = "", keep: Callable[[dict[str, Any]], None] = lambda _: None) -> dict[str, Any]:
    """Measure all patterns (those whose name contains `only`); `keep` gets the figures so far after each."""
    spark = session_for()
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    title = "patterns of bids, " + ("quick" if quick else "full")
    figures: dict[str, Any] = {"bench": "cep", "title": title, "cases": {}, "rows": [], "notes": []}
    has_flink = flink.find_python() is not None
    readers = os.cpu_count() or 1
    with tempfile.TemporaryDirectory(prefix="bids-") as folder:
        rows, per_file = (400_000, 100_000) if quick else (4_000_000, 500_000)
        short = write_bids(Path(folder) / "short", 2 * per_file, per_file=per_file, seed=1, readers=readers)
        long = write_bids(Path(folder) / "long", rows, per_file=per_file, seed=2, readers=readers)
        for pattern in PATTERNS:
            if only in pattern.name:
                ours(pattern, short, per_file)
                mine = ours(pattern, long, per_file)
                theirs = matching.run(pattern, {"short": short, "long": long}, readers)["long"] if has_flink else None
                _add(pattern, long, mine, None if theirs is None else _flinks(theirs, long), figures)
                keep(figures)
    figures["notes"].append("rates are of the second half of the bids; the seconds are whole times")
    figures["notes"].append(
        "same CSV lines, same results as multisets; Flink without checkpoints, in a JVM that has run the pattern before"
    )
    figures["notes"].append(
        "SKIP TO NEXT ROW with X* is CONTINUOUS; WITHIN is exclusive in Flink, so 10.001 s; no ties within an auction"
    )
    if not has_flink:
        figures["notes"].append(f"only ours was measured: {flink.HINT}")
    return figures


def ours(pattern: Pattern, bids: Bids, limit: int) -> Run:
    """Detect with Headrace on Spark, with results in Parquet files."""
    with tempfile.TemporaryDirectory(prefix="headrace-cep-") as folder:
        out, before = Path(folder) / "out", processes.all_processes()
        with Session(Path(folder) / "checkpoint", limit=limit) as session:
            session.execute(f"{bids.stream('bids')};\n{pattern.ours()} INTO FILES (path '{out}')")
            running = session.deployment.query  # type: ignore[attr-defined]
            session.drain(600)
        ticks = sum(processes.spent(os.getpid(), before, processes.all_processes()).values())
        took = [progress.durationMs["triggerExecution"] for progress in running.recentProgress if progress.numInputRows]
        found = pl.read_parquet(str(out / "*.parquet"))
    rate = steady_rate(bids.rows, limit, took)
    return Run(found.select(pattern.names), sum(took) / 1000, rate, ticks / processes.RATE, len(took))


def steady_rate(rows: int, limit: int, took: Sequence[float]) -> float:
    """Return rows per second of the second half of the micro-batches, given their times in ms and rows at most.

    What comes behind the rows, when the input ends, is part of the whole time only.
    """
    batches = -(-rows // limit)
    return 1000 * (rows - batches // 2 * limit) / sum(took[batches // 2 : batches])


def _flinks(run: matching.Detected, bids: Bids) -> Run:
    """Return a run of Flink; without counts of its sources, its rate is that of the whole time."""
    rate = run.took.rate(bids.rows)
    return Run(run.found, run.took.seconds, bids.rows / run.took.seconds if rate is None else rate, run.cpu)


def _add(pattern: Pattern, bids: Bids, mine: Run, theirs: Run | None, figures: dict[str, Any]) -> None:
    if theirs is not None:
        _check(pattern, mine.found, theirs.found)
    peers = {} if theirs is None else {"flink": theirs.rate}
    ratio = None if theirs is None else mine.rate / theirs.rate
    measured = {"ours": mine.rate, "peers": peers, "unit": "events/s", "ratio": ratio, "target": pattern.target}
    figures["cases"][pattern.name] = {
        **measured,
        "rows": bids.rows,
        "found": mine.found.height,
        "seconds": {"ours": mine.seconds, **({} if theirs is None else {"flink": theirs.seconds})},
        "cpu": {"ours": mine.cpu, **({} if theirs is None else {"flink": theirs.cpu})},
        "batches": mine.batches,
    }
    judged = (
        {} if ratio is None or pattern.target is None else {"verdict": "met" if ratio >= pattern.target else "missed"}
    )
    figures["rows"].append({"case": pattern.name, **measured, **judged})
    note = (
        f"{pattern.name}: {mine.found.height:,} matches in {bids.rows:,} bids; "
        f"ours {mine.seconds:.1f} s in {mine.batches} micro-batches, {mine.cpu:.1f} s of processor time"
    )
    if theirs is not None:
        note += (
            f"; Flink {theirs.seconds:.1f} s, {theirs.seconds / mine.seconds:.2f} times ours, "
            f"{theirs.cpu:.1f} s of processor time, {theirs.cpu / mine.cpu:.2f} times ours"
        )
    figures["notes"].append(note)


def _check(pattern: Pattern, ours: pl.DataFrame, theirs: pl.DataFrame) -> None:
    """Raise unless both have the same results, each equally often, and at least one."""
    names = ours.columns
    mine, flinks = (matches.group_by(names).len().sort(names) for matches in (ours, theirs.select(names)))
    if ours.is_empty() or not mine.equals(flinks):
        lacking = (
            mine.join(flinks, on=[*names, "len"], how="anti").head(3).rows(),
            flinks.join(mine, on=[*names, "len"], how="anti").head(3).rows(),
        )
        raise Disagreement(
            f"{pattern.name}: {ours.height} matches by Headrace, {theirs.height} by Flink; "
            f"only ours {lacking[0]}, only Flink's {lacking[1]}"
        )
