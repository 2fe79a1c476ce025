"""The part of a checkpoint that may be lost and is only of use on one machine: notes between processes, caches.

For a checkpoint on the local disk it is the checkpoint itself. For one in an object store it is a folder among the
temporary files of the machine, which all processes of this user find by the URL.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from headrace.errors import HostFault
from headrace.storage.location import ObjectPath, located

#: How the folders among the temporary files are named; the user's number and a digest follow.
PREFIX = "headrace-scratch-"


def scratch_of(checkpoint: Path) -> Path:
    """Return where the scratch files of a checkpoint are; make the folder if it is not the checkpoint itself."""
    place = located(checkpoint)
    if not isinstance(place, ObjectPath):
        return place
    digest = hashlib.blake2b(str(place).encode(), digest_size=10).hexdigest()
    folder = Path(tempfile.gettempdir()) / f"{PREFIX}{os.getuid()}-{digest}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise HostFault(f"cannot make the folder {folder}: {error.strerror}", hint="set TMPDIR to another") from error
    if not folder.is_dir() or folder.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise HostFault(f"others can change the folder {folder}", hint="delete it, or set TMPDIR to another")
    return folder
