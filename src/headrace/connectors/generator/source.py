"""GENERATOR: seeded tuples that are the same in every run and however they are cut into micro-batches.

An offset is [wall time of the beginning, cell, tuples of that cell already taken, tuples taken in all]. `rate` counts
tuples per second of event time; event time runs `speed` times as fast as the clock that `latest` is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from headrace.catalog.definitions import Connector, Stream
from headrace.connectors.connector import Offset, Slice, Split
from headrace.connectors.formats.conversion import select
from headrace.connectors.generator.arrivals import (
    Bursty,
    Constant,
    Poisson,
    Process,
    SelfSimilar,
    cell_length,
    count,
    times,
)
from headrace.connectors.generator.values import Values, default_values, draw, parse_values, seconds
from headrace.connectors.options import check_names, duration, near, real, text, whole
from headrace.errors import NameFault, TypeFault
from headrace.model.time import SECOND, parse_instant
from headrace.model.types import DataType, Type

OPTIONS = ("rate", "process", "seed", "start", "rows", "speed", "delay", "on", "off", "flows")
_PREFIX = "col."
_CHUNK = 1 << 17  # tuples handed on at once


def process(connector: Connector) -> Process:
    """Read the options that say when tuples arrive."""
    options = connector.options
    rate, seed = real(options, "rate", 10), whole(options, "seed", 0)
    name = text(options, "process", "poisson")
    makers: dict[str, Callable[[], Process]] = {
        "constant": lambda: Constant(rate),
        "poisson": lambda: Poisson(rate, seed),
        "bursty": lambda: Bursty(rate, seed, duration(options, "on", "1 s"), duration(options, "off", "1 s")),
        "selfsimilar": lambda: SelfSimilar(
            rate,
            seed,
            whole(options, "flows", 64, least=1),
            duration(options, "on", "100 ms"),
            duration(options, "off", "100 ms"),
        ),
    }
    if name not in makers:
        raise NameFault(f"GENERATOR has no arrival process {name!r}", hint=near(name, makers))
    return makers[name]()


class GeneratorSource:
    """Makes the tuples of a stream."""

    def __init__(self, stream: Stream, checkpoint: Path) -> None:
        options = stream.connector.options
        check_names(stream.connector, (*OPTIONS, *(_PREFIX + name for name in stream.schema.names)))
        self._schema = stream.schema
        self._time_column = stream.time_column
        self._process = process(stream.connector)
        self._seed = whole(options, "seed", 0)
        self._rows = whole(options, "rows", 0) if "rows" in options else None
        self._speed = real(options, "speed", 1)
        self._start = _start(stream.connector)
        self._delay = parse_values(str(options["delay"]), Type.DOUBLE) if "delay" in options else None
        self._values = {field.name: _values(stream, field.name, field.type) for field in stream.schema}
        self._caught_up: Offset = None
        self._due = 0  # rows that were due when `latest` was called last, about

    def latest(self, start: Offset, *, now: int, limit: int) -> Offset:
        """Take the tuples whose time has come, at most `limit`."""
        origin, cell, row, taken = start or [now, 0, 0, 0]
        until = int((now - origin) * self._speed)
        self._due = round(self._process.rate * max(0, until) / SECOND)
        length = cell_length(self._process)
        remaining = limit if self._rows is None else min(limit, self._rows - taken)
        while remaining > 0 and cell * length <= until:
            whole_cell = (cell + 1) * length <= until
            here = (
                count(self._process, cell)
                if whole_cell
                else int(np.searchsorted(times(self._process, cell), until, side="right"))
            )
            more = max(0, min(here - row, remaining))
            row, taken, remaining = row + more, taken + more, remaining - more
            if not whole_cell or row < here:
                break
            cell, row = cell + 1, 0
        end = [origin, cell, row, taken]
        if remaining > 0:
            self._caught_up = end
        return end

    def splits(self, start: Offset, end: Offset, *, parallel: int) -> Sequence[Split]:
        """Divide tuples equally; a split is [wall time of the beginning, cell, row, first tuple's number, count]."""
        if end is None:
            return []
        origin, cell, row, taken = start or [end[0], 0, 0, 0]
        shares = np.diff(
            np.linspace(taken, end[3], max(1, min(parallel, (end[3] - taken) // 10_000)) + 1).astype(np.int64)
        )
        splits = []
        for share in (int(s) for s in shares if s):
            splits.append([origin, cell, row, taken, share])
            row, taken = row + share, taken + share
            while taken < end[3] and row >= (here := count(self._process, cell)):
                cell, row = cell + 1, row - here
        return splits

    def read(self, split: Split, columns: tuple[str, ...] | None = None) -> Iterator[Slice]:
        """Make the tuples of a split; with `columns`, only these."""
        origin, cell, row, first, remaining = split
        made: list[pl.DataFrame] = []
        seq = first
        while remaining > 0:
            frame = self._cell(origin, cell, row, seq, remaining, columns)
            made.append(frame)
            seq, remaining, cell, row = seq + frame.height, remaining - frame.height, cell + 1, 0
            if remaining <= 0 or seq - first >= _CHUNK:
                yield Slice(pl.concat(made), pl.int_range(first, seq, dtype=pl.Int64, eager=True).alias("seq"))
                made, first = [], seq

    def newest(self, split: Split, columns: tuple[str, ...] | None) -> int | None:
        """Return the time of the last tuple of a split, unless tuples come with a delay."""
        if self._delay is not None:
            return None
        origin, cell, row, _, left = split
        last = row + left - 1
        while last >= (here := count(self._process, cell)):
            cell, last = cell + 1, last - here
        return int(times(self._process, cell)[last]) + int(origin if self._start is None else self._start)

    def finished(self, offset: Offset) -> bool:
        """Say whether all `rows` are made; without that option, all that were due when `latest` was called last."""
        if self._rows is not None:
            return (offset is not None and bool(offset[3] >= self._rows)) or self._rows == 0
        return self.caught_up(offset)

    def caught_up(self, offset: Offset) -> bool:
        return offset is not None and bool(offset == self._caught_up)

    def unread(self, offset: Offset) -> int:
        """Return about how many rows were due and are not read."""
        taken = 0 if offset is None else offset[3]
        due = self._due if self._rows is None else min(self._due, self._rows)
        return 0 if self.caught_up(offset) else max(0, due - taken)

    def forget(self, offset: Offset) -> None:
        """Do nothing: nothing is kept."""

    def _cell(
        self, origin: int, cell: int, row: int, first: int, most: int, columns: tuple[str, ...] | None
    ) -> pl.DataFrame:
        """Return the tuples of one cell from `row` on; the whole cell is drawn, so that its cut does not matter."""
        moments = times(self._process, cell) + (origin if self._start is None else self._start)
        made = []
        for place, field in enumerate(self._schema):
            if columns is not None and field.name not in columns:
                continue
            if field.name == self._time_column:
                late = (
                    0
                    if self._delay is None
                    else seconds(self._delay, np.random.default_rng((self._seed, 5, cell)), len(moments))
                )
                column = pl.Series(moments - late).cast(pl.Datetime("us")).cast(field.type.polars)
            else:
                column = draw(
                    self._values[field.name],
                    field.type,
                    np.random.default_rng((self._seed, 4, place, cell)),
                    first - row,
                    moments,
                )
            made.append(column.alias(field.name).slice(row, most))
        if not made:
            return pl.DataFrame(height=len(moments[row : row + most]))
        return pl.DataFrame(made, schema=select(self._schema, columns).polars())


def _values(stream: Stream, name: str, type_: DataType) -> Values:
    given = stream.connector.options.get(_PREFIX + name)
    return default_values(type_) if given is None else parse_values(str(given), type_)


def _start(connector: Connector) -> int | None:
    given: Any = connector.options.get("start")
    if given is None:
        return None
    try:
        return parse_instant(str(given))
    except ValueError:
        raise TypeFault(
            f"option 'start' cannot be {given!r}",
            hint="write an instant such as '2026-01-01', or leave it out to follow the clock",
        ) from None
