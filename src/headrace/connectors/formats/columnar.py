"""Parquet and Arrow files: how their rows are grouped, and reading a range of rows."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from headrace.connectors.formats.conversion import can_convert, convert_all
from headrace.errors import SourceFault
from headrace.model.schema import Schema
from headrace.storage.location import is_object_url
from headrace.storage.reading import open_to_read

#: Rows that are handed on at once.
PIECE = 1 << 17
_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)
#: What damaged metadata may lead to.
_UNREADABLE = (
    pa.ArrowException, pl.exceptions.PolarsError, OSError, ValueError, TypeError, LookupError, OverflowError
)  # fmt: skip


def groups(path: str, form: str) -> tuple[int, ...]:
    """Return the row counts of the parts of a file that are stored together."""
    return _groups(path, form, _changed(path))


def columns_of(path: str, form: str) -> pa.Schema:
    """Return the columns that a file has."""
    with _Naming(path):
        if form == "parquet":
            columns = metadata(path).schema.to_arrow_schema() if is_object_url(path) else pq.read_schema(path)
        else:
            with mapped(path) as file:
                columns = pa.ipc.open_file(file).schema
        " ".join(columns.names)  # they are only decoded when they are looked at
        return columns


def read_rows(
    path: str, form: str, begin: int, end: int, schema: Schema, skip: Callable[[int, int, int], bool] | None = None
) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield (number of the first row, rows) for the rows [begin, end) of a file, with the columns of `schema`.

    Rows of a group are not read if `skip` says so of its number and of their places, from one up to another.
    """
    names = list(schema.names)
    first = 0
    for i, count in enumerate(groups(path, form)):
        low, high = max(begin - first, 0), min(end - first, count)
        if low < high and not (skip is not None and skip(i, low, high)):
            for position, frame in _group(path, form, i, names, (first, low, high)):
                yield first + position, frame
        first += count


def _group(
    path: str, form: str, number: int, names: list[str], span: tuple[int, int, int]
) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield (place, rows) of a group: from one place up to another; the group begins at a row of the file."""
    first, begin, end = span
    if form == "parquet" and (step := _step(path, number, tuple(names), end - begin)) is not None:
        for low in range(begin, end, step):
            high = min(low + step, end)
            with _Naming(path):
                rows = pl.scan_parquet(path, low_memory=True).slice(first + low, high - low).select(names).collect()
                if rows.height != high - low:
                    raise ValueError(f"{rows.height} rows instead of {high - low}")
            for place in range(0, rows.height, PIECE):
                yield low + place, rows[place : place + PIECE]
        return
    position = 0
    for batch in _batches(path, form, number, names):
        low, high = max(begin - position, 0), min(end - position, batch.num_rows)
        if low < high:
            with _Naming(path):
                frame = _frame(batch.slice(low, high - low))
            yield position + low, frame
        position += batch.num_rows
        if position >= end:
            break


def can_cut(path: str, names: tuple[str, ...], rows: int) -> bool:
    """Return whether so many rows of any group of a Parquet file are read without decoding what comes before them."""
    counts = groups(path, "parquet")
    return all(_step(path, number, names, min(rows, count)) is not None for number, count in enumerate(counts))


def check_columns(path: str, form: str, schema: Schema) -> None:
    """Refuse a file that lacks a declared column or has it in a type that does not fit."""
    columns = columns_of(path, form)
    for field in schema:
        at = columns.get_all_field_indices(field.name)
        if len(at) != 1:
            raise SourceFault(
                f"{path} has {'no' if not at else 'more than one'} column {field.name!r}",
                hint=f"the file has: {', '.join(columns.names)}; declare these columns, or move the file away",
            )
        if not can_convert(_types(path, pa.schema([columns.field(at[0])]))[field.name], field.type):
            raise SourceFault(
                f"{path}: column {field.name!r} is {columns.field(at[0]).type}, "
                f"which cannot be read as {field.type.value}",
                hint="declare the column with the type that the file has",
            )


def types_of(path: str, form: str) -> pl.Schema:
    """Return the columns of a file with their types; refuse a file that has a column twice."""
    return _types(path, columns_of(path, form))


def _types(path: str, columns: pa.Schema) -> pl.Schema:
    # Polars reads Arrow schemas itself; making an Arrow array here would import pandas, which takes a worker's first
    # second.
    with _Naming(path):
        return pl.Schema(columns)


def is_unreadable(error: BaseException | None) -> bool:
    """Return whether an error may come of damaged bytes; native code panics at some, which is no Exception."""
    return isinstance(error, _UNREADABLE) or type(error).__name__ == "PanicException"


def typed(rows: pl.DataFrame, schema: Schema) -> tuple[pl.DataFrame, pl.Series | None, list[str]]:
    """Turn columns into the declared types: (rows, mask of bad rows or None, reason of each bad row)."""
    frame, failed = convert_all(rows, schema)
    if not failed:
        return frame, None, []
    wrong = pl.Series([False]).new_from_index(0, rows.height).scatter(list(failed), True)
    return frame, wrong, [failed[row] for row in sorted(failed)]


def checked(rows: _Rows) -> _Rows:
    """Return rows whose texts and offsets are right; a damaged file may have any, which would crash the process."""
    rows.validate(full=True)
    return rows


@functools.lru_cache(maxsize=1024)
def _groups(path: str, form: str, changed: int) -> tuple[int, ...]:
    with _Naming(path):
        if form == "parquet":
            meta = metadata(path)
            return tuple(meta.row_group(i).num_rows for i in range(meta.num_row_groups))
        with mapped(path) as file:
            reader = pa.ipc.open_file(file)
            return tuple(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))


def _changed(path: str) -> int:
    """Return when a file was changed; objects are not."""
    return 0 if is_object_url(path) else os.stat(path).st_mtime_ns


def _step(path: str, group: int, names: tuple[str, ...], rows: int) -> int | None:
    """Return how many rows of a group of a Parquet file Polars reads at a time, in half the time of Arrow.

    None if Arrow reads them: if Polars does not give the same columns, of simple types, or would have to pass over the
    beginning of the group too often, because few rows are in memory at a time.
    """
    size = _row_bytes(path, group, names, _changed(path))
    if size is None or rows * size > _MOST_STEPS * _LARGEST:
        return None
    steps = max(1, math.ceil(rows * size / _LARGEST))
    return max(1, -(-rows // steps))


@functools.lru_cache(maxsize=1024)
def _row_bytes(path: str, group: int, names: tuple[str, ...], changed: int) -> float | None:
    """Return the bytes of a row of a group, before compression; None if Polars does not give what Arrow gives."""
    if is_object_url(path) or not names:
        return None
    try:
        meta = metadata(path)
        part = meta.row_group(group)
        columns = [part.column(i) for i in range(part.num_columns)]
        size = sum(column.total_uncompressed_size for column in columns if column.path_in_schema in names)
        theirs, ours = pl.Schema(meta.schema.to_arrow_schema()), pl.read_parquet_schema(path)
    except _UNREADABLE:
        return None  # who reads it says so
    is_plain = all(name in ours and ours[name] == theirs.get(name) and _is_simple(ours[name]) for name in names)
    return size / max(1, part.num_rows) if is_plain else None


def _is_simple(dtype: pl.DataType) -> bool:
    return isinstance(dtype, _SIMPLE)


_SIMPLE = (pl.Boolean, pl.Int32, pl.Int64, pl.Float32, pl.Float64, pl.String, pl.Date, pl.Datetime)
#: Of more (bytes before compression) only parts are in memory; Arrow reads what would be more than so many parts.
_LARGEST, _MOST_STEPS = 64 << 20, 4


def _batches(path: str, form: str, group: int, names: list[str]) -> Iterator[pa.RecordBatch]:
    with _Naming(path):
        if form == "parquet":
            is_local = not is_object_url(path)
            known = None if is_local else metadata(path)
            with pq.ParquetFile(_opened(path), metadata=known, memory_map=is_local, pre_buffer=not is_local) as file:
                for batch in file.iter_batches(batch_size=PIECE, row_groups=[group], columns=names, use_threads=False):
                    yield checked(batch)
            return
        with mapped(path) as file:
            batch = checked(pa.ipc.open_file(file).get_batch(group).select(names))
            for begin in range(0, batch.num_rows, PIECE):
                yield batch.slice(begin, PIECE)


def metadata(path: str) -> Any:
    """Return the metadata of a Parquet file; that of an object is fetched once."""
    return _object_metadata(path) if is_object_url(path) else pq.read_metadata(path)


@functools.lru_cache(maxsize=1024)
def _object_metadata(path: str) -> Any:
    return pq.read_metadata(_opened(path))


def _opened(path: str) -> str | pa.NativeFile:
    """Return what Arrow opens to read a file: its path, or an object as a file."""
    return pa.PythonFile(open_to_read(path), mode="r") if is_object_url(path) else path


def mapped(path: str) -> pa.NativeFile:
    """Map a file into memory; an object is fetched as it is read."""
    return pa.PythonFile(open_to_read(path), mode="r") if is_object_url(path) else pa.memory_map(path)


def _frame(batch: pa.RecordBatch) -> pl.DataFrame:
    if not batch.num_columns:
        return pl.DataFrame(height=batch.num_rows)
    frame = pl.from_arrow(batch)
    assert isinstance(frame, pl.DataFrame)
    return frame


class _Naming:
    """Name the file in what Arrow complains about."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if is_unreadable(error):
            raise SourceFault(
                f"{self.path} cannot be read: {error}",
                hint="write files under another name and rename them when complete",
            ) from error
