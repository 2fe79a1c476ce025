"""Reads WITH ('connector' = 'kafka', ...) of Flink as a source of ours."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import NotSupported, Span, SyntaxFault
from headrace.language.reader import Reader
from headrace.language.syntax.names import ConnectorClause
from headrace.model.option import Option

_HINT = "write WITH ('connector' = 'kafka', 'topic' = 'bids', ...), or FROM KIND (options)"
_STARTS = {"earliest-offset": "earliest", "latest-offset": "latest"}
_FORMATS = ("json", "csv")
#: Ours, by the name of an option of Flink's Kafka connector.
_KAFKA = {
    "topic": "topic",
    "properties.bootstrap.servers": "bootstrap",
    "format": "format",
    "value.format": "format",
    "scan.startup.mode": "start",
    "properties.security.protocol": "security.protocol",
    "properties.sasl.mechanism": "sasl.mechanism",
}
#: Options that change no result here: progress is in the checkpoint, not in a consumer group.
_WITHOUT_EFFECT = ("connector", "properties.group.id")
#: What to write instead of another connector; `path`, `topic` and `format` are those that were written.
_INSTEAD = {
    "filesystem": "CREATE STREAM {name} (...) FROM FILES (path '{path}', format '{format}'); new files are read, too",
    "upsert-kafka": "a stream has no key, and no row of it is changed; read the topic with 'connector' = 'kafka'",
    "datagen": "CREATE STREAM {name} (...) FROM GENERATOR (rate 10, ...)",
    "socket": "CREATE STREAM {name} (...) FROM SOCKET (host 'localhost', port 9999)",
    "print": "a sink is not a table: write INTO CONSOLE at the end of the query",
    "blackhole": "a sink is not a table: write INTO MEMORY at the end of the query",
    "jdbc": "CREATE TABLE {name} (...) FROM FILES (path 'data.csv') for a table that queries join",
}


@dataclass(frozen=True, slots=True)
class _Written:
    """The value of an option as written, and the place of its name."""

    value: str
    span: Span


def read_flink_connector(reader: Reader, name: str) -> ConnectorClause:
    """Read WITH (...) after the columns of the stream `name`; options that have no counterpart are refused."""
    start = reader.expect("WITH").start
    options = _read(reader)
    span = Span(start, reader.tokens[reader.position - 1].end + 1)
    kind = options.get("connector")
    if kind is None:
        raise SyntaxFault("WITH lacks 'connector'", span=span, hint=_HINT)
    if kind.value != "kafka":
        shown = {key: options[key].value if key in options else "..." for key in ("path", "topic", "format")}
        hint = _INSTEAD.get(kind.value, "write CREATE STREAM {name} (...) FROM KIND (options)")
        raise NotSupported(
            f"the connector {kind.value!r} is not supported in WITH",
            span=kind.span,
            hint=hint.format(name=name, **shown),
        )
    return ConnectorClause("KAFKA", _kafka(options, span), span)


def _read(reader: Reader) -> dict[str, _Written]:
    options: dict[str, _Written] = {}
    reader.expect("(")
    while True:
        span = reader.here()
        key = reader.string("the name of an option").lower()
        if key in options:
            raise SyntaxFault(f"option {key!r} is given twice", span=span)
        reader.expect("=", hint=_HINT)
        options[key] = _Written(reader.string("the value"), span)
        if reader.accept(")"):
            return options
        reader.expect(",", hint=_HINT)


def _kafka(options: dict[str, _Written], span: Span) -> dict[str, Option]:
    ours: dict[str, Option] = {}
    for key, written in options.items():
        if key in _WITHOUT_EFFECT:
            continue
        target = _KAFKA.get(key)
        if target is None:
            raise NotSupported(
                f"the option {key!r} is not supported",
                span=written.span,
                hint="leave it out, or write FROM KAFKA (bootstrap 'host:9092', topic 'bids', format 'json', ...)",
            )
        if target == "format" and written.value not in _FORMATS:
            raise NotSupported(f"the format {written.value!r} is not supported", span=written.span, hint="json or csv")
        ours[target] = _STARTS.get(written.value, "") if target == "start" else written.value
    if not ours.get("start"):
        raise NotSupported(
            "the stream must begin at the earliest or the latest record",
            span=options["scan.startup.mode"].span if "scan.startup.mode" in options else span,
            hint="write 'scan.startup.mode' = 'earliest-offset' or 'latest-offset'; a restart continues where it was",
        )
    return ours
