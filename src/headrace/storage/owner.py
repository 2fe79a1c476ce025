"""The owner of a checkpoint: the one process that may change it.

On one machine the operating system holds a lock and releases it when the process ends, however it ends. Whoever only
reads needs none. The file says who has it, for the error message; it stays when the lock is released.

On several machines no lock says whether a process has ended. There the owner is the process whose token is in
`epoch.json`. It is swapped: of several processes that take a checkpoint at the same time, one gets it. A process that
has lost it notices that before its next change (`storage.fence`), so taking over is safe even if the old owner still
runs. A newcomer asks the user first, because two processes should not take a checkpoint from each other for ever.
"""

from __future__ import annotations

import datetime
import fcntl
import os
import secrets
import socket
import sys
import weakref
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from headrace.errors import HostFault, OwnerFault
from headrace.storage import files, sealed
from headrace.storage.disk import make_directory
from headrace.storage.fence import EPOCH_FILE, Fenced, fence
from headrace.storage.file_systems import is_of_one_machine
from headrace.storage.location import ObjectPath
from headrace.storage.scratch import scratch_of
from headrace.storage.storage import unmount

OWNER_FILE = "owner.json"


class Owner(Struct, frozen=True):
    """A process that has, or had, a checkpoint."""

    pid: int
    machine: str
    command: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.machine} ({self.command})"


class Epoch(Struct, frozen=True, kw_only=True):
    """The time in which one process owns a checkpoint; they are numbered."""

    number: int
    token: str  # of this epoch and no other
    owner: Owner
    since: str
    is_released: bool = False


class Ownership:
    """The right to change one checkpoint, taken at the first change and held until it is released, or the process ends.

    Only processes of this machine know a `private` directory. With `take_over`, a checkpoint is taken from a process of
    another machine that did not release it.
    """

    def __init__(self, directory: Path, *, is_private: bool = False, take_over: bool = False) -> None:
        self._directory = directory
        self._is_private, self._take_over = is_private, take_over
        self._close: weakref.finalize[..., Ownership] | None = None  # of the file whose lock we hold
        self._epoch: Epoch | None = None
        self._fence: Fenced | None = None

    def take(self) -> bool:
        """Take it; return whether it was not ours before. Raise a fault that names another owner."""
        if self._close is not None:
            if self._fence is not None:
                self._fence.check()
            return False
        owner = Owner(os.getpid(), socket.gethostname(), _command())
        self._lock(owner)
        if not self._is_private:
            try:
                self._begin(owner)
            except OSError as error:
                self.abandon()
                raise self._unwritable(error) from error
            except BaseException:
                self.abandon()
                raise
        return True

    def release(self) -> None:
        """Let others take it."""
        if self._epoch is not None:
            with suppress(OSError, OwnerFault):  # else the next one must be told to take over
                known = files.read_tagged(self._path)
                released = msgspec.structs.replace(self._epoch, is_released=True)
                if known is not None and _decode_epoch(known[0]) == self._epoch:
                    files.swap(self._path, _encode(released), known[1])
        self.abandon()

    def abandon(self) -> None:
        """End as a process does that is killed."""
        if self._fence is not None:
            unmount(self._directory, self._fence)
        self._fence = self._epoch = None
        if self._close is not None:
            self._close()
            self._close = None

    @property
    def _path(self) -> Path:
        return self._directory / EPOCH_FILE

    def _lock(self, owner: Owner) -> None:
        try:
            folder = scratch_of(self._directory)  # a store has no locks: this one is for the processes of a machine
            make_directory(folder)
            file = os.open(folder / OWNER_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise self._unwritable(error) from error
        if not lock(file):
            other = _decode(os.read(file, 4096))
            os.close(file)
            served = _served_at(folder)
            if served is not None:
                raise HostFault(
                    f"the checkpoint {self._directory} is served at {served} by {other or 'another process'}",
                    hint=f"headrace sql --checkpoint {self._directory} connects to it, headrace stop ends it",
                )
            raise HostFault(
                f"the checkpoint {self._directory} is in use by {other or 'another process'}",
                hint="stop that process first, or use another checkpoint; SHOW, DESCRIBE and EXPLAIN work beside it",
            )
        os.ftruncate(file, 0)
        os.pwrite(file, msgspec.json.encode(owner), 0)
        self._close = weakref.finalize(self, os.close, file)

    def _unwritable(self, error: OSError) -> HostFault:
        return HostFault(
            f"cannot write the checkpoint {self._directory}: {error.strerror}",
            hint="free space, or choose a writable directory",
        )

    def _begin(self, owner: Owner) -> None:
        """Begin an epoch, and let nobody of this process change the checkpoint after it."""
        known = files.read_tagged(self._path)
        last = None if known is None else _decode_epoch(known[0])
        if last is not None and not self._may_follow(last, owner):
            raise HostFault(
                f"the checkpoint {self._directory} belongs to {last.owner} since {last.since}",
                hint="stop that process; if it has ended without releasing the checkpoint, or its machine is lost, "
                "run the same command with --take-over",
            )
        epoch = Epoch(
            number=1 + (0 if last is None else last.number),
            token=secrets.token_hex(16),
            owner=owner,
            since=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        )
        data = _encode(epoch)
        is_ours = files.create(self._path, data) if known is None else files.swap(self._path, data, known[1])
        if not is_ours:
            raise HostFault(f"another process has just taken the checkpoint {self._directory}", hint="stop one of them")
        self._epoch, self._fence = epoch, fence(self._directory, epoch.token)

    def _may_follow(self, last: Epoch, owner: Owner) -> bool:
        """Return whether the owner of an epoch has ended, or may go on in vain; we have the lock of this machine."""
        return (
            last.is_released
            or self._take_over
            or last.owner.machine == owner.machine
            or (not isinstance(self._directory, ObjectPath) and is_of_one_machine(self._directory))
        )


def lock(file: int) -> bool:
    """Lock an open file; return whether no other process had locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def epoch_of(directory: Path) -> Epoch | None:
    """Return the last epoch of a checkpoint; None if there was none, or it is damaged."""
    data = files.read_if_exists(directory / EPOCH_FILE)
    return None if data is None else _decode_epoch(data)


def owner_of(directory: Path) -> tuple[Owner | None, bool]:
    """Return the process that has a checkpoint, or had it last, and whether it has it now; takes nothing."""
    try:
        file = os.open(scratch_of(directory) / OWNER_FILE, os.O_RDONLY)
    except OSError:
        return None, False
    try:
        owner = _decode(os.read(file, 4096))
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return owner, True
        return owner, False
    finally:
        os.close(file)


def _served_at(folder: Path) -> str | None:
    """Return the address of the server that has a checkpoint; None if its owner is no server."""
    try:
        found = msgspec.json.decode((folder / "server.json").read_bytes(), type=dict[str, object])
    except (OSError, ValueError):  # DecodeError is one
        return None
    return str(found.get("url")) if "url" in found else None


def _command() -> str:
    name = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
    return " ".join([name, *sys.argv[1:]])[:200]


def _decode(data: bytes) -> Owner | None:
    try:
        return msgspec.json.decode(data, type=Owner)
    except ValueError:  # DecodeError is one
        return None


def _encode(epoch: Epoch) -> bytes:
    return sealed.seal(msgspec.json.encode(epoch))


def _decode_epoch(data: bytes) -> Epoch | None:
    try:
        return msgspec.json.decode(sealed.unsealed(data), type=Epoch)
    except ValueError:  # DecodeError is one
        return None
