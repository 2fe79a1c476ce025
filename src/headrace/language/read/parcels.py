"""MOVE PARCELS: which parcels of a query's keys go to which bucket; and IN BUCKET, for plans of some buckets."""

from __future__ import annotations

from headrace.errors import Span
from headrace.language.reader import Reader
from headrace.language.syntax.parcels import MoveParcels

_HINT = "MOVE PARCELS 3, 17 OF query TO BUCKET 1, or TO ALL BUCKETS; SHOW PARCELS lists parcels and buckets"


def read_move(reader: Reader, offset: int) -> MoveParcels:
    """Read MOVE PARCELS 3, 17 OF query TO BUCKET 1, or TO ALL BUCKETS."""
    reader.expect("MOVE")
    if not reader.accept("PARCEL"):
        reader.expect("PARCELS", hint=_HINT)
    parcels: list[tuple[int, Span]] = []
    while not parcels or reader.accept(","):
        span = reader.here()
        parcels.append((reader.integer("the number of a parcel"), span))
    reader.expect("OF", hint=_HINT)
    query = reader.name("the query's name")
    if reader.accept("TO", "ALL"):
        span = reader.here()
        reader.expect("BUCKETS", hint=_HINT)
        return MoveParcels(reader.text, offset, tuple(parcels), query, None, span)
    reader.expect("TO", "BUCKET", hint=_HINT)
    span = reader.here()
    return MoveParcels(reader.text, offset, tuple(parcels), query, reader.integer("the number of a bucket"), span)


def read_buckets(reader: Reader) -> tuple[tuple[int, Span], ...]:
    """Read IN BUCKET 2 or IN BUCKETS 1, 2, if it is there."""
    if not reader.accept("IN"):
        return ()
    if not reader.accept("BUCKETS"):
        reader.expect("BUCKET", hint="IN BUCKET 2 or IN BUCKETS 1, 2; SHOW BUCKETS lists their numbers")
    buckets: list[tuple[int, Span]] = []
    while not buckets or reader.accept(","):
        span = reader.here()
        buckets.append((reader.integer("the number of a bucket"), span))
    return tuple(buckets)
