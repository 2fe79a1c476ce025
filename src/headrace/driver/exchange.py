"""Pages that change bucket between two micro-batches, as numbered files under the checkpoint.

The delivery of micro-batch n writes file n; the plan of the next one reads it; it is deleted when that one is done for good.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from headrace.connectors.connector import Chunk, Offset, Split
from headrace.model.page import Page
from headrace.storage import files


def exchange_directory(directory: Path, origin: str) -> Path:
    """Where the pages of an exchanged vertex wait."""
    return directory / "exchange" / origin


def write_exchange(directory: Path, batch: int, pages: Sequence[Page]) -> None:
    """Leave a micro-batch's pages; writing them again replaces them."""
    files.replace(directory / str(batch), Page(pl.concat([page.rows for page in pages])).encode())


class ExchangeSource:
    """Reads what `write_exchange` left; an offset is the number of the first micro-batch not yet read."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def latest(self, start: Offset, *, now: int, limit: int) -> Offset:
        waiting = self._batches()
        return max(waiting[-1] + 1, start or 0) if waiting else start

    def splits(self, start: Offset, end: Offset, *, parallel: int) -> Sequence[Split]:
        return [batch for batch in self._batches() if (start or 0) <= batch < (end or 0)]

    def read(self, split: Split, columns: tuple[str, ...] | None = None) -> Iterator[Chunk]:
        rows = Page.decode((self._directory / str(split)).read_bytes()).rows
        yield Chunk(rows, pl.Series("seq", [], dtype=pl.Int64))

    def finished(self, offset: Offset) -> bool:
        return False

    def forget(self, offset: Offset) -> None:
        for batch in self._batches():
            if batch < (offset or 0):
                (self._directory / str(batch)).unlink(missing_ok=True)

    def _batches(self) -> list[int]:
        try:
            return sorted(int(name) for name in os.listdir(self._directory) if name.isdigit())
        except FileNotFoundError:
            return []
