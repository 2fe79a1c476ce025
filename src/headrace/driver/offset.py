"""Everything that a micro-batch depends on, as one value.

Spark keeps offsets as JSON in its log. A micro-batch that is run again is given the same offsets, and so does the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from headrace.connectors.connector import Offset as Position
from headrace.model.parcels import Moved
from headrace.model.time import BEGIN


class StreamAt(Struct, frozen=True, kw_only=True):
    """How far a stream is read."""

    at: Position = None
    newest: int = BEGIN  # the newest timestamp so far, of the lane that is furthest behind
    lanes: dict[str, int] = {}  # if there are several: the bounds of those that the stream waits for
    ended: bool = False  # whether no tuple follows
    live: bool = False  # whether the clock bounds the timestamps still to come, since all that arrived was read
    fresh: int  # when all that had arrived was last read, microseconds
    unread: int = 0  # how much had come and was left: rows, or bytes
    source: str = ""  # of the definition: a stream of the same name with another source is another one
    leads: bool = False  # whether its timestamps were further ahead of the clock than those of others may be
    idle: bool = False  # no query has it, so it waits where it is
    lag: int = 0  # by how much it is behind the clock while it is live
    offered: int = BEGIN  # the latest bound by the clock that buckets could ask for


class ExchangeAt(Struct, frozen=True, kw_only=True):
    """How far the pages of an exchange are read."""

    at: Position = None
    bound: int = BEGIN  # on the timestamps still to come
    parts: list[str] | None = None  # names of the files that this micro-batch reads; None: all between two offsets


class Offset(Struct, frozen=True, kw_only=True):
    """The end of one micro-batch and the beginning of the next."""

    time: int = BEGIN
    commands: int = 0  # how many are in force
    streams: dict[str, StreamAt] = {}
    exchanges: dict[str, ExchangeAt] = {}  # by origin
    budget: int | None = None  # nanoseconds of estimated service that one bucket may spend; None: no limit
    turn: int = 0  # grows while tuples wait in the buckets, which is reason enough for a micro-batch
    parallel: int | None = None  # the number of ingest tasks among which the work is divided; None: not recorded
    buckets: list[int] | None = None  # their numbers; None: not recorded
    moved: list[Moved] = []  # files with parcels that buckets take in

    def ended(self) -> dict[str, bool]:
        """Return which streams have ended."""
        return {name: stream.ended for name, stream in self.streams.items()}

    def work(self) -> Any:
        """Return what makes a micro-batch necessary if it differs from that of the last."""
        streams = {name: (stream.at, stream.ended, stream.live) for name, stream in self.streams.items()}
        return self.commands, exchanged(self.exchanges), streams, self.turn


def exchanged(exchanges: Mapping[str, ExchangeAt]) -> dict[str, tuple[Position, int]]:
    """Return how far exchanges are; the files that were read on the way there are no reason for a micro-batch."""
    return {origin: (exchange.at, exchange.bound) for origin, exchange in exchanges.items()}


#: Where a new checkpoint begins.
START = Offset()
