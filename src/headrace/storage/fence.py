"""A storage that only the owner of a checkpoint may change: every change asks first.

A process that was stopped for a while, or lost its connection, may have been replaced meanwhile. It finds the token of
another process in `epoch.json` before it changes anything.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from headrace.errors import OwnerFault
from headrace.storage import sealed
from headrace.storage.disk import LocalDisk
from headrace.storage.storage import Storage, Tag, Write, mount, storage_of

EPOCH_FILE = "epoch.json"
#: A look is good for so many times as long as it took, where looks are slow, but for so many seconds at most.
_SLOW = 4.0
_LONGEST = 60.0


class _Token(Struct, frozen=True):
    token: str


class Claim(NamedTuple):
    """The claim of a process, or of one that works for it, to own a checkpoint."""

    directory: Path
    token: str

    def holds(self, storage: Storage) -> bool:
        """Return whether no other process has taken over."""
        try:
            data = sealed.unsealed(storage.read(self.directory / EPOCH_FILE))
            return msgspec.json.decode(data, type=_Token).token == self.token
        except (FileNotFoundError, ValueError):  # DecodeError is one
            return False


class Fenced:
    """A storage below the directory of a checkpoint, for its owner.

    Where each look costs a request, `patience` says for how many seconds the last one is good enough, or for how many
    times as long as it took, if that is more. They pass for a process that is stopped, too. Processes of one machine
    that work for the same owner tell each other in the file `note` when they looked.
    """

    def __init__(self, storage: Storage, claim: Claim, *, patience: float = 0.0) -> None:
        self.storage, self.claim, self.patience = storage, claim, patience
        self.note: Path | None = None
        self._is_lost = False
        self._good_until = 0.0  # what the last look of this process said

    def is_lost(self) -> bool:
        """Return whether another process has taken over."""
        now = time.monotonic()
        if not self._is_lost and not self._is_good(now):
            self._is_lost = not self.claim.holds(self.storage)
            if self.patience and not self._is_lost:
                self._good_until = now + max(self.patience, min(_SLOW * (time.monotonic() - now), _LONGEST))
                _write_note(self.note, self._good_until)
        return self._is_lost

    def _is_good(self, now: float) -> bool:
        """Return whether the last look is good enough, of this process or of another one that works for the owner."""
        if now >= self._good_until and self.patience:
            self._good_until = _read_note(self.note, now + _LONGEST)
        return now < self._good_until

    def check(self) -> None:
        """Raise a fault if another process has taken over."""
        if self.is_lost():
            raise owner_fault(self.claim.directory)

    def read(self, path: Path, start: int = 0) -> bytes:
        return self.storage.read(path, start)

    def exists(self, path: Path) -> bool:
        return self.storage.exists(path)

    def names(self, directory: Path) -> list[str]:
        return self.storage.names(directory)

    def read_tagged(self, path: Path) -> tuple[bytes, Tag] | None:
        return self.storage.read_tagged(path)

    def replace(self, path: Path, write: Write, *, durable: bool = True, shared: bool = False) -> None:
        self.check()
        self.storage.replace(path, write, durable=durable, shared=shared)

    def create(self, path: Path, data: bytes) -> bool:
        self.check()
        return self.storage.create(path, data)

    def swap(self, path: Path, data: bytes, tag: Tag) -> Tag | None:
        self.check()
        return self.storage.swap(path, data, tag)

    def append(self, path: Path, data: bytes, *, keep: int | None = None) -> None:
        self.check()
        self.storage.append(path, data, keep=keep)

    def read_appended(self, path: Path, start: int = 0) -> bytes:
        return self.storage.read_appended(path, start)

    def replace_appended(self, path: Path, data: bytes) -> None:
        self.check()
        self.storage.replace_appended(path, data)

    def move(self, moves: Sequence[tuple[Path, Path]]) -> None:
        self.check()
        self.storage.move(moves)

    def remove(self, paths: Iterable[Path], *, durable: bool = True) -> None:
        self.check()
        self.storage.remove(paths, durable=durable)

    def force(self, directory: Path) -> None:
        self.storage.force(directory)

    def sweep(self, directory: Path) -> int:
        self.check()
        return self.storage.sweep(directory)


def _read_note(note: Path | None, most: float) -> float:
    """Return until when a look of another process is good; 0 if there was none."""
    if note is None:
        return 0.0
    try:
        until = float(note.read_text())
    except (OSError, ValueError):  # none, or one that is being written
        return 0.0
    return until if until <= most else 0.0


def _write_note(note: Path | None, until: float) -> None:
    if note is not None:
        with suppress(OSError):  # then the others look for themselves
            LocalDisk().replace(note, lambda file: file.write(repr(until).encode()), durable=False)


def owner_fault(directory: Path) -> OwnerFault:
    """Return the fault of a process that has lost a checkpoint to another one."""
    return OwnerFault(
        f"another process has taken over the checkpoint {directory}",
        hint="let that one run, which headrace check names; this one may not change the checkpoint any more",
    )


def fence(directory: Path, token: str, *, patience: float = 0.0) -> Fenced:
    """Let this process change a checkpoint only as long as the owner with this token has it."""
    fenced = Fenced(unfenced(directory), Claim(directory, token), patience=patience)
    mount(directory, fenced)
    return fenced


def mount_below(directory: Path, storage: Storage) -> None:
    """Let a storage hold a checkpoint, behind the fence if there is one; it must not give an old `epoch.json`."""
    above = storage_of(directory)
    if isinstance(above, Fenced):
        above.storage = storage
    else:
        mount(directory, storage)


def unfenced(directory: Path) -> Storage:
    """Return the storage that holds a checkpoint, for those whose changes are harmless whoever owns it."""
    storage = storage_of(directory)
    return storage.storage if isinstance(storage, Fenced) else storage


def claim_to(directory: Path) -> Claim | None:
    """Return the claim of this process to a checkpoint; None if it has none, or nobody else can know the directory."""
    storage = storage_of(directory)
    return storage.claim if isinstance(storage, Fenced) else None


def check_owner(directory: Path) -> None:
    """Raise a fault if this process has owned a checkpoint, and another has taken it over."""
    storage = storage_of(directory)
    if isinstance(storage, Fenced):
        storage.check()


def is_lost(directory: Path) -> bool:
    """Return whether another process is known to have taken over a checkpoint that this process has owned."""
    storage = storage_of(directory)
    try:
        return isinstance(storage, Fenced) and storage.is_lost()
    except OSError:  # the store does not answer
        return False


def is_kept(directory: Path) -> bool:
    """Return whether this process is known to own a checkpoint still, or nobody else can know of it."""
    storage = storage_of(directory)
    try:
        return not isinstance(storage, Fenced) or not storage.is_lost()
    except OSError:  # the store does not answer
        return False
