"""Streaming DataFrames of a program as streams."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, DayTimeIntervalType, TimestampNTZType, TimestampType

from headrace.errors import QueryError, SourceFault
from headrace.hosts.spark.feeder import DATAFRAME
from headrace.model.expressions.text import format_name

#: How we write types that Spark writes in another way; all others are written alike.
_TYPES = {"tinyint": "INT", "smallint": "INT", "timestamp_ntz": "TIMESTAMP", "void": "STRING"}


def create_stream_text(name: str, frame: DataFrame, timestamp: str | None, skew: str | None) -> str:
    """Return CREATE STREAM IF NOT EXISTS for a streaming DataFrame; `timestamp` names the column of its time."""
    if not hasattr(frame, "isStreaming"):
        raise SourceFault(
            f"stream {name} is to read a {type(frame).__name__}, which is no DataFrame of Spark",
            hint="read one with spark.readStream; a table of Polars, Arrow or pandas is pushed into a MEMORY stream",
        )
    if not frame.isStreaming:
        raise SourceFault(
            f"the DataFrame for stream {name} is not a stream: it was read with spark.read",
            hint="read it with spark.readStream, or make it a table: session.execute('CREATE TABLE ...')",
        )
    if timestamp is None and skew is not None:
        raise QueryError("skew is that of a timestamp", hint="write timestamp='at', the column that has it")
    columns = ", ".join(f"{format_name(field.name)} {_type_of(field.dataType)}" for field in frame.schema)
    time = "TIMESTAMP INTERNAL" if timestamp is None else f"TIMESTAMP BY {format_name(timestamp)}"
    lateness = "" if skew is None else f" SKEW {skew}"
    source = f"FROM SPARK (format '{DATAFRAME}')"
    return f"CREATE STREAM IF NOT EXISTS {format_name(name)} ({columns}) {time}{lateness} {source}"


def _type_of(type_: DataType) -> str:
    if isinstance(type_, TimestampType | TimestampNTZType):
        return "TIMESTAMP"
    if isinstance(type_, DayTimeIntervalType):
        return "INTERVAL"
    text = type_.simpleString()
    return _TYPES.get(text, text)
