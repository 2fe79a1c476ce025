"""Run the same queries with plain Spark Structured Streaming, in the session that Headrace uses."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from benches.parts.bids import COLUMNS, TAIL_KEY, Bids
from benches.parts.ours import sums_of
from benches.parts.outcome import Outcome, Sums
from benches.parts.query import Query

from headrace.hosts.spark.starting.context import session_for


def run(
    streams: Mapping[str, Bids], queries: Mapping[str, Query], *, sink: Literal["parquet", "noop"], files: int = 1
) -> Outcome:
    """Run all queries at once, each as a streaming query; time them from the first frame until the last query ends.

    A micro-batch is `files` files of each stream. With the noop sink nothing is written, and results are summed on the
    way.
    """
    spark = session_for()
    with tempfile.TemporaryDirectory(prefix="spark-bench-") as folder:
        began = time.perf_counter()
        running: dict[str, Any] = {}
        for name, query in queries.items():
            sources = [
                spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", files).parquet(str(bids.folder))
                for bids in streams.values()
            ]
            frame = query.frame(*sources)
            if sink == "noop":
                frame = observed(frame, query)
            writer = frame.writeStream.option("checkpointLocation", f"{folder}/checkpoint/{name}").trigger(
                availableNow=True
            )
            running[name] = (
                writer.format("parquet").start(f"{folder}/out/{name}")
                if sink == "parquet"
                else writer.format("noop").start()
            )
        for query in running.values():
            query.awaitTermination()
        seconds = time.perf_counter() - began
        progress = {name: query.recentProgress for name, query in running.items()}
        batch_ms = tuple(
            tuple(float(each.durationMs["triggerExecution"]) for each in series) for series in progress.values()
        )
        if sink == "parquet":
            return Outcome(
                seconds,
                batch_ms,
                {name: sums_of(Path(folder) / "out" / name, query) for name, query in queries.items()},
            )
        return Outcome(
            seconds, batch_ms, {name: observed_sums(progress[name], query) for name, query in queries.items()}
        )


def observed(frame: Any, query: Query) -> Any:
    """Return a frame that sums its rows on the way."""
    from pyspark.sql.functions import expr

    sums = [
        expr(f"sum(CASE WHEN {query.key} <> {TAIL_KEY} THEN {text} END)").alias(name)
        for name, text in query.sums.items()
    ]
    return frame.observe("sums", *sums)


def observed_sums(progress: list[Any], query: Query) -> Sums:
    """Return the sums of all micro-batches."""
    sums = dict.fromkeys(query.sums, 0.0)
    for batch in progress:
        observed = batch.observedMetrics.get("sums")
        for name in query.sums if observed is not None else ():
            sums[name] += float(observed[name] or 0)
    return sums
