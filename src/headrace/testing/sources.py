"""A source that does what a script says, and a sink that remembers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import polars as pl

from headrace.connectors.connector import Offset, Slice, Split
from headrace.errors import SourceFault
from headrace.model.page import Page
from headrace.model.schema import TS, Schema
from headrace.testing.oracle.rows import Row, rows_of
from headrace.testing.oracle.values import plain_value
from headrace.testing.streams import End, Fail, Pause, column

Step: TypeAlias = Sequence[Mapping[str, Any]] | Pause | Fail | End


class ScriptedSource:
    """Gives its batches one by one; an offset is the number of records read.

    `Pause()` between batches makes the source say once that there is nothing new, `Fail(n)` lets the next batch fail n
    times to be read, `End()` ends it. What failed or paused how often is remembered in this object only, so scripts
    with them are for hosts that run in this process.
    """

    def __init__(self, schema: Schema, steps: Sequence[Step]) -> None:
        self._schema = schema
        self._rows: list[dict[str, Any]] = []
        self._ends: list[int] = []  # where each batch ends
        self._pauses: dict[int, int] = {}
        self._failures: dict[int, int] = {}
        ended = False
        for step in steps:
            if ended:
                raise ValueError("nothing may follow End()")
            match step:
                case Pause():
                    self._pauses[len(self._rows)] = self._pauses.get(len(self._rows), 0) + 1
                case Fail(times=times):
                    self._failures[len(self._rows)] = times
                case End():
                    ended = True
                case _:
                    self._rows += [{name: plain_value(value) for name, value in row.items()} for row in step]
                    self._ends.append(len(self._rows))
        self.forgotten = 0

    def latest(self, start: Offset, *, now: int, limit: int) -> Offset:
        position = start or 0
        if self._pauses.get(position, 0):
            self._pauses[position] -= 1
            return start
        end = next((end for end in self._ends if end > position), position)
        return min(end, position + limit) if end > position else start

    def splits(self, start: Offset, end: Offset, *, parallel: int) -> Sequence[Split]:
        first, last = start or 0, end or 0
        share = max(1, -(-(last - first) // max(1, parallel)))
        return [[cut, min(cut + share, last)] for cut in range(first, last, share)]

    def read(self, split: Split, columns: tuple[str, ...] | None = None) -> Iterator[Slice]:
        first, last = split
        for position, remaining in self._failures.items():
            if first <= position < last and remaining:
                self._failures[position] = remaining - 1
                raise SourceFault(f"record {position} cannot be read", hint="the script says so")
        held = self._rows[first:last]
        fields = [field for field in self._schema if columns is None or field.name in columns]
        rows = pl.DataFrame([column(field, [row.get(field.name) for row in held]) for field in fields])
        yield Slice(rows, pl.Series("seq", range(first, last), dtype=pl.Int64))

    def finished(self, offset: Offset) -> bool:
        return (offset or 0) >= len(self._rows)

    def forget(self, offset: Offset) -> None:
        self.forgotten = max(self.forgotten, offset or 0)


class CollectingSink:
    """Keeps what it is given; a batch that is written again replaces its first writing."""

    def __init__(self) -> None:
        self._batches: dict[int, tuple[Page, ...]] = {}
        self.writes = 0
        self.closed = False

    def write(self, batch: int, pages: Sequence[Page]) -> None:
        self._batches[batch] = tuple(pages)
        self.writes += 1

    def close(self) -> None:
        self.closed = True

    @property
    def rows(self) -> list[Row]:
        """Return all tuples, batch by batch, as the oracle holds them."""
        frames = [page.rows for _, pages in sorted(self._batches.items()) for page in pages]
        return [row for frame in frames for row in rows_of(frame.iter_rows(named=True)) if TS in frame.columns]
