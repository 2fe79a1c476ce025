"""Reads a foreign Spark source with a streaming query of its own and leaves its rows in the stream's spool.

The tasks that read write, too: files of their own if there is much, else pages for the driver, which writes one file.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import TimestampType

from headrace.catalog.definitions import Stream
from headrace.connectors.secrets import with_secrets
from headrace.connectors.spool import Spool, Spooled, feeder_folder, stream_spool
from headrace.errors import SourceFault
from headrace.hosts.spark.essence import essence
from headrace.hosts.spark.logs import mend, sweep
from headrace.model.page import Page
from headrace.model.schema import Field
from headrace.model.types import DataType, Type
from headrace.storage import files

#: The format of a stream that reads a DataFrame of the program.
DATAFRAME = "dataframe"
#: Parts are written once they have this size.
_PART_BYTES = 16 * 1024 * 1024
#: Less than this goes to the driver.
_LEAST_BYTES = 64 * 1024
_NOTE = "task BIGINT, place BIGINT, part STRING, page BINARY"
#: The writer of what the driver got of tasks; no task has that number.
_DRIVER = "t999999999-1"
_SPARK_TYPES: dict[DataType, str] = {Type.TIMESTAMP: "timestamp_ntz", Type.INTERVAL: "bigint"}


def feed(
    session: SparkSession, stream: Stream, directory: Path, own: DataFrame | None = None, *, to_its_end: bool = False
) -> StreamingQuery:
    """Start to read; rows are in the spool once their micro-batch is complete. `own` is the program's DataFrame.

    With `to_its_end`, the query reads what the source has now, and ends.
    """
    stream = stream.recorded
    options = {name: str(value) for name, value in with_secrets(stream).connector.options.items()}
    kind = options.pop("format")
    try:
        frame = _own(stream, own) if kind == DATAFRAME else _loaded(session, stream, kind, options)
        missing = [name for name in stream.schema.names if name not in frame.columns]
        if missing:
            raise SourceFault(
                f"stream {stream.name}: the Spark source {kind!r} has no column {missing[0]!r}",
                hint=f"it has {', '.join(frame.columns)}",
            )
        chosen = frame.select([_column(frame, field) for field in stream.schema])
    except SourceFault:
        raise
    except Exception as error:
        raise SourceFault(
            f"stream {stream.name}: Spark cannot read format {kind!r}: {error}",
            hint="check the options, and that the jar is there",
        ) from error
    spool, checkpoint = stream_spool(stream.name, directory), feeder_folder(stream, directory)

    def leave(rows: DataFrame, batch: int) -> None:
        number = stream.begin + batch
        files.force(checkpoint)  # that the micro-batch reads just these rows, before anything shows it
        if not spool.files(number, number + 1):  # else it was left before a crash
            # `collect` gives a part of the rows as if it were all of them, if it is interrupted at the wrong moment
            notes = rows.mapInArrow(partial(_written, spool, number), _NOTE).toArrow().to_pylist()
            leave_rows(spool, number, [Note(**note) for note in notes])

    mend(checkpoint)
    sweep(checkpoint)  # Spark refuses to begin where a feeder that was interrupted has left half a file
    writer = chosen.writeStream.foreachBatch(leave).option("checkpointLocation", str(checkpoint))
    try:
        return (writer.trigger(availableNow=True) if to_its_end else writer).start()
    except AnalysisException as error:  # of what Spark cannot read as rows that only come
        raise SourceFault(
            f"stream {stream.name}: Spark cannot read the DataFrame as a stream: {essence(str(error))}",
            hint="drop the queries that read it, and leave aggregates without a watermark to Headrace",
        ) from error


def _loaded(session: SparkSession, stream: Stream, kind: str, options: Mapping[str, str]) -> DataFrame:
    reader = session.readStream.format(kind).options(**options)
    if kind in ("json", "csv", "parquet", "orc", "xml", "text"):
        reader = reader.schema(_declared(stream))
    return reader.load()


def _own(stream: Stream, frame: DataFrame | None) -> DataFrame:
    if frame is None:
        raise SourceFault(
            f"stream {stream.name} reads a DataFrame of the program, which has not given one",
            hint=f"call session.stream({stream.name!r}, frame) before the queries start",
        )
    return frame


def _column(frame: DataFrame, field: Field) -> Column:
    """Return a column of a source with the declared type; a time is that of UTC, whatever zone the session has."""
    column = F.col(f"`{field.name}`")
    if field.type is Type.TIMESTAMP and isinstance(frame.schema[field.name].dataType, TimestampType):
        column = F.convert_timezone(F.current_timezone(), F.lit("UTC"), column.cast("timestamp_ntz"))
    return column.cast(_spark_type(field.type)).alias(field.name)


class Note(NamedTuple):
    """What a task has read: rows in a part of the spool, or a small page."""

    task: int
    place: int  # among those of the task
    part: str
    page: bytes


def leave_rows(spool: Spool, batch: int, notes: Sequence[Note]) -> None:
    """Let the rows of a micro-batch be read, those of a task in its order."""
    ordered = sorted(notes)
    pages = [Page.decode(note.page).rows for note in ordered if not note.part]
    parts = [part for note in ordered if (part := Spooled.named(note.part)) is not None]
    if not parts:
        spool.put(batch, pl.concat(pages) if pages else pl.DataFrame())
        return
    if pages:
        parts.insert(0, spool.put_part(batch, pl.concat(pages), _DRIVER))
    spool.put_list(batch, parts)


def _written(spool: Spool, batch: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write what a task reads; yield notes for the driver."""
    context = TaskContext.get()
    assert context is not None
    for note in write_parts(spool, batch, context.partitionId(), (pl.from_arrow(batch) for batch in batches)):
        yield pa.RecordBatch.from_arrays([pa.array([value]) for value in note], names=Note._fields)


def write_parts(spool: Spool, batch: int, task: int, frames: Iterable[pl.DataFrame | pl.Series]) -> Iterator[Note]:
    """Write what a task reads in parts of about the same size; yield a note of each."""
    waiting: list[pl.DataFrame] = []
    size, counter = 0, itertools.count(1)
    for frame in frames:
        assert isinstance(frame, pl.DataFrame)
        waiting += [frame] if frame.height else []
        size += int(frame.estimated_size())
        if size >= _PART_BYTES:
            yield _note(spool, batch, task, next(counter), pl.concat(waiting))
            waiting, size = [], 0
    if waiting:
        yield _note(spool, batch, task, next(counter), pl.concat(waiting))


def _note(spool: Spool, batch: int, task: int, place: int, rows: pl.DataFrame) -> Note:
    if rows.estimated_size() < _LEAST_BYTES:
        return Note(task, place, "", Page(rows).encode())
    return Note(task, place, spool.put_part(batch, rows, f"t{task}-{place}").name, b"")


def _declared(stream: Stream) -> str:
    return ", ".join(f"`{field.name}` {_spark_type(field.type)}" for field in stream.schema)


def _spark_type(kind: DataType) -> str:
    return _SPARK_TYPES.get(kind, kind.value.lower())
