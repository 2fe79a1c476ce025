"""CLOCK: a tuple at each of the times that `at` says, such as '*:00:00', by the clock of the machine.

An offset is the instant of the last tuple, or of the beginning. With `start` the stream begins there, in the past if
need be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import polars as pl

from headrace.catalog.definitions import Stream, Timing
from headrace.connectors.connector import Offset, Slice, Split
from headrace.connectors.formats.conversion import select
from headrace.connectors.options import check_names, require, text
from headrace.errors import QueryError, TypeFault
from headrace.model.time import SECOND, parse_instant
from headrace.model.types import Type
from headrace.model.wall_clock import Times, parse_times


class ClockSource:
    """Tells the times that have come."""

    def __init__(self, stream: Stream, checkpoint: Path) -> None:
        connector = stream.connector
        check_names(connector, ("at", "start"))
        self._schema = stream.schema
        try:
            self._times: Times = parse_times(str(require(connector, "at", "'*:00:00'")))
            start = text(connector.options, "start", "")
            self._start = parse_instant(start) - 1 if start else None
        except ValueError as error:
            raise QueryError(f"CLOCK: {error}", hint="write CLOCK (at '*:00:00')") from error
        if [field.type for field in stream.schema] != [Type.TIMESTAMP] or stream.timing is not Timing.EXTERNAL:
            raise TypeFault(
                "CLOCK needs exactly one column, of type TIMESTAMP",
                hint="CREATE STREAM hours (at TIMESTAMP) TIMESTAMP BY at FROM CLOCK (at '*:00:00')",
            )

    def latest(self, start: Offset, *, now: int, limit: int) -> Offset:
        """Take the times that have come, at most `limit`."""
        if start is None:
            start = now if self._start is None else self._start
        last = self._times.last(start, now)
        if last is None:
            return start
        if last - start < limit * SECOND:  # no more than one a second
            return last
        return list(islice(self._times.between(start, now), limit))[-1]

    def splits(self, start: Offset, end: Offset, *, parallel: int) -> Sequence[Split]:
        """Return one split: [after, up to]."""
        begin = self._start if start is None else start
        return [] if begin is None or begin == end else [[begin, end]]

    def read(self, split: Split, columns: tuple[str, ...] | None = None) -> Iterator[Slice]:
        after, upto = split
        times = pl.Series(self._schema.names[0], list(self._times.between(after, upto)), dtype=pl.Int64)
        rows = pl.DataFrame([times.cast(pl.Datetime("us"))])
        yield Slice(
            rows.select(select(self._schema, columns).names) if columns else rows, (times // SECOND).alias("seq")
        )

    def finished(self, offset: Offset) -> bool:
        return True

    def forget(self, offset: Offset) -> None:
        """Keep nothing."""
