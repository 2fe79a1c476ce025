"""Fill topics of Kafka with rows as JSON."""

from __future__ import annotations

import importlib

import polars as pl
import pyarrow as pa

#: Rows that are written as JSON at once.
_AT_ONCE = 100_000


def fill(address: str, topic: str, table: pa.Table, partitions: int) -> None:
    """Send all rows, in order, to the partitions in turn."""
    producer = importlib.import_module("confluent_kafka").Producer(
        {"bootstrap.servers": address, "log_level": 3, "linger.ms": 50, "batch.num.messages": 10_000}
    )
    parts = (table.slice(at, _AT_ONCE) for at in range(0, table.num_rows, _AT_ONCE))
    for number, line in enumerate(line for part in parts for line in lines_of(part)):
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
