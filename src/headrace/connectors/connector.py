"""Sources and sinks as the hosts see them.

A source is replayable: what lies between two offsets never changes, so a micro-batch that is run again reads the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import polars as pl

from headrace.model.page import Page
from headrace.model.patterns.pattern import Pattern

#: A JSON value. None stands for the beginning.
Offset: TypeAlias = Any
#: A JSON value that says what one task reads.
Split: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Slice:
    """Some records of a split, in arrival order.

    `rows` has the stream's declared columns and types. `seq` numbers its rows (Int64, increasing with arrival over the
    whole life of the stream). `bad` holds records that could not be read (columns of BAD).
    """

    rows: pl.DataFrame
    seq: pl.Series
    bad: pl.DataFrame | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """Records that were skipped: their number, bytes, and newest timestamp if there is a time column."""

    records: int
    size: int
    newest: int | None


class Source(Protocol):
    """The source of a stream's records, built by `SOURCES[kind](stream)`; picklable, without durable state."""

    def latest(self, start: Offset, *, now: int, limit: int) -> Offset:
        """Return the offset to read up to: about `limit` records beyond `start` at most; `start` if nothing is new.

        `now` is the micro-batch's time in microseconds. Runs on the driver, often: it must be cheap.
        """
        ...

    def splits(self, start: Offset, end: Offset, *, parallel: int) -> Sequence[Split]:
        """Divide what lies between two offsets for at most about `parallel` tasks."""
        ...

    def read(self, split: Split, columns: tuple[str, ...] | None = None) -> Iterator[Slice]:
        """Read a split; with `columns`, others may be left out. Runs in a task, perhaps more than once."""
        ...

    def finished(self, offset: Offset) -> bool:
        """Say whether nothing follows `offset` if no more records arrive (used by run --once)."""
        ...

    def forget(self, offset: Offset) -> None:
        """Free what the source keeps of everything before `offset`, which will never be read again."""
        ...


@runtime_checkable
class PacedSource(Protocol):
    """A source whose records come at their time, so that there is a moment when all that have come are read."""

    def caught_up(self, offset: Offset) -> bool:
        """Say whether `offset` is past everything that was due when `latest` was called last."""
        ...


@runtime_checkable
class SteeredSource(Protocol):
    """A source that makes its records, at a rate that can be changed while it is read."""

    def steer(self, rate: float | None, *, paused: bool) -> None:
        """Go on at another rate (None: that of the definition), or not at all, with the next `latest`."""
        ...


@runtime_checkable
class WaitingSource(Protocol):
    """A source that holds back what may not be complete yet."""

    def hurry(self) -> None:
        """Hold nothing back from now on: the stream ends with what there is."""
        ...


@runtime_checkable
class LanedSource(Protocol):
    """A source with several lanes: parts that have an order of arrival each, but none among them.

    The records of any other source are one lane.
    """

    def lanes(self, offset: Offset) -> Mapping[str, bool]:
        """Return the lanes that are known at `offset`, each with whether records of it are left to read after that.

        Runs on the driver after `latest`, and goes by what that saw.
        """
        ...

    def lane(self, split: Split) -> str:
        """Return the lane of which a split is a part."""
        ...


@runtime_checkable
class TimedSource(Protocol):
    """A source that may know the newest timestamp of a split before it is read."""

    def newest(self, split: Split, columns: tuple[str, ...] | None) -> int | None:
        """Return the newest timestamp that `read` will return; None if that is not known without reading."""
        ...


@runtime_checkable
class KeepingSource(Protocol):
    """A source that keeps records itself until they have been read."""

    def keeps(self, offset: Offset) -> bool:
        """Say whether it keeps records before `offset`, which `forget` would delete."""
        ...


@runtime_checkable
class MeasuredSource(Protocol):
    """A source that knows how much has come and is not read yet."""

    def unread(self, offset: Offset) -> int:
        """Return how much lies after `offset`, as `latest` saw it last: rows, or bytes (`kinds.unread_unit`)."""
        ...


@runtime_checkable
class SkippingSource(Protocol):
    """A source that can leave out records without reading them.

    Records that match one of the patterns `unneeded` may be left out; `__ts` in a pattern stands for the time column.
    """

    def latest_without(
        self, start: Offset, columns: tuple[str, ...] | None, unneeded: Sequence[Pattern], *, now: int, limit: int
    ) -> Offset:
        """Do as `latest`, but count records that are left out for little, so that a micro-batch gets further."""
        ...

    def read_without(
        self,
        split: Split,
        columns: tuple[str, ...] | None,
        unneeded: Sequence[Pattern],
        *,
        newest: int | None = None,
    ) -> Iterator[Slice | Skipped]:
        """Do as `read`, without records that may be left out as far as that is known before they are read.

        `newest` is that of the lane before the split, as far as the stream knows it: some of its records may be bad.
        """
        ...


class Sink(Protocol):
    """Where a query's results go. Writes are idempotent by batch number: writing a batch again replaces it."""

    def write(self, batch: int, pages: Sequence[Page]) -> None:
        """Write all results of one micro-batch; hidden columns other than the timestamp are not for users."""
        ...

    def close(self) -> None:
        """Flush and release."""
        ...


@runtime_checkable
class SelectiveSink(Protocol):
    """A sink that cannot hold every row."""

    def refused(self, rows: pl.DataFrame) -> pl.Series | None:
        """Return for each row why the sink cannot hold it, NULL if it can; None if it can hold all rows."""
        ...


@runtime_checkable
class StagingSink(Protocol):
    """A sink into which tasks write large results out of sight; the driver puts them into place.

    Its writes may run in a thread of their own, beside those of other sinks.
    """

    def stage(self, page: Page, name: str) -> str:
        """Write results from a task, out of sight; hand the returned name to `write` on the driver."""
        ...

    def write(self, batch: int, pages: Sequence[Page], staged: Sequence[str] = ()) -> None:
        """Write all results of one micro-batch: these pages, and what was staged under these names."""
        ...

    def sweep(self) -> int:
        """Delete what tasks staged and nobody adopted, while no task runs; return how many files that were."""
        ...

    def close(self) -> None:
        """Flush and release."""
        ...


@runtime_checkable
class RollingSink(Protocol):
    """A sink in which results wait, durably and out of sight, until there are enough for a file."""

    has_timer: bool  # whether results that have waited long enough are written at once, by a thread

    @property
    def directory(self) -> Path:
        """Where they wait."""
        ...

    def resume(self) -> None:
        """Finish what an earlier process began; called once, on the driver."""
        ...

    def flush(self) -> None:
        """Deliver what waits."""
        ...
