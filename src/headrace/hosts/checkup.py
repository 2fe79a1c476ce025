"""A look at a checkpoint: what it holds, what runs in it, and whether it can be continued. Nothing is changed.

It works beside the owner of the checkpoint, whose files come and go meanwhile. What is wrong then is looked at again:
only what is wrong each time is a problem.
"""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from headrace.catalog.definitions import Connector
from headrace.catalog.journal import Entry, Journal
from headrace.commands.command import AddQuery
from headrace.commands.log import CommandLog
from headrace.commands.running import Running
from headrace.connectors.files.sink import staged_in
from headrace.connectors.spool import Spool, Spooled, stream_spool
from headrace.control.decision_log import DecisionLog
from headrace.control.migration_log import MigrationLog
from headrace.driver.bucket_numbers import check_kept
from headrace.driver.exchanges import check_parts
from headrace.driver.offset import START, ExchangeAt, Offset
from headrace.driver.progress import read_progress
from headrace.errors import HeadraceError
from headrace.hosts.local import read_saved
from headrace.hosts.spark.offset_log import read_logs, read_offset
from headrace.model.page import Page
from headrace.storage import files, sealed
from headrace.storage.backup import HIDDEN
from headrace.storage.format import FORMAT, can_be_read, check_exists, format_of
from headrace.storage.lines import LineFile
from headrace.storage.location import ObjectPath, located
from headrace.storage.owner import owner_of
from headrace.storage.reading import open_to_read
from headrace.storage.storage import OBJECTS

#: Streams whose rows wait in a spool.
_SPOOLED = ("MEMORY", "SPARK", "RAISED", "FAILURES", "SYSTEM")
#: How often to look at what is wrong in a checkpoint that is in use.
_LOOKS = 3
#: What a SELECT without a name is called, which is in no catalog.
_UNDEFINED = re.compile(r"select_[0-9a-f]{8}(_\d+)?")
#: So many definitions that are lost are named.
_NAMED = 5
_CRC_HEADER = b"crc\0"
_T = TypeVar("_T")


class QueryState(Struct, frozen=True):
    """A query or a rule, whether it is on, and where its results go."""

    name: str
    kind: str
    state: str
    sinks: tuple[str, ...]


class Size(Struct, frozen=True):
    """The files of a part of a checkpoint."""

    files: int
    bytes: int


class Checkup(Struct, frozen=True, kw_only=True):
    """What a checkpoint holds; it can be continued if there are no problems."""

    checkpoint: str
    format: int | None
    host: str | None  # spark or local; None: nothing has run
    owner: str | None  # the process that has it, or had it last
    in_use: bool
    changed: float  # when a file was last written, in seconds of the epoch
    definitions: int
    queries: tuple[QueryState, ...]
    draining: bool
    ended: bool
    commands: int
    snapshot: int  # so many of the commands are in a snapshot
    committed: int | None  # the last micro-batch that is done
    repeated: int | None  # the micro-batch that is run again at the next start
    streams: dict[str, object]  # how far each stream is read
    sizes: dict[str, Size]
    leftovers: tuple[str, ...]  # of processes that died; they do no harm
    problems: tuple[str, ...]


def check_up(directory: Path) -> Checkup:
    """Look at a checkpoint; raise a fault if there is none."""
    directory = located(directory)
    check_exists(directory)
    checkup = _Look(directory).checkup()
    for _ in range(_LOOKS - 1):
        if not (checkup.in_use and checkup.problems):
            break
        again = _Look(directory).checkup()
        constant = tuple(problem for problem in again.problems if problem in checkup.problems)
        checkup = msgspec.structs.replace(again, problems=constant)
    return checkup


class _Look:
    """One look at a checkpoint."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.problems: list[str] = []

    def checkup(self) -> Checkup:
        owner, in_use = owner_of(self.directory)
        number = self._try(lambda: format_of(self.directory))
        if number is not None and not can_be_read(number):
            self.problems.append(f"it has format {number}, and this version of Headrace reads format {FORMAT}")
        entries = self._try(Journal(self.directory / "catalog.jsonl").read)
        log = CommandLog(self.directory / "commands")
        known = self._try(log.count)
        commands = 0 if known is None else known
        running = self._try(lambda: log.running(commands, Running())) if known else None
        running = running or Running()
        if entries is not None:
            self._check_definitions(entries, running)
        progress = self._try(lambda: read_progress(self.directory), self.directory / "progress.json")
        host, committed, repeated, start, offset = self._offsets()
        if host == "spark":
            self._try(lambda: check_kept(self.directory))
        if known is not None:
            self._check_numbers(commands)
            self._check_offset(start, offset, log, commands, running)
        if progress is not None and not progress.ended:
            for origin, names in (progress.parts or {}).items():
                self._try(partial(check_parts, origin, ExchangeAt(), ExchangeAt(parts=names), self.directory))
        sizes, changed, hidden = self._files()
        return Checkup(
            checkpoint=str(self.directory),
            format=number,
            host=host,
            owner=None if owner is None else str(owner),
            in_use=in_use,
            changed=changed,
            definitions=len({entry.definition.name for entry in entries or () if entry.definition is not None}),
            queries=tuple(_states(running)),
            draining=running.draining,
            ended=progress is not None and progress.ended,
            commands=commands,
            snapshot=0 if known is None else log.snapshot(),
            committed=committed,
            repeated=repeated,
            streams={name: stream.at for name, stream in offset.streams.items()},
            sizes=sizes,
            leftovers=(*hidden, *self._staged(running)),
            problems=tuple(self.problems),
        )

    def _try(self, look: Callable[[], _T], path: Path | None = None) -> _T | None:
        """Return what a look gives; None if something is wrong, with the file at `path`: that is a problem."""
        try:
            return look()
        except HeadraceError as error:
            self.problems.append(error.message)
        except OSError as error:
            self.problems.append(f"{error.filename or self.directory} cannot be read: {error.strerror}")
        except (ValueError, zipfile.BadZipFile) as error:
            self.problems.append(str(error) if path is None else f"{path} is damaged: {error}")
        return None

    def _check_definitions(self, entries: Sequence[Entry], running: Running) -> None:
        """Find queries and rules that run without a definition: it is written before the command that adds them."""
        defined = {entry.definition.name.lower() for entry in entries if entry.definition is not None}
        kept = [query.query for query in running.known if not _UNDEFINED.fullmatch(query.query)]
        lost = [name for name in kept if name.lower() not in defined]
        if lost:
            named = ", ".join(lost[:_NAMED]) + (", ..." if len(lost) > _NAMED else "")
            self.problems.append(
                f"{self.directory / 'catalog.jsonl'} is missing, or older than the command log: it does not define "
                f"{named}. Queries go on without it, but their streams and tables are unknown: restore it from a copy, "
                "or run the statements that created them again"
            )

    def _check_numbers(self, commands: int) -> None:
        """Find files of commands behind a gap."""
        names = files.names(self.directory / "commands")
        beyond = [name for name in names if name.removesuffix(".json").isdigit() and int(name[:-5]) >= commands]
        if beyond:
            self.problems.append(
                f"commands/{commands:08d}.json is missing: there are later files of commands, such as {beyond[0]}"
            )

    def _offsets(self) -> tuple[str | None, int | None, int | None, Offset, Offset]:
        """Return the host, the micro-batches that are done and to be repeated, and the offsets around the latter."""
        path, spark = self.directory / "local.msgpack", self.directory / "spark"
        if files.exists(path):
            saved = self._try(lambda: read_saved(path))
            if saved is None:
                return "local", None, None, START, START
            return "local", saved.batch - 1, None, saved.offset, saved.offset
        logs = read_logs(spark)
        if logs.planned is None:
            return ("spark" if "spark" in files.names(self.directory) else None), None, None, START, START
        planned, done = logs.planned, -1 if logs.committed is None else logs.committed
        if not done <= planned <= done + 1:
            self.problems.append(
                f"Spark has planned micro-batch {planned} and committed {done}: files in {spark} are missing"
            )
        end = self._try(lambda: read_offset(spark, planned))
        start = self._try(lambda: read_offset(spark, planned - 1)) if planned > done else end
        if start is None or end is None:
            start = end = START
        return "spark", logs.committed, planned if planned > done else None, start, end

    def _check_offset(self, start: Offset, end: Offset, log: CommandLog, commands: int, running: Running) -> None:
        """Compare offsets with the command log, and with the rows that a repeated micro-batch reads."""
        if end.commands > commands:
            self.problems.append(
                f"micro-batches were planned with {end.commands} commands, and there are {commands}: "
                f"{self.directory / 'commands'} is older than the offsets"
            )
            return
        self._try(lambda: log.between(start.commands, end.commands))
        kinds = {stream.name: stream.connector.kind for query in running.known for stream in query.streams}
        for name, stream in end.streams.items():
            before = start.streams.get(name)
            if kinds.get(name) in _SPOOLED and before is not None and before.at != stream.at:
                self._check_spool(stream_spool(name, self.directory), before.at, stream.at)
        for origin, exchange in end.exchanges.items():
            sent = start.exchanges.get(origin)
            if sent is not None and sent.at != exchange.at:
                self._try(partial(check_parts, origin, sent, exchange, self.directory))

    def _check_spool(self, spool: Spool, start: object, end: object) -> None:
        self._try(lambda: spool.between(start, end))

    def _files(self) -> tuple[dict[str, Size], float, list[str]]:
        """Read all files; return sizes by part, the time of the last change, and what is left of dead processes."""
        sizes: dict[str, Size] = {}
        changed, leftovers = 0.0, []
        for path, length, time in _walk(self.directory):
            where = Path(*path.parts[len(self.directory.parts) :])
            size = sizes.get(where.parts[0], Size(0, 0))
            sizes[where.parts[0]] = Size(size.files + 1, size.bytes + length)
            changed = max(changed, time)
            if HIDDEN.fullmatch(path.name) or str(where) == "writable":
                leftovers.append(str(where))
            elif where.suffix == "" and where.parent.suffix == ".jsonl":
                if path.name.endswith(f"-{0:016d}"):  # the first of its segments; all are read together
                    self._try(partial(self._check_file, path.parent, where.parent))
            elif where.parts[0] != "cache":
                self._try(partial(self._check_file, path, where))
        return dict(sorted(sizes.items())), changed, leftovers

    def _check_file(self, path: Path, where: Path) -> None:
        """Raise what is wrong with a file; those that others have decoded are left out."""
        try:
            if where.parts[0] == "spark":
                _check_spark(path)
            elif path.suffix == ".arrow":
                _check_arrow(path)
            elif path.suffix == ".jsonl" and where.parts[0] == "sources":
                _check_lines(path)
            elif str(where) == "decisions.jsonl":
                DecisionLog(self.directory).all()
            elif str(where) == "migrations.jsonl":
                MigrationLog(self.directory).all()
            elif str(where) == "buckets.json":
                msgspec.json.decode(sealed.read(path), type=list[int])
            elif where.parts[0] == "calls":
                msgspec.msgpack.decode(sealed.read(path))
        except FileNotFoundError:
            return  # its owner has deleted it
        except (msgspec.DecodeError, UnicodeDecodeError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} is damaged: {error}") from error

    def _staged(self, running: Running) -> Iterator[str]:
        """Yield what tasks staged in the directories of FILES sinks."""
        for sink in dict.fromkeys(_files_sinks(running)):
            yield from map(str, self._try(partial(staged_in, sink)) or [])


def _walk(directory: Path) -> Iterator[tuple[Path, int, float]]:
    """Yield all files below a directory, with the size of each and the time of its last change."""
    if isinstance(directory, ObjectPath):
        for listed in OBJECTS.listing(directory):
            yield listed.path, listed.size, listed.changed.timestamp()
        return
    for folder, _, names in os.walk(directory):
        for path in (Path(folder) / name for name in sorted(names)):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue  # its owner has deleted it
            yield path, status.st_size, status.st_mtime


def _states(running: Running) -> Iterator[QueryState]:
    """Yield what each query does."""
    for queries, state in ((running.queries, "on"), (running.ending, "ending"), (running.stopped, "off")):
        for query in queries:
            yield QueryState(query.query, _kind(query), state, tuple(map(_sink_text, query.sinks)))
    for failed in running.failed:
        sinks = tuple(map(_sink_text, failed.added.sinks))
        yield QueryState(failed.query, _kind(failed.added), f"failed: {failed.reason}", sinks)


def _kind(query: AddQuery) -> str:
    return "query" if query.reaction is None else "rule" if query.reaction.enabled else "disabled rule"


def _sink_text(sink: Connector) -> str:
    place = sink.options.get("path") or sink.options.get("topic") or sink.options.get("table")
    return sink.kind if place is None else f"{sink.kind} {place}"


def _files_sinks(running: Running) -> Iterator[str]:
    for query in running.added:
        for sink in query.sinks:
            if sink.kind == "FILES" and "path" in sink.options:
                yield str(sink.options["path"])


def _check_arrow(path: Path) -> None:
    """Raise a ValueError unless a file holds rows, as many as its name says if it says so."""
    data = sealed.read(path)
    spooled = Spooled.named(path.name) if path.parent.parent.name in ("sources", "exchange") else None
    expected = spooled.rows if spooled is not None else None
    if expected == 0:
        return  # it only keeps a number
    if spooled is not None and spooled.writer == "list":
        Spool(path.parent).parts(spooled)
        return
    try:
        rows = len(Page.decode(data))
    except Exception as error:  # the reader of Arrow files has many
        raise ValueError(f"{path} is damaged: {error}") from error
    if expected is not None and rows != expected:
        raise ValueError(f"{path} has {rows} rows instead of {expected}")


def _check_lines(path: Path) -> None:
    """Raise what is wrong with a file unless each of its complete lines is JSON."""
    for number, line in enumerate(LineFile(path).read_all(), 1):
        try:
            msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"line {number} of {path} is damaged: {error}") from error


def _check_spark(path: Path) -> None:
    """Raise a ValueError if a file of Spark's differs from its checksum, or is a damaged archive."""
    if path.suffix == ".zip":
        with open_to_read(path) as file, zipfile.ZipFile(file) as archive:
            damaged = archive.testzip()
        if damaged is not None:
            raise ValueError(f"{path} is damaged: {damaged} in it differs from its checksum")
    if isinstance(path, ObjectPath) or path.suffix == ".crc":
        return  # a store has checksums of its own
    if not (sums := path.with_name(f".{path.name}.crc")).exists():
        return
    expected, data = files.read(sums), files.read(path)
    if not expected.startswith(_CRC_HEADER):
        return
    step = int.from_bytes(expected[4:8], "big")
    actual = b"".join(zlib.crc32(data[at : at + step]).to_bytes(4, "big") for at in range(0, len(data), step))
    if actual != expected[8:]:
        raise ValueError(f"{path} is damaged: it differs from its checksum")
