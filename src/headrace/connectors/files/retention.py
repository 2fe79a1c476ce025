"""How long a FILES sink keeps what it has written: a logger of the last days."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from headrace.catalog.definitions import Connector
from headrace.connectors.options import duration
from headrace.errors import NotSupported
from headrace.model.time import SECOND
from headrace.storage import files
from headrace.storage.location import ObjectPath, location

#: The files that a sink writes; others in its directory are not ours to delete.
_PART = re.compile(r"part-\d{12}(-\d+)?\.\w+", re.ASCII)
#: Old files are looked for a hundred times while one is kept, but at most once in so many seconds.
_LOOKS, _LEAST = 100, 1.0


def keep_of(connector: Connector) -> float | None:
    """Return for how many seconds files are kept; None: forever."""
    if "keep" not in connector.options:
        return None
    if isinstance(location(str(connector.options.get("path", ""))), ObjectPath):
        raise NotSupported("an object store keeps no files for a time", hint="give its bucket a rule for old objects")
    return duration(connector.options, "keep", "") / SECOND


class Retention:
    """Deletes files of a directory that were written longer ago than `keep` seconds."""

    def __init__(self, keep: float, directory: Path) -> None:
        self._keep, self._directory = keep, directory
        self._next_look = 0.0
        self.clock: Callable[[], float] = time.time

    def expire(self, folders: Iterable[Path] = ()) -> int:
        """Delete old files, if it is time to look for them; return how many. `folders` are those of partitions."""
        now = self.clock()
        if now < self._next_look:
            return 0
        self._next_look = now + max(_LEAST, self._keep / _LOOKS)
        return sum(self._expire_in(folder, now) for folder in (self._directory, *folders))

    def _expire_in(self, folder: Path, now: float) -> int:
        old = []
        for name in files.names(folder):
            with suppress(FileNotFoundError):  # somebody else deleted it
                if _PART.fullmatch(name) and (folder / name).stat().st_mtime < now - self._keep:
                    old.append(folder / name)
        files.remove(*old, durable=False)
        if old and folder != self._directory:
            with suppress(OSError):  # it is not empty
                folder.rmdir()
        return len(old)
