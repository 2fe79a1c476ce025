"""Large chunks of state as memory-mapped files, shared by the worker processes of one machine.

The state store is authoritative, but for chunks that operators can compute from others. The cache saves sending a large
state through a socket whenever a bucket changes worker, and lets the system page out what is not in use, so that state
may be larger than memory. A file is named by the digest of its bytes. So it does not matter which attempt of a task,
which bucket or which deployment has written it, and every file may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pyarrow as pa

from headrace.model.page import Page
from headrace.storage.disk import make_directory, open_private

#: The most that the files of one machine may take, in megabytes; by default half of the disk that is free without them.
LIMIT = "HEADRACE_CHUNK_CACHE"
#: Files are counted whenever a process has written this share of the limit.
_COUNTED = 1 / 16
#: A file that is still being written after so many seconds was left by a process that died.
_ABANDONED = 600.0


def encode_chunk(frame: pl.DataFrame) -> bytes:
    """Encode a chunk as an Arrow IPC stream of one batch: it can be mapped, and is written faster than an IPC file."""
    return Page(frame.rechunk()).encode()


def decode_chunk(data: bytes) -> pl.DataFrame:
    """Read a chunk from the bytes of `encode_chunk`."""
    return Page.decode(data).rows


def digest_of(data: bytes) -> bytes:
    """Return the name of bytes: no two that differ have the same."""
    return hashlib.blake2b(data, digest_size=20).digest()


class Mapped(NamedTuple):
    """A chunk in a file; looking at it reads what is looked at."""

    frame: pl.DataFrame
    size: int


#: What this process has mapped, the least recently used first. A frame takes some 20 KB besides its file.
_mapped: OrderedDict[str, Mapped] = OrderedDict()
_MAPPED_CHUNKS = 2048
#: The bytes that this process may still write to a directory before it counts what is there.
_uncounted: dict[Path, int] = {}


class ChunkCache:
    """Files in a local directory, of at most `limit` bytes; without a directory nothing is cached."""

    def __init__(self, directory: Path | None, *, limit: int | None = None) -> None:
        self.directory = directory
        self._limit = limit

    def get(self, digest: bytes) -> Mapped | None:
        """Return the chunk, mapped; None if it is not here."""
        if self.directory is None:
            return None
        path = self._path(digest)
        known = _mapped.get(path)
        if known is not None:
            _mapped.move_to_end(path)
            _touch(path)
            return known
        try:
            with pa.memory_map(path) as file:
                size, table = file.size(), pa.ipc.open_stream(file).read_all()
        except (OSError, pa.ArrowException):  # it is not there, or damaged, and then it makes room for a whole one
            with suppress(OSError):
                os.unlink(path)
            return None
        frame = pl.from_arrow(table, rechunk=False)
        assert isinstance(frame, pl.DataFrame)
        _touch(path)
        _mapped[path] = Mapped(frame, size)
        if len(_mapped) > _MAPPED_CHUNKS:
            _mapped.popitem(last=False)
        return _mapped[path]

    def put(self, digest: bytes, data: bytes) -> None:
        """Keep the bytes of a chunk; a cache that cannot be written is no cache, not an error."""
        if self.directory is None:
            return
        path = Path(self._path(digest))
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            if path.exists():
                return
            make_directory(self.directory)
            with open(temporary, "wb", opener=open_private) as file:
                file.write(data)
            temporary.replace(path)
            self._count(len(data))
        except OSError:
            self.directory = None
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def drop(self, digest: bytes) -> None:
        """Forget a chunk that is not needed here; whoever has it mapped keeps it until then."""
        if self.directory is not None:
            path = self._path(digest)
            _mapped.pop(path, None)
            with suppress(FileNotFoundError):
                os.unlink(path)

    def size(self) -> int:
        """Return the bytes of all files."""
        return 0 if self.directory is None else sum(file.size for file in _files(self.directory))

    def _count(self, written: int) -> None:
        """Delete the least recently used files if there are too many."""
        assert self.directory is not None
        rest = _uncounted.get(self.directory, 0) - written
        if rest < 0:
            present = _files(self.directory)
            total = sum(file.size for file in present)
            limit = (shutil.disk_usage(self.directory).free + total) // 2 if self._limit is None else self._limit
            for file in sorted(present, key=lambda file: file.used):
                if total <= limit:
                    break
                _mapped.pop(file.path, None)
                with suppress(FileNotFoundError):
                    os.unlink(file.path)
                total -= file.size
            rest = round(limit * _COUNTED)
        _uncounted[self.directory] = rest

    def _path(self, digest: bytes) -> str:
        """Return a text: a large state has hundreds of chunks, and paths as objects would take half of the time."""
        return f"{self.directory}/{digest.hex()}.arrow"


def machine_cache(environ: Mapping[str, str]) -> ChunkCache:
    """Return the cache of the Spark executor that this worker belongs to, on its scratch disk; it ends with it."""
    scratch = environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]  # Spark sets it for its workers
    limit = environ.get(LIMIT, "")
    return ChunkCache(
        Path(scratch) / "headrace-chunks" if scratch else None, limit=int(limit) << 20 if limit.isdecimal() else None
    )


class _File(NamedTuple):
    path: str
    size: int
    used: float


def _files(directory: Path) -> list[_File]:
    """Return the files of a cache; delete those that were never finished."""
    present: list[_File] = []
    with suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # another process has deleted it
                status = entry.stat()
                if not entry.name.startswith("."):
                    present.append(_File(entry.path, status.st_size, status.st_mtime))
                elif status.st_mtime < time.time() - _ABANDONED:
                    os.unlink(entry.path)
    return present


def _touch(path: str) -> None:
    """Note that a file is used."""
    with suppress(OSError):
        os.utime(path)
