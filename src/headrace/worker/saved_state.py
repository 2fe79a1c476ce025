"""The state of a bucket as it lies in its store: a manifest with the small chunks, and the large ones beside it.

A chunk that is the same object as when it was written is not written again. Large chunks are compressed in the store,
and also files, as they are, that the workers of a machine map. The manifest names them by the digests of what the store
has, and the version of a save contains the digest of the manifest: it stands for all that was saved. Two attempts of a
task may save the same micro-batch in different chunks.

Large chunks that an operator can compute from its others (`DERIVED`) are files only. If one of them is missing, none of
them is given to the operator.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

import msgspec
import polars as pl
from msgspec import Struct

from headrace.engine.remembered import Remembered
from headrace.errors import HostFault
from headrace.graph.graph import VertexId
from headrace.operators.operator import DERIVED, State
from headrace.storage import sealed
from headrace.worker.chunk_cache import ChunkCache, Mapped, decode_chunk, digest_of, encode_chunk
from headrace.worker.compression import compress, decompress

#: A chunk below this size is kept inside the manifest: one write for all small ones,
INLINE_BYTES = 16 * 1024
#: unless they are so many that the manifest is too large to be written again in every micro-batch.
MANIFEST_BYTES = 1024 * 1024
#: Values besides the state that this process has read or written, by digest, the least recently used first: the buckets
#: of a deployment have the same.
_known: OrderedDict[bytes, bytes] = OrderedDict()
_KNOWN = 4
#: The name under which the version of the last save is kept.
VERSION = "version"


class Store(Protocol):
    """The durable state of one bucket: values by name, written together at the end of a micro-batch."""

    def get(self, name: str) -> bytes | None:
        """Return a value; None if there is none."""
        ...

    def save(self, changed: Iterable[tuple[str, bytes]], removed: Iterable[str]) -> None:
        """Write `changed`, which is made while it is consumed, to save memory; `removed` is complete after that."""
        ...


class Extra(Struct, frozen=True, kw_only=True):
    """The part of a saved bucket besides its operators' state."""

    bounds: dict[str, int]  # of streams
    time: int
    engine: Remembered


class Manifest(Struct):
    """The chunks of a saved bucket, as 'vertex/chunk': small ones `inline`, large ones by micro-batch and digest."""

    inline: dict[str, bytes]
    stored: dict[str, int]
    extra: Extra
    digests: dict[str, bytes] = {}  # of those in `stored`; earlier versions wrote none
    derived: dict[str, bytes] = {}  # digests of those that are in the cache alone
    values: dict[str, bytes] = {}  # digests of the values beside it; earlier versions wrote none


_manifest = msgspec.msgpack.Decoder(Manifest)


class Saved(NamedTuple):
    """A chunk as it was last written: its bytes if in the manifest, else its digest; its size and micro-batch.

    `is_cached` if it is in the cache alone.
    """

    frame: pl.DataFrame
    inline: bytes | None
    digest: bytes
    size: int
    batch: int
    is_cached: bool = False

    @property
    def is_stored(self) -> bool:
        """Return whether the chunk is a value of its own in the store."""
        return self.inline is None and not self.is_cached


class SavedState:
    """The chunks of a bucket that have been saved, and the version of the last save."""

    def __init__(self, number: int, cache: ChunkCache | None) -> None:
        self._number = number
        self._cache = cache or ChunkCache(None)
        self._chunks: dict[str, Saved] = {}
        self._values: dict[str, bytes] = {}  # digests
        self._manifest: Manifest | None = None  # that was read
        self.version: bytes | None = None

    def __len__(self) -> int:
        return len(self._chunks)

    def value(self, name: str, store: Store) -> bytes | None:
        """Return a value that was saved besides the state; the store is not asked for one that this process knows."""
        try:
            digest = self._read(store).values.get(name)
        except (ValueError, LookupError, TypeError) as error:  # DecodeError is a ValueError
            raise self._damaged(error) from error
        if digest is not None and digest in _known:
            _known.move_to_end(digest)
            return _known[digest]
        value = store.get(name)
        if value is not None and digest is not None:
            if digest_of(value) != digest:
                raise self._damaged(f"the value {name} is not the one that was saved")
            _remember(digest, value)
        return value

    def load(self, store: Store) -> tuple[dict[VertexId, dict[str, pl.DataFrame]], Extra]:
        """Read the saved chunks of each vertex, mapped from the cache where it has them, and the rest."""
        self.version = store.get(VERSION)
        assert self.version is not None
        batch = int.from_bytes(self.version[:8])
        try:
            manifest = self._read(store)
            for full, data in manifest.inline.items():
                self._chunks[full] = Saved(decode_chunk(data), data, b"", len(data), batch)
            for full, number in manifest.stored.items():
                self._chunks[full] = self._stored(full, number, manifest.digests.get(full), store)
            lost = self._load_derived(manifest.derived, batch)
        except (ValueError, LookupError, TypeError) as error:  # DecodeError is a ValueError
            raise self._damaged(error) from error
        self._manifest, self._values = None, manifest.values
        state: dict[VertexId, dict[str, pl.DataFrame]] = {}
        for full, saved in self._chunks.items():
            name, _, chunk = full.partition("/")
            if name not in lost or not chunk.startswith(DERIVED):
                state.setdefault(name, {})[chunk] = saved.frame
        return state, manifest.extra

    def save(
        self,
        batch: int,
        store: Store,
        state: Mapping[VertexId, State],
        extra: Extra,
        others: Mapping[str, Callable[[], bytes]],
    ) -> None:
        """Write new chunks and remove those that are gone; `others` are values besides the state."""
        kept: dict[str, Saved] = {}
        removed: list[str] = []
        store.save(self._changes(batch, state, extra, others, kept, removed), removed)
        needed = {saved.digest for saved in kept.values()}
        for saved in self._chunks.values():
            if saved.digest not in needed and saved.inline is None:
                self._cache.drop(saved.digest)
        self._chunks = kept

    def clear(self, store: Store) -> None:
        """Remove all that was saved, with values besides the state: the next save is the first."""
        if self.version is not None:
            chunks = [full for full, saved in self._chunks.items() if saved.is_stored]
            store.save((), [*chunks, "manifest", "queries", VERSION])
        for saved in self._chunks.values():
            if saved.inline is None:
                self._cache.drop(saved.digest)
        self._chunks, self._values, self.version = {}, {}, None

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

    @property
    def cached_bytes(self) -> int:
        """The size of the large chunks if they are files as well."""
        return self.stored_bytes if self._cache.directory is not None else 0

    def close(self) -> None:
        """Release all chunks."""
        self._chunks = {}

    def _read(self, store: Store) -> Manifest:
        if self._manifest is None:
            self._manifest = _manifest.decode(sealed.unsealed(_value(store, "manifest")))
        return self._manifest

    def _damaged(self, why: object) -> HostFault:
        return HostFault(
            f"the state of bucket {self._number} is damaged: {why}",
            hint="restore the checkpoint from a copy, or start with a new one",
        )

    def _load_derived(self, derived: Mapping[str, bytes], batch: int) -> set[VertexId]:
        """Read chunks from the cache; return the vertices of which some are missing."""
        lost: set[VertexId] = set()
        for full, digest in derived.items():
            mapped = self._cache.get(digest)
            if mapped is None:
                lost.add(full.partition("/")[0])
            else:
                self._chunks[full] = Saved(mapped.frame, None, digest, mapped.size, batch, is_cached=True)
        return lost

    def _stored(self, full: str, batch: int, digest: bytes | None, store: Store) -> Saved:
        mapped = None if digest is None else self._cache.get(digest)
        if mapped is None:
            data = _value(store, full)
            actual = digest_of(data)
            if digest not in (None, actual):
                raise ValueError(f"the chunk {full} is not the one that was saved")
            digest = actual
            plain = decompress(data)
            self._cache.put(digest, plain)
            mapped = self._cache.get(digest) or Mapped(decode_chunk(plain), len(plain))
        assert digest is not None
        return Saved(mapped.frame, None, digest, mapped.size, batch)

    def _changes(
        self,
        batch: int,
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
                if inline:
                    room -= len(data)
                    kept[full] = Saved(frame, data, b"", len(data), batch)
                    continue
                is_derived = chunk.startswith(DERIVED) and self._cache.directory is not None
                stored = data if is_derived else compress(data)
                digest = digest_of(stored)
                if before is not None and before.digest == digest:
                    kept[full] = before._replace(frame=frame)  # another object with the same content
                    continue
                self._cache.put(digest, data)
                is_cached = is_derived and self._cache.directory is not None  # unless it could not be written
                kept[full] = Saved(frame, None, digest, len(data), batch, is_cached)
                if not is_cached:
                    yield full, stored
        removed += [
            full
            for full, saved in self._chunks.items()
            if saved.is_stored and (full not in kept or not kept[full].is_stored)
        ]
        written = {name: value() for name, value in others.items()}
        values = self._values | {name: digest_of(value) for name, value in written.items()}
        manifest = Manifest(
            inline={full: saved.inline for full, saved in kept.items() if saved.inline is not None},
            stored={full: saved.batch for full, saved in kept.items() if saved.is_stored},
            extra=extra,
            digests={full: saved.digest for full, saved in kept.items() if saved.is_stored},
            derived={full: saved.digest for full, saved in kept.items() if saved.is_cached},
            values=values,
        )
        encoded = sealed.seal(msgspec.msgpack.encode(manifest))
        yield "manifest", encoded
        for name, value in written.items():
            yield name, value
            _remember(values[name], value)
        self._values = values
        self.version = batch.to_bytes(8) + digest_of(encoded)
        yield VERSION, self.version


def _remember(digest: bytes, value: bytes) -> None:
    _known[digest] = value
    if len(_known) > _KNOWN:
        _known.popitem(last=False)


def _value(store: Store, name: str) -> bytes:
    value = store.get(name)
    if value is None:
        raise LookupError(f"{name} is missing")
    return value
