"""Reads CREATE STREAM, CREATE TABLE, CREATE AGGREGATE and CREATE FUNCTION."""

from __future__ import annotations

from typing import Literal

from headrace.errors import NameFault, NotSupported, Span, SyntaxFault
from headrace.language import other_systems
from headrace.language.names import TYPE_NAMES, did_you_mean
from headrace.language.read.aggregates import read_aggregate
from headrace.language.read.columns import (
    Columns,
    read_columns,
    read_primary_key,
    refuse_computed,
    refuse_watermark,
)
from headrace.language.read.flink_options import flink_sink, flink_source, read_flink_options
from headrace.language.reader import Reader
from headrace.language.syntax.names import FED, ConnectorClause, Name
from headrace.language.syntax.rules import CreateSink
from headrace.language.syntax.statements import CreateAggregate, CreateFunction, CreateStream, CreateTable
from headrace.model.option import Option
from headrace.model.python_function import Style
from headrace.model.schema import HIDDEN, Schema
from headrace.model.time import END, SECOND

_KINDS = ("STREAM", "TABLE", "QUERY", "VIEW", "EVENT", "RULE", "SINK", "AGGREGATE", "FUNCTION")
_TABLE = "CREATE TABLE name [(column TYPE, ...)] FROM KIND (options) [REFRESH '1 minute']"
#: The option of KAFKA for a column that Flink reads from beside a record's value.
_METADATA = {"timestamp": "record_time", "partition": "record_partition", "offset": "record_offset"}
_STREAM = (
    "CREATE STREAM name (column TYPE, ...) "
    "[TIMESTAMP BY column SKEW 2 SECONDS AHEAD 1 HOUR BEHIND CLOCK | TIMESTAMP INTERNAL] "
    "[PUNCTUATED BY column ON (columns)] FROM KIND (options)"
)


def read_create(
    reader: Reader, offset: int
) -> CreateStream | CreateTable | CreateSink | CreateAggregate | CreateFunction:
    """Read a CREATE statement other than CREATE QUERY."""
    reader.expect("CREATE")
    or_replace = reader.accept("OR", "REPLACE")
    temporary = reader.accept("TEMPORARY", "TABLE") or reader.accept("TEMP", "TABLE")  # of Flink: the same here
    for kind in ("TABLE",) if temporary else ("STREAM", "TABLE", "AGGREGATE", "FUNCTION"):
        if temporary or reader.accept(kind):
            if_not_exists = reader.accept("IF", "NOT", "EXISTS")
            name = reader.name(f"the {kind.lower()}'s name")
            if name.text in HIDDEN or name.text.startswith("__"):
                raise NameFault(f"{name.text!r}: names that begin with '__' are reserved", span=name.span)
            break
    else:
        reader.fail(
            "expected STREAM, TABLE, QUERY, VIEW, EVENT, RULE, SINK, AGGREGATE or FUNCTION",
            hint=did_you_mean(reader.word(), _KINDS, elsewhere=other_systems.CREATED),
        )
    match kind:
        case "STREAM":
            return _stream(reader, offset, name, or_replace, if_not_exists)
        case "TABLE" if _has_flink_options(reader):
            return _flink_table(reader, offset, name, or_replace, if_not_exists)
        case "TABLE":
            return _table(reader, offset, name, or_replace, if_not_exists)
        case "FUNCTION":
            return _function(reader, offset, name, or_replace, if_not_exists)
        case _:
            return read_aggregate(reader, offset, name, or_replace, if_not_exists)


def _table(reader: Reader, offset: int, name: Name, or_replace: bool, if_not_exists: bool) -> CreateTable:
    columns, key = _table_columns(reader) if reader.word() == "(" else (None, ())
    key = key or read_primary_key(reader)
    reader.expect("FROM", hint=other_systems.STREAM_CLAUSES.get(reader.word(), _TABLE))
    if key:
        reader.accept("STREAM")
        origin = reader.name("the stream whose tuples change the table")
        while reader.accept("."):
            part = reader.name("the name of a stream")
            origin = Name(f"{origin.text}.{part.text}", Span(origin.span.start, part.span.end))
        connector = ConnectorClause(FED, {"stream": origin.text}, origin.span)
        if reader.word() in ("(", "REFRESH"):
            raise SyntaxFault(
                "a table with a PRIMARY KEY is fed by a stream",
                span=reader.here(),
                hint="write FROM stream; a table of FILES has no PRIMARY KEY",
            )
        return CreateTable(reader.text, offset, name, columns, connector, or_replace, if_not_exists, key=key)
    connector = read_connector(reader)
    refresh = _refresh(reader) if reader.accept("REFRESH") else 0
    return CreateTable(reader.text, offset, name, columns, connector, or_replace, if_not_exists, refresh)


def _flink_table(
    reader: Reader, offset: int, name: Name, or_replace: bool, if_not_exists: bool
) -> CreateStream | CreateSink:
    """Read a table of Flink: a sink, unless its columns or options say that it is read."""
    start = reader.position
    columns = read_columns(reader) if reader.word() == "(" else Columns()
    folders = _partitions(reader)
    options = read_flink_options(reader)
    if columns.watermark is not None or (options.is_read and not folders):
        reader.position = start
        return _stream(reader, offset, name, or_replace, if_not_exists)
    connector = flink_sink(options, name.text, folders)
    if reader.word() == "AS":
        hint = f"write CREATE TABLE {name.text} (columns) WITH (...), and INSERT INTO {name.text} SELECT ..."
        raise NotSupported("a sink in WITH cannot have AS SELECT", span=reader.here(), hint=hint)
    refuse_computed(columns)
    if not len(columns.schema):
        raise SyntaxFault(
            "a sink in WITH needs its columns", span=name.span, hint="CREATE TABLE out (item INT) WITH ..."
        )
    if columns.key:
        key = columns.key[0]
        raise SyntaxFault(
            "every result is a row of its own, also with a PRIMARY KEY",
            span=key.span,
            hint=f"leave it out, or write CREATE SINK {name.text} INTO POSTGRES (..., key '{key.text}')",
        )
    return CreateSink(reader.text, offset, name, connector, or_replace, if_not_exists, columns.schema)


def _partitions(reader: Reader) -> tuple[Name, ...]:
    """Read `PARTITIONED BY (day, ...)`, if it is there."""
    if not (reader.accept("PARTITIONED", "BY") or reader.accept("PARTITIONED BY")):
        return ()
    hint = "PARTITIONED BY (day)"
    reader.expect("(", hint=hint)
    folders = [reader.name("a column", hint=hint)]
    while reader.accept(","):
        folders.append(reader.name("a column", hint=hint))
    reader.expect(")", hint=hint)
    return tuple(folders)


def _table_columns(reader: Reader) -> tuple[Schema | None, tuple[Name, ...]]:
    """Read `(name TYPE, ..., PRIMARY KEY (name))`."""
    start = reader.here()
    columns = read_columns(reader)
    refuse_watermark(columns, start)
    refuse_computed(columns)
    return columns.schema if len(columns.schema) else None, columns.key


def _refresh(reader: Reader) -> int:
    """Read `[EVERY] '1 minute'` after REFRESH."""
    reader.accept("EVERY")
    start = reader.here()
    every = reader.duration()
    if every < SECOND:
        raise SyntaxFault(
            "a table is read again after a second at the earliest",
            span=start,
            hint="write for example REFRESH '1 minute'",
        )
    return every


def read_connector(reader: Reader) -> ConnectorClause:
    """Read `KIND (key 'value', ...)`; the parentheses may be missing."""
    kind = reader.name("a connector such as FILES or CONSOLE")
    options: dict[str, Option] = {}
    end = kind.span.end
    if reader.accept("("):
        while not (closed := reader.accept(")")):
            key = reader.name("the name of an option")
            while reader.accept("."):
                part = reader.name("the name of an option")
                key = Name(f"{key.text}.{part.text}", Span(key.span.start, part.span.end))
            reader.accept("=")
            value = reader.option()
            if value is None:
                reader.fail(
                    f"expected a value for {key.text!r}",
                    hint="a value is a text in single quotes, a number, TRUE or FALSE",
                )
            if key.text.lower() in options:
                raise SyntaxFault(f"option {key.text!r} is given twice", span=key.span)
            options[key.text.lower()] = value
            if reader.word() != ")":
                reader.expect(",", hint="options are separated by commas: (path 'data', format 'csv')")
        assert closed
        end = reader.tokens[reader.position - 1].end + 1
    return ConnectorClause(kind.text.upper(), options, Span(kind.span.start, end))


def _stream(reader: Reader, offset: int, name: Name, or_replace: bool, if_not_exists: bool) -> CreateStream:
    columns = read_columns(reader) if reader.word() == "(" else None
    if columns is not None and columns.key:
        raise SyntaxFault(
            "a stream has no PRIMARY KEY: it has a tuple for each change",
            span=columns.key[0].span,
            hint="leave it out; CREATE TABLE t (..., PRIMARY KEY (id)) FROM stream has the newest of each key",
        )
    time_column: Name | None = None
    skew, ahead, behind = 0, None, False
    if columns is not None and columns.watermark is not None:
        time_column, skew = columns.watermark
        if reader.word() == "TIMESTAMP":
            raise SyntaxFault(
                "the stream has WATERMARK FOR already", span=reader.here(), hint="leave TIMESTAMP out, or WATERMARK"
            )
    elif reader.accept("TIMESTAMP", "BY"):
        time_column = reader.name("the column that holds the time")
        if reader.accept("SKEW"):
            skew = reader.duration()
        if reader.accept("AHEAD"):
            ahead = END if reader.accept("UNLIMITED") else reader.duration()
        if reader.accept("BEHIND"):
            reader.expect("CLOCK", hint="TIMESTAMP BY at SKEW 5 SECONDS BEHIND CLOCK")
            behind = True
    elif not reader.accept("TIMESTAMP", "INTERNAL") and reader.word(1) == "LATENT":
        hint = "write TIMESTAMP INTERNAL: such tuples have the time at which they are read, and never wait"
        raise SyntaxFault("there are no latent timestamps", span=reader.here(), hint=hint)
    mark, delimited = _marks(reader)
    if reader.word() == "WITH" and reader.word(1) == "(" and not reader.word(2):  # a name in quotes
        connector = flink_source(read_flink_options(reader), name.text)
    else:
        reader.expect("FROM", hint=other_systems.STREAM_CLAUSES.get(reader.word(), _STREAM))
        connector = read_connector(reader)
    if columns is not None:
        _read_beside(columns, connector)
        if not len(columns.schema):
            raise SyntaxFault("the stream needs columns that are in its records", span=name.span, hint=_STREAM)
    timing: Literal["EXTERNAL", "INTERNAL"] = "INTERNAL" if time_column is None else "EXTERNAL"
    return CreateStream(
        reader.text,
        offset,
        name,
        None if columns is None else columns.schema,
        timing,
        time_column,
        skew,
        ahead,
        connector,
        or_replace,
        if_not_exists,
        mark,
        delimited,
        behind,
        () if columns is None else tuple(columns.computed),
    )


def _read_beside(columns: Columns, connector: ConnectorClause) -> None:
    """Let a source read METADATA columns."""
    for kind, column in columns.metadata.items():
        if connector.kind != "KAFKA" or kind not in _METADATA:
            hint = other_systems.COLUMN_CLAUSES["METADATA"]
            raise NotSupported(f"METADATA {kind!r} cannot be read", span=column.span, hint=hint)
        connector.options[_METADATA[kind]] = column.text


def _marks(reader: Reader) -> tuple[Name | None, tuple[Name, ...]]:
    """Read `PUNCTUATED BY done ON (segment, direction)`, if it is there."""
    if not reader.accept("PUNCTUATED"):
        return None, ()
    hint = "PUNCTUATED BY done ON (segment): a record with done = TRUE ends its segment"
    reader.expect("BY", hint=hint)
    mark = reader.name("the column that marks an end", hint=hint)
    reader.expect("ON", hint=hint)
    reader.expect("(", hint=hint)
    delimited = [reader.name("a column that a mark is about", hint=hint)]
    while reader.accept(","):
        delimited.append(reader.name("a column that a mark is about", hint=hint))
    reader.expect(")", hint=hint)
    return mark, tuple(delimited)


def _function(reader: Reader, offset: int, name: Name, or_replace: bool, if_not_exists: bool) -> CreateFunction:
    hint = "CREATE FUNCTION name(INT, STRING) RETURNS INT FROM PYTHON 'module:function'"
    reader.expect("(", hint=hint)
    if reader.word() not in TYPE_NAMES and reader.word(1) in TYPE_NAMES:
        reader.fail("the arguments of a function have types and no names", hint=hint)
    args = [reader.type()]
    while reader.accept(","):
        args.append(reader.type())
    reader.expect(")", hint=hint)
    reader.expect("RETURNS", hint=hint)
    result = reader.type()
    reader.expect("FROM", "PYTHON", hint=hint)
    target = reader.python_target("function", "texts.clean:slug")
    style: Style = "rows"
    if reader.accept("VECTORIZED"):
        style = "arrow" if reader.accept("ARROW") else "polars"
        reader.accept("POLARS")
    return CreateFunction(reader.text, offset, name, tuple(args), result, target.text, style, or_replace, if_not_exists)


def _has_flink_options(reader: Reader) -> bool:
    """Return whether WITH (...) follows the columns, instead of FROM; PARTITIONED BY (...) may stand between them."""
    ahead, depth = 0, 0
    while (word := reader.word(ahead)) or reader.ahead(ahead) is not None:
        if depth == 0 and word not in ("(", "PARTITIONED", "BY", "PARTITIONED BY"):
            return word == "WITH" and reader.word(ahead + 1) == "("
        depth += {"(": 1, ")": -1}.get(word, 0)
        ahead += 1
    return False
