"""Rows that wait on disk until a micro-batch reads them, as numbered Arrow files in a directory.

Four kinds of streams are spooled: rows that the session pushes or a Spark source hands out, streams in which the
deployment reports on itself, events that rules raise, and pages that change bucket between two micro-batches.

A file is named `<number>-<rows>.arrow`, so that a listing says what there is to read. Numbers ascend; they are those of
micro-batches, or count the calls of `append`. An offset is the number of the first file that has not been read. A file
without rows only keeps the number from which `append` goes on.

Where tasks write, several files have one number, the parts of a micro-batch: `<number>-<rows>-<writer>.arrow`. They
count once the driver has named them: those of pages that change bucket in `progress.json` (`driver.exchanges`), those
of a Spark source in a list beside them, `<number>-<rows>-list.arrow`.

Rows that were pushed under a key are in `<number>-<rows>-<key>.arrow`: rows and key become durable together. The names
of such files that were read and deleted are lines of `keys.jsonl` (`connectors.push_keys`).
"""

from __future__ import annotations

import base64
import itertools
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import polars as pl

from headrace.catalog.definitions import Stream, Timing
from headrace.connectors.connector import Offset, Slice, Split
from headrace.connectors.files.source import bad_frame
from headrace.connectors.formats.columnar import PIECE, typed
from headrace.connectors.formats.conversion import can_convert, select
from headrace.connectors.push_keys import DeletedNames
from headrace.errors import SourceFault
from headrace.model.calendar import python_rows
from headrace.model.page import Page
from headrace.model.schema import TS, Schema
from headrace.storage import files, sealed
from headrace.storage.names import file_name

#: Room for the rows of a file below its number in a sequence number.
_SHIFT = 32
#: The place of events that are raised by hand among those of rules with the same time.
_BY_HAND = 1 << 31
#: Where Spark keeps how far it has read foreign sources.
FEEDERS = "feeders"
#: How many numbers lie between two streams of a name with a foreign source.
_GAP = 1 << 16
_SUFFIX = ".arrow"
_NAME = re.compile(rf"(\d+)-(\d+)(?:-(t\d+-\d+|list|k[0-9a-f]+-[0-9a-f]+))?\{_SUFFIX}", re.ASCII)
#: The writer of a file that names others, and how the key of a pushed file begins.
_LIST, _KEY = "list", "k"
_appending = threading.Lock()


class Spooled(NamedTuple):
    """A file that can be read.

    `writer` is the task that wrote it, or empty: the driver. `begin` is the number of rows before it in other files of
    the same number. With the writer `list` the file names others, which have so many rows together. A writer that
    begins with `k` is the key under which the rows were pushed.
    """

    number: int
    rows: int
    writer: str = ""
    begin: int = 0

    @property
    def name(self) -> str:
        return f"{self.number:012d}-{self.rows}{self.writer and '-'}{self.writer}{_SUFFIX}"

    @property
    def key(self) -> str:
        """Return the key under which the rows were pushed; empty if there is none."""
        return self.writer if self.writer.startswith(_KEY) else ""

    @staticmethod
    def named(name: str) -> Spooled | None:
        """Return the file of that name; None if it is not one of ours."""
        match = _NAME.fullmatch(name)
        return None if match is None else Spooled(int(match[1]), int(match[2]), match[3] or "")


class Spool:
    """The files of one stream."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._deleted = DeletedNames(directory)

    def put(self, number: int, rows: pl.DataFrame, key: str = "") -> None:
        """Write the rows of a micro-batch durably, in place of those that an earlier attempt left."""
        file = Spooled(number, rows.height, key)
        stale = [other for other in self.files(number, number + 1) if other != file or not rows.height]
        with _writing(self.path(file)):
            files.remove(*map(self.path, stale))
            if rows.height:
                sealed.replace(self.path(file), Page(rows).encode())

    def put_part(self, number: int, rows: pl.DataFrame, writer: str = "") -> Spooled:
        """Write some of the rows of a micro-batch durably; a repeated task replaces them by the same bytes."""
        part = Spooled(number, rows.height, writer)
        with _writing(self.path(part)):
            sealed.replace(self.path(part), Page(rows).encode())
        return part

    def put_list(self, number: int, parts: Sequence[Spooled]) -> None:
        """Let the rows of a micro-batch be those in parts that tasks have written; until then they do not count."""
        file = Spooled(number, sum(part.rows for part in parts), _LIST)
        with _writing(self.path(file)):
            sealed.replace(self.path(file), msgspec.json.encode([part.name for part in parts]))

    def append(self, rows: pl.DataFrame, key: str = "") -> None:
        """Add rows durably behind all others, with the key of `connectors.push_keys`; one process at a time."""
        with _appending:
            self.put(self.next_number(), rows, key)

    def next_number(self) -> int:
        """Return the number of the file that `append` would write; it never becomes smaller."""
        last = self.all()[-1:]
        return last[0].number + 1 if last else 0

    def files(self, start: Offset = None, end: Offset = None) -> list[Spooled]:
        """Return the files to read with numbers from `start` to before `end`, in order."""
        return [
            file
            for file in self.all()
            if file.rows and file.number >= (start or 0) and (end is None or file.number < end)
            if file.writer in ("", _LIST) or file.key
        ]

    def parts(self, file: Spooled) -> list[Spooled]:
        """Return the files in which the rows of a file are: itself, or those that it lists."""
        if file.writer != _LIST:
            return [file]
        path = self.path(file)
        try:
            names = msgspec.json.decode(self._content(path), type=list[str])
        except ValueError as error:  # DecodeError is one
            raise sealed.damaged(path, error) from error
        listed = [part for part in map(Spooled.named, names) if part is not None]
        begins = itertools.accumulate((part.rows for part in listed), initial=0)
        parts = [part._replace(begin=begin) for part, begin in zip(listed, begins, strict=False)]
        if len(listed) != len(names) or sum(part.rows for part in parts) != file.rows:
            raise sealed.damaged(path, f"it does not list {file.rows} rows")
        return parts

    def between(self, start: Offset, end: Offset) -> list[Spooled]:
        """Return the files between two offsets; raise a fault if the last of them is gone."""
        spooled = self.files(start, end or 0)
        if end is not None and end != start and (not spooled or spooled[-1].number != end - 1):
            raise self.lost(f"file {end - 1} in {self.directory}")
        return spooled

    def read(self, file: Spooled) -> pl.DataFrame:
        """Return the rows of a file."""
        if file.writer == _LIST:
            return pl.concat([self.read(part) for part in self.parts(file)])
        path = self.path(file)
        try:
            rows = Page.decode(self._content(path)).rows
        except (pl.exceptions.PolarsError, ValueError, OSError) as error:
            raise sealed.damaged(path, error) from error
        if rows.height != file.rows:
            raise sealed.damaged(path, f"it has {rows.height} rows instead of {file.rows}")
        return rows

    def keeps(self, before: Offset) -> bool:
        """Return whether there are files to read before an offset."""
        return bool(self.files(None, before or 0))

    def keyed(self) -> list[Spooled]:
        """Return the files that were pushed under a key, also those that were deleted, the oldest first."""
        waiting = [file for file in self.all() if file.key]  # first, since a name is added before a file is deleted
        deleted = [file for file in map(Spooled.named, DeletedNames(self.directory).all()) if file is not None]
        return list(dict.fromkeys((*deleted, *waiting)))

    def forget(self, before: Offset) -> None:
        """Delete the files that no micro-batch reads again, but for the number from which `append` goes on."""
        known = self.all()
        read = [file for file in known if file.number < (before or 0)]
        self._deleted.add([file.name for file in read if file.key])
        if read and read[-1] == known[-1]:
            last = Spooled(read[-1].number, 0)
            if last != read[-1]:
                files.replace(self.path(last), b"")
            read = [file for file in read if file != last]
        self.remove(read)  # a file that comes back lies before the offset

    def remove(self, stale: Iterable[Spooled]) -> None:
        """Delete files that nobody reads; some may come back after a power failure."""
        files.remove(*map(self.path, stale), durable=False)

    def clear(self) -> None:
        """Delete all files."""
        self.remove(self.all())

    def path(self, file: Spooled) -> Path:
        return self.directory / file.name

    def lost(self, what: object) -> SourceFault:
        """Return the fault of a file that is gone."""
        return SourceFault(
            f"{what} was deleted before it was read", hint="restore the checkpoint directory, or start with a new one"
        )

    def _content(self, path: Path) -> bytes:
        try:
            return sealed.read(path)
        except FileNotFoundError:
            raise self.lost(path) from None

    def all(self) -> list[Spooled]:
        """Return all files, in order."""
        listed = map(Spooled.named, files.names(self.directory))
        return sorted((file for file in listed if file is not None), key=lambda file: (file.number, file.writer))


def stream_spool(stream: str, checkpoint: Path) -> Spool:
    """Return the spool of a stream."""
    return Spool(checkpoint / "sources" / file_name(stream))


def exchange_spool(origin: str, checkpoint: Path) -> Spool:
    """Return the spool of the pages that vertex `origin` sends to other buckets."""
    return Spool(checkpoint / "exchange" / file_name(origin))


class SpoolSource:
    """Reads the files of a stream in order, from the number `begin` on."""

    def __init__(self, schema: Schema, spool: Spool, begin: int = 0) -> None:
        self._schema = schema
        self._spool = spool
        self._begin = begin

    def latest(self, start: Offset, *, now: int, limit: int) -> Offset:
        """Go on by whole files until about `limit` rows, but at least by one."""
        end, taken = start, 0
        for file in self._spool.files(self._own(start)):
            if taken and taken + file.rows > limit:
                break
            end, taken = file.number + 1, taken + file.rows
        return end

    def splits(self, start: Offset, end: Offset, *, parallel: int) -> Sequence[Split]:
        """Divide the files; a split is a list of [number, rows, writer, begin]."""
        waiting = self._spool.between(self._own(start), end) if end != start else []
        return deal([part for file in waiting for part in self._spool.parts(file)], parallel)

    def read(self, split: Split, columns: tuple[str, ...] | None = None) -> Iterator[Slice]:
        """Read files; with `columns`, only these."""
        schema = select(self._schema, columns)
        for file in map(Spooled._make, split):
            rows = _declared(self._spool.read(file), schema, self._spool.path(file))
            for first in range(0, rows.height, PIECE):
                yield self._chunk(file, first, rows.slice(first, PIECE), schema)

    def finished(self, offset: Offset) -> bool:
        return not self._spool.files(self._own(offset))

    def unread(self, offset: Offset) -> int:
        """Return the number of rows after an offset."""
        return sum(file.rows for file in self._spool.files(self._own(offset)))

    def keeps(self, offset: Offset) -> bool:
        return self._spool.keeps(self._own(offset))

    def forget(self, offset: Offset) -> None:
        self._spool.forget(self._own(offset))

    def _own(self, offset: Offset) -> Offset:
        """Return an offset behind the files of an earlier stream of the same name."""
        return max(offset or 0, self._begin) if self._begin else offset

    def _chunk(self, file: Spooled, first: int, raw: pl.DataFrame, schema: Schema) -> Slice:
        rows, wrong, reasons = typed(raw, schema)
        begin = (file.number << _SHIFT) + file.begin + first
        seq = pl.int_range(begin, begin + raw.height, dtype=pl.Int64, eager=True).alias("seq")
        if wrong is None:
            return Slice(rows, seq)
        records = [str(row) for row in python_rows(raw.filter(wrong))]
        origins = [f"{self._spool.path(file)}:{first + i + 1}" for i in wrong.arg_true()]
        return Slice(rows.filter(~wrong), seq.filter(~wrong), bad_frame(records, reasons, origins))


class RaisedSource(SpoolSource):
    """Reads events that rules raised, with the times of their causes."""

    def read(self, split: Split, columns: tuple[str, ...] | None = None) -> Iterator[Slice]:
        """Read files; the time of each row is beside the columns."""
        schema = select(self._schema, columns)
        if isinstance(split, Mapping):  # raised by hand
            rows = Page.decode(base64.b64decode(split["rows"])).rows
            if any(rows.schema.get(field.name) != field.type.polars for field in schema):
                return  # the event was declared again since
            seq = pl.int_range(rows.height, dtype=pl.Int64, eager=True) + ((split["number"] << _SHIFT) + _BY_HAND)
            yield Slice(rows.select(*schema.names, TS), seq.alias("seq"))
            return
        for file in map(Spooled._make, split):
            raised = self._spool.read(file)
            rows = _declared(raised, schema, self._spool.path(file))
            yield self._with_times(self._chunk(file, 0, rows, schema), raised)

    def _with_times(self, events: Slice, raised: pl.DataFrame) -> Slice:
        # a file of an earlier version has none
        return Slice(events.rows.with_columns(raised[TS]), events.seq) if TS in raised.columns else events


def split_by_hand(number: int, rows: bytes) -> Split:
    """Return a split with the tuples of an event that a command of this number raises."""
    return {"number": number, "rows": base64.b64encode(rows).decode()}


def feeder_folder(stream: Stream, checkpoint: Path) -> Path:
    """Return where Spark keeps how far it has read a foreign source into the spool of a stream."""
    name = file_name(stream.name)
    return checkpoint / FEEDERS / (f"{name}@{stream.begin}" if stream.begin else name)


def first_number(stream: str, checkpoint: Path) -> int:
    """Return the number of the first file of a stream that is created now.

    Feeders of earlier streams of its name, which may not have ended yet, do not reach it.
    """
    name = file_name(stream)
    earlier = [folder for folder in files.names(checkpoint / FEEDERS) if folder.partition("@")[0] == name]
    return stream_spool(stream, checkpoint).next_number() + _GAP * len(earlier)


def raised_source(stream: Stream, checkpoint: Path) -> SpoolSource:
    """Return the source of an event that rules raise."""
    kind = RaisedSource if stream.timing is Timing.CAUSED else SpoolSource
    return kind(stream.schema, stream_spool(stream.name, checkpoint), stream.begin)


def spool_source(stream: Stream, checkpoint: Path) -> SpoolSource:
    """Return the source of a stream whose rows are spooled."""
    return SpoolSource(stream.schema, stream_spool(stream.name, checkpoint), stream.begin)


class ExchangeSource:
    """Reads the pages that a vertex sent to other buckets: all of them, since their bound holds for all.

    The offset names the parts (`driver.exchanges`); what an earlier version has left is found by listing.
    """

    def __init__(self, spool: Spool) -> None:
        self._spool = spool

    def latest(self, start: Offset, *, now: int, limit: int) -> Offset:
        waiting = self._spool.files(start)
        return waiting[-1].number + 1 if waiting else start

    def splits(self, start: Offset, end: Offset, *, parallel: int) -> Sequence[Split]:
        return deal(self._spool.between(start, end), parallel)

    def read(self, split: Split, columns: tuple[str, ...] | None = None) -> Iterator[Slice]:
        for file in map(Spooled._make, split):
            yield Slice(self._spool.read(file), pl.Series("seq", [], dtype=pl.Int64))

    def finished(self, offset: Offset) -> bool:
        return False

    def keeps(self, offset: Offset) -> bool:
        return self._spool.keeps(offset)

    def forget(self, offset: Offset) -> None:
        self._spool.remove(file for file in self._spool.all() if file.number < (offset or 0))


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SourceFault(f"cannot write {path}: {error.strerror}", hint="free space; then try again") from error


def _declared(rows: pl.DataFrame, schema: Schema, path: Path) -> pl.DataFrame:
    """Return the columns of a schema; refuse a file of an earlier stream of that name with other columns."""
    for field in schema:
        if field.name not in rows.columns or not can_convert(rows.schema[field.name], field.type):
            raise SourceFault(
                f"{path} has no column {field.name!r} that can be read as {field.type.value}",
                hint="it was written for a stream with other columns; start with a new checkpoint",
            )
    return rows.select(schema.names) if schema.names else pl.DataFrame(height=rows.height)


def deal(waiting: Sequence[Spooled], parallel: int) -> list[list[Spooled]]:
    """Divide files into runs with about equal numbers of rows."""
    target = -(-sum(file.rows for file in waiting) // max(parallel, 1))
    shares: list[list[Spooled]] = []
    filled = target
    for file in waiting:
        if filled >= target:
            shares.append([])
            filled = 0
        shares[-1].append(file)
        filled += file.rows
    return shares
