"""Fill topics of Kafka with rows as JSON."""

from __future__ import annotations

import importlib

import polars as pl
import pyarrow as pa


def fill(address: str, topic: str, table: pa.Table, partitions: int) -> None:
    """Send all rows, in order, to the partitions in turn."""
    producer = importlib.import_module("confluent_kafka").Producer(
        {"bootstrap.servers": address, "linger.ms": 50, "batch.num.messages": 10_000}
    )
    lines = pl.from_arrow(table).write_ndjson().encode().splitlines()
    for number, line in enumerate(lines):
        while True:
            try:
                producer.produce(topic, line, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
