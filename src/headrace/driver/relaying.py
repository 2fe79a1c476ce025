"""Feedback that operators derive in buckets, relayed to the ingest once it holds for every bucket."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import polars as pl

from headrace.commands.command import Relay, UseRelays
from headrace.commands.running import Running
from headrace.graph.graph import Arc
from headrace.graph.place import Placement
from headrace.model.expressions.expression import Column
from headrace.model.patterns.match import OneOf
from headrace.model.patterns.pattern import Pattern, covers
from headrace.model.time import SECOND
from headrace.operators.expressions.hashing import hash_columns
from headrace.operators.specs import Receive
from headrace.worker.router import places_among, places_of
from headrace.worker.wire import Report

#: So many patterns are relayed at most; to relay fewer is always correct.
MAX_RELAYS = 64
#: So many combinations of the keys that a pattern lists are looked at.
MAX_COMBINATIONS = 1000
#: The shortest time between two commands: after each one the ingest is built again.
MIN_INTERVAL = SECOND


class Relaying:
    """Decides when the ingest gets other patterns."""

    def __init__(self) -> None:
        self._sent_at: int | None = None

    def command(
        self, reports: Sequence[Report], running: Running, placement: Placement, buckets: Sequence[int]
    ) -> UseRelays | None:
        """Return what to send after a micro-batch; None if nothing has changed, or the last command was just sent."""
        now = max((report.time for report in reports), default=0)
        if self._sent_at is not None and now - self._sent_at < MIN_INTERVAL:
            return None
        relays = tuple(agreed(reports, running, placement, buckets))[-MAX_RELAYS:]
        if set(relays) == set(running.relays) or running.draining:
            return None
        self._sent_at = now
        return UseRelays(relays)


def agreed(
    reports: Sequence[Report], running: Running, placement: Placement, buckets: Sequence[int]
) -> Iterable[Relay]:
    """Yield what no bucket needs: all buckets report it, or the only one that could get such tuples does."""
    relays_of = {note.bucket: note.relays for report in reports for note in report.buckets}
    if not any(relays_of.values()):
        return
    receives = _receives(placement)
    checked: set[Relay] = set()
    for bucket, relays in relays_of.items():
        others = [relays_of.get(number, ()) for number in buckets if number != bucket]
        for relay in relays:
            receive = receives.get((relay.reader, relay.port))
            if relay in checked or receive is None:
                continue
            checked.add(relay)
            if (
                all(_covered(relay, reported) for reported in others)
                or _destination(relay.pattern, receive, buckets, running) == bucket
            ):
                yield relay


def _receives(placement: Placement) -> Mapping[Arc, Receive]:
    """Return the Receive vertex whose tuples each arc of the keyed stage carries unchanged.

    Operators with one input may stand in between if all tuples go to one bucket: each can answer the same feedback.
    """
    receives = {vertex.id: vertex.spec for vertex in placement.keyed if isinstance(vertex.spec, Receive)}
    inputs = {(vertex.id, port): origin for vertex in placement.keyed for port, origin in enumerate(vertex.inputs)}
    by_arc: dict[Arc, Receive] = {}
    for arc, origin in inputs.items():
        entrance = origin
        while entrance not in receives and (entrance, 0) in inputs and (entrance, 1) not in inputs:
            entrance = inputs[entrance, 0]
        if entrance in receives and (entrance == origin or receives[entrance].keys == ()):
            by_arc[arc] = receives[entrance]
    return by_arc


def _covered(relay: Relay, others: Iterable[Relay]) -> bool:
    """Return whether one of the others says at least as much of the same arc."""
    return any(
        (other.reader, other.port) == (relay.reader, relay.port) and covers(other.pattern, relay.pattern)
        for other in others
    )


def _destination(pattern: Pattern, receive: Receive, buckets: Sequence[int], running: Running) -> int | None:
    """Return the one bucket that gets the tuples of a pattern; None if there may be several."""
    allotment = running.allotments.get(receive.allotment)
    table = places_among(buckets, running.buckets or buckets) if allotment is None else allotment.table(buckets)
    if receive.keys == () or len(buckets) == 1:
        return buckets[int(table[0])]
    if receive.port is not None:
        return None  # a heavy key may be in several
    values = []
    for key in receive.keys or ():
        condition = pattern.get(key.name) if isinstance(key, Column) else None
        if not isinstance(condition, OneOf):
            return None
        values.append(condition.values)
    if not values or math.prod(map(len, values)) > MAX_COMBINATIONS:
        return None
    combined = list(zip(*product(*values), strict=True))
    columns = [
        pl.Series(list(column)).cast(key.type.polars) for column, key in zip(combined, receive.keys or (), strict=True)
    ]
    destinations = {buckets[place] for place in places_of(hash_columns(columns), table).tolist()}
    return destinations.pop() if len(destinations) == 1 else None
