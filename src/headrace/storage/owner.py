"""The owner of a checkpoint: the one process that may change it.

The operating system holds the lock and releases it when the process ends, however it ends. Whoever only reads needs
none. The file says who has it, for the error message; it stays when the lock is released.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys
import weakref
from pathlib import Path

import msgspec
from msgspec import Struct

from headrace.errors import HostFault
from headrace.storage.disk import make_directory

OWNER_FILE = "owner.json"


class Owner(Struct, frozen=True):
    """A process that has, or had, a checkpoint."""

    pid: int
    machine: str
    command: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.machine} ({self.command})"


class Ownership:
    """The lock on one checkpoint, taken at the first change and held until it is released, or the process ends."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._close: weakref.finalize[..., Ownership] | None = None  # of the file whose lock we hold

    def take(self) -> bool:
        """Take the lock; return whether it was not ours before. Raise a fault that names another owner."""
        if self._close is not None:
            return False
        try:
            make_directory(self._directory)
            file = os.open(self._directory / OWNER_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise HostFault(
                f"cannot write the checkpoint {self._directory}: {error.strerror}", hint="choose a writable directory"
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = _decode(os.read(file, 4096))
            os.close(file)
            raise HostFault(
                f"the checkpoint {self._directory} is in use by {owner or 'another process'}",
                hint="stop that process first, or use another checkpoint; SHOW, DESCRIBE and EXPLAIN work beside it",
            ) from error
        os.ftruncate(file, 0)
        os.pwrite(file, msgspec.json.encode(Owner(os.getpid(), socket.gethostname(), _command())), 0)
        self._close = weakref.finalize(self, os.close, file)
        return True

    def release(self) -> None:
        """Let others take the lock."""
        if self._close is not None:
            self._close()
            self._close = None


def owner_of(directory: Path) -> tuple[Owner | None, bool]:
    """Return the process that has a checkpoint, or had it last, and whether it has it now; takes nothing."""
    try:
        file = os.open(directory / OWNER_FILE, os.O_RDONLY)
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


def _command() -> str:
    name = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
    return " ".join([name, *sys.argv[1:]])[:200]


def _decode(data: bytes) -> Owner | None:
    try:
        return msgspec.json.decode(data, type=Owner)
    except ValueError:  # DecodeError is one
        return None
