"""Reads a foreign Spark source with a streaming query of its own and leaves its rows in the stream's spool."""

from __future__ import annotations

import time
from pathlib import Path

import polars as pl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from headrace.catalog.definitions import Stream
from headrace.connectors.secrets import with_secrets
from headrace.connectors.spool import stream_spool
from headrace.errors import SourceFault
from headrace.model.types import Type
from headrace.storage.names import file_name

_SPARK_TYPES = {Type.TIMESTAMP: "timestamp_ntz", Type.INTERVAL: "bigint"}


def feed(session: SparkSession, stream: Stream, directory: Path) -> StreamingQuery:
    """Start to read; rows are in the spool once their micro-batch is complete."""
    options = {name: str(value) for name, value in with_secrets(stream).connector.options.items()}
    kind = options.pop("format")
    try:
        reader = session.readStream.format(kind).options(**options)
        if kind in ("json", "csv", "parquet", "orc", "xml", "text"):
            reader = reader.schema(_declared(stream))
        frame = reader.load()
        missing = [name for name in stream.schema.names if name not in frame.columns]
        if missing:
            raise SourceFault(
                f"stream {stream.name}: the Spark source {kind!r} has no column {missing[0]!r}",
                hint=f"it has {', '.join(frame.columns)}",
            )
        chosen = frame.select(
            [F.col(f"`{field.name}`").cast(_spark_type(field.type)).alias(field.name) for field in stream.schema]
        )
    except SourceFault:
        raise
    except Exception as error:
        raise SourceFault(
            f"stream {stream.name}: Spark cannot read format {kind!r}: {error}",
            hint="check the options, and that the jar is there",
        ) from error
    spool = stream_spool(stream.name, directory)

    def leave(rows: DataFrame, batch: int) -> None:
        table = pl.from_arrow(rows.toArrow())
        assert isinstance(table, pl.DataFrame)
        spool.put(batch, table)

    return (
        chosen.writeStream.foreachBatch(leave)
        .option("checkpointLocation", str(directory / "feeders" / file_name(stream.name)))
        .start()
    )


def settle(query: StreamingQuery, timeout: float = 10.0) -> None:
    """Wait until a feeder has nothing more to read, then stop it; some sources never end, so the wait is limited."""
    deadline = time.monotonic() + timeout
    while query.isActive and time.monotonic() < deadline:
        progress = query.lastProgress
        if progress is not None and not query.status["isDataAvailable"] and not query.status["isTriggerActive"]:
            break
        time.sleep(0.05)
    query.stop()


def _declared(stream: Stream) -> str:
    return ", ".join(f"`{field.name}` {_spark_type(field.type)}" for field in stream.schema)


def _spark_type(kind: Type) -> str:
    return _SPARK_TYPES.get(kind, kind.value.lower())
