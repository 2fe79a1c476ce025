"""Re-keying: exchanges written by tasks beside exchanges through the driver, and beside a second keyed stage.

1. A query with large exchanges runs twice on two local cores: as it is, and with pages that pass through the driver.
2. A prototype on plain Spark has one or two chained keyed stages (`transformWithState`), with small pages. Beside it, a
   small query of ours runs without and with an exchange. The difference is what a micro-batch pays for re-keying.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benches.parts.bids import Bids, write_bids
from benches.parts.ours import sums_of
from benches.parts.outcome import Outcome, check_equal
from benches.parts.query import Query
from benches.parts.scaling import measure
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from headrace.hosts.spark.starting.context import session_for
from headrace.hosts.spark.starting.launch import launch_of

CORES = 2
SCHEMA = "bucket INT, payload BINARY"
COUNTS = "SELECT bidder, auction, count(*) AS n FROM bids [RANGE 5 SECONDS] GROUP BY bidder, auction"
REKEYED = "SELECT n, count(*) AS bidders, window_end FROM counts [RANGE 5 SECONDS] GROUP BY n"
SUMS = {"rows": "n * 0 + 1", "bidders": "bidders", "weighted": "n * bidders"}
#: Micro-batches that do not count.
WARM = 2


class _Stage(StatefulProcessor):
    """Passes pages on to the bucket after theirs, and keeps one value."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.values = handle.getMapState("values", "name STRING", "data BINARY")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        count = 0
        for row in rows:
            count += 1
            yield Row(bucket=(key[0] + 1) % CORES, payload=row.payload)
        self.values.updateValue(("count",), (str(count).encode(),))

    def close(self) -> None:
        pass


def main(quick: bool) -> dict[str, Any]:
    """Measure both comparisons."""
    batches = 20 if quick else 60
    root = str(Path(__file__).resolve().parents[1])  # workers of Spark import this file
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
    with tempfile.TemporaryDirectory(prefix="headrace-rekeying-") as folder:
        bids = write_bids(
            Path(folder) / "bids", 200_000 * (WARM + 4), per_file=200_000, seed=3, per_second=100_000, bidders=50_000
        )
        places = {name: _exchanged(Path(folder) / name, bids, name == "driver") for name in ("tasks", "driver")}
    check_equal("exchanges", places["tasks"], places["driver"])
    rates = {name: 1000 * bids.per_file / outcome.median_ms(WARM) for name, outcome in places.items()}
    spark = session_for(launch_of(master=f"local[{CORES}]", conf={"spark.sql.shuffle.partitions": CORES}))
    for _ in range(2):  # the first time, processes start and the JVM compiles
        stages = {number: _prototype(spark, number, batches) for number in (1, 2)}
        ours = _small(batches)
    second, exchange = stages[2] - stages[1], ours["with"] - ours["without"]
    return {
        "bench": "rekeying",
        "title": "Exchanges by tasks and by the driver; a second keyed stage",
        "cases": {"exchanges": rates, "stages": stages, "small": ours},
        "rows": [
            {
                "case": "two counts with other keys",
                "ours": rates["tasks"],
                "peers": {"by the driver": rates["driver"]},
                "unit": "tuples/s",
                "ratio": rates["tasks"] / rates["driver"],
            },
            {"case": "micro-batch of one stage, prototype", "ours": stages[1], "unit": "ms"},
            {"case": "micro-batch of two stages, prototype", "ours": stages[2], "unit": "ms"},
            {"case": "a second stage, in every micro-batch", "ours": second, "unit": "ms"},
            {"case": "small micro-batch without an exchange", "ours": ours["without"], "unit": "ms"},
            {"case": "small micro-batch with an exchange", "ours": ours["with"], "unit": "ms"},
            {"case": "an exchange, where a query needs one", "ours": exchange, "unit": "ms"},
        ],
        "notes": [
            f"re-keyed results come {ours['with'] + exchange:.0f} ms later by an exchange and {second:.0f} ms later by "
            "a second stage; but the second stage is paid by every micro-batch of all queries"
        ],
    }


def _exchanged(folder: Path, bids: Bids, is_by_driver: bool) -> Outcome:
    """Run the query with large exchanges in a process of its own."""
    patch = Path(__file__).parent / "parts" / "by_driver"
    paths = [*([str(patch)] if is_by_driver else []), *filter(None, sys.path)]
    script = (
        f"{bids.stream('bids')};\nCREATE QUERY counts AS {COUNTS};\n"
        f"CREATE QUERY q AS {REKEYED} INTO FILES (path '{folder}/out')"
    )
    job = {"checkpoint": f"{folder}/checkpoint", "text": script, "limit": bids.per_file, "buckets": CORES}
    command = [sys.executable, "-c", "import sys; from benches.rekeying import job; job(sys.argv[1])", json.dumps(job)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, stdout=subprocess.PIPE, check=True
    )
    figures = json.loads(done.stdout.splitlines()[-1])
    query = Query(REKEYED, lambda *frames: frames[0], "n", SUMS)
    return Outcome(figures["seconds"], (tuple(figures["batch_ms"]),), {"q": sums_of(folder / "out", query)})


def job(arguments: str) -> None:
    """Measure a script in this process, and print the figures."""
    session_for(launch_of(master=f"local[{CORES}]", conf={"spark.sql.shuffle.partitions": CORES}))
    sys.stdout.write("\n" + json.dumps(measure(**json.loads(arguments))) + "\n")


def _prototype(spark: SparkSession, stages: int, batches: int) -> float:
    """Return the median milliseconds of a micro-batch."""
    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 8 * CORES).load()
    pages = frame.selectExpr(f"CAST(value % {CORES} AS INT) AS bucket", "CAST(repeat('x', 4096) AS BINARY) AS payload")
    for _ in range(stages):
        pages = pages.groupBy("bucket").transformWithState(_Stage(), SCHEMA, "Append", "None")
    with tempfile.TemporaryDirectory(prefix="headrace-rekeying-") as folder:
        writer = pages.writeStream.foreachBatch(_collect).option("checkpointLocation", folder)
        query = writer.start()
        try:
            durations: dict[int, float] = {}
            while len(durations) < batches and query.isActive:
                for progress in query.recentProgress:
                    durations[progress.batchId] = progress.durationMs["triggerExecution"]
                query.awaitTermination(1)
            if (error := query.exception()) is not None:
                raise error
        finally:
            query.stop()
    return statistics.median(list(durations.values())[batches // 4 :])


def _collect(frame: DataFrame, batch: int) -> None:
    frame.collect()


def _small(batches: int) -> dict[str, float]:
    """Return the median milliseconds of micro-batches of a hundred tuples."""
    with tempfile.TemporaryDirectory(prefix="headrace-rekeying-") as folder:
        bids = write_bids(Path(folder) / "bids", 100 * batches, per_file=100, seed=3, per_second=100)
        scripts = {
            "without": f"CREATE QUERY counts AS {COUNTS} INTO FILES (path '{folder}/a')",
            "with": f"CREATE QUERY counts AS {COUNTS} INTO FILES (path '{folder}/b');"
            f"CREATE QUERY q AS {REKEYED} INTO FILES (path '{folder}/c')",
        }
        return {name: _median(f"{folder}/{name}", f"{bids.stream('bids')};\n{script}", batches)
                for name, script in scripts.items()}  # fmt: skip


def _median(checkpoint: str, text: str, batches: int) -> float:
    return statistics.median(measure(checkpoint, text, limit=100, buckets=CORES)["batch_ms"][batches // 4 :])
