"""Large chunks of state as memory-mapped files, shared by the worker processes of one machine.

The state store is authoritative. The cache saves sending a large state through a socket whenever a bucket changes
worker, and lets the system page out what is not in use, so that state may be larger than memory. A chunk never changes:
its file is named by chunk and version, and a process maps it once.
"""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pyarrow as pa

from headrace.model.page import Page
from headrace.storage.disk import make_directory, open_private


def encode_chunk(frame: pl.DataFrame) -> bytes:
    """Encode a chunk as an Arrow IPC stream of one batch: it can be mapped, and is written faster than an IPC file."""
    return Page(frame.rechunk()).encode()


def decode_chunk(data: bytes) -> pl.DataFrame:
    """Read a chunk from the bytes of `encode_chunk`."""
    return Page.decode(data).rows


class Mapped(NamedTuple):
    """A chunk in a file; looking at it reads what is looked at."""

    frame: pl.DataFrame
    size: int


#: What this process has mapped, the least recently used first. A frame takes some 20 KB besides its file.
_mapped: OrderedDict[Path, Mapped] = OrderedDict()
_MAPPED_CHUNKS = 2048


class ChunkCache:
    """Files in a local directory; without a directory nothing is cached."""

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory

    def get(self, bucket: int, name: str, version: int) -> Mapped | None:
        """Return the chunk, mapped; None if it is not here."""
        if self.directory is None:
            return None
        path = self._path(bucket, name, version)
        known = _mapped.get(path)
        if known is not None:
            _mapped.move_to_end(path)
            return known
        try:
            with pa.memory_map(str(path)) as file:
                size, table = file.size(), pa.ipc.open_stream(file).read_all()
        except (OSError, pa.ArrowException):
            return None  # it is not there, or not whole; the state store has it
        frame = pl.from_arrow(table, rechunk=False)
        assert isinstance(frame, pl.DataFrame)
        _mapped[path] = Mapped(frame, size)
        if len(_mapped) > _MAPPED_CHUNKS:
            _mapped.popitem(last=False)
        return _mapped[path]

    def put(self, bucket: int, name: str, version: int, data: bytes) -> None:
        """Keep the bytes of a chunk; a cache that cannot be written is no cache, not an error."""
        if self.directory is None:
            return
        path = self._path(bucket, name, version)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            make_directory(path.parent)
            with open(temporary, "wb", opener=open_private) as file:
                file.write(data)
            temporary.replace(path)
        except OSError:
            self.directory = None

    def drop(self, bucket: int, name: str, version: int) -> None:
        """Forget a chunk; whoever has it mapped keeps it until then."""
        if self.directory is not None:
            path = self._path(bucket, name, version)
            _mapped.pop(path, None)
            path.unlink(missing_ok=True)

    def _path(self, bucket: int, name: str, version: int) -> Path:
        assert self.directory is not None
        digest = hashlib.blake2b(name.encode(), digest_size=10).hexdigest()
        return self.directory / str(bucket) / f"{digest}-{version}.arrow"
