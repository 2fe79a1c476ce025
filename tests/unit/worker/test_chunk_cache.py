"""Chunks by content: any file may go at any time, and the file of another attempt is never taken for the saved one."""

import os
from pathlib import Path

import msgspec
import polars as pl
import pytest

from headrace.engine.remembered import Remembered
from headrace.errors import HostFault
from headrace.hosts.local import MemoryStore
from headrace.worker import chunk_cache
from headrace.worker.chunk_cache import ChunkCache, digest_of, encode_chunk, machine_cache
from headrace.worker.compression import compress
from headrace.worker.saved_state import VERSION, Extra, Manifest, SavedState

EXTRA = Extra(bounds={}, time=0, engine=Remembered())


def frame(first: int, rows: int = 5000) -> pl.DataFrame:
    return pl.DataFrame({"x": pl.int_range(first, first + rows, eager=True)})


def save(saved: SavedState, batch: int, store: MemoryStore, **chunks: pl.DataFrame) -> SavedState:
    saved.save(batch, store, {"vertex": chunks}, EXTRA, {})
    return saved


def load(store: MemoryStore, cache: ChunkCache) -> dict[str, pl.DataFrame]:
    return SavedState(0, cache).load(store)[0]["vertex"]


def copy(store: MemoryStore) -> MemoryStore:
    copied = MemoryStore()
    copied.values = dict(store.values)
    return copied


def test_the_chunk_of_an_attempt_that_was_not_committed_is_not_taken_for_the_saved_one(tmp_path: Path) -> None:
    before, cache = MemoryStore(), ChunkCache(tmp_path)
    save(SavedState(0, cache), 1, before, a=frame(0))
    lost, committed = copy(before), copy(before)
    for store, number in ((committed, 1), (lost, 2)):  # the attempt that is lost writes last
        attempt = SavedState(0, cache)
        attempt.load(store)
        save(attempt, 2, store, a=frame(number))
    assert load(committed, cache)["a"].equals(frame(1))


def test_a_kept_bucket_of_an_attempt_that_was_not_committed_has_another_version() -> None:
    lost, committed = MemoryStore(), MemoryStore()
    kept = save(SavedState(0, None), 1, lost, a=frame(0), b=frame(9))
    save(SavedState(0, None), 1, committed, a=frame(9), b=frame(0))
    assert kept.version == lost.values[VERSION] != committed.values[VERSION]


def test_buckets_with_the_same_content_share_a_file(tmp_path: Path) -> None:
    cache = ChunkCache(tmp_path)
    save(SavedState(0, cache), 1, MemoryStore(), a=frame(0), b=frame(0))
    save(SavedState(1, cache), 1, MemoryStore(), c=frame(0))
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_that_another_chunk_of_the_bucket_needs_stays(tmp_path: Path) -> None:
    cache, store = ChunkCache(tmp_path), MemoryStore()
    saved = save(SavedState(0, cache), 1, store, a=frame(0), b=frame(0))
    save(saved, 2, store, a=frame(7), b=frame(0))
    assert {path.stem for path in tmp_path.iterdir()} == {
        digest_of(compress(encode_chunk(frame(number)))).hex() for number in (0, 7)
    }


def test_a_chunk_that_is_made_again_with_the_same_content_is_not_written_again() -> None:
    store = MemoryStore()
    saved = save(SavedState(0, None), 1, store, a=frame(0))
    written = store.values.pop("vertex/a")
    save(saved, 2, store, a=frame(0))
    assert "vertex/a" not in store.values
    store.values["vertex/a"] = written
    assert load(store, ChunkCache(None))["a"].equals(frame(0))


def test_the_least_recently_used_files_go_first_and_their_chunks_come_from_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_cache, "_mapped", {})
    size = len(encode_chunk(frame(0)))
    cache, store = ChunkCache(tmp_path, limit=2 * size + 10), MemoryStore()
    saved = SavedState(0, cache)
    for number, name in enumerate("abc"):
        save(saved, number, store, **{name: frame(at) for at, name in enumerate("abc"[: number + 1])})
        for at, path in enumerate(sorted(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime_ns)):
            os.utime(path, (at, at))
    assert len(list(tmp_path.iterdir())) == 2
    assert not (tmp_path / f"{digest_of(compress(encode_chunk(frame(0)))).hex()}.arrow").exists()
    assert all(load(store, cache)[name].equals(frame(at)) for at, name in enumerate("abc"))


def test_a_chunk_that_changed_at_rest_is_a_fault() -> None:
    store = MemoryStore()
    save(SavedState(0, None), 1, store, a=frame(0))
    store.values["vertex/a"] = encode_chunk(frame(1))
    with pytest.raises(HostFault, match="bucket 0 is damaged: the chunk vertex/a is not the one that was saved"):
        load(store, ChunkCache(None))


def test_a_state_that_an_earlier_version_saved_without_digests_continues(tmp_path: Path) -> None:
    store, cache = MemoryStore(), ChunkCache(tmp_path)
    manifest = Manifest(inline={}, stored={"vertex/a": 3}, extra=EXTRA)
    encoded = msgspec.to_builtins(manifest, builtin_types=(bytes,))
    del encoded["digests"]
    store.values = {
        "manifest": msgspec.msgpack.encode(encoded),
        "vertex/a": encode_chunk(frame(0)),
        VERSION: (3).to_bytes(8),
    }
    saved = SavedState(0, cache)
    state, _ = saved.load(store)
    save(saved, 4, store, **state["vertex"])
    assert load(store, cache)["a"].equals(frame(0))
    assert msgspec.msgpack.decode(store.values["manifest"].rpartition(b"\n#")[0])["digests"]


def test_a_directory_that_cannot_be_written_is_no_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache, store = ChunkCache(tmp_path / "file" / "cache"), MemoryStore()
    save(SavedState(0, cache), 1, store, a=frame(0))
    assert load(store, cache)["a"].equals(frame(0))
    assert cache.size() == 0


def test_the_cache_of_a_machine_is_on_the_scratch_disk_of_its_executor() -> None:
    assert machine_cache({"SPARK_LOCAL_DIRS": "/a/blockmgr-1,/b/blockmgr-1"}).directory == Path(
        "/a/blockmgr-1/headrace-chunks"
    )
    assert machine_cache({}).directory is None


def test_derived_chunks_are_files_only_and_come_back_from_them(tmp_path: Path) -> None:
    cache, store = ChunkCache(tmp_path), MemoryStore()
    saved = save(SavedState(0, cache), 1, store, **{"a": frame(0), "~ab": frame(1), "~small": frame(2, 3)})
    assert "vertex/a" in store.values
    assert "vertex/~ab" not in store.values
    assert load(store, cache)["~ab"].equals(frame(1))
    save(saved, 2, store, **{"a": frame(0), "~ab": frame(5)})
    assert {name: chunk["x"][0] for name, chunk in load(store, cache).items()} == {"a": 0, "~ab": 5}


@pytest.mark.parametrize("damage", ["delete", "truncate"])
def test_if_a_file_of_a_derived_chunk_is_missing_or_damaged_none_of_the_vertex_is_given(
    tmp_path: Path, damage: str
) -> None:
    cache, store = ChunkCache(tmp_path), MemoryStore()
    chunks = {"a": frame(0), "~ab": frame(1), "~cd": frame(2), "~small": frame(3, 3)}
    save(SavedState(0, cache), 1, store, **chunks)
    (path,) = (path for path in tmp_path.iterdir() if path.stem == digest_of(encode_chunk(frame(1))).hex())
    if damage == "delete":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:100])
    chunk_cache._mapped.clear()
    again = SavedState(0, cache)
    assert set(again.load(store)[0]["vertex"]) == {"a"}
    save(again, 2, store, **{"a": frame(0), "~ab": frame(1)})  # computed again
    assert set(load(store, cache)) == {"a", "~ab"}


def test_without_a_cache_derived_chunks_are_stored_like_others_and_leave_the_store_once_there_is_one(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    save(SavedState(0, None), 1, store, **{"~ab": frame(1)})
    assert "vertex/~ab" in store.values
    cached = SavedState(0, ChunkCache(tmp_path))
    cached.load(store)
    save(cached, 2, store, **{"~ab": frame(2)})
    assert "vertex/~ab" not in store.values
    assert load(store, ChunkCache(tmp_path))["~ab"].equals(frame(2))


def test_a_derived_chunk_that_the_cache_cannot_take_is_in_the_store(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = MemoryStore()
    save(SavedState(0, ChunkCache(tmp_path / "file")), 1, store, **{"a": frame(0), "~ab": frame(1)})
    assert load(store, ChunkCache(None))["~ab"].equals(frame(1))
