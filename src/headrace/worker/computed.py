"""Columns of a stream that its records do not have: computed of the others as soon as records have been read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import polars as pl

from headrace.catalog.definitions import READ_AT, Stream
from headrace.connectors.connector import Skipped, Slice
from headrace.model.expressions.expression import columns
from headrace.operators.expressions.evaluate import compile_expr, select_sharing


def with_computed(stream: Stream, pieces: Iterable[Slice | Skipped], now: int) -> Iterator[Slice | Skipped]:
    """Add the computed columns of a stream that is read `now`, as far as what they read has been read."""
    for piece in pieces:
        yield piece if isinstance(piece, Skipped) else replace(piece, rows=computed_rows(stream, piece.rows, now))


def computed_rows(stream: Stream, rows: pl.DataFrame, now: int) -> pl.DataFrame:
    """Return rows with the computed columns whose inputs they have."""
    read_at = pl.repeat(now, rows.height, dtype=pl.Int64, eager=True).cast(READ_AT.type.polars).alias(READ_AT.name)
    present = {*rows.columns, READ_AT.name}
    added = [compile_expr(expr).alias(name) for name, expr in stream.computed if columns(expr) <= present]
    if not added:
        return rows
    return select_sharing(rows.with_columns(read_at), [pl.all().exclude(READ_AT.name), *added])
