"""SYSTEM: streams in which a deployment tells of itself, as one file for each micro-batch that had something to tell.

The delivery of a micro-batch writes its file, a later micro-batch reads it; writing it again replaces it. Only what is told while somebody reads
the stream is kept, and only until it has been read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from headrace.catalog.definitions import Stream
from headrace.connectors.connector import Chunk, Offset, Split
from headrace.model.page import Page
from headrace.storage import files

#: Room for the rows of a micro-batch below its number in a sequence number.
_SHIFT = 32


def system_directory(stream: str, checkpoint: Path) -> Path:
    """Where the rows of a stream wait."""
    return Path(checkpoint) / "sources" / stream


def tell(stream: str, checkpoint: Path, batch: int, rows: pl.DataFrame) -> None:
    """Leave what a micro-batch has to tell."""
    directory = system_directory(stream, checkpoint)
    if not rows.height:
        (directory / str(batch)).unlink(missing_ok=True)
        return
    files.replace(directory / str(batch), Page(rows).encode())


class SystemSource:
    """Reads what `tell` left; an offset is the number of the first micro-batch not yet read."""

    def __init__(self, stream: Stream, checkpoint: Path) -> None:
        self._directory = system_directory(stream.name, checkpoint)

    def latest(self, start: Offset, *, now: int, limit: int) -> Offset:
        waiting = self._batches(start)
        return waiting[-1] + 1 if waiting else start

    def splits(self, start: Offset, end: Offset, *, parallel: int) -> Sequence[Split]:
        found = [batch for batch in self._batches(start) if batch < (end or 0)]
        return [found] if found else []

    def read(self, split: Split, columns: tuple[str, ...] | None = None) -> Iterator[Chunk]:
        for batch in split:
            rows = Page.decode((self._directory / str(batch)).read_bytes()).rows
            first = batch << _SHIFT
            yield Chunk(rows, pl.int_range(first, first + rows.height, dtype=pl.Int64, eager=True).alias("seq"))

    def finished(self, offset: Offset) -> bool:
        return not self._batches(offset)

    def forget(self, offset: Offset) -> None:
        for batch in self._batches(None):
            if batch < (offset or 0):
                (self._directory / str(batch)).unlink(missing_ok=True)

    def _batches(self, start: Offset) -> list[int]:
        try:
            return sorted(
                batch for name in os.listdir(self._directory) if name.isdigit() and (batch := int(name)) >= (start or 0)
            )
        except FileNotFoundError:
            return []
