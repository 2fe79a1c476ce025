"""POSTGRES as a sink: the results of a micro-batch are one transaction, which also notes the number of the micro-batch.

What is sent again after a crash is recognized by the note, so each result is in the table once. With a key, the table
has one row for each key: a changelog is applied to it, and of other results the newest stays.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import polars as pl

from headrace.catalog.definitions import Connector
from headrace.connectors.formats.json_lines import without_nesting
from headrace.connectors.identity import identity
from headrace.connectors.postgres.table import Target, column_type, connect, driver, identifier, prepare, target
from headrace.connectors.upserts import GONE, empty_table, in_order, latest, unknown_change, without_change
from headrace.errors import SinkFault
from headrace.model.page import Page
from headrace.model.schema import Schema
from headrace.model.types import Type

_LOG = logging.getLogger(__name__)

_NULL = r"\N"
#: Bytes that the key of a row may have: an index holds no more.
_KEY_BYTES = 2000
#: Seconds between two tries.
_PAUSE = 0.3
_REACHABLE = "check that the database runs there and lets this user in; the option timeout says how long to wait"
_ROWS = "headrace_rows"


def check_postgres_sink(connector: Connector, schema: Schema) -> None:
    """Refuse wrong options, a database that cannot be reached, and a table that cannot hold every result.

    Leaves nothing behind.
    """
    there = target(connector, schema)
    with _faults(there), connect(there) as connection:
        _try(connection, there, without_change(schema) if there.key else schema)
        connection.rollback()


class PostgresSink:
    """Writes results, each once."""

    def __init__(self, query: str, connector: Connector, schema: Schema, checkpoint: Path) -> None:
        self._query, self._checkpoint = query, checkpoint
        self._target = target(connector, schema)
        self._schema = schema
        self._columns = without_change(schema) if self._target.key else schema
        self._connection: Any = None
        self._whole: frozenset[str] = frozenset(self._target.key)  # columns without NULL
        self._is_known = False  # whether the table was asked for them
        driver()

    @property
    def name(self) -> str:
        """The name of its note; only the driver asks."""
        return f"{self._query}/{'.'.join(self._target.table)}/{identity(self._checkpoint, 'postgres')}"

    def write(self, batch: int, pages: Sequence[Page]) -> None:
        """Write the results of a micro-batch, unless they are in the table already."""
        pages = [page for page in pages if len(page)]
        if pages:
            rows = in_order(pages, self._schema)
            self._persist(lambda connection: self._transact(connection, batch, rows))

    def refused(self, rows: pl.DataFrame) -> pl.Series | None:
        """Return for each row why the table cannot hold it, NULL if it can; None if it can hold all rows."""
        if not self._is_known:
            self._persist(lambda connection: None)
        texts = [field.name for field in self._columns if field.type is Type.STRING]
        reasons: list[pl.Expr] = [unknown_change(rows)] if self._target.key else []
        reasons += [
            pl.when(pl.col(name).is_null()).then(pl.lit(f"column '{name}' is NULL, and the table holds none there"))
            for name in self._columns.names
            if name in self._whole
        ]
        reasons += [
            pl.when(pl.col(name).str.contains("\0", literal=True)).then(pl.lit(f"column '{name}' has a NUL character"))
            for name in texts
        ]
        nested = [name for name, dtype in rows.schema.items() if dtype.is_nested()]
        if nested:
            rows = without_nesting(rows)
            reasons += [
                pl.when(pl.col(name).str.contains(r"\u0000", literal=True)).then(
                    pl.lit(f"column '{name}' has a NUL character")
                )
                for name in nested
            ]
        if keys := [name for name in texts if name in self._target.key]:
            size = pl.sum_horizontal(pl.col(name).str.len_bytes().cast(pl.Int64).fill_null(0) for name in keys)
            too_large = f"the key has more than {_KEY_BYTES:,} bytes"
            reasons.append(pl.when(size > _KEY_BYTES).then(pl.lit(too_large)))
        if not reasons:
            return None
        why = rows.select(pl.coalesce(reasons).cast(pl.String)).to_series()
        return None if why.null_count() == why.len() else why

    def close(self) -> None:
        """Release the connection; an open transaction is given up."""
        if self._connection is not None:
            with suppress(driver().Error):
                self._connection.close()
            self._connection = None

    def _persist(self, work: Callable[[Any], None]) -> None:
        """Do something with an open connection; a database that went away is tried for as long as `timeout` says."""
        deadline = time.monotonic() + self._target.timeout
        with _faults(self._target):
            while True:
                try:
                    return work(self._open())
                except driver().OperationalError as error:
                    self.close()
                    if time.monotonic() > deadline:
                        raise
                    _LOG.debug("results cannot be written yet: %s", error)
                    time.sleep(_PAUSE)
                except BaseException:
                    self.close()
                    raise

    def _open(self) -> Any:
        if self._connection is None:
            connection = connect(self._target)
            self._connection = connection
            self._whole = _try(connection, self._target, self._columns)
            notes = identifier(*self._target.notes).as_string(connection)
            connection.execute(f"INSERT INTO {notes} VALUES (%s, -1) ON CONFLICT DO NOTHING", [self.name])
            connection.commit()
            self._is_known = True
        return self._connection

    def _transact(self, connection: Any, batch: int, rows: pl.DataFrame) -> None:
        """Write rows and the number of their micro-batch in one transaction."""
        notes = identifier(*self._target.notes).as_string(connection)
        with connection.transaction():
            noted = connection.execute(f"SELECT batch FROM {notes} WHERE sink = %s FOR UPDATE", [self.name]).fetchone()
            if noted is None:
                raise SinkFault(
                    f"the note of {self._target} in {'.'.join(self._target.notes)} was deleted",
                    hint="start again, which makes a new one; the results of the last micro-batch may come twice",
                )
            if noted[0] >= batch:
                return
            if self._target.key:
                _merge(connection, self._target, self._columns, latest(rows, self._target.key))
            else:
                _append(connection, identifier(*self._target.table), self._columns, rows)
            connection.execute(f"UPDATE {notes} SET batch = %s WHERE sink = %s", [batch, self.name])


def _try(connection: Any, there: Target, columns: Schema) -> frozenset[str]:
    """Prepare the table, and write no row into it: the database says what is wrong before there are results."""
    whole = prepare(connection, there, columns)
    if there.key:
        _merge(connection, there, columns, empty_table(columns))
    else:
        _append(connection, identifier(*there.table), columns, pl.DataFrame(schema=columns.polars()))
    return whole


def _append(connection: Any, table: Any, columns: Schema, rows: pl.DataFrame) -> None:
    """Copy rows into a table."""
    name, names = table.as_string(connection), _listed(connection, rows.columns)
    command = f"COPY {name} ({names}) FROM STDIN (FORMAT csv, NULL '{_NULL}')"
    with connection.cursor() as cursor, cursor.copy(command) as copy:
        if rows.height:
            copy.write(_csv(rows, columns))


def _merge(connection: Any, there: Target, columns: Schema, rows: pl.DataFrame) -> None:
    """Give keys their new rows, and delete the rows of keys that are gone."""
    fields = [f"{_listed(connection, [field.name])} {column_type(field.type)}" for field in columns]
    connection.execute(f"CREATE TEMPORARY TABLE {_ROWS} ({', '.join(fields)}, {GONE} boolean) ON COMMIT DROP")
    # always in the same order, so that two writers do not wait for each other in a circle
    _append(connection, identifier(_ROWS), columns, rows.sort(*there.key))
    table, key = identifier(*there.table).as_string(connection), _listed(connection, there.key)
    same = " AND ".join(f"t.{_listed(connection, [name])} = r.{_listed(connection, [name])}" for name in there.key)
    connection.execute(f"DELETE FROM {table} t USING {_ROWS} r WHERE r.{GONE} AND {same}")
    others = [_listed(connection, [name]) for name in columns.names if name not in there.key]
    action = f"UPDATE SET {', '.join(f'{name} = EXCLUDED.{name}' for name in others)}" if others else "NOTHING"
    names = _listed(connection, columns.names)
    connection.execute(
        f"INSERT INTO {table} ({names}) SELECT {names} FROM {_ROWS} WHERE NOT {GONE} ON CONFLICT ({key}) DO {action}"
    )


def _listed(connection: Any, names: Sequence[str]) -> str:
    return ", ".join(identifier(name).as_string(connection) for name in names)


def _csv(rows: pl.DataFrame, columns: Schema) -> bytes:
    """Return rows as the database reads them; a text is always in quotes, and NULL never."""
    texts = []
    for field in columns:
        column = pl.col(field.name)
        match field.type:
            case Type.TIMESTAMP:
                texts.append(column.dt.strftime("%Y-%m-%d %H:%M:%S%.6f"))
            case Type.INTERVAL:
                texts.append(column.dt.total_microseconds().cast(pl.String) + " microseconds")
            case Type.BINARY:
                texts.append((pl.lit(r"\x") + column.bin.encode("hex")).alias(field.name))
            case _:
                pass
    text = without_nesting(rows.with_columns(texts)).write_csv(
        include_header=False, null_value=_NULL, quote_style="non_numeric"
    )
    return text.encode()


@contextmanager
def _faults(there: Target) -> Iterator[None]:
    """Explain the database's errors to a writer."""
    psycopg = driver()
    try:
        yield
    except psycopg.OperationalError as error:
        raise SinkFault(f"results cannot be written to {there}: {_first_line(error)}", hint=_REACHABLE) from error
    except psycopg.Error as error:
        raise SinkFault(
            f"results cannot be written to {there}: {_first_line(error)}",
            hint="change the table or the query; then start again",
        ) from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
