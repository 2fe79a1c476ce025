"""Compresses what goes through Spark: chunks of state on their way to the store, pages on their way to buckets.

All of it passes through sockets, the JVM and files. That costs more than to make it small first (0236).
"""

from __future__ import annotations

import pyarrow as pa

#: What compressed bytes begin with. The other ones are Arrow streams, which begin with four bytes of 255.
_MARK = b"HRz1"
_SIZE_BYTES = 8
_HEAD = len(_MARK) + _SIZE_BYTES
#: The next levels save little more, and take longer.
_LEVEL = 1
#: Fewer bytes stay as they are: a call costs as much as they would.
_LEAST = 1024


def compress(data: bytes) -> bytes:
    """Return bytes that `decompress` takes: compressed if that makes them smaller."""
    if len(data) < _LEAST:
        return data
    packed = pa.Codec("zstd", compression_level=_LEVEL).compress(data, asbytes=True)
    assert isinstance(packed, bytes)
    return data if len(packed) + _HEAD >= len(data) else _MARK + len(data).to_bytes(_SIZE_BYTES) + packed


def decompress(data: bytes) -> bytes:
    """Return what `compress` was given; raise ValueError if it is something else."""
    if not data.startswith(_MARK):
        return data
    if len(data) < _HEAD:
        raise ValueError("it cannot be decompressed: its size is missing")
    try:
        size = int.from_bytes(data[len(_MARK) : _HEAD])
        plain = pa.Codec("zstd").decompress(data[_HEAD:], decompressed_size=size, asbytes=True)
    except (pa.ArrowException, OSError, MemoryError, OverflowError) as error:
        raise ValueError(f"it cannot be decompressed: {error}") from error
    assert isinstance(plain, bytes)
    return plain
