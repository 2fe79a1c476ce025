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
    for number, line in enumerate(lines_of(table)):
        while True:
            try:
                producer.produce(topic, line, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def lines_of(table: pa.Table) -> list[bytes]:
    """Return each row as JSON; times are in UTC, as `2026-01-01 00:00:00.001001`."""
    columns = [
        pa.field(column.name, pa.timestamp("us") if pa.types.is_timestamp(column.type) else column.type)
        for column in table.schema
    ]
    return pl.from_arrow(table.cast(pa.schema(columns))).write_ndjson().encode().splitlines()
