"""Reads WITH ('connector' = 'kafka', ...) of Flink as a source or a sink of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.errors import NotSupported, Span, SyntaxFault
from headrace.language.reader import Reader
from headrace.language.syntax.names import ConnectorClause, Name
from headrace.model.option import Option
from headrace.model.time import MILLISECOND, format_instant

_HINT = "write WITH ('connector' = 'kafka', 'topic' = 'bids', ...), or FROM KIND (options)"
_STARTS = {"earliest-offset": "earliest", "latest-offset": "latest"}
_MONITOR = "source.monitor-interval"
_MOMENT = "scan.startup.timestamp-millis"
#: Ours, by the name of an option of Flink's connector, for streams.
_SOURCES: dict[str, dict[str, str]] = {
    "kafka": {
        "topic": "topic",
        "properties.bootstrap.servers": "bootstrap",
        "format": "format",
        "value.format": "format",
        "scan.startup.mode": "start",
        _MOMENT: "start",
        "properties.security.protocol": "security.protocol",
        "properties.sasl.mechanism": "sasl.mechanism",
        "epoch": "epoch",  # not one of Flink's, which computes a column instead
    },
    "filesystem": {"path": "path", "format": "format", "epoch": "epoch"},
}
#: The same for sinks.
_SINKS: dict[str, dict[str, str]] = {
    "kafka": {name: ours for name, ours in _SOURCES["kafka"].items() if ours not in ("start", "epoch")},
    "filesystem": {
        "path": "path",
        "format": "format",
        "sink.rolling-policy.rollover-interval": "roll_interval",
        "sink.rolling-policy.file-size": "roll_bytes",
    },
    "print": {},
}
_SOURCE_KINDS = {"kafka": "KAFKA", "filesystem": "FILES"}
_SINK_KINDS = {**_SOURCE_KINDS, "print": "CONSOLE"}
_SOURCE_FORMATS = {"kafka": ("json", "csv", "raw"), "filesystem": ("json", "csv", "parquet", "raw")}
#: Ours, by the name of a format of Flink.
_FORMATS = {"raw": "text"}
_SINK_FORMATS = {"kafka": ("json",), "filesystem": ("json", "csv", "parquet")}
#: Connectors that tables have which are written, and whose form is another here.
_WRITTEN = ("blackhole", "jdbc", "upsert-kafka")
#: Options that change no result here: progress is in the checkpoint, files are looked for all the time, and every
#: result is written once.
_WITHOUT_EFFECT = (
    "connector", "properties.group.id", _MONITOR, "sink.parallelism", "sink.delivery-guarantee",
    "sink.transactional-id-prefix", "properties.transaction.timeout.ms", "sink.rolling-policy.check-interval",
)  # fmt: skip
#: What is so here anyway: a record that cannot be read is set aside, and a column that it does not have is NULL.
_AS_HERE = (
    ("json.ignore-parse-errors", "true"), ("json.fail-on-missing-field", "false"), ("csv.ignore-parse-errors", "true"),
    ("value.fields-include", "ALL"), ("sink.partitioner", "default"),
)  # fmt: skip
#: What to write instead of another connector; `path`, `topic`, `format` and `table` are those that were written.
_INSTEAD = {
    "filesystem": "CREATE STREAM {name} (...) FROM FILES (path '{path}', format '{format}'); new files are read, too",
    "upsert-kafka": (
        "write CREATE SINK {name} INTO KAFKA (bootstrap 'host:9092', topic '{topic}', key 'id', upsert true), and "
        "INSERT INTO {name} SELECT ...; read the topic with 'connector' = 'kafka'"
    ),
    "datagen": "CREATE STREAM {name} (...) FROM GENERATOR (rate 10, ...)",
    "socket": "CREATE STREAM {name} (...) FROM SOCKET (host 'localhost', port 9999)",
    "blackhole": "write CREATE SINK {name} INTO MEMORY, and INSERT INTO {name} SELECT ...",
    "jdbc": (
        "write CREATE SINK {name} INTO POSTGRES (url 'postgresql://user@host/database', table '{table}', key 'id') "
        "for results, CREATE TABLE {name} (...) FROM FILES (path 'data.csv') for a table that queries join"
    ),
}


#: What to write instead of another format, by how its name begins.
_AS_JSON = "write 'format' = 'json', and declare what the records have: {}"
_BY_SPARK = "read the topic by Spark, with from_avro or from_protobuf: session.stream('name', dataframe)"
_FORMATS_INSTEAD = {
    "avro": _BY_SPARK,
    "protobuf": _BY_SPARK,
    "debezium-json": _AS_JSON.format("op STRING, before ROW<...>, after ROW<...>, ts_ms BIGINT")
    + ". CASE op WHEN 'd' THEN 'delete' ELSE 'insert' END AS change tells a sink with a key what to keep",
    "canal-json": _AS_JSON.format("type STRING, data ARRAY<ROW<...>>, ts BIGINT"),
    "maxwell-json": _AS_JSON.format("type STRING, data ROW<...>, ts BIGINT"),
}


@dataclass(frozen=True, slots=True)
class _Written:
    """The value of an option as written, and the place of its name."""

    value: str
    span: Span


@dataclass(frozen=True, slots=True)
class FlinkOptions:
    """WITH (...): its options by name, in lower case, and where it stands."""

    connector: str
    options: Mapping[str, _Written]
    span: Span

    @property
    def is_read(self) -> bool:
        """Return whether the options say that the table is read."""
        said = any(name.startswith(("scan.", "source.")) for name in self.options)
        return said or (self.connector not in _SINK_KINDS and self.connector not in _WRITTEN)


def read_flink_options(reader: Reader) -> FlinkOptions:
    """Read WITH ('name' = 'value', ...)."""
    start = reader.expect("WITH").start
    options = _read(reader)
    span = Span(start, reader.tokens[reader.position - 1].end + 1)
    if "connector" not in options:
        raise SyntaxFault("WITH lacks 'connector'", span=span, hint=_HINT)
    return FlinkOptions(options["connector"].value, options, span)


def flink_source(written: FlinkOptions, name: str) -> ConnectorClause:
    """Return the source of the stream `name`; options that have no counterpart are refused."""
    kind, options = written.connector, written.options
    if kind not in _SOURCE_KINDS or (kind == "filesystem" and _MONITOR not in options):
        raise _refusal(written, name)
    ours = _translated(written, _SOURCES[kind], _SOURCE_FORMATS[kind], "FROM")
    if kind == "kafka":
        ours["start"] = _start(written)
    return ConnectorClause(_SOURCE_KINDS[kind], ours, written.span)


def _start(written: FlinkOptions) -> str:
    """Return where a stream of Kafka begins."""
    mode, moment = written.options.get("scan.startup.mode"), written.options.get(_MOMENT)
    if (
        mode is not None
        and mode.value == "timestamp"
        and moment is not None
        and moment.value.isdecimal()
        and len(moment.value) < 14
    ):
        return format_instant(int(moment.value) * MILLISECOND)
    if mode is None or mode.value not in _STARTS or moment is not None:
        raise NotSupported(
            "the stream must begin at the earliest or the latest record, or at a time",
            span=written.span if mode is None else mode.span,
            hint="write 'scan.startup.mode' = 'earliest-offset' or 'latest-offset', or 'timestamp' and "
            f"'{_MOMENT}' = '1767225600000'; a restart continues where it was",
        )
    return _STARTS[mode.value]


def flink_sink(written: FlinkOptions, name: str, folders: tuple[Name, ...]) -> ConnectorClause:
    """Return the sink `name`, whose PARTITIONED BY names the columns `folders`."""
    kind = written.connector
    if kind not in _SINK_KINDS:
        raise _refusal(written, name)
    ours = _translated(written, _SINKS[kind], _SINK_FORMATS.get(kind, ()), "INTO")
    if folders and kind != "filesystem":
        raise NotSupported(
            "only files can be PARTITIONED BY",
            span=folders[0].span,
            hint=f"leave it out, or write CREATE SINK {name} INTO KAFKA (..., key '{folders[0].text}')",
        )
    if folders:
        ours["partition_by"] = ", ".join(folder.text for folder in folders)
    return ConnectorClause(_SINK_KINDS[kind], ours, written.span)


def _refusal(written: FlinkOptions, name: str) -> NotSupported:
    options = written.options
    shown = {
        key.partition("-")[0]: options[key].value if key in options else "..."
        for key in ("path", "topic", "format", "table-name")
    }
    hint = _INSTEAD.get(written.connector, "write CREATE STREAM {name} (...) FROM KIND (options)")
    return NotSupported(
        f"the connector {written.connector!r} is not supported in WITH",
        span=options["connector"].span,
        hint=hint.format(name=name, **shown),
    )


def _read(reader: Reader) -> dict[str, _Written]:
    options: dict[str, _Written] = {}
    reader.expect("(")
    while True:
        span = reader.here()
        key = reader.string("the name of an option", hint=_HINT).lower()
        if key in options:
            raise SyntaxFault(f"option {key!r} is given twice", span=span)
        reader.expect("=", hint=_HINT)
        options[key] = _Written(reader.string("the value"), span)
        if reader.accept(")"):
            return options
        reader.expect(",", hint=_HINT)


def _translated(
    written: FlinkOptions, names: Mapping[str, str], formats: tuple[str, ...], word: str
) -> dict[str, Option]:
    ours: dict[str, Option] = {}
    for key, option in written.options.items():
        if key in _WITHOUT_EFFECT or (key, option.value) in _AS_HERE:
            continue
        target = names.get(key)
        if target is None:
            form = {
                "kafka": "KAFKA (bootstrap 'host:9092', topic 'bids', format 'json', ...)",
                "filesystem": "FILES (path 'data', format 'parquet', ...)",
            }.get(written.connector, "CONSOLE (rows 20)")
            raise NotSupported(
                f"the option {key!r} is not supported", span=option.span, hint=f"leave it out, or write {word} {form}"
            )
        if target == "format" and option.value not in formats:
            instead = (hint for name, hint in _FORMATS_INSTEAD.items() if option.value.startswith(name))
            raise NotSupported(
                f"the format {option.value!r} is not supported", span=option.span, hint=next(instead, _either(formats))
            )
        value = option.value
        ours[target] = {"path": value.removeprefix("file://"), "format": _FORMATS.get(value, value)}.get(target, value)
    return ours


def _either(formats: tuple[str, ...]) -> str:
    *first, last = formats
    return f"write {', '.join(first)} or {last}" if first else f"write {last}"
