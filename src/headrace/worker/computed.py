"""Columns of a stream that its records do not have: computed of the others as soon as records have been read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import polars as pl

from headrace.catalog.definitions import Stream
from headrace.connectors.connector import Skipped, Slice
from headrace.model.expressions.expression import columns
from headrace.operators.expressions.evaluate import compile_expr, select_sharing


def with_computed(stream: Stream, pieces: Iterable[Slice | Skipped]) -> Iterator[Slice | Skipped]:
    """Add the computed columns of a stream, as far as what they read has been read."""
    for piece in pieces:
        yield piece if isinstance(piece, Skipped) else replace(piece, rows=computed_rows(stream, piece.rows))


def computed_rows(stream: Stream, rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with the computed columns whose inputs they have."""
    present = set(rows.columns)
    added = [compile_expr(expr).alias(name) for name, expr in stream.computed if columns(expr) <= present]
    return select_sharing(rows, [pl.all(), *added]) if added else rows
