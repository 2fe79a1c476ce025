"""The state of a bucket as it lies in its store: a manifest with the small chunks, and the large ones beside it.

A chunk that is the same object as when it was written is not written again. Large chunks are also files that the workers of a machine map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

import msgspec
import polars as pl
from msgspec import Struct

from headrace.engine.remembered import Remembered
from headrace.graph.graph import VertexId
from headrace.operators.operator import State
from headrace.worker.chunk_cache import ChunkCache, Mapped, decode_chunk, encode_chunk

#: A chunk below this size is kept inside the manifest: one write for all small ones,
INLINE_BYTES = 16 * 1024
#: unless they are so many that the manifest is too large to be written again in every micro-batch.
MANIFEST_BYTES = 1024 * 1024


class Store(Protocol):
    """The durable state of one bucket: values by name, written together at the end of a micro-batch."""

    def version(self) -> int | None:
        """The number of the last save, None if there was none."""
        ...

    def get(self, name: str) -> bytes: ...

    def save(self, version: int, changed: Iterable[tuple[str, bytes]], removed: Iterable[str]) -> None:
        """Write `changed`, which is made while it is taken so that it is never in memory as a whole; `removed` is known after that."""
        ...


class Extra(Struct, frozen=True, kw_only=True):
    """What is saved of a bucket besides its operators' state."""

    bounds: dict[str, int]  # of streams
    time: int
    engine: Remembered


class Manifest(Struct):
    """What a saved bucket consists of, as 'vertex/chunk': `inline` holds small chunks, `stored` names large ones and the version that wrote them."""

    inline: dict[str, bytes]
    stored: dict[str, int]
    extra: Extra


_manifest = msgspec.msgpack.Decoder(Manifest)


class Saved(NamedTuple):
    """A chunk as it was last written: its bytes if they are in the manifest, else only how many, and by which version."""

    frame: pl.DataFrame
    inline: bytes | None
    size: int
    version: int


class SavedState:
    """What of a bucket has been saved, and with which version."""

    def __init__(self, number: int, cache: ChunkCache | None) -> None:
        self._number = number
        self._cache = cache or ChunkCache(None)
        self._chunks: dict[str, Saved] = {}
        self.version: int | None = None

    def __len__(self) -> int:
        return len(self._chunks)

    def load(self, store: Store) -> tuple[dict[VertexId, dict[str, pl.DataFrame]], Extra]:
        """Read what was saved: the chunks of each vertex, mapped from the cache where they can be had there, and the rest."""
        self.version = store.version()
        assert self.version is not None
        manifest = _manifest.decode(store.get("manifest"))
        for full, data in manifest.inline.items():
            self._chunks[full] = Saved(decode_chunk(data), data, len(data), self.version)
        for full, version in manifest.stored.items():
            self._chunks[full] = self._stored(full, version, store)
        state: dict[VertexId, dict[str, pl.DataFrame]] = {}
        for full, saved in self._chunks.items():
            name, chunk = full.split("/", 1)
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
        """Write what is new, and forget what is gone; `others` are values besides the state."""
        kept: dict[str, Saved] = {}
        removed: list[str] = []
        store.save(version, self._changes(version, state, extra, others, kept, removed), removed)
        for full, saved in self._chunks.items():
            if saved.inline is None and (full not in kept or kept[full].version != saved.version):
                self._cache.drop(self._number, full, saved.version)
        self._chunks = kept
        self.version = version

    def sizes(self) -> dict[VertexId, int]:
        """The bytes of each vertex's chunks."""
        found: dict[VertexId, int] = {}
        for full, saved in self._chunks.items():
            name = full.split("/", 1)[0]
            found[name] = found.get(name, 0) + saved.size
        return found

    @property
    def stored_bytes(self) -> int:
        """The size of the large chunks."""
        return sum(saved.size for saved in self._chunks.values() if saved.inline is None)

    def close(self) -> None:
        """Let go of all chunks."""
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
        """The values to write, one by one; notes what is `kept` in all, and which values are to be `removed`."""
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
        yield "manifest", msgspec.msgpack.encode(Manifest(small, large, extra))
        for name, value in others.items():
            yield name, value()
