"""Files that are read in part, wherever they are: an object is fetched by ranges, as they are asked for."""

from __future__ import annotations

import errno
import functools
import io
import os
from pathlib import Path
from typing import BinaryIO

from headrace.storage.location import ObjectPath, is_object_url, located
from headrace.storage.storage import OBJECTS

#: An object is fetched in pieces of at least so many bytes.
_PIECE = 1 << 20


def open_to_read(path: Path | str) -> BinaryIO:
    """Open a file of the local disk or an object for reading; raise FileNotFoundError if there is none."""
    if isinstance(path, str) and not is_object_url(path):
        return open(path, "rb")
    place = located(Path(path)) if isinstance(path, str) else path
    if not isinstance(place, ObjectPath):
        return open(place, "rb")
    return io.BufferedReader(ObjectFile(place), _PIECE)


def size_of(path: str) -> int:
    """Return the length of a file or an object; raise FileNotFoundError if there is none.

    An object that was asked for before is not asked for again. If it has changed, reading it raises an OSError.
    """
    place = located(Path(path))
    return _object_size(place) if isinstance(place, ObjectPath) else os.stat(place).st_size


def forget_sizes() -> None:
    """Ask for the lengths of objects again: those of a table may have been replaced by others."""
    _object_size.cache_clear()


@functools.lru_cache(maxsize=4096)
def _object_size(path: ObjectPath) -> int:
    return OBJECTS.size(path)


class ObjectFile(io.RawIOBase):
    """An object as a file that can be read at any position."""

    def __init__(self, path: ObjectPath) -> None:
        self._path = path
        self._size = _object_size(path)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._size

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(self._path))
        self._at = base + offset
        return self._at

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        data = self._fetch(min(self._at + len(view), self._size))
        view[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        return self._fetch(self._size)

    def _fetch(self, end: int) -> bytes:
        """Return the bytes from here up to a position, and go on there."""
        try:
            data = OBJECTS.read_range(self._path, self._at, end)
        except OSError:
            _object_size.cache_clear()
            raise
        if len(data) < end - self._at:
            _object_size.cache_clear()
            raise OSError(errno.EIO, f"it had {self._size} bytes and has fewer now", str(self._path))
        self._at += len(data)
        return data
