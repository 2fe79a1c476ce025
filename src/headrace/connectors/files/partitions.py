"""Partition directories such as `segment=3`, which give the value of a column for all records of the files in them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import polars as pl

from headrace.connectors.connector import Slice
from headrace.connectors.formats.conversion import convert, reason
from headrace.errors import SourceFault
from headrace.model.expressions.expression import Column
from headrace.model.patterns.match import IsNull, Match, equal
from headrace.model.patterns.pattern import STAMP, Pattern, covers, pattern
from headrace.model.schema import Field, Schema
from headrace.model.types import DataType, Type
from headrace.storage.location import absolute, located

#: The directory of the records in which the column is NULL, as Hive and Spark name it.
NULL = "__HIVE_DEFAULT_PARTITION__"
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  as columns have it


@dataclass(frozen=True, slots=True)
class Partition:
    """What the directories of a file say: columns of one value each."""

    columns: Mapping[str, pl.Series]

    def stored(self, schema: Schema) -> Schema:
        """Return the columns that must be read from the file itself."""
        return Schema(tuple(field for field in schema if field.name not in self.columns)) if self.columns else schema

    def complete(self, piece: Slice, schema: Schema) -> Slice:
        """Return a slice with all the columns that are wanted."""
        if not self.columns:
            return piece
        own = [
            column.new_from_index(0, piece.rows.height) for name, column in self.columns.items() if name in schema.names
        ]
        return Slice(piece.rows.with_columns(own).select(schema.names), piece.seq, piece.bad)

    def terms(self, schema: Schema, time_column: str | None) -> list[tuple[Column, Match]]:
        """Return a pattern that all records match, with `__ts` if the time column is among the partition columns."""
        terms: list[tuple[Column, Match]] = []
        for field in schema:
            match = self._match(field.name, field.type)
            if match is not None:
                terms.append((Column(field.name, field.type), match))
                if field.name == time_column:
                    terms.append((STAMP, match))
        return terms

    def is_unneeded(self, schema: Schema, time_column: str | None, unneeded: Sequence[Pattern]) -> bool:
        """Say whether no record of the file is needed and its newest timestamp is known without opening it."""
        if not self.columns or (time_column is not None and time_column not in self.columns):
            return False
        held = pattern(*self.terms(schema, time_column))
        return any(covers(condition, held) for condition in unneeded)

    def newest(self, time_column: str | None) -> int | None:
        """Return the timestamp of all records, if the directories give it."""
        value = self.columns[time_column][0] if time_column is not None and time_column in self.columns else None
        return _micros(value) if isinstance(value, dt.datetime) else None

    def _match(self, name: str, type_: DataType) -> Match | None:
        if name not in self.columns:
            return None
        value = self.columns[name][0]
        match value:
            case None:
                return IsNull()
            case dt.datetime() if type_ is Type.TIMESTAMP:
                return equal(_micros(value))
            case bool() | int() | float() | str() if type_ in (
                Type.INT,
                Type.BIGINT,
                Type.DOUBLE,
                Type.BOOLEAN,
                Type.STRING,
            ):
                return equal(value)
            case _:
                return None


def partition_columns(path: str, root: str) -> Schema:
    """Return the columns that the directories of a file define if none are declared: whole numbers, or text."""
    said = [part.partition("=") for part in _between(path, root) if is_partition(part)]
    return Schema(tuple(Field(name, Type.BIGINT if value.isdecimal() else Type.STRING) for name, _, value in said))


def partition_of(path: str, root: str, schema: Schema) -> Partition:
    """Read declared columns from the directories between `root`, which may be a glob, and a file."""
    columns: dict[str, pl.Series] = {}
    for part in _between(path, root):
        name, is_said, value = part.partition("=")
        field = schema.find(name) if is_said else None
        if field is None:
            continue
        text = unquote(value)
        column = convert(pl.Series(name, [None if value == NULL else text], dtype=pl.String), field.type)
        if column[0] is None and value != NULL:
            raise SourceFault(
                f"{path}: directory {part}: {reason(text, name, field.type)}",
                hint="rename the directory, or declare the column so",
            )
        columns[name] = column
    return Partition(columns)


def is_partition(name: str) -> bool:
    """Say whether a directory's name gives the value of a column."""
    before, is_said, _ = name.partition("=")
    return bool(is_said and before) and not name.startswith((".", "_"))


def _between(path: str, root: str) -> list[str]:
    folder, above = located(Path(path)).parent, _fixed(absolute(Path(root)))
    return list(folder.parts[len(above.parts) :])


def _fixed(root: Path) -> Path:
    """Return the part of a path without wildcards."""
    first = next((i for i, part in enumerate(root.parts) if any(mark in part for mark in "*?[")), len(root.parts))
    return type(root)(*root.parts[:first])


def _micros(value: dt.datetime) -> int:
    return (value - _EPOCH) // dt.timedelta(microseconds=1)
