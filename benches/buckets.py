"""The driver's time for a micro-batch against the number of buckets, which are idle but for one.

1. The CPU time of the delivery, which is what Headrace's driver does for each bucket, without Spark. Two tasks report
   for all buckets, as they do on two cores.
2. On two local cores of Spark, the time of a micro-batch in which no task runs.
"""

from __future__ import annotations

import datetime as dt
import statistics
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benches.parts.bids import write_bids
from benches.parts.query import hopping
from benches.parts.scaling import measure, slope

from headrace.driver.delivery import Delivery
from headrace.hosts.local import LocalDeployment
from headrace.hosts.spark.starting.context import session_for
from headrace.hosts.spark.starting.launch import launch_of
from headrace.session import Session
from headrace.worker.bundles import bundled
from headrace.worker.reports import TaskRows
from headrace.worker.wire import Kind, Row

BUCKETS = (2, 16, 64, 256, 1024)
ON_SPARK = (2, 16, 64, 256)
TASKS = 2
START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
#: Micro-batches that do not count.
WARM = 5
SCRIPT = """
CREATE STREAM bids (at TIMESTAMP, item INT) TIMESTAMP BY at FROM MEMORY;
CREATE QUERY q AS SELECT item, count(*) AS n, window_end FROM bids [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY item
  INTO FILES (path '{out}');
"""


def main(quick: bool) -> dict[str, Any]:
    """Measure each number of buckets, and the cost of one more."""
    figures: dict[str, Any] = {
        "bench": "buckets",
        "title": "Driver's time per micro-batch, against idle buckets",
        "cases": {},
        "rows": [],
        "notes": [f"{TASKS} tasks report for all buckets"],
    }
    points: list[tuple[float, float]] = []
    for count in BUCKETS[:-1] if quick else BUCKETS:
        milliseconds, size = _measure(count, 20 if quick else 100)
        points.append((count, milliseconds))
        figures["cases"][str(count)] = {"ms": milliseconds, "bytes": size}
        figures["rows"].append({"case": f"delivery, {count} buckets", "ours": milliseconds, "unit": "ms"})
        figures["notes"].append(f"{count} buckets: a task sends {size:.0f} B")
    figures["rows"].append(_growth("delivery, a further bucket", points))
    _add_spark(figures, 20 if quick else 60)
    return figures


def _growth(case: str, points: Sequence[tuple[float, float]]) -> dict[str, Any]:
    growth = slope(points)
    verdict = "met" if growth < 0.5 else "missed"
    return {"case": case, "ours": growth, "unit": "ms", "target": 0.5, "verdict": verdict}


def _add_spark(figures: dict[str, Any], batches: int) -> None:
    """Measure how the time in which no task runs grows with the buckets, when almost nothing is read."""
    session_for(launch_of(master=f"local[{TASKS}]"))
    points: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory(prefix="headrace-buckets-") as folder:
        bids = write_bids(Path(folder) / "bids", 10 * batches, per_file=10, seed=7, per_second=10)
        for number, count in enumerate((ON_SPARK[0], *ON_SPARK)):
            query = f"CREATE QUERY q AS {hopping(10, 2).text} INTO FILES (path '{folder}/{number}/out')"
            text = f"{bids.stream('bids')};\n{query}"
            measured = measure(f"{folder}/{number}/checkpoint", text, limit=10, buckets=count)
            if not number:
                continue  # processes started, and the JVM compiled
            alone, whole = (statistics.median(measured[name][batches // 4 :]) for name in ("driver_ms", "batch_ms"))
            points.append((count, alone))
            figures["cases"][f"{count} on Spark"] = measured
            figures["rows"].append({"case": f"Spark, {count} buckets", "ours": alone, "unit": "ms"})
            figures["notes"].append(f"{count} buckets on Spark: micro-batches of {whole:.0f} ms")
    figures["rows"].append(_growth("Spark, a further bucket", points))


def _measure(buckets: int, batches: int) -> tuple[float, float]:
    """Return the median milliseconds of the delivery, and how many bytes a task sends."""
    with tempfile.TemporaryDirectory() as folder, Session(folder, host="local", buckets=buckets) as session:
        session.execute(SCRIPT.format(out=f"{folder}/out"))
        assert isinstance(session.deployment, LocalDeployment)
        measured = _Measured(session.deployment.delivery)
        for number in range(WARM + batches):
            session.push("bids", [{"at": START + dt.timedelta(seconds=number), "item": 1}])
            session.deployment.step()
        return statistics.median(measured.milliseconds[WARM:]), statistics.median(measured.sizes[WARM:])


class _Measured:
    """Times a delivery that gets the rows of buckets as Spark's tasks would send them."""

    def __init__(self, delivery: Delivery) -> None:
        self.milliseconds: list[float] = []
        self.sizes: list[float] = []
        self._deliver = delivery.deliver
        delivery.deliver = self._timed  # type: ignore[method-assign]

    def _timed(self, batch: int, rows: Iterable[Row], *arguments: Any, **options: Any) -> bool:
        sent = _as_tasks(list(rows))
        began = time.process_time()
        is_ended = self._deliver(batch, sent, *arguments, **options)
        self.milliseconds.append((time.process_time() - began) * 1000)
        self.sizes.append(sum(len(row.payload) for row in sent) / TASKS)
        return is_ended


def _as_tasks(rows: list[Row]) -> list[Row]:
    """Return one bundle for each task: what its buckets gave."""
    numbers = sorted({row.bucket for row in rows if row.kind is Kind.REPORT})
    bundles: list[Row] = []
    for task in range(TASKS):
        own = numbers[task::TASKS]
        merging, out = TaskRows(own, list), list[Row]()
        for number in own:
            out += merging.after(number, [row for row in rows if row.bucket == number])
        bundles.append(bundled(out))
    return bundles
