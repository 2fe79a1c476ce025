"""Stored relations read whole, and the columns that files have when nobody declared them."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl

from headrace.catalog.definitions import Connector, Stream, Table, Timing
from headrace.connectors.files.index import list_files, readable_files
from headrace.connectors.files.partitions import partition_columns
from headrace.connectors.files.source import FilesSource, Layout, check_line_column, layout
from headrace.connectors.formats import columnar
from headrace.connectors.formats.conversion import convert
from headrace.connectors.options import near
from headrace.connectors.secrets import resolved
from headrace.errors import NameFault, NotSupported, QueryError, SourceFault
from headrace.model.schema import Field, Schema
from headrace.model.types import DataType, Type, type_of
from headrace.storage.reading import open_to_read, size_of

#: What a table may come from.
TABLE_KINDS = ("FILES",)
_SAMPLE = 1 << 20  # bytes of text that are looked at to guess types
_LINE = "value"  # the column of a line of format 'text' that has no name


def check_table(table: Table) -> None:
    """Refuse a table whose files cannot be read."""
    where = _files(resolved(table.connector, where=f"table {table.name}: "))
    check_line_column(where, table.schema)
    list_files(where.path, where.pattern)


def read_table(table: Table) -> pl.DataFrame:
    """Read all rows of a stored relation, with its declared types; a record that cannot be read is a fault here."""
    connector = resolved(table.connector, where=f"table {table.name}: ")
    where = _files(connector)
    source = FilesSource(Stream(table.name, table.schema, connector, Timing.INTERNAL), Path())
    frames = [pl.DataFrame(schema=table.schema.polars())]
    sizes = {path: size_of(path) for path in sorted(list_files(where.path, where.pattern))}
    if where.format == "csv" and where.header and sizes and not any(sizes.values()):
        raise SourceFault(
            f"table {table.name}: {where.path} is empty: it has no line that names the columns",
            hint="write a new file beside the old one and rename it; a table without rows has that line, too",
        )
    for number, (path, size) in enumerate(sizes.items()):
        end = size if where.is_text else sum(columnar.groups(path, where.format))
        for piece in source.read([[number, path, size, 0, end]]):
            if piece.bad is not None:
                record, why, origin = piece.bad.row(0)
                raise SourceFault(f"table {table.name}: {origin}: {why}", hint=f"correct the record: {record[:200]}")
            frames.append(piece.rows)
    return pl.concat(frames)


def infer_schema(connector: Connector) -> Schema:
    """Return the columns of the first file that a FILES connector names."""
    where = _files(resolved(connector, error=QueryError))
    if where.messages is not None:
        raise QueryError(
            f"the columns that {where.messages.target} returns cannot be inferred",
            hint="name the columns and their types in the statement",
        )
    files = sorted(readable_files(where.path, where.pattern))
    if not files:
        raise SourceFault(
            f"the columns cannot be inferred: there are no files in {where.path} yet",
            hint="name the columns and their types in the statement",
        )
    said = partition_columns(files[0], where.path)
    if where.format == "text":
        return Schema((Field(_LINE, Type.STRING), *(field for field in said if field.name != _LINE)))
    types = _infer_text(files[0], where).schema if where.is_text else columnar.types_of(files[0], where.format)
    own = tuple(Field(name, _type(name, dtype, files[0])) for name, dtype in types.items() if said.find(name) is None)
    return Schema((*own, *said))


def _files(connector: Connector) -> Layout:
    if connector.kind not in TABLE_KINDS:
        raise NameFault(f"a table cannot come from {connector.kind}", hint=near(connector.kind, TABLE_KINDS))
    return layout(connector)


def _infer_text(path: str, where: Layout) -> pl.DataFrame:
    with open_to_read(path) as file:
        data = file.read(_SAMPLE)
        if len(data) == _SAMPLE:
            data = data[: data.rfind(b"\n") + 1]
    try:
        if where.format == "json":
            # Types come from the records; text that is a date or an instant in each of them is one.
            return _dates(pl.read_ndjson(io.BytesIO(data), infer_schema_length=None))
        frame = pl.read_csv(
            io.BytesIO(data),
            separator=where.delimiter,
            has_header=where.header,
            null_values=[where.null],
            infer_schema_length=None,
            truncate_ragged_lines=True,
        )
        return _dates(frame)
    except pl.exceptions.PolarsError as error:
        raise SourceFault(
            f"the columns of {path} cannot be found: {error}", hint="name the columns and their types in the statement"
        ) from error


def _dates(frame: pl.DataFrame) -> pl.DataFrame:
    columns = []
    for column in frame:
        if (
            column.dtype == pl.String
            and column.null_count() < len(column)
            and column.str.contains(r"^\d{4}-\d{2}-\d{2}").fill_null(True).all()
        ):
            for type_ in (Type.DATE, Type.TIMESTAMP):
                tried = convert(column, type_)
                if tried.null_count() == column.null_count():
                    column = tried
                    break
        columns.append(column)
    return pl.DataFrame(columns)


def _type(name: str, dtype: pl.DataType, path: str) -> DataType:
    type_ = type_of(dtype)
    if type_ is None:
        raise NotSupported(
            f"{path}: column {name!r} is {dtype}, a type that Headrace does not support",
            hint="declare only the columns that you need",
        )
    return type_
