"""A folder for what Spark writes while it runs: shuffled tuples and the sockets of its Python workers.

Spark would put both into the temporary directory of the machine, where every user could read the tuples.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping

#: The longest path of a socket on macOS, without the name that Spark gives it.
_LONGEST = 103 - len("/.01234567-89ab-cdef-0123-456789abcdef.sock")


def private_folders(environ: Mapping[str, str]) -> dict[str, str]:
    """Make a folder that only this user can open and that ends with this process; return settings of Spark."""
    folder = private_folder()
    chosen = {} if environ.get("SPARK_LOCAL_DIRS") else {"spark.local.dir": folder}
    if len(folder) <= _LONGEST:
        chosen["spark.python.unix.domain.socket.dir"] = folder
    return chosen


def private_folder() -> str:
    """Make a folder that only this user can open; it is removed when this process ends."""
    folder = tempfile.mkdtemp(prefix="headrace-spark-")  # not the name of a temporary checkpoint, which may be swept
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # not in a process that this one has forked
        shutil.rmtree(folder, ignore_errors=True)
