"""MEMORY: rows that the session pushes, and results that the session reads."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from headrace.catalog.definitions import Connector, Stream
from headrace.connectors.formats.conversion import can_convert, convert, decimals, failures, reason
from headrace.connectors.options import check_names, near
from headrace.connectors.push_keys import PushKeys, mark_of
from headrace.connectors.spool import stream_spool
from headrace.connectors.upserts import (
    GONE,
    empty_table,
    in_order,
    key_columns,
    latest,
    merged,
    unknown_change,
    without_change,
)
from headrace.errors import NameFault, SourceFault
from headrace.model.nested_values import shaped
from headrace.model.page import Page
from headrace.model.schema import Field, Schema
from headrace.model.types import DecimalType, is_nested

_FIT = "convert the value, or declare the column as another type; None is NULL"
#: What is pushed: rows, or a table.
Pushed: TypeAlias = Sequence[Mapping[str, Any]] | pl.DataFrame


def push(stream: Stream, checkpoint: Path, rows: Pushed, mark: str = "") -> None:
    """Append rows to a MEMORY stream, all or none, with the mark of their key; durable when it returns."""
    if not len(rows):
        return
    stream_spool(stream.name, checkpoint).append(frame_of(stream, rows), mark)


class KeyedPushes:
    """Pushes under keys into the streams of a checkpoint, which one process owns."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._keys: dict[tuple[str, int], PushKeys] = {}

    def push(self, stream: Stream, rows: Pushed, key: str, at: int) -> int | None:
        """Append rows unless some were pushed under the key in the day before; return how many those were, or None."""
        keys = self._keys.get((stream.name, stream.begin))
        if keys is None:
            keyed = stream_spool(stream.name, self._checkpoint).keyed()
            own = [(file.key, file.rows) for file in keyed if file.number >= stream.begin]
            keys = self._keys[stream.name, stream.begin] = PushKeys(own)
        before = keys.find(key, at)
        if before is None:
            push(stream, self._checkpoint, rows, mark_of(key, at))
            keys.add(key, at, len(rows))
        return before


def frame_of(stream: Stream, rows: Pushed) -> pl.DataFrame:
    """Convert rows to columns of the stream's types; absent keys are NULL."""
    if isinstance(rows, pl.DataFrame):
        return _of_table(stream, rows)
    names = stream.schema.names
    for number, row in enumerate(rows):
        for name in row:
            if name not in names:
                raise NameFault(
                    f"row {number}: stream {stream.name} has no column {name!r}", hint=near(str(name), names)
                )
    return pl.DataFrame([_column(field, [row.get(field.name) for row in rows]) for field in stream.schema])


def _of_table(stream: Stream, table: pl.DataFrame) -> pl.DataFrame:
    """Convert the columns of a table, whole columns at a time."""
    for name in table.columns:
        if name not in stream.schema.names:
            raise NameFault(f"stream {stream.name} has no column {name!r}", hint=near(name, stream.schema.names))
    converted: list[pl.Series] = []
    for field in stream.schema:
        if field.name not in table.columns:
            converted.append(pl.Series(field.name, [None] * table.height, dtype=field.type.polars))
            continue
        column = table[field.name]
        if isinstance(column.dtype, pl.Datetime) and column.dtype.time_zone is not None:
            column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        if not can_convert(column.dtype, field.type) or (field.type.is_numeric and column.dtype == pl.String):
            raise SourceFault(
                f"column {field.name} is {column.dtype}, which is no {field.type.value}",
                hint="convert the column, or declare it as the type that it has",
            )
        after = convert(column, field.type)
        wrong = failures(column, after)
        if wrong.any():
            row = int(wrong.arg_true()[0])
            raise SourceFault(f"row {row}: {reason(column[row], field.name, field.type)}", hint=_FIT)
        converted.append(after.alias(field.name))
    return pl.DataFrame(converted)


def check_memory_sink(connector: Connector, schema: Schema) -> None:
    """Refuse options that MEMORY does not have, and a key that is none."""
    check_names(connector, ("key",))
    _key_of(connector, schema)


def _key_of(connector: Connector, schema: Schema) -> tuple[str, ...]:
    option = connector.options.get("key")
    return () if option is None else key_columns(option, "MEMORY", schema)


class MemorySink:
    """Keeps results by batch; with a key, the newest row of each key."""

    def __init__(self, query: str, connector: Connector, schema: Schema, checkpoint: Path) -> None:
        self._key, self._all = _key_of(connector, schema), schema
        self._schema = without_change(schema) if self._key else schema
        #: The table that older batches have made, if there is a key, and the batches after it. Replaced as a whole:
        #: results are read while others are written.
        self._kept: tuple[pl.DataFrame, dict[int, pl.DataFrame]] = (empty_table(self._schema), {})

    def write(self, batch: int, pages: Sequence[Page]) -> None:
        pages = [page for page in pages if len(page)]
        table, batches = self._kept
        batches = {number: rows for number, rows in batches.items() if number != batch}
        if self._key:  # batches before this one are never written again
            older = [batches.pop(number) for number in sorted(batches) if number < batch]
            table = merged(table, older, self._key)
        if pages:
            batches[batch] = (
                latest(in_order(pages, self._all), self._key)
                if self._key
                else pl.concat([page.visible() for page in pages])
            )
        self._kept = (table, batches)

    def refused(self, rows: pl.DataFrame) -> pl.Series | None:
        """Return for each row why it changes no row of a table by key, NULL if it does; None if all do."""
        if not self._key:
            return None
        why = rows.select(unknown_change(rows)).to_series()
        return None if why.null_count() == why.len() else why

    def close(self) -> None:
        """Keep everything: results are read after the end, too."""

    def rows(self) -> list[dict[str, Any]]:
        """Return all results in the order of their batches."""
        return self.frame().to_dicts()

    def frame(self) -> pl.DataFrame:
        """Return the same as a table."""
        table, batches = self._kept
        newest = [batches[number] for number in sorted(batches)]
        if self._key:
            return merged(table, newest, self._key).drop(GONE)
        return pl.concat([table.drop(GONE), *newest])


def _column(field: Field, values: list[Any]) -> pl.Series:
    if isinstance(field.type, DecimalType):
        return _decimals(field, field.type, values)
    if is_nested(field.type):
        return _nested(field, values)
    plain = [_plain(value) for value in values]
    try:
        column = pl.Series(field.name, plain, dtype=field.type.polars)
        if column.dtype == field.type.polars:  # columns of times get a type of their own from what is no time
            return column
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        pass
    own = list(map(_of_library, plain))
    whole = _converted_as_one(field, own)
    if whole is not None:
        return whole
    # Values of several kinds, or some that do not fit: one by one, so that the message can name the row.
    done: list[Any] = []
    for number, value in enumerate(own):
        try:
            column = pl.Series(field.name, [value])
            fits = can_convert(column.dtype, field.type) and not (field.type.is_numeric and isinstance(value, str))
            after = convert(column, field.type) if fits else None
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
            after = None
        if after is None or failures(column, after)[0]:
            raise SourceFault(f"row {number}: {reason(values[number], field.name, field.type)}", hint=_FIT)
        done.append(after[0])
    return pl.Series(field.name, done, dtype=field.type.polars)


def _converted_as_one(field: Field, values: list[Any]) -> pl.Series | None:
    """Convert a column of texts (for timestamps) or of floats (for integers); None if one is another, or does not fit.

    Clients of HTTP send all times as texts, and to convert a value alone takes as long as to convert thousands.
    """
    kinds = {type(value) for value in values if value is not None}
    dtype = pl.String() if kinds == {str} else pl.Float64() if kinds == {float} else None
    if dtype is None or not can_convert(dtype, field.type) or (field.type.is_numeric and kinds == {str}):
        return None
    try:
        column = pl.Series(field.name, values, dtype=dtype)
        after = convert(column, field.type)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        return None
    return None if failures(column, after).any() else after.alias(field.name)


def _decimals(field: Field, type_: DecimalType, values: list[Any]) -> pl.Series:
    column = decimals(values, type_)
    for number, (value, after) in enumerate(zip(values, column.to_list(), strict=True)):
        if value is not None and after is None:
            raise SourceFault(f"row {number}: {reason(value, field.name, type_)}", hint=_FIT)
    return column.rename(field.name)


def _nested(field: Field, values: list[Any]) -> pl.Series:
    done: list[Any] = []
    for number, value in enumerate(values):
        try:
            done.append(_shaped(value, field))
        except (ValueError, OverflowError) as error:
            raise SourceFault(f"row {number}: column {field.name}: {error}", hint=_FIT) from error
    return pl.Series(field.name, done, dtype=field.type.polars)


def _shaped(value: Any, field: Field) -> Any:
    try:
        return shaped(value, field.type)
    except ValueError:
        own = _of_libraries(value)
        if own is value:
            raise
        return shaped(own, field.type)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def _of_libraries(value: Any) -> Any:
    """Return a value as Python has it, with all that it holds."""
    if isinstance(value, list | tuple):
        return [_of_libraries(item) for item in value]
    if isinstance(value, Mapping):
        return {_of_libraries(key): _of_libraries(item) for key, item in value.items()}
    return _of_library(_plain(value))


def _of_library(value: Any) -> Any:
    """Return a scalar of pandas or an array or scalar of numpy as Python has it; what is missing there is None."""
    kind = type(value)
    if kind.__module__.partition(".")[0] not in ("numpy", "pandas"):
        return value
    match kind.__name__:
        case "NaTType" | "NAType":
            return None
        case "datetime64" | "timedelta64":
            return value.astype(f"{kind.__name__}[us]").item()
        case "ndarray" if value.dtype.kind in "mM":  # nanoseconds would be numbers
            return value.astype(f"{value.dtype.kind}8[us]").tolist()
        case "ndarray":
            return [_of_libraries(item) for item in value.tolist()]
        case _ if hasattr(value, "item"):
            return value.item()
        case _:
            return value
