"""A query on plain Spark Structured Streaming, from Parquet files into Parquet files; as a command, from JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SparkJob:
    """The text of a query, the folders of its streams with their columns and the files to read, and its tables."""

    text: str
    streams: Mapping[str, tuple[str, str]]
    files: str
    tables: Sequence[str]
    folder: str

    def command(self) -> list[str]:
        """Return a command that runs the job in a Spark of its own."""
        return [sys.executable, "-m", "benches.parts.plain_spark", json.dumps(asdict(self))]


def run(spark: SparkSession, job: SparkJob) -> Any:
    """Run a job to its end, a file of each stream in a micro-batch, and return Spark's query."""
    for name, (folder, columns) in job.streams.items():
        files = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).option("pathGlobFilter", job.files)
        files.parquet(folder).withWatermark("at", "0 seconds").createOrReplaceTempView(name)
    for file in job.tables:
        spark.read.parquet(file).createOrReplaceTempView(Path(file).stem)
    running = (
        spark.sql(job.text)
        .writeStream.option("checkpointLocation", f"{job.folder}/spark-checkpoint")
        .trigger(availableNow=True)
        .format("parquet")
        .start(f"{job.folder}/spark")
    )
    running.awaitTermination()
    return running


if __name__ == "__main__":
    own = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    own.sparkContext.setLogLevel("ERROR")
    own.conf.set("spark.sql.session.timeZone", "UTC")
    run(own, SparkJob(**json.loads(sys.argv[1])))
    own.stop()
