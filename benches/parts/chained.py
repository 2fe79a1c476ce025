"""A join of several streams as plain Spark makes it: stream-stream joins, one after the other."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from benches.parts import peers
from benches.parts.outcome import Outcome
from benches.parts.query import Query

from headrace.hosts.spark.starting.context import session_for

if TYPE_CHECKING:
    from benches.parts.drifting import Drifting


def chained(sources: Mapping[str, Any], near: str, columns: tuple[str, ...] = ("v",)) -> Any:
    """Return the frame of all combinations with the same `k` that are no further apart than an interval.

    The columns of a source have its name behind theirs.
    """
    from pyspark.sql.functions import expr

    joined: Any = None
    before: list[str] = []
    for name, source in sources.items():
        rows = source.withWatermark("at", "0 seconds").selectExpr(
            *(f"{column} AS {column}{name}" for column in ("at", "k", *columns))
        )
        if joined is None:
            joined = rows
        else:
            within = [f"at{name} BETWEEN at{other} - {near} AND at{other} + {near}" for other in before]
            joined = joined.join(rows, expr(" AND ".join([f"k{before[0]} = k{name}", *within])))
            # Spark allows one event time column: the others become plain timestamps
            joined = joined.withColumn(f"at{name}", expr(f"at{name} + INTERVAL 0 SECONDS"))
        before.append(name)
    kept = [f"{column}{name}" for name in sources for column in columns]
    return joined.selectExpr(f"k{before[0]} AS k", *kept)


def run_chained(data: Drifting) -> Outcome:
    """Run the joins over the files of some streams, a file of each per micro-batch."""
    spark = session_for()
    query = Query("", lambda *frames: frames[0], "k", data.sums())
    with tempfile.TemporaryDirectory(prefix="spark-plans-") as folder:
        sources = [
            spark.readStream.schema(data.columns).option("maxFilesPerTrigger", 1).parquet(str(data.folder / name))
            for name in data.streams
        ]
        frame = peers.observed(data.frame(sources), query)
        began = time.perf_counter()
        writer = frame.writeStream.option("checkpointLocation", folder).trigger(availableNow=True)
        running = writer.format("noop").start()
        running.awaitTermination()
        seconds = time.perf_counter() - began
        progress = running.recentProgress
    batch_ms = tuple(float(each.durationMs["triggerExecution"]) for each in progress)
    return Outcome(seconds, (batch_ms,), {"met": peers.observed_sums(progress, query)})
