"""Bytes on their way through Spark: every compressed one comes back, and what cannot be is a fault, not a crash."""

import os

import polars as pl
import pytest

from headrace.engine.remembered import Remembered
from headrace.hosts.local import MemoryStore
from headrace.model.page import Page
from headrace.worker.chunk_cache import ChunkCache, encode_chunk
from headrace.worker.compression import compress, decompress
from headrace.worker.saved_state import Extra, SavedState
from headrace.worker.wire import Kind, Row, decode_page

ROWS = pl.DataFrame({"at": range(5000), "name": [f"item {number % 7}" for number in range(5000)]})


@pytest.mark.parametrize("data", [b"", b"x", bytes(10_000), os.urandom(10_000), encode_chunk(ROWS)])
def test_bytes_come_back(data: bytes) -> None:
    assert decompress(compress(data)) == data
    assert len(compress(data)) <= len(data)


def test_rows_become_less_than_half() -> None:
    assert 2 * len(compress(encode_chunk(ROWS))) < len(encode_chunk(ROWS))


@pytest.mark.parametrize("cut", [4, 11, 12, 40])
def test_a_part_of_compressed_bytes_is_a_value_error(cut: int) -> None:
    with pytest.raises(ValueError, match="cannot be decompressed"):
        decompress(compress(encode_chunk(ROWS))[:cut])


def test_a_size_that_no_memory_has_is_a_value_error() -> None:
    packed = compress(encode_chunk(ROWS))
    with pytest.raises(ValueError, match="cannot be decompressed"):
        decompress(packed[:4] + b"\x7f" + packed[5:])


def test_a_page_is_read_whether_it_is_compressed_or_not() -> None:
    data = Page(ROWS).encode()
    for payload in (data, compress(data)):
        assert decode_page(Row(0, Kind.PAGE, "v", 0, ROWS.height, payload)).rows.equals(ROWS)


def test_a_chunk_that_an_earlier_version_did_not_compress_is_read() -> None:
    store, extra = MemoryStore(), Extra(bounds={}, time=0, engine=Remembered())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("headrace.worker.saved_state.compress", lambda data: data)
        SavedState(0, None).save(1, store, {"v": {"rows": ROWS}}, extra, {})
    assert store.values["v/rows"] == encode_chunk(ROWS)
    state, _ = SavedState(0, ChunkCache(None)).load(store)
    assert state["v"]["rows"].equals(ROWS)
