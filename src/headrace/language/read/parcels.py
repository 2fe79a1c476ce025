"""MOVE PARCELS: which parcels of a query's keys go to which bucket."""

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
