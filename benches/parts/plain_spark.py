"""A query on plain Spark, from Parquet files or topics into Parquet files; as a command, from JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from benches.parts.topics import fill
from pyspark.sql import DataFrame, SparkSession, functions

#: Where `benches/spark/setup` puts Spark's connector of Kafka.
JARS = Path(__file__).resolve().parents[2] / ".spark-kafka"


@dataclass(frozen=True, slots=True)
class SparkTopics:
    """A broker, and the topics of streams: what Spark may read of each in a micro-batch, and those of late rows.

    `ends` has a topic for each stream that is empty at first, and the file with the row that closes its windows. The
    row comes `tails` times.
    """

    address: str
    limits: Mapping[str, int]
    ends: Mapping[str, tuple[str, str]]
    tails: int


@dataclass(frozen=True, slots=True)
class SparkJob:
    """The text of a query, the folders of its streams with their columns and the files to read, and its tables.

    With `topics`, the streams come from there instead of the files.
    """

    text: str
    streams: Mapping[str, tuple[str, str]]
    files: str
    tables: Sequence[str]
    folder: str
    topics: SparkTopics | None = None

    def command(self) -> list[str]:
        """Return a command that runs the job in a Spark of its own."""
        return [sys.executable, "-m", "benches.parts.plain_spark", json.dumps(asdict(self))]


def jars() -> dict[str, str]:
    """Return the setting by which Spark reads topics; nothing if its connector is not installed."""
    found = sorted(map(str, JARS.glob("*.jar"))) if (JARS / "stamp").exists() else []
    return {"spark.jars": ",".join(found)} if found else {}


def run(spark: SparkSession, job: SparkJob) -> Any:
    """Run a job to its end, and return Spark's query; a micro-batch has a file of each stream, or as many rows."""
    for name, (folder, columns) in job.streams.items():
        if job.topics is None:
            read = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).option("pathGlobFilter", job.files)
            rows = read.parquet(folder)
        else:
            rows = _from_topics(spark, job.topics, name, columns)
        rows.withWatermark("at", "0 seconds").createOrReplaceTempView(name)
    for file in job.tables:
        spark.read.parquet(file).createOrReplaceTempView(Path(file).stem)
    writer = spark.sql(job.text).writeStream.option("checkpointLocation", f"{job.folder}/spark-checkpoint")
    writer = writer.format("parquet").option("path", f"{job.folder}/spark")
    if job.topics is None:
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination()
        return running
    running = writer.start()
    running.processAllAvailable()
    for _ in range(job.topics.tails):
        for topic, file in job.topics.ends.values():
            fill(job.topics.address, topic, pq.read_table(file), 1)
        running.processAllAvailable()
    running.stop()
    return running


def _from_topics(spark: SparkSession, topics: SparkTopics, name: str, columns: str) -> DataFrame:
    """Return the rows of a stream and then those that close its windows."""
    read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", topics.address)
    read = read.option("subscribe", f"{name},{topics.ends[name][0]}").option("startingOffsets", "earliest")
    values = read.option("maxOffsetsPerTrigger", topics.limits[name]).load()
    return values.select(functions.from_json(values.value.cast("string"), columns).alias("row")).select("row.*")


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    if given["topics"] is not None:
        given["topics"] = SparkTopics(**given["topics"])
    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    for setting, value in (jars() if given["topics"] is not None else {}).items():
        builder = builder.config(setting, value)
    own = builder.getOrCreate()
    own.sparkContext.setLogLevel("ERROR")
    own.conf.set("spark.sql.session.timeZone", "UTC")
    run(own, SparkJob(**given))
    own.stop()
