"""The folders of a partitioned FILES sink, such as `day=2026-01-01/zone=3`, named as Hive and Spark name them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from urllib.parse import quote

import polars as pl

from headrace.catalog.definitions import Connector
from headrace.connectors.files.partitions import NULL, is_partition
from headrace.connectors.options import near
from headrace.errors import NameFault, TypeFault
from headrace.model.schema import Schema
from headrace.model.types import Type

#: Types whose values have one text each.
_TYPES = (Type.BOOLEAN, Type.INT, Type.BIGINT, Type.STRING, Type.DATE, Type.TIMESTAMP)
#: File systems allow names of 255 bytes.
_LONGEST = 255


def folder_columns(connector: Connector) -> tuple[str, ...]:
    """Return the columns by whose values results are divided among folders."""
    text = connector.options.get("partition_by", "")
    return tuple(name for part in str(text).split(",") if (name := part.strip()))


def check_folders(connector: Connector, schema: Schema) -> None:
    """Refuse columns that do not exist, or whose values cannot be names of folders."""
    names = folder_columns(connector)
    if "partition_by" in connector.options and not names:
        raise NameFault("option 'partition_by' names no column", hint="write partition_by 'zone' or 'day, zone'")
    for name in names:
        field = schema.find(name)
        if field is None:
            raise NameFault(f"option 'partition_by': there is no column {name!r}", hint=near(name, schema.names))
        if field.type not in _TYPES:
            allowed = ", ".join(known.value for known in _TYPES)
            raise TypeFault(
                f"option 'partition_by': column {name!r} is {field.type.value}", hint=f"use a column of {allowed}"
            )
        if not is_partition(f"{name}=") or quote(name, safe=" ") != name:
            raise NameFault(
                f"option 'partition_by': {name!r} cannot be a part of a folder's name", hint="rename it with AS"
            )
    if len({*names}) < len(names):
        raise NameFault("option 'partition_by' names a column twice")
    if names and len(names) == len(schema):
        raise NameFault("option 'partition_by' names all columns", hint="leave one for the files")


def by_folder(rows: pl.DataFrame, columns: Sequence[str]) -> Iterator[tuple[PurePath, pl.DataFrame]]:
    """Yield the rows of each folder, without the columns that its name gives."""
    if not columns:
        yield PurePath(), rows
        return
    names = pl.DataFrame([_names(rows[column]) for column in columns])
    for key, part in rows.with_columns(names).partition_by(columns, as_dict=True, maintain_order=True).items():
        yield PurePath(*(f"{column}={value}" for column, value in zip(columns, key, strict=True))), part.drop(columns)


def too_long(rows: pl.DataFrame, columns: Sequence[str]) -> pl.Series | None:
    """Return for each row why no folder can be named after it, NULL if one can; None if that holds for all rows."""
    reasons: pl.Series | None = None
    for column in columns:
        most = _LONGEST - len(f"{column}=".encode())
        if rows[column].dtype != pl.String or not (rows[column].str.len_bytes() * 3 > most).any():
            continue
        why = pl.select(
            pl.when(_names(rows[column]).str.len_bytes() > most).then(
                pl.lit(f"the text in {column} is too long for the name of a folder")
            )
        ).to_series()
        if why.null_count() < why.len():
            reasons = why if reasons is None else pl.select(pl.coalesce(reasons, why)).to_series()
    return reasons


def _names(values: pl.Series) -> pl.Series:
    """Return the texts of values in the names of folders."""
    distinct = values.unique()
    match distinct.dtype:
        case pl.Datetime():
            texts = distinct.dt.strftime("%Y-%m-%dT%H:%M:%S%.6f")
        case pl.Boolean() | pl.Date() | pl.String():
            texts = distinct.cast(pl.String)
        case _:
            texts = distinct.cast(pl.Int64).cast(pl.String)
    encoded = [NULL if text is None else quote(text, safe=" ") for text in texts]
    return values.replace_strict(distinct, pl.Series(encoded, dtype=pl.String), return_dtype=pl.String)
