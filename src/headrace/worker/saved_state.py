"""The state of a bucket as it lies in its store: a manifest with the small chunks, and the large ones beside it.

A chunk that is the same object as when it was written is not written again. Large chunks are also files that the
workers of a machine map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

import msgspec
import polars as pl
from msgspec import Struct

from headrace.engine.remembered import Remembered
from headrace.errors import HostFault
from headrace.graph.graph import VertexId
from headrace.operators.operator import State
from headrace.storage import sealed
from headrace.worker.chunk_cache import ChunkCache, Mapped, decode_chunk, encode_chunk

#: A chunk below this size is kept inside the manifest: one write for all small ones,
INLINE_BYTES = 16 * 1024
#: unless they are so many that the manifest is too large to be written again in every micro-batch.
MANIFEST_BYTES = 1024 * 1024


class Store(Protocol):
    """The durable state of one bucket: values by name, written together at the end of a micro-batch."""

    def version(self) -> int | None:
        """Return the number of the last save; None if there was none."""
        ...

    def get(self, name: str) -> bytes: ...

    def save(self, version: int, changed: Iterable[tuple[str, bytes]], removed: Iterable[str]) -> None:
        """Write `changed`, which is made while it is consumed, to save memory; `removed` is complete after that."""
        ...


class Extra(Struct, frozen=True, kw_only=True):
    """The part of a saved bucket besides its operators' state."""

    bounds: dict[str, int]  # of streams
    time: int
    engine: Remembered


class Manifest(Struct):
    """The chunks of a saved bucket, as 'vertex/chunk': small ones `inline`, large ones by version."""

    inline: dict[str, bytes]
    stored: dict[str, int]
    extra: Extra


_manifest = msgspec.msgpack.Decoder(Manifest)


class Saved(NamedTuple):
    """A chunk as it was last written: its bytes if in the manifest, its size, and the version of its save."""

    frame: pl.DataFrame
    inline: bytes | None
    size: int
    version: int


class SavedState:
    """The chunks of a bucket that have been saved, and the version of the last save."""

    def __init__(self, number: int, cache: ChunkCache | None) -> None:
        self._number = number
        self._cache = cache or ChunkCache(None)
        self._chunks: dict[str, Saved] = {}
        self.version: int | None = None

    def __len__(self) -> int:
        return len(self._chunks)

    def load(self, store: Store) -> tuple[dict[VertexId, dict[str, pl.DataFrame]], Extra]:
        """Read the saved chunks of each vertex, mapped from the cache where it has them, and the rest."""
        self.version = store.version()
        assert self.version is not None
        try:
            manifest = _manifest.decode(sealed.unsealed(store.get("manifest")))
            for full, data in manifest.inline.items():
                self._chunks[full] = Saved(decode_chunk(data), data, len(data), self.version)
            for full, version in manifest.stored.items():
                self._chunks[full] = self._stored(full, version, store)
        except (ValueError, LookupError, TypeError) as error:  # DecodeError is a ValueError
            raise HostFault(
                f"the state of bucket {self._number} is damaged: {error}",
                hint="restore the checkpoint from a copy, or start with a new one",
            ) from error
        state: dict[VertexId, dict[str, pl.DataFrame]] = {}
        for full, saved in self._chunks.items():
            name, _, chunk = full.partition("/")
            state.setdefault(name, {})[chunk] = saved.frame
        return state, manifest.extra

    def save(
        self,
        version: int,
        store: Store,
        state: Mapping[VertexId, State],
        extra: Extra,
        others: Mapping[str, Callable[[], bytes]],
    ) -> None:
        """Write new chunks and remove those that are gone; `others` are values besides the state."""
        kept: dict[str, Saved] = {}
        removed: list[str] = []
        store.save(version, self._changes(version, state, extra, others, kept, removed), removed)
        for full, saved in self._chunks.items():
            if saved.inline is None and (full not in kept or kept[full].version != saved.version):
                self._cache.drop(self._number, full, saved.version)
        self._chunks = kept
        self.version = version

    def sizes(self) -> dict[VertexId, int]:
        """Return the bytes of each vertex's chunks."""
        sizes: dict[VertexId, int] = {}
        for full, saved in self._chunks.items():
            name = full.split("/", 1)[0]
            sizes[name] = sizes.get(name, 0) + saved.size
        return sizes

    @property
    def stored_bytes(self) -> int:
        """The size of the large chunks."""
        return sum(saved.size for saved in self._chunks.values() if saved.inline is None)

    def close(self) -> None:
        """Release all chunks."""
        self._chunks = {}

    def _stored(self, full: str, version: int, store: Store) -> Saved:
        mapped = self._cache.get(self._number, full, version)
        if mapped is None:
            data = store.get(full)
            self._cache.put(self._number, full, version, data)
            mapped = self._cache.get(self._number, full, version) or Mapped(decode_chunk(data), len(data))
        return Saved(mapped.frame, None, mapped.size, version)

    def _changes(
        self,
        version: int,
        state: Mapping[VertexId, State],
        extra: Extra,
        others: Mapping[str, Callable[[], bytes]],
        kept: dict[str, Saved],
        removed: list[str],
    ) -> Iterator[tuple[str, bytes]]:
        """Yield the values to write; adds all that remains to `kept`, and the values to delete to `removed`."""
        room = MANIFEST_BYTES
        for name, chunks in state.items():
            for chunk, frame in chunks.items():
                full = f"{name}/{chunk}"
                before = self._chunks.get(full)
                if before is not None and before.frame is frame:
                    kept[full] = before
                    room -= 0 if before.inline is None else before.size
                    continue
                data = encode_chunk(frame)
                inline = len(data) < min(INLINE_BYTES, room)
                room -= len(data) if inline else 0
                kept[full] = Saved(frame, data if inline else None, len(data), version)
                if not inline:
                    self._cache.put(self._number, full, version, data)
                    yield full, data
        removed += [
            full
            for full, saved in self._chunks.items()
            if saved.inline is None and (full not in kept or kept[full].inline is not None)
        ]
        small = {full: saved.inline for full, saved in kept.items() if saved.inline is not None}
        large = {full: saved.version for full, saved in kept.items() if saved.inline is None}
        yield "manifest", sealed.seal(msgspec.msgpack.encode(Manifest(small, large, extra)))
        for name, value in others.items():
            yield name, value()
