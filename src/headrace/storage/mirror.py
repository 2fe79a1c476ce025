"""Copies on the local disk of the small files of a checkpoint in an object store.

The owner of a checkpoint and the process that plans its micro-batches ask for the same few files many times a second:
whether there is a new command, how far the last micro-batch came. Both are on one machine, and nobody else writes these
files. So the one that writes a file leaves a copy, and a copy that is there is as good as the file.

What is not copied yet is read from the store and then copied, but never over a copy that came meanwhile, which is
newer. A file that was not there is not asked for again: whoever writes it leaves a copy.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from headrace.storage import requests
from headrace.storage.disk import LocalDisk
from headrace.storage.fence import EPOCH_FILE, Fenced, unfenced
from headrace.storage.location import ObjectPath, located
from headrace.storage.requests import Requests
from headrace.storage.scratch import scratch_of
from headrace.storage.storage import OBJECTS, Storage, Tag, Write, storage_of

#: The folder of small files.
_COMMANDS = "commands"
#: A look at the owner of a checkpoint is good for so many seconds: each is a request. What a process that was replaced
#: does meanwhile is a micro-batch that its follower repeats, and its note of progress is refused.
PATIENCE = 1.0
#: How the folder with the copies of one owner is named.
_COPIES = "copies-"
#: The file beside the copies that says how long the last look at the owner is good.
_LOOKED = "looked"
#: The file beside the copies that says how many requests the other process has made.
_REQUESTS = "requests"


def mirror(checkpoint: Path) -> None:
    """Keep copies for the owner of a checkpoint, if it is in an object store; those of earlier owners go."""
    place, storage = located(checkpoint), storage_of(checkpoint)
    if isinstance(place, ObjectPath) and isinstance(storage, Fenced):
        folder = scratch_of(place)
        for old in folder.glob(f"{_COPIES}*"):
            shutil.rmtree(old, ignore_errors=True)
        _keep(storage, place, Path(tempfile.mkdtemp(prefix=_COPIES, dir=folder)))


def end_mirror(checkpoint: Path) -> None:
    """Keep no more copies."""
    storage, copies = storage_of(checkpoint), copies_of(checkpoint)
    if isinstance(storage, Fenced) and copies:
        storage.storage, storage.note = OBJECTS, None
        shutil.rmtree(copies, ignore_errors=True)


def copies_of(checkpoint: Path) -> str:
    """Return where this process keeps the copies of a checkpoint, for `share_mirror`; an empty text if nowhere."""
    storage = unfenced(checkpoint)
    return str(storage.copies) if isinstance(storage, Mirror) else ""


def share_mirror(checkpoint: Path, copies: str) -> None:
    """Use the copies that another process of this machine keeps; this one is behind the same fence."""
    place, storage = located(checkpoint), storage_of(checkpoint)
    if copies and isinstance(place, ObjectPath) and isinstance(storage, Fenced):
        _keep(storage, place, Path(copies))


def _keep(storage: Fenced, place: ObjectPath, copies: Path) -> None:
    storage.storage = Mirror(place, copies, OBJECTS)
    storage.patience, storage.note = PATIENCE, copies / _LOOKED


def leave_requests(checkpoint: Path) -> None:
    """Leave what this process has counted of its requests beside the copies that it shares with the owner."""
    storage = unfenced(checkpoint)
    if isinstance(storage, Mirror) and storage.told != (counted := OBJECTS.counted):
        storage.told = counted
        requests.leave(storage.copies / _REQUESTS, counted)


def left_requests(checkpoint: Path) -> dict[str, Requests]:
    """Return what the process that shares the copies of this one has counted of its requests."""
    storage = unfenced(checkpoint)
    return requests.left(storage.copies / _REQUESTS) if isinstance(storage, Mirror) else {}


class Mirror:
    """A storage for one checkpoint: the small files also on the local disk, all others in the store only."""

    def __init__(self, checkpoint: ObjectPath, copies: Path, store: Storage) -> None:
        self.copies = copies
        self.told: dict[str, Requests] = {}  # that this process has counted
        self._checkpoint = checkpoint
        self._store = store
        self._disk = LocalDisk()
        self._absent: set[Path] = set()
        self._swapped: dict[Path, tuple[bytes, Tag]] = {}  # as written here

    def read(self, path: Path, start: int = 0) -> bytes:
        copy = self._copy(path)
        if copy is None:
            return self._store.read(path, start)
        try:
            return self._disk.read(copy, start)
        except FileNotFoundError:
            if path in self._absent:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
        try:
            data = self._store.read(path)
        except FileNotFoundError:
            self._absent.add(path)
            if not self._disk.exists(copy):  # it may have been written meanwhile
                raise
            return self._disk.read(copy, start)
        self._disk.create(copy, data)
        return self._disk.read(copy, start)

    def exists(self, path: Path) -> bool:
        if self._copy(path) is None:
            return self._store.exists(path)
        try:
            self.read(path)
        except FileNotFoundError:
            return False
        return True

    def replace(self, path: Path, write: Write, *, durable: bool = True, shared: bool = False) -> None:
        copy = self._copy(path)
        if copy is None:
            self._store.replace(path, write, durable=durable, shared=shared)
            return
        file = io.BytesIO()
        write(file)
        data = file.getvalue()
        self._swapped.pop(path, None)
        self._store.replace(path, lambda file: file.write(data))
        self._disk.replace(copy, lambda file: file.write(data), durable=False)

    def remove(self, paths: Iterable[Path], *, durable: bool = True) -> None:
        paths = list(paths)
        self._store.remove(paths, durable=durable)
        self._disk.remove([copy for path in paths if (copy := self._copy(path)) is not None], durable=False)

    def names(self, directory: Path) -> list[str]:
        return self._store.names(directory)

    def create(self, path: Path, data: bytes) -> bool:
        is_new, copy = self._store.create(path, data), self._copy(path)
        if is_new and copy is not None:
            self._disk.replace(copy, lambda file: file.write(data), durable=False)
        return is_new

    def read_tagged(self, path: Path) -> tuple[bytes, Tag] | None:
        # if another process has changed it since, the swap with this tag fails
        return self._swapped.get(path) or self._store.read_tagged(path)

    def swap(self, path: Path, data: bytes, tag: Tag) -> Tag | None:
        self._swapped.pop(path, None)
        after, copy = self._store.swap(path, data, tag), self._copy(path)
        if after is not None and copy is not None:
            self._disk.replace(copy, lambda file: file.write(data), durable=False)
            self._swapped[path] = data, after
        return after

    def append(self, path: Path, data: bytes, *, keep: int | None = None) -> None:
        self._store.append(path, data, keep=keep)

    def read_appended(self, path: Path, start: int = 0) -> bytes:
        return self._store.read_appended(path, start)

    def replace_appended(self, path: Path, data: bytes) -> None:
        self._store.replace_appended(path, data)

    def move(self, moves: Sequence[tuple[Path, Path]]) -> None:
        self._store.move(moves)

    def force(self, directory: Path) -> None:
        self._store.force(directory)

    def sweep(self, directory: Path) -> int:
        return self._store.sweep(directory)

    def _copy(self, path: Path) -> Path | None:
        """Return where the copy of a small file is; None for other files."""
        parts = located(path).parts[len(self._checkpoint.parts) :]
        is_small = len(parts) == 1 or (len(parts) == 2 and parts[0] == _COMMANDS)
        is_small = is_small and parts[-1].endswith(".json") and parts[-1] != EPOCH_FILE  # others write that one
        return self.copies.joinpath(*parts) if is_small else None
