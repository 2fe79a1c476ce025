"""The names that are made of other names: side streams, exchanges and the streams of the system.

No other module builds or takes apart such a name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

#: Begins the names of the streams in which a deployment reports on itself.
SYSTEM_PREFIX = "headrace."
_EXCHANGE_STREAM = "exchange:"
_EXCHANGE_VERTEX = "exchange-"
_EXCHANGE_SCAN = "scan-"


class Side(StrEnum):
    """What a side stream holds of its base."""

    LATE = "late"  # tuples that came after the frontier of the stream, or that a PACE left out
    BAD = "bad"  # records of a stream that could not be read
    FAILED = "failed"  # actions of a rule that were given up, or results that a sink of a query cannot hold


_SIDES = {side.value: side for side in Side}


@dataclass(frozen=True, slots=True)
class SideStream:
    """The stream of what was set aside of a stream, a query or a rule: `bids.late`."""

    base: str
    side: Side

    @property
    def name(self) -> str:
        return f"{self.base}.{self.side}"


def late_stream(base: str) -> str:
    """Return the name of the late tuples of a stream or a paced query."""
    return SideStream(base, Side.LATE).name


def bad_stream(base: str) -> str:
    """Return the name of the unreadable records of a stream."""
    return SideStream(base, Side.BAD).name


def failed_stream(base: str) -> str:
    """Return the name of the failed actions of a rule, or of the results of a query that a sink cannot hold."""
    return SideStream(base, Side.FAILED).name


def side_stream(name: str) -> SideStream | None:
    """Take the name of a side stream apart, in any case of letters; None if it does not have that form."""
    base, _, word = name.rpartition(".")
    side = _SIDES.get(word.lower())
    return SideStream(base, side) if base and side is not None else None


def base_stream(name: str) -> str:
    """Return the stream whose late tuples or bad records a name stands for, or the name itself."""
    side = side_stream(name)
    return side.base if side is not None and side.side in (Side.LATE, Side.BAD) else name


def is_system_stream(name: str) -> bool:
    """Return whether a deployment reports on itself in this stream."""
    return name.startswith(SYSTEM_PREFIX)


def exchange_stream(origin: str) -> str:
    """Return the stream by which the output of vertex `origin` comes back in the next micro-batch."""
    return _EXCHANGE_STREAM + origin


def exchange_vertex(origin: str) -> str:
    """Return the vertex of the keyed stage that takes the output of `origin` out of its bucket."""
    return _EXCHANGE_VERTEX + origin


def exchange_scan(origin: str) -> str:
    """Return the vertex of the ingest that reads the output of `origin` back."""
    return _EXCHANGE_SCAN + origin


def is_exchange_stream(stream: str) -> bool:
    """Return whether a stream brings back what a vertex put out."""
    return stream.startswith(_EXCHANGE_STREAM)


def exchange_of(vertex: str) -> str | None:
    """Return the origin of an exchange, given the vertex that takes its pages out; None for any other vertex."""
    return vertex.removeprefix(_EXCHANGE_VERTEX) if vertex.startswith(_EXCHANGE_VERTEX) else None


def origin_of_scan(vertex: str) -> str:
    """Return the origin of an exchange, given the vertex that reads its pages back.

    The scan of an ordinary stream begins in the same way; what is returned for it names no vertex.
    """
    return vertex.removeprefix(_EXCHANGE_SCAN)
