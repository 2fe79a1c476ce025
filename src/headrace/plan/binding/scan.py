"""Read a stream: its tuples as they are, or, if it has marks, without these and what they rule out."""

from __future__ import annotations

from headrace.catalog.definitions import Stream
from headrace.model.streams import Side, side_stream
from headrace.plan.nodes import Node, Punctuate, Scan, Union


def scan(stream: Stream) -> Node:
    """Return the plan of the tuples of a stream, which may be a side stream."""
    plain = Scan(stream.name, stream.schema)
    if stream.mark is None:
        return plain
    side = side_stream(stream.name)
    if side is None:
        return Punctuate(plain, stream.mark, stream.delimited)
    assert side.side is Side.LATE
    return Union((plain, Punctuate(Scan(side.base, stream.schema), stream.mark, stream.delimited, late=True)))
