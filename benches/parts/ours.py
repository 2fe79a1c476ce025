"""Run queries with Headrace."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
from benches.parts.bids import TAIL_KEY
from benches.parts.outcome import Outcome, Sums
from benches.parts.query import Query

from headrace.session import Session


def run(streams: Sequence[str], queries: Mapping[str, Query], *, limit: int) -> Outcome:
    """Run all queries in one deployment, results in Parquet files; time it from the session's start to the end."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        out = Path(folder) / "out"
        script = [*streams] + [
            f"CREATE QUERY {name} AS {query.text} INTO FILES (path '{out / name}')" for name, query in queries.items()
        ]
        began = time.perf_counter()
        with Session(Path(folder) / "checkpoint", limit=limit) as session:
            session.execute(";\n".join(script))
            running = session.deployment.query  # type: ignore[attr-defined]
            session.drain()
            seconds = time.perf_counter() - began
        batch_ms = (tuple(float(progress.durationMs["triggerExecution"]) for progress in running.recentProgress),)
        return Outcome(seconds, batch_ms, {name: sums_of(out / name, query) for name, query in queries.items()})


def sums_of(folder: Path, query: Query) -> Sums:
    """Return the sums of a query's results in Parquet files."""
    rows = pl.scan_parquet(str(folder / "*.parquet"))
    if "window_end" in rows.collect_schema().names():
        rows = rows.with_columns(pl.col("window_end").to_physical())
    sums = (
        rows.filter(pl.col(query.key) != TAIL_KEY)
        .select(pl.sql_expr(text).sum().alias(name) for name, text in query.sums.items())
        .collect()
    )
    return {name: float(value) for name, value in sums.row(0, named=True).items()}
