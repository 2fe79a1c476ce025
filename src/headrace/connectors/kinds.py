"""All sources and sinks by kind, and checking a definition before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

import msgspec
import polars as pl

from headrace.catalog.definitions import CLOCK, FAILURES, RAISED, Connector, Stream
from headrace.connectors.clock import ClockSource
from headrace.connectors.connector import Sink, Source, StagingSink
from headrace.connectors.console import ConsoleSink, check_console
from headrace.connectors.files.folders import folder_columns, too_long
from headrace.connectors.files.rolling_sink import files_sink
from headrace.connectors.files.sink import check_files_sink
from headrace.connectors.files.source import FilesSource, check_files
from headrace.connectors.generator.source import GeneratorSource
from headrace.connectors.kafka.publishing import PUBLISHED_STAGING, PublishingSink, kafka_sink
from headrace.connectors.kafka.sink import check_kafka_sink, publishers_of
from headrace.connectors.kafka.source import KafkaSource, check_kafka
from headrace.connectors.memory import MemorySink, check_memory_sink
from headrace.connectors.options import check_names, flag, near, require
from headrace.connectors.postgres.sink import PostgresSink, check_postgres_sink
from headrace.connectors.secrets import resolved, with_secrets
from headrace.connectors.shelf import ShelfSink, check_shelf
from headrace.connectors.socket import SocketSource, address
from headrace.connectors.spark import SPARK_STAGING, SparkSink
from headrace.connectors.spool import raised_source, spool_source
from headrace.connectors.upserts import key_columns
from headrace.errors import NameFault, QueryError
from headrace.model.calendar import beyond_calendar
from headrace.model.schema import Schema
from headrace.storage import files

#: A stream and the session's checkpoint directory, where a source may keep files under `sources/<stream>/`.
MakeSource: TypeAlias = Callable[[Stream, Path], Source]
#: The query's name, the sink's options, the query's columns, and the session's checkpoint directory.
MakeSink: TypeAlias = Callable[[str, Connector, Schema, Path], Sink]
MakeStagingSink: TypeAlias = Callable[[str, Connector, Schema, Path], StagingSink]

SOURCES: dict[str, MakeSource] = {
    "FILES": FilesSource,
    "GENERATOR": GeneratorSource,
    "KAFKA": KafkaSource,
    "SOCKET": SocketSource,
    "MEMORY": spool_source,
    "SPARK": spool_source,
    CLOCK: ClockSource,
    RAISED: raised_source,
    FAILURES: spool_source,
    "SYSTEM": spool_source,
}
#: What no statement can ask for: we write these.
_OWN = (RAISED, FAILURES, "SYSTEM")

SINKS: dict[str, MakeSink] = {
    "CONSOLE": ConsoleSink,
    "FILES": files_sink,
    "KAFKA": kafka_sink,
    "MEMORY": MemorySink,
    "POSTGRES": PostgresSink,
    "SHELF": ShelfSink,
    "SPARK": SparkSink,
}

#: Sinks that hold any date and time, by the option that says how they write.
_ANY_TIME = {("FILES", "parquet"), ("KAFKA", "arrow")}
_DEFAULT_FORMATS = {"FILES": "parquet", "KAFKA": "json"}

#: The sinks into which tasks can write.
STAGING_SINKS: dict[str, MakeStagingSink] = {"FILES": files_sink, "KAFKA": PublishingSink, "SPARK": SparkSink}


def make_source(stream: Stream, checkpoint: Path) -> Source:
    """Make the source of a stream, with its secrets."""
    return SOURCES[stream.connector.kind](with_secrets(stream.recorded), checkpoint)


def make_sink(query: str, connector: Connector, schema: Schema, checkpoint: Path) -> Sink:
    """Make a sink of a query, with its secrets."""
    sink = SINKS[connector.kind](query, resolved(connector, where=f"query {query}: "), schema, checkpoint)
    if isinstance(sink, PublishingSink):
        sink.reference = connector  # tasks find the secrets themselves
    return sink


def is_by_key(connector: Connector) -> bool:
    """Return whether a sink holds one row for each key, and reads in a column what happened to it."""
    match connector.kind:
        case "KAFKA":
            return flag(connector.options, "upsert", default=False)
        case kind:
            return kind in ("MEMORY", "POSTGRES") and "key" in connector.options


def key_of(connector: Connector, schema: Schema) -> tuple[str, ...]:
    """Return the columns that name a row of a table by key; none if the sink holds all results."""
    return key_columns(connector.options["key"], connector.kind, schema) if is_by_key(connector) else ()


def can_stage(connector: Connector) -> bool:
    """Return whether tasks can write into a sink."""
    return connector.kind in STAGING_SINKS and (connector.kind != "KAFKA" or publishers_of(connector) > 0)


def make_staging_sink(query: str, connector: Connector, schema: Schema, checkpoint: Path) -> StagingSink:
    """Make a sink into which tasks write, with its secrets."""
    return STAGING_SINKS[connector.kind](query, resolved(connector, where=f"query {query}: "), schema, checkpoint)


def delete_staged(checkpoint: Path, open_sinks: Iterable[Sink]) -> None:
    """Delete what tasks left in a checkpoint for sinks, except for those that are open."""
    kept = {sink.staging for sink in open_sinks if isinstance(sink, SparkSink | PublishingSink)}
    for folder in (checkpoint / SPARK_STAGING, checkpoint / PUBLISHED_STAGING):
        for directory in (folder / name for name in files.names(folder)):
            if directory not in kept:
                files.remove_directory(directory)


def check_source(stream: Stream) -> None:
    """Refuse a stream whose source cannot be made; touches nothing."""
    kind = stream.connector.kind
    if kind not in SOURCES or kind in _OWN:
        raise NameFault(
            f"there is no source {kind!r}", hint=near(kind, [known for known in SOURCES if known not in _OWN])
        )
    stream = msgspec.structs.replace(stream.recorded, connector=resolved(stream.connector, error=QueryError))
    match kind:
        case "FILES":
            check_files(stream.connector, stream.schema)
        case "GENERATOR":
            GeneratorSource(stream, Path())
        case "CLOCK":
            ClockSource(stream, Path())
        case "KAFKA":
            check_kafka(stream)
        case "SOCKET":
            address(stream.connector)
        case "SPARK":  # other options are the format's own
            require(stream.connector, "format", "'rate'")
        case _:
            check_names(stream.connector, ())


def unread_unit(kind: str) -> str:
    """Return in what a source of a kind measures what it has not read (`MeasuredSource`)."""
    return "bytes" if kind in ("FILES", "SOCKET") else "rows"


def refused(sink: Connector, rows: pl.DataFrame) -> pl.Series | None:
    """Return for each row why a sink cannot hold it, NULL if it can; None if it can hold all rows."""
    form = sink.options.get("format", _DEFAULT_FORMATS.get(sink.kind))
    folders = folder_columns(sink) if sink.kind == "FILES" else ()
    reasons = None if (sink.kind, form) in _ANY_TIME and not folders else beyond_calendar(rows)
    unnamed = too_long(rows, folders)
    if reasons is None or unnamed is None:
        return unnamed if reasons is None else reasons
    return pl.select(pl.coalesce(reasons, unnamed)).to_series()


def check_sink(query: str, connector: Connector, schema: Schema) -> None:
    """Refuse a query whose sink cannot be made; touches nothing."""
    if connector.kind not in SINKS:
        raise NameFault(f"query {query}: there is no sink {connector.kind!r}", hint=near(connector.kind, SINKS))
    connector = resolved(connector, error=QueryError)
    match connector.kind:
        case "FILES":
            check_files_sink(connector, schema)
        case "KAFKA":
            check_kafka_sink(connector, schema)
        case "POSTGRES":
            check_postgres_sink(connector, schema)
        case "MEMORY":
            check_memory_sink(connector, schema)
        case "CONSOLE":
            check_console(connector)
        case "SPARK":
            require(connector, "format", "'delta'")
        case "SHELF":
            check_names(connector, ("keep",))
            check_shelf(connector)
        case _:
            check_names(connector, ())
