"""Checkpoints of sessions without one: temporary directories, which go with their session.

A session that is killed leaves its directory. The next session of the same user deletes those that are older than a day
and have no owner. The same holds for the scratch folders of checkpoints in object stores, which outlive their sessions.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from headrace.errors import HostFault
from headrace.storage import scratch
from headrace.storage.owner import OWNER_FILE, Ownership

_LOG = logging.getLogger(__name__)
_PREFIX = "headrace-"
#: As `mkdtemp` names them; other programs, and ours, have longer names.
_NAME = re.compile(_PREFIX + "[a-z0-9_]{8}")
_SCRATCH = re.compile(scratch.PREFIX + r"\d+-[0-9a-f]{20}")
#: What lies in a checkpoint as soon as it is not empty.
_OURS = ("format.json", OWNER_FILE)
#: In seconds.
OLD = 24 * 3600.0


def temporary_checkpoint() -> Path:
    """Return a new directory for a checkpoint that is not kept."""
    sweep_once()
    return Path(tempfile.mkdtemp(prefix=_PREFIX))


def sweep_once() -> None:
    """Delete what killed sessions left among the temporary files, if this process has not done it yet."""
    _sweep_once(Path(tempfile.gettempdir()))


def sweep(parent: Path, now: float) -> int:
    """Delete old checkpoints and scratch folders of this user in a directory that have no owner; return how many."""
    swept = 0
    with suppress(OSError):
        for entry in os.scandir(parent):
            with suppress(OSError, HostFault):  # it may go meanwhile, or have an owner again
                swept += _is_old(entry, now) and _delete(Path(entry.path))
    return swept


@cache
def _sweep_once(parent: Path) -> None:
    if swept := sweep(parent, time.time()):
        _LOG.info("deleted %d temporary folders of sessions that have ended, in %s", swept, parent)


def _is_old(entry: os.DirEntry[str], now: float) -> bool:
    """Return whether an entry is a checkpoint or scratch folder of this user that nobody has written into for long."""
    is_scratch = _SCRATCH.fullmatch(entry.name) is not None
    if not (is_scratch or _NAME.fullmatch(entry.name)) or not entry.is_dir(follow_symlinks=False):
        return False
    status = entry.stat(follow_symlinks=False)
    if status.st_uid != os.getuid() or now - status.st_mtime < OLD:
        return False
    if is_scratch:  # of a task, on a machine without the owner, only the folders inside change
        with os.scandir(entry.path) as inside_it:
            return all(now - inner.stat(follow_symlinks=False).st_mtime >= OLD for inner in inside_it)
    inside = os.listdir(entry.path)
    return not inside or any(name in inside for name in _OURS)


def _delete(directory: Path) -> bool:
    ownership = Ownership(directory, is_private=True)
    ownership.take()  # raises if a process has it
    shutil.rmtree(directory, ignore_errors=True)
    ownership.release()
    return not directory.exists()
