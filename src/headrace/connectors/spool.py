"""A stream of rows that another process, or the session itself, leaves in a directory as numbered Arrow files.

The writer puts `<batch>-<part>.arrow` files and then commits the batch by a marker `<batch>.done` that lists the rows of each part;
only committed batches are read, so parts may be written in any order. An offset is [batch, part]: the next part to read.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from headrace.catalog.definitions import Stream
from headrace.connectors.connector import Chunk, Offset, Split
from headrace.connectors.files.source import bad_frame
from headrace.connectors.formats import columnar
from headrace.connectors.formats.conversion import select
from headrace.errors import SourceFault
from headrace.storage import files

#: Room for the rows of a batch below its number in a sequence number.
SHIFT = 40
_APPENDING = threading.Lock()


def put(directory: Path, batch: int, part: int, rows: pl.DataFrame) -> None:
    """Write one part of a batch; writing it again replaces it."""
    files.replace_by(
        directory / _part_name(batch, part), lambda file: rows.write_ipc(file, compat_level=pl.CompatLevel.oldest())
    )


def commit(directory: Path, batch: int, rows: Sequence[int]) -> None:
    """Make a batch readable; `rows` are the row counts of its parts 0, 1, ..."""
    files.replace(directory / f"{batch:012d}.done", msgspec.json.encode(list(rows)))


def append(directory: Path, rows: pl.DataFrame) -> None:
    """Add a batch behind all others; one writer at a time."""
    with _APPENDING:
        batch = max(committed(directory), default=-1) + 1
        put(directory, batch, 0, rows)
        commit(directory, batch, [rows.height])


def committed(directory: Path) -> list[int]:
    """The numbers of the batches that can be read, ascending."""
    try:
        return sorted(
            int(name[:-5]) for name in os.listdir(directory) if name.endswith(".done") and name[:-5].isdigit()
        )
    except FileNotFoundError:
        return []


class SpoolSource:
    """Reads committed batches in order."""

    def __init__(self, stream: Stream, directory: Path) -> None:
        self._schema = stream.schema
        self._directory = Path(directory)

    def latest(self, start: Offset, *, now: int, limit: int) -> Offset:
        """Go on by whole parts until about `limit` rows."""
        end, left = start, limit
        for batch in self._from(start):
            for part, count in enumerate(self._parts(batch)):
                if start is not None and [batch, part] < start:
                    continue
                if left < limit and count > left:
                    return end
                left -= count
                end = [batch, part + 1]
            end = [batch + 1, 0]
        return end

    def splits(self, start: Offset, end: Offset, *, parallel: int) -> Sequence[Split]:
        """Deal the parts out; a split is a list of [batch, part, first row in the batch, rows]."""
        pieces = []
        for batch in self._from(start):
            first = 0
            for part, count in enumerate(self._parts(batch)):
                if (start is None or [batch, part] >= start) and end is not None and [batch, part] < end and count:
                    pieces.append([batch, part, first, count])
                first += count
        return _deal(pieces, parallel)

    def read(self, split: Split, columns: tuple[str, ...] | None = None) -> Iterator[Chunk]:
        """Read parts; with `columns`, only these."""
        schema = select(self._schema, columns)
        for batch, part, first, count in split:
            path = str(self._directory / _part_name(batch, part))
            if not os.path.exists(path):
                raise SourceFault(
                    f"{path} is gone before it was read",
                    hint="restore the checkpoint directory, or start with a new one",
                )
            columnar.check_columns(path, "arrow", schema)
            for at, raw in columnar.read_rows(path, "arrow", 0, count, schema):
                rows, wrong, reasons = columnar.typed(raw, schema)
                begin = (batch << SHIFT) + first + at
                seq = pl.int_range(begin, begin + raw.height, dtype=pl.Int64, eager=True).alias("seq")
                if wrong is None:
                    yield Chunk(rows, seq)
                else:
                    bad = raw.filter(wrong)
                    records = [str(row) for row in bad.iter_rows(named=True)]
                    origins = [f"{path}:{at + i + 1}" for i in wrong.arg_true()]
                    yield Chunk(rows.filter(~wrong), seq.filter(~wrong), bad_frame(records, reasons, origins))

    def finished(self, offset: Offset) -> bool:
        last = committed(self._directory)[-1:]
        return not last or (offset is not None and bool(offset[0] > last[0]))

    def forget(self, offset: Offset) -> None:
        """Delete batches before `offset`; the newest marker stays, so that numbers go on after a restart."""
        if offset is None:
            return
        numbers = committed(self._directory)
        for batch in numbers:
            if batch < offset[0]:
                for part in range(len(self._parts(batch))):
                    (self._directory / _part_name(batch, part)).unlink(missing_ok=True)
                if batch != numbers[-1]:
                    (self._directory / f"{batch:012d}.done").unlink(missing_ok=True)

    def _from(self, start: Offset) -> list[int]:
        return [batch for batch in committed(self._directory) if start is None or batch >= start[0]]

    def _parts(self, batch: int) -> list[int]:
        return msgspec.json.decode((self._directory / f"{batch:012d}.done").read_bytes(), type=list[int])


def _part_name(batch: int, part: int) -> str:
    return f"{batch:012d}-{part:05d}.arrow"


def _deal(pieces: list[list[int]], parallel: int) -> list[Any]:
    """Runs of pieces with about equal rows."""
    target = -(-sum(piece[3] for piece in pieces) // max(parallel, 1))
    shares: list[list[list[int]]] = []
    filled = target
    for piece in pieces:
        if filled >= target:
            shares.append([])
            filled = 0
        shares[-1].append(piece)
        filled += piece[3]
    return shares
