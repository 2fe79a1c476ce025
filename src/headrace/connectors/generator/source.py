"""GENERATOR: seeded tuples that are the same in every run and however they are cut into micro-batches.

An offset is [wall time of the beginning, cell, tuples of that cell already taken, tuples taken in all]. `rate` counts
tuples per second of event time; event time runs `speed` times as fast as the clock that `latest` is told.

When the rate is changed, or the stream paused, a new segment begins where the last one ended. An offset of a later
segment says which it is, so what lies between two offsets never depends on what is in force now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

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
#: How far the seeds of two segments are apart.
_SEGMENT = 1_000_003
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


class _Place(NamedTuple):
    """How far a generator has come: in a segment, which has a rate (0: paused) and began at two times.

    `base` is event time since the beginning, `since` the wall time.
    """

    origin: int
    cell: int
    row: int
    taken: int
    rate: float
    base: int
    segment: int
    since: int


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
        self._wanted = self._process.rate  # 0: paused

    def steer(self, rate: float | None, *, paused: bool) -> None:
        """Go on at another rate (None: that of the definition), or not at all, with the next `latest`."""
        self._wanted = 0.0 if paused else self._process.rate if rate is None else rate

    def latest(self, start: Offset, *, now: int, limit: int) -> Offset:
        """Take the tuples whose time has come, at most `limit`."""
        if start is None:
            begun = int(self._wanted != self._process.rate)
            place = _Place(now, 0, 0, 0, self._wanted, 0, begun, now)
        else:
            place = self._place(start)
        until = max(0, int((now - place.since) * self._speed))
        place, caught_up = self._taken(place, until, limit) if place.rate else (place, True)
        if place.rate != self._wanted:
            reached = until if caught_up or not place.rate else self._reached(place)
            since = place.since + int(reached / self._speed)
            base = place.base + reached
            place = _Place(place.origin, 0, 0, place.taken, self._wanted, base, place.segment + 1, since)
        end = self._offset(place)
        if caught_up:
            self._caught_up = end
        return end

    def _taken(self, place: _Place, until: int, limit: int) -> tuple[_Place, bool]:
        """Take tuples of a segment up to a time; return how far that is, and whether it is all."""
        process = self._process_at(place.rate, place.segment)
        cell, row, taken, length = place.cell, place.row, place.taken, cell_length(process)
        self._due = taken + max(0, round(process.rate * (until - cell * length) / SECOND) - row)
        remaining = limit if self._rows is None else min(limit, self._rows - taken)
        while remaining > 0 and cell * length <= until:
            whole_cell = (cell + 1) * length <= until
            here = (
                count(process, cell) if whole_cell else int(np.searchsorted(times(process, cell), until, side="right"))
            )
            more = max(0, min(here - row, remaining))
            row, taken, remaining = row + more, taken + more, remaining - more
            if not whole_cell or row < here:
                break
            cell, row = cell + 1, 0
        return place._replace(cell=cell, row=row, taken=taken), remaining > 0

    def _reached(self, place: _Place) -> int:
        """Return the time of a segment up to which tuples are taken."""
        process = self._process_at(place.rate, place.segment)
        if not place.row:
            return place.cell * cell_length(process)
        return int(times(process, place.cell)[place.row - 1]) + 1

    def _process_at(self, rate: float, segment: int) -> Process:
        """Return the arrivals of a segment, which are drawn anew in each."""
        if isinstance(self._process, Constant):
            return Constant(rate)
        return replace(self._process, rate=rate, seed=self._process.seed + segment * _SEGMENT)

    def _place(self, offset: Offset) -> _Place:
        origin, cell, row, taken, *rest = offset
        rate, base, segment, since = rest or (self._process.rate, 0, 0, origin)
        return _Place(origin, cell, row, taken, rate, base, segment, since)

    def _offset(self, place: _Place) -> list[Any]:
        return list(place) if place.segment else list(place[:4])

    def splits(self, start: Offset, end: Offset, *, parallel: int) -> Sequence[Split]:
        """Divide tuples equally; a split is [wall time of the beginning, cell, row, first tuple's number, count]."""
        if end is None:
            return []
        place = self._place(end)._replace(cell=0, row=0, taken=0) if start is None else self._place(start)
        cell, row, taken = place.cell, place.row, place.taken
        process = self._process_at(place.rate or 1.0, place.segment)
        shares = np.diff(
            np.linspace(taken, end[3], max(1, min(parallel, (end[3] - taken) // 10_000)) + 1).astype(np.int64)
        )
        splits = []
        for share in (int(s) for s in shares if s):
            segment = [place.rate, place.base, place.segment] if place.segment else []
            splits.append([place.origin, cell, row, taken, share, *segment])
            row, taken = row + share, taken + share
            while taken < end[3] and row >= (here := count(process, cell)):
                cell, row = cell + 1, row - here
        return splits

    def read(self, split: Split, columns: tuple[str, ...] | None = None) -> Iterator[Slice]:
        """Make the tuples of a split; with `columns`, only these."""
        origin, cell, row, first, remaining, *_ = split
        segment = self._segment(split)
        made: list[pl.DataFrame] = []
        seq = first
        while remaining > 0:
            frame = self._cell(origin, segment, cell, row, seq, remaining, columns)
            made.append(frame)
            seq, remaining, cell, row = seq + frame.height, remaining - frame.height, cell + 1, 0
            if remaining <= 0 or seq - first >= _CHUNK:
                yield Slice(pl.concat(made), pl.int_range(first, seq, dtype=pl.Int64, eager=True).alias("seq"))
                made, first = [], seq

    def newest(self, split: Split, columns: tuple[str, ...] | None) -> int | None:
        """Return the time of the last tuple of a split, unless tuples come with a delay."""
        if self._delay is not None:
            return None
        origin, cell, row, _, left, *_ = split
        rate, base, segment = self._segment(split)
        process = self._process_at(rate, segment)
        last = row + left - 1
        while last >= (here := count(process, cell)):
            cell, last = cell + 1, last - here
        return int(times(process, cell)[last]) + int(origin if self._start is None else self._start) + base

    def _segment(self, split: Split) -> tuple[float, int, int]:
        """Return rate, beginning and number of the segment of a split."""
        rate, base, segment = split[5:] or (self._process.rate, 0, 0)
        return rate, base, segment

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
        self,
        origin: int,
        segment: tuple[float, int, int],
        cell: int,
        row: int,
        first: int,
        most: int,
        columns: tuple[str, ...] | None,
    ) -> pl.DataFrame:
        """Return the tuples of one cell from `row` on; the whole cell is drawn, so that its cut does not matter."""
        rate, base, number = segment
        moments = times(self._process_at(rate, number), cell) + (origin if self._start is None else self._start) + base
        drawn = (cell, number) if number else (cell,)
        made = []
        for place, field in enumerate(self._schema):
            if columns is not None and field.name not in columns:
                continue
            if field.name == self._time_column:
                late = (
                    0
                    if self._delay is None
                    else seconds(self._delay, np.random.default_rng((self._seed, 5, *drawn)), len(moments))
                )
                column = pl.Series(moments - late).cast(pl.Datetime("us")).cast(field.type.polars)
            else:
                column = draw(
                    self._values[field.name],
                    field.type,
                    np.random.default_rng((self._seed, 4, place, *drawn)),
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
