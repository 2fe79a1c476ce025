"""The small rows of a task travel to the driver as one, compressed.

A row costs the driver more than its bytes do, and the schemas of pages are much alike: twenty results of a few tuples
each are 17 kB as rows, and 2 kB as a bundle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import pyarrow as pa

from headrace.worker.wire import Kind, Row, on_the_way

#: Larger rows travel on their own.
_LARGE = 64 * 1024
_CODEC = "zstd"


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    bucket: int
    kind: Kind
    name: str
    part: int
    n: int
    payload: bytes


class _Bundle(msgspec.Struct, frozen=True, array_like=True):
    size: int  # of the rows, as MessagePack
    rows: bytes  # compressed


class Bundler:
    """Holds the small rows of a task until all its buckets have run."""

    def __init__(self) -> None:
        self._held: list[Row] = []

    def after(self, rows: Iterable[Row], *, is_last: bool) -> list[Row]:
        """Return what goes to the driver once a bucket has given these rows."""
        sent: list[Row] = []
        for row in rows:
            (self._held if len(row.payload) < _LARGE else sent).append(row)
        if is_last and self._held:
            sent.append(bundled(self._held))
            self._held = []
        return sent


def bundled(rows: Sequence[Row]) -> Row:
    """Return one row that holds others; `n` is that of the report in it."""
    commands = max((row.n for row in rows if row.kind is Kind.REPORT), default=0)
    packed = msgspec.msgpack.encode(
        [_Packed(row.bucket, row.kind, row.name, row.part, row.n, row.payload) for row in rows]
    )
    bundle = _Bundle(len(packed), pa.compress(packed, codec=_CODEC, asbytes=True))
    return Row(rows[0].bucket, Kind.BUNDLE, "", 0, commands, msgspec.msgpack.encode(bundle))


def unbundled(rows: Iterable[Row]) -> list[Row]:
    """Return rows with the contents of bundles in place of these."""
    return [row for outer in rows for row in ([outer] if outer.kind is not Kind.BUNDLE else _contents(outer))]


def _contents(row: Row) -> list[Row]:
    with on_the_way("a bundle of a task"):
        bundle = msgspec.msgpack.decode(row.payload, type=_Bundle)
        packed = pa.decompress(bundle.rows, decompressed_size=bundle.size, codec=_CODEC, asbytes=True)
        contents = msgspec.msgpack.decode(packed, type=list[_Packed])
    return [Row(held.bucket, held.kind, held.name, held.part, held.n, held.payload) for held in contents]
