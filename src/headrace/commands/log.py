"""The durable log of commands: numbered files, each with the commands that take effect together.

The number of commands is part of the source's offset, so a restart replays them at the same place. A file has the
number of its first command; a micro-batch sees all commands of a file or none.

Commands that no micro-batch repeats need not be kept: a snapshot says what was in force after them, and stands for
them. It is on disk before the first of their files is deleted, so a file that is missing either has a later snapshot or
was never written.
"""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec

from headrace.commands.command import AddQuery, Command, FailQuery, UseTable, decode_commands, encode_commands
from headrace.commands.repairs import Repair, read_repairs, repaired, repaired_state
from headrace.commands.running import Running
from headrace.commands.tables import sweep_tables, tables_in, with_kept_tables
from headrace.errors import HostFault, OwnerFault
from headrace.storage import contents, files, sealed

#: A snapshot is taken after so many commands.
SNAPSHOT_EVERY = 256
_SNAPSHOT = "snapshot-"
_decoder = msgspec.json.Decoder(Running)


class CommandLog:
    """Numbered files in a directory; a command exists once its file has its final name.

    One process appends, another may take snapshots, and any may read. What one process has in memory is bounded as the
    files are.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._base: Running | None = None  # what was in force before the commands that are kept; None: not read yet
        self._kept: list[Command] = []
        self._newest: Path | None = None  # the last file that was read
        self._repairs: tuple[Repair, ...] = ()
        self._assumed: tuple[Repair, ...] | None = None
        # with so many commands in memory, look for a snapshot that stands for some
        self._next_look = 2 * SNAPSHOT_EVERY
        self._lock = threading.RLock()  # users and micro-batches of one process send commands

    def append(self, *commands: Command) -> int:
        """Append commands durably, all or none, and return how many there are now."""
        try:
            with self._lock:
                count = self.count()
                commands = tuple(with_kept_tables(command, self.directory.parent) for command in commands)
                if commands and not sealed.create(self._path(count), encode_commands(commands)):
                    raise OwnerFault(
                        f"another process has added commands to {self.directory}", hint="let only one of them run"
                    )
        except OSError as error:
            raise HostFault(
                f"cannot write the command log in {self.directory}: {error.strerror}",
                hint="choose a writable --checkpoint",
            ) from error
        return count + len(commands)

    def count(self) -> int:
        """Return how many commands there are."""
        with self._lock:
            self._read(None)
            return self._end

    def snapshot(self) -> int:
        """Return for how many commands the newest snapshot stands."""
        with self._lock:
            self._read(0)
            return self._first.commands

    def between(self, start: int, end: int) -> list[Command]:
        """Return the commands after the first `start`, up to number `end`; raise a fault if one of them is missing."""
        with self._lock:
            self._read(end)
            first = self._first.commands
            if start < first:
                raise self._gone(start)
            return self._kept[start - first : end - first]

    def running(self, count: int, known: Running) -> Running:
        """Return what is in force after `count` commands; `known` is what was after some of them, or after more."""
        with self._lock:
            self._read(count)
            if not self._first.commands <= known.commands <= count:
                known = self._first
            if known.commands > count:
                raise self._gone(count)
            for command in self.between(known.commands, count):
                known = known.after(command)
            return known

    def assume(self, repairs: tuple[Repair, ...]) -> None:
        """Take over the repairs that another process has read, instead of reading them."""
        with self._lock:
            self._assumed = repairs

    def repairs(self) -> tuple[Repair, ...]:
        """Return the repairs; what was read before they changed must be read again."""
        with self._lock:
            repairs = self._read_repairs()
            if repairs != self._repairs:
                self._repairs, self._base, self._kept = repairs, None, []
            return repairs

    def known_queries(self) -> set[str]:
        """Return the names of all queries that a micro-batch which is repeated may have."""
        with self._lock:
            self._read(None)
            added = {command.query for command in self._kept if isinstance(command, AddQuery)}
            added |= {command.added.query for command in self._kept if isinstance(command, FailQuery)}
            return added | {query.query for query in self._first.added}

    def settle(self, running: Running) -> None:
        """Let a snapshot stand for the commands of `running`, which no micro-batch repeats, once they are many."""
        with self._lock:
            self._read(running.commands)
            number = running.commands
            if number - self._first.commands < SNAPSHOT_EVERY:
                return
            running = repaired_state(running, self._repairs)
            try:
                sealed.replace(self._snapshot(number), msgspec.json.encode(running))
            except OSError as error:
                raise HostFault(
                    f"cannot write the command log in {self.directory}: {error.strerror}", hint="free space on the disk"
                ) from error
            names = files.names(self.directory)
            stale = [name for name in names if _number(name) < number]
            # one that comes back after a power cut is removed the next time
            files.remove(*(self.directory / name for name in stale), durable=False)
            self._begin_with(running)

    def use_table(self, key: str, rows: bytes, known: Running) -> None:
        """Send a version of a table, unless it is in force after all commands; `known` is what was after some."""
        with self._lock:  # a query that is added at the same time brings rows, too
            digest = contents.keep(tables_in(self.directory.parent), rows)
            if self.running(self.count(), known).tables.get(key, digest) != digest:
                self.append(UseTable(key, digest))

    def sweep_tables(self, running: Running) -> None:
        """Delete tables that neither `running` names nor a later command; no earlier micro-batch is repeated."""
        with self._lock:  # so that nobody names one of them meanwhile
            later = self.between(running.commands, self.count())
            sweep_tables(self.directory.parent, lambda: [msgspec.json.encode(running), encode_commands(later)])

    @property
    def _first(self) -> Running:
        """What was in force before the commands that are kept."""
        return self._base or Running()

    @property
    def _end(self) -> int:
        return self._first.commands + len(self._kept)

    def _read(self, count: int | None) -> None:
        """Read on until `count` commands are known (None: all)."""
        if self._base is None:
            self._repairs = self._read_repairs()
            self._base = Running()
            self._skip()
        while count is None or self._end < count:
            path = self._path(self._end)
            data = sealed.read_if_exists(path)
            if data is not None:
                first, self._newest = self._end, path
                self._kept += [
                    repaired(command, first + place, self._repairs) for place, command in enumerate(_decode(data, path))
                ]
            elif self._is_there(self._newest) or not self._skip():  # else a snapshot stands for it
                if count is None:
                    break
                raise HostFault(f"{path} is missing", hint="restore the checkpoint folder from a copy")
        if len(self._kept) >= self._next_look:
            self._next_look = len(self._kept) + SNAPSHOT_EVERY
            self._skip()

    def _read_repairs(self) -> tuple[Repair, ...]:
        return read_repairs(self.directory) if self._assumed is None else self._assumed

    def _is_there(self, path: Path | None) -> bool:
        """Return whether a file still exists; then those behind it have not been deleted: the oldest goes first."""
        return path is not None and files.exists(path)

    def _skip(self) -> bool:
        """Begin with the newest snapshot; return whether it stands for commands that are not known here."""
        end = self._end
        while True:
            number = max(map(_snapshot_number, files.names(self.directory)), default=0)
            if number <= self._first.commands:
                return False
            path = self._snapshot(number)
            data = sealed.read_if_exists(path)
            if data is not None:
                break  # else a newer one has just taken its place
        try:
            self._begin_with(repaired_state(_decoder.decode(data), self._repairs))
        except ValueError as error:  # DecodeError is one
            raise HostFault(f"{path} is damaged: {error}", hint="restore the checkpoint folder from a copy") from error
        return self._end > end

    def _begin_with(self, base: Running) -> None:
        self._kept = self._kept[base.commands - self._first.commands :]
        self._base = base
        self._next_look = max(2 * SNAPSHOT_EVERY, len(self._kept) + SNAPSHOT_EVERY)

    def _gone(self, number: int) -> HostFault:
        return HostFault(
            f"command {number} in {self.directory} is not kept any more: a snapshot stands for the first "
            f"{self._first.commands}",
            hint="Spark's files in the checkpoint are older than the command log; restore all of it from one copy",
        )

    def _path(self, number: int) -> Path:
        return self.directory / f"{number:08d}.json"

    def _snapshot(self, number: int) -> Path:
        return self.directory / f"{_SNAPSHOT}{number:08d}.json"


def _number(name: str) -> int:
    """Return the number in the name of a file of commands or a snapshot; infinitely many if it is another file."""
    digits = name.removeprefix(_SNAPSHOT).removesuffix(".json")
    return int(digits) if digits.isdigit() else 1 << 62


def _snapshot_number(name: str) -> int:
    """Return how many commands a snapshot stands for; 0 if a file is none."""
    return _number(name) if name.startswith(_SNAPSHOT) and _number(name) < 1 << 62 else 0


def _decode(data: bytes, path: Path) -> list[Command]:
    try:
        return decode_commands(data)
    except ValueError as error:  # DecodeError is one
        raise HostFault(f"{path} is damaged: {error}", hint="restore the checkpoint folder from a copy") from error
