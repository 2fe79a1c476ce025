"""The table of a POSTGRES sink: what the options say, which columns it has, and whether it can hold every result."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace import extras
from headrace.catalog.definitions import Connector
from headrace.connectors.options import check_names, duration, require
from headrace.connectors.upserts import key_columns, without_change
from headrace.errors import QueryError, SinkFault
from headrace.model.schema import Field, Schema
from headrace.model.time import SECOND
from headrace.model.types import DataType, DecimalType, Type, is_nested

OPTIONS = ("url", "table", "key", "timeout")
#: The table in which the last micro-batch of each sink is noted, beside the table of the results.
NOTES = "headrace_deliveries"
#: Held while tables are made, so that two sinks do not make the same one.
LOCK = 717
_TYPES = {
    Type.BOOLEAN: "boolean",
    Type.INT: "integer",
    Type.BIGINT: "bigint",
    Type.FLOAT: "real",
    Type.DOUBLE: "double precision",
    Type.STRING: "text",
    Type.DATE: "date",
    Type.TIMESTAMP: "timestamp with time zone",
    Type.INTERVAL: "interval",
    Type.BINARY: "bytea",
    Type.NULL: "text",
}
#: Types of a table that somebody else has made that hold every value, too.
_ALSO = {
    Type.INT: ("bigint", "numeric", "double precision"),
    Type.BIGINT: ("numeric",),
    Type.FLOAT: ("double precision",),
    Type.STRING: ("character varying",),
    Type.DATE: ("timestamp without time zone", "timestamp with time zone"),
    Type.TIMESTAMP: ("timestamp without time zone",),
}
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
       a.atthasdef OR a.attidentity <> '' OR a.attgenerated <> ''
FROM pg_attribute a WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
"""
_UNIQUE = """
SELECT c.relname, i.indpred IS NULL AND i.indexprs IS NULL AND i.indisvalid,
       ARRAY(SELECT a.attname::text FROM pg_attribute a
             WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey::int2[]))
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = %s AND i.indisunique
"""
_CONSTRAINTS = "SELECT conname FROM pg_constraint WHERE conrelid = %s AND contype IN ('c', 'f', 'x')"


@dataclass(frozen=True, slots=True)
class Target:
    """Where results go; with a key, each key has one row."""

    url: str
    table: tuple[str, ...]  # its name, behind that of its schema if there is one
    key: tuple[str, ...]
    timeout: float

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.table[:-1], NOTES)

    def __str__(self) -> str:
        return f"the table {'.'.join(self.table)}"


def target(connector: Connector, schema: Schema) -> Target:
    """Read and check the options of a POSTGRES sink."""
    check_names(connector, OPTIONS)
    url = str(require(connector, "url", "'postgresql://user@localhost/database'"))
    if not url.startswith(("postgresql://", "postgres://")):
        raise QueryError(
            "POSTGRES: the option 'url' must begin with postgresql://",
            hint="write url 'postgresql://user@localhost:5432/database'; a password as ${env:NAME}",
        )
    table = tuple(str(require(connector, "table", "'results'")).split("."))
    if len(table) > 2 or not all(table) or any("\0" in part or len(part.encode()) > 63 for part in table):
        raise QueryError("POSTGRES: the option 'table' is not a name", hint="write table 'results' or 'schema.results'")
    option = connector.options.get("key")
    key = () if option is None else key_columns(option, "POSTGRES", schema)
    for field in without_change(schema) if key else schema:
        if len(field.name.encode()) > 63:
            raise QueryError(f"POSTGRES: a column has at most 63 bytes: {field.name}", hint="give it a name with AS")
        if field.name in key and is_nested(field.type):
            raise QueryError(f"POSTGRES: column {field.name} is {field.type.value}, which cannot be a key")
    return Target(url, table, key, duration(connector.options, "timeout", "30 seconds") / SECOND)


def driver() -> Any:
    """Return the database's driver; HostFault names the extra if it is not installed."""
    return extras.load("psycopg", "postgres", "the sink POSTGRES")


def connect(there: Target) -> Any:
    """Connect to the database: times are UTC, and nothing waits longer than the option `timeout`."""
    milliseconds = int(there.timeout * 1000)
    connection = driver().connect(
        there.url,
        connect_timeout=max(2, round(there.timeout)),
        application_name="headrace",
        client_encoding="utf8",
        keepalives_idle=10,
        tcp_user_timeout=milliseconds,
    )
    connection.execute(
        "SELECT set_config('TimeZone', 'UTC', false), set_config('lock_timeout', %s, false)", [str(milliseconds)]
    )
    connection.commit()
    return connection


def identifier(*names: str) -> Any:
    """Return a name as SQL writes it."""
    driver()
    from psycopg import sql

    return sql.Identifier(*names)


def column_type(type_: DataType) -> str:
    """Return the type of a column that Headrace makes."""
    if isinstance(type_, DecimalType):
        return f"numeric({type_.precision},{type_.scale})"
    return _TYPES[type_] if isinstance(type_, Type) else "jsonb"


def prepare(connection: Any, there: Target, schema: Schema) -> frozenset[str]:
    """Make the tables that are missing; SinkFault if there is one that cannot hold every result.

    Return the columns in which the table holds no NULL.
    """
    if (encoding := connection.execute("SHOW server_encoding").fetchone()[0]) != "UTF8":
        raise SinkFault(f"the database has the encoding {encoding}, which has not every character", hint="use UTF8")
    connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
    names = identifier(*there.table).as_string(connection)
    found = connection.execute("SELECT to_regclass(%s)::oid", [names]).fetchone()[0]
    if found is None:
        _make(connection, there, schema)
    notes = identifier(*there.notes).as_string(connection)
    if connection.execute("SELECT to_regclass(%s)", [notes]).fetchone()[0] is None:
        connection.execute(f"CREATE TABLE {notes} (sink text PRIMARY KEY, batch bigint NOT NULL)")
    return frozenset(there.key) if found is None else _check(connection, there, schema, found)


def _make(connection: Any, there: Target, schema: Schema) -> None:
    columns = [f"{identifier(field.name).as_string(connection)} {column_type(field.type)}" for field in schema]
    if there.key:
        keys = ", ".join(identifier(name).as_string(connection) for name in there.key)
        columns.append(f"PRIMARY KEY ({keys})")
    connection.execute(f"CREATE TABLE {identifier(*there.table).as_string(connection)} ({', '.join(columns)})")


def _check(connection: Any, there: Target, schema: Schema, table: int) -> frozenset[str]:
    """Refuse a table of somebody else that may refuse a result; return its columns without NULL."""
    (kind,) = connection.execute("SELECT relkind::text FROM pg_class WHERE oid = %s", [table]).fetchone()
    if kind not in ("r", "p"):
        raise SinkFault(f"{there} is no table", hint="name a table, or one that does not exist yet")
    columns = {name: (type_, whole, filled) for name, type_, whole, filled in connection.execute(_COLUMNS, [table])}
    for field in schema:
        if field.name not in columns:
            raise SinkFault(f"{there} has no column {field.name}", hint=_add(there, field))
        if not _holds(columns[field.name][0], field.type):
            raise SinkFault(
                f"{there}: column {field.name} is {columns[field.name][0]}, which does not hold every "
                f"{field.type.value}",
                hint=f"make it {column_type(field.type)}, or write CAST({field.name} AS ...) in the query",
            )
    for name, (_, whole, filled) in columns.items():
        if whole and not filled and schema.find(name) is None:
            raise SinkFault(
                f"{there}: column {name} must not be NULL, and the query has no such column",
                hint="give it a default, or add it to the query",
            )
    for (name,) in connection.execute(_CONSTRAINTS, [table]):
        raise SinkFault(f"{there} has the constraint {name}, which may refuse results", hint=_WITHOUT)
    _check_keys(there, schema, connection.execute(_UNIQUE, [table]).fetchall())
    return frozenset(name for name, (_, whole, _) in columns.items() if whole)


def _check_keys(there: Target, schema: Schema, unique: Sequence[tuple[str, bool, list[str]]]) -> None:
    own = {*schema.names}
    for name, is_plain, columns in unique:
        if {*columns} == {*there.key} and is_plain:
            continue
        if {*columns} <= own:
            raise SinkFault(f"{there} has the unique index {name}, which may refuse results", hint=_WITHOUT)
    if there.key and not any({*columns} == {*there.key} and is_plain for _, is_plain, columns in unique):
        keys = ", ".join(there.key)
        raise SinkFault(
            f"{there} has no unique index on its key ({keys})",
            hint=f"ALTER TABLE {'.'.join(there.table)} ADD PRIMARY KEY ({keys})",
        )


def _holds(column: str, type_: DataType) -> bool:
    """Return whether a type of the database holds every value of a type."""
    if is_nested(type_):
        return column in ("jsonb", "json", "text")
    if isinstance(type_, DecimalType):
        match = _NUMERIC.fullmatch(column)
        if match is None:
            return column == "numeric"
        precision, scale = int(match[1]), int(match[2])
        return scale >= type_.scale and precision - scale >= type_.precision - type_.scale
    assert isinstance(type_, Type)
    return column == _TYPES[type_] or column in _ALSO.get(type_, ())


def _add(there: Target, field: Field) -> str:
    return f"ALTER TABLE {'.'.join(there.table)} ADD COLUMN {field.name} {column_type(field.type)}"


_WITHOUT = "write into a table without it; one that does not exist is made"
