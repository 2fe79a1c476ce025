"""What flows on an edge: pages of tuples, and punctuation of time and of keys.

A page is a columnar batch of tuples of one stream. Results never depend on how tuples were cut into pages.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import polars as pl

from headrace.model.schema import HIDDEN, TS, Schema

#: What the reader of Arrow streams raises for damaged bytes, besides a panic, which is no Exception.
_UNREADABLE = (pl.exceptions.PolarsError, OSError, ValueError, OverflowError)


def read_rows(data: bytes) -> pl.DataFrame:
    """Read an Arrow IPC stream.

    The buffer is no ornament: given a BytesIO itself, Polars 2.1 keeps an object of each call for ever.
    """
    return pl.read_ipc_stream(io.BufferedReader(io.BytesIO(data)))


@dataclass(frozen=True, slots=True)
class Page:
    """Tuples as columns; `rows` holds the visible columns and at least the hidden `__ts`."""

    rows: pl.DataFrame

    def __len__(self) -> int:
        return self.rows.height

    def encode(self) -> bytes:
        """Write the page as an Arrow IPC stream."""
        buffer = io.BytesIO()
        self.rows.write_ipc_stream(buffer, compat_level=pl.CompatLevel.newest())
        return buffer.getvalue()

    @staticmethod
    def decode(data: bytes) -> Page:
        """Read what `encode` wrote; raise ValueError if it is something else."""
        try:
            return Page(read_rows(data))
        except BaseException as error:
            if isinstance(error, _UNREADABLE) or type(error).__name__ == "PanicException":
                raise ValueError(f"this is no page: {str(error).partition(chr(10))[0]}") from error
            raise

    def visible(self) -> pl.DataFrame:
        """Return the rows without hidden columns."""
        return self.rows.drop(HIDDEN, strict=False)


@dataclass(frozen=True, slots=True)
class Punctuation:
    """A promise: no later tuple on this edge has a timestamp below `bound` (equal is allowed)."""

    bound: int


@dataclass(frozen=True, slots=True)
class Completion:
    """A promise about some keys: no later tuple with the values of a row has a timestamp below the row's `__ts`.

    `rows` holds the columns of the key, and `__ts`; each key is there once. Whoever can do nothing with it may drop it.
    """

    rows: pl.DataFrame

    @property
    def keys(self) -> list[str]:
        """Return the names of the columns of the key."""
        return [name for name in self.rows.columns if name != TS]


Element: TypeAlias = Page | Punctuation | Completion


def page_of(schema: Schema, rows: Sequence[Mapping[str, Any]], ts: Sequence[int]) -> Page:
    """Build a page from Python rows; for tests and small inputs."""
    frame = pl.DataFrame(list(rows), schema=schema.polars(), orient="row")
    return Page(frame.with_columns(pl.Series(TS, ts, dtype=pl.Int64)))
