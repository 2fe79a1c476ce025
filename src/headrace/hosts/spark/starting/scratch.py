"""A folder for what Spark writes while it runs: shuffled tuples, cached chunks of state, sockets, unpacked libraries.

Spark would put them into the temporary directory of the machine, where every user could read the tuples. A process that
is killed leaves its folder; the next one of the same user deletes it.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from headrace.errors import HostFault
from headrace.storage.owner import OWNER_FILE, Ownership
from headrace.storage.temporary import OLD

#: The longest path of a socket on macOS (Linux allows 107 bytes), without the name that Spark gives it.
_LONGEST = 103 - len("/.01234567-89ab-cdef-0123-456789abcdef.sock")
_PREFIX = "headrace-spark-"  # not the name of a temporary checkpoint
_NAME = re.compile(_PREFIX + "[a-z0-9_]{8}")
_owned: list[Ownership] = []


def folder_settings(folder: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return settings by which Spark uses a folder that ends with this process."""
    chosen = {} if environ.get("SPARK_LOCAL_DIRS") else {"spark.local.dir": folder}
    if fits_sockets(folder):
        chosen["spark.python.unix.domain.socket.dir"] = folder
    return chosen


def fits_sockets(folder: str) -> bool:
    """Return whether Spark's processes can speak through sockets in a folder.

    Their paths must be short. Spark tells workers the path in lower case, which must be the same folder.
    """
    with suppress(OSError):
        return len(os.fsencode(folder)) <= _LONGEST and os.path.samefile(folder, folder.lower())
    return False


def private_folder() -> str:
    """Make a folder that only this user can open; it is removed when this process ends."""
    sweep(Path(tempfile.gettempdir()), time.time())
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    ownership = Ownership(Path(folder), is_private=True)
    ownership.take()
    _owned.append(ownership)  # until this process ends
    atexit.register(_remove, folder, os.getpid())
    return folder


def sweep(parent: Path, now: float) -> int:
    """Delete the folders of this user whose processes have ended; return how many."""
    swept = 0
    with suppress(OSError):
        for entry in os.scandir(parent):
            with suppress(OSError, HostFault):  # it may go meanwhile, or its process still runs
                if _NAME.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                    swept += _delete_unowned(Path(entry.path), entry.stat(follow_symlinks=False), now)
    return swept


def _delete_unowned(folder: Path, status: os.stat_result, now: float) -> bool:
    if status.st_uid != os.getuid():
        return False
    # one without an owner has just been made, or is that of an earlier version
    if not (folder / OWNER_FILE).exists() and now - status.st_mtime < OLD:
        return False
    ownership = Ownership(folder, is_private=True)
    ownership.take()  # raises if a process has it
    shutil.rmtree(folder, ignore_errors=True)
    ownership.release()
    return not folder.exists()


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # not in a process that this one has forked
        shutil.rmtree(folder, ignore_errors=True)
