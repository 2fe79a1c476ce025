"""FILES as a sink that writes fewer, larger files: results wait in the checkpoint until there are enough of them.

Readers of the directory see whole files that never change, each result in one of them. So results are never written
small and merged later; they wait out of sight, as Arrow files by micro-batch:

1. A micro-batch is delivered when its results wait on disk. Its first file is written last and completes it.
2. When the results that wait are large or old enough, `rolled.json` says which micro-batches the next file holds.
3. The file is written under a name that only these micro-batches give.
4. `rolled.json` says that it is written, and the files that waited are deleted.

After a crash, 3 and 4 are repeated with the same micro-batches. A micro-batch that is run again is recognized: it waits
already, or it is in a file.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec
import polars as pl
from msgspec import Struct

from headrace.catalog.definitions import Connector
from headrace.connectors.files.folders import folder_columns
from headrace.connectors.files.sink import FilesSink, Roll, is_orphan, roll_of, target
from headrace.errors import HeadraceError, OwnerFault, SinkFault
from headrace.model.page import Page
from headrace.model.schema import Schema
from headrace.storage import files, sealed
from headrace.storage.names import file_name
from headrace.storage.storage import Tag

_SUFFIX = ".arrow"
_STAGED = "staged-"
#: One lock for each directory: a sink that is closed may still write a file when the next one of its query begins.
_locks: WeakValueDictionary[Path, threading.RLock] = WeakValueDictionary()


class Rolled(Struct, frozen=True):
    """The micro-batches of the last file, and whether it is written."""

    first: int
    last: int
    is_written: bool


class Description(Struct, frozen=True):
    """What is needed to make the sink of a query that is no longer there."""

    query: str
    connector: Connector
    columns: Schema


class RollingFilesSink:
    """Writes `part-<first batch>-<last batch>.<format>` files."""

    def __init__(self, query: str, connector: Connector, schema: Schema, checkpoint: Path) -> None:
        self._description = Description(query, connector, schema)
        self._files = FilesSink(query, connector, schema, checkpoint)
        self._roll: Roll = roll_of(connector)
        where = target(connector)
        identity = [str(where.directory), where.format, *folder_columns(connector)]
        digest = hashlib.blake2b("\0".join(identity).encode(), digest_size=8).hexdigest()
        self.directory = checkpoint / "sinks" / "files" / f"{file_name(query)}-{digest}"
        self._lock = _locks.setdefault(self.directory, threading.RLock())
        self.has_timer = True
        self._timer: threading.Timer | None = None
        self._fault: HeadraceError | None = None  # of the timer
        self._last: int | None = None  # the last batch in a file; None: not read yet
        self._tag: Tag | None = None  # of `rolled.json`
        self._size = 0  # of what waits

    def stage(self, page: Page, name: str) -> str:
        """Write results from a task, out of sight; hand the returned name to `write` on the driver."""
        try:
            sealed.replace(self._staged(name), self._encode(page.visible()))
        except OSError as error:
            raise self._unwritable(error) from error
        return name

    def resume(self) -> None:
        """Finish the file that an earlier process began, and let what it left wait no longer than the rest."""
        with self._lock:
            try:
                self._begin()
            except OSError as error:
                raise self._unwritable(error) from error
            if self._size:
                self._start_timer()

    def write(self, batch: int, pages: Sequence[Page], staged: Sequence[str] = ()) -> None:
        """Let the pages of a batch and its staged files wait; write a file if there is enough for one."""
        with self._lock:
            self._raise()
            try:
                self._files.expire()
                self._begin()
                self._take(batch, [page.visible() for page in pages if len(page)], staged)
                if self._size >= self._roll.size:
                    self._write_file()
                elif self._size:
                    self._start_timer()
            except OSError as error:
                raise self._unwritable(error) from error

    def sweep(self) -> int:
        """Delete what tasks staged and nobody adopted, and files that were being written, while no task runs."""
        with self._lock:  # the timer may write
            hidden = files.sweep(self.directory) + self._files.sweep()
            staged = [self.directory / name for name in files.names(self.directory) if name.startswith(_STAGED)]
            files.remove(*staged, durable=False)
            return hidden + len(staged)

    def flush(self) -> None:
        """Write what waits into a file."""
        with self._lock:
            self._stop_timer()
            self._raise()
            try:
                self._begin()
                self._write_file()
            except OSError as error:
                raise self._unwritable(error) from error

    def close(self) -> None:
        """Write what waits into a file, and release."""
        self.flush()
        self._files.close()

    def _begin(self) -> None:
        """Finish the file that an earlier process began."""
        if self._last is not None:
            return
        known = files.read_tagged(self._rolled)
        try:
            rolled = (
                Rolled(-1, -1, True)
                if known is None
                else msgspec.json.decode(sealed.unseal(known[0], self._rolled), type=Rolled)
            )
        except ValueError as error:  # DecodeError is one
            raise sealed.damaged(self._rolled, error) from error
        self._tag = None if known is None else known[1]
        if known is None:
            sealed.replace(self.directory / "sink.json", msgspec.json.encode(self._description))
        if not rolled.is_written:
            self._finish(rolled)
        self._last = rolled.last
        self._forget()
        self._size = sum(len(files.read(self.directory / name)) for name in self._waiting())

    def _take(self, batch: int, frames: Sequence[pl.DataFrame], staged: Sequence[str]) -> None:
        """Let the results of a batch wait, unless they do so already or are in a file."""
        assert self._last is not None
        sources = [self._staged(name) for name in staged]
        first, *parts = (self._part(batch, number) for number in range(1 + len(staged)))
        there = {*files.names(self.directory)}
        orphans = [name for name in there if is_orphan(name.removeprefix(_STAGED), batch) and name.startswith(_STAGED)]
        files.remove(*(self.directory / name for name in sorted(orphans)), durable=False)
        if batch <= self._last or first.name in there:
            files.remove(*sources, durable=False)
            return
        if not frames and not staged:
            return
        for source, part in zip(sources, parts, strict=True):
            if source.name not in there and part.name not in there:
                raise SinkFault(
                    f"the staged file {source} was deleted", hint="do not delete files in a checkpoint that is in use"
                )
        files.move([(source, part) for source, part in zip(sources, parts, strict=True) if source.name in there])
        # parts of an earlier try, which had more of them
        stale = [name for name in self._waiting() if _batch_of(name) == batch]
        files.remove(*(path for name in stale if (path := self.directory / name) not in parts))
        rows = pl.concat(frames) if frames else pl.DataFrame(schema=self._description.columns.polars())
        data = self._encode(rows)
        sealed.replace(first, data)
        self._size += len(data) + sum(len(files.read(part)) for part in parts)

    def _write_file(self) -> None:
        """Write what waits into a file."""
        self._stop_timer()
        batches = self._complete()
        if not batches:
            return
        rolled = Rolled(batches[0], batches[-1], False)
        self._mark(rolled)
        self._finish(rolled)
        self._last = rolled.last
        self._forget()

    def _finish(self, rolled: Rolled) -> None:
        names = [name for name in self._waiting() if rolled.first <= _batch_of(name) <= rolled.last]
        frames = [_decode(self.directory / name).rows for name in names]
        # only after it has changed this does another process delete what waits: so that was read as a whole
        known = files.read_tagged(self._rolled)
        if known is None or known[1] != self._tag:
            raise self._replaced()
        self._files.put(f"part-{rolled.first:012d}-{rolled.last:012d}", pl.concat(frames))
        self._mark(msgspec.structs.replace(rolled, is_written=True))

    def _mark(self, rolled: Rolled) -> None:
        """Write down which file is next, or written; a process that was replaced meanwhile cannot."""
        data = sealed.seal(msgspec.json.encode(rolled))
        if self._tag is not None:
            self._tag = files.swap(self._rolled, data, self._tag)
        elif files.create(self._rolled, data):
            known = files.read_tagged(self._rolled)
            self._tag = known[1] if known is not None and known[0] == data else None
        if self._tag is None:
            raise self._replaced()

    def _replaced(self) -> OwnerFault:
        self._last = None  # what is there is read again
        return OwnerFault(f"another process has written {self._rolled}", hint="let only one of them run")

    def _forget(self) -> None:
        """Delete what waited for a file that is written."""
        assert self._last is not None
        done = [name for name in self._waiting() if _batch_of(name) <= self._last]
        files.remove(*(self.directory / name for name in done), durable=False)
        self._size = 0

    def _complete(self) -> list[int]:
        """Return the batches all of whose results wait."""
        return [_batch_of(name) for name in self._waiting() if name.endswith(f"-00000{_SUFFIX}")]

    def _waiting(self) -> list[str]:
        return _waiting_in(self.directory)

    def _start_timer(self) -> None:
        if self._timer is None and self.has_timer:
            self._timer = threading.Timer(self._roll.seconds, self._on_time)
            self._timer.daemon = True
            self._timer.start()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_time(self) -> None:
        """Write what has waited long enough; the next write raises what goes wrong."""
        with self._lock:
            if self._timer is not threading.current_thread():
                return  # it was stopped at the last moment
            try:
                self._write_file()
            except OSError as error:
                self._fault = self._unwritable(error)
            except HeadraceError as error:
                self._fault = error

    def _raise(self) -> None:
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault

    def _encode(self, rows: pl.DataFrame) -> bytes:
        return Page(rows.select(self._description.columns.names)).encode()

    def _unwritable(self, error: OSError) -> SinkFault:
        return SinkFault(
            f"results cannot be written to {error.filename or self.directory}: {error.strerror}",
            hint="free space or give the right to write; then start again",
        )

    @property
    def _rolled(self) -> Path:
        return self.directory / "rolled.json"

    def _part(self, batch: int, number: int) -> Path:
        return self.directory / f"{batch:012d}-{number:05d}{_SUFFIX}"

    def _staged(self, name: str) -> Path:
        return self.directory / f"{_STAGED}{name}{_SUFFIX}"


def files_sink(query: str, connector: Connector, schema: Schema, checkpoint: Path) -> FilesSink | RollingFilesSink:
    """Return the sink that the options ask for."""
    make = RollingFilesSink if target(connector).is_rolling else FilesSink
    return make(query, connector, schema, checkpoint)


def finish_dropped(checkpoint: Path, kept: Collection[Path]) -> None:
    """Write what waits of queries that were dropped just before the process died; `kept` are those of other queries."""
    parent = checkpoint / "sinks" / "files"
    for directory in (parent / name for name in files.names(parent)):
        data = sealed.read_if_exists(directory / "sink.json")
        if directory in kept or data is None:
            continue
        try:
            description = msgspec.json.decode(data, type=Description)
        except ValueError as error:  # DecodeError is one
            raise sealed.damaged(directory / "sink.json", error) from error
        if _waiting_in(directory):
            sink = RollingFilesSink(description.query, description.connector, description.columns, checkpoint)
            sink.sweep()
            sink.close()


def _decode(path: Path) -> Page:
    try:
        return Page.decode(sealed.read(path))
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise sealed.damaged(path, error) from error


def _waiting_in(directory: Path) -> list[str]:
    """Return the names of the files with results that wait, in the order of their batches."""
    return [name for name in files.names(directory) if name.endswith(_SUFFIX) and not name.startswith(_STAGED)]


def _batch_of(name: str) -> int:
    return int(name.split("-")[0])
