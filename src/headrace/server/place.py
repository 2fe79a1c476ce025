"""`server.json`: where the server of a checkpoint is, for commands of the same user on the same machine."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from headrace.storage import files
from headrace.storage.owner import owner_of
from headrace.storage.scratch import scratch_of

SERVER_FILE = "server.json"


class Served(Struct, frozen=True):
    """A server: its address, its process and version, and where its log is."""

    url: str
    pid: int
    version: str
    log: str = ""


def write_place(checkpoint: Path, served: Served) -> None:
    """Say where a checkpoint is served."""
    files.replace(scratch_of(checkpoint) / SERVER_FILE, msgspec.json.encode(served), durable=False)


def remove_place(checkpoint: Path) -> None:
    """Say no more where a checkpoint is served."""
    files.remove(scratch_of(checkpoint) / SERVER_FILE, durable=False)


def served_at(checkpoint: Path) -> Served | None:
    """Return the server of a checkpoint; None if there is none, or it has ended without saying so."""
    data = files.read_if_exists(scratch_of(checkpoint) / SERVER_FILE)
    try:
        served = None if data is None else msgspec.json.decode(data, type=Served)
    except ValueError:  # DecodeError is one
        return None
    if served is None:
        return None
    owner, is_owned = owner_of(checkpoint)
    return served if is_owned and owner is not None and owner.pid == served.pid and _is_alive(served.pid) else None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
