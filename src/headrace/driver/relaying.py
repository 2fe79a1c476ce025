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
from headrace.model.patterns.pattern import Pattern, covers, intersect, is_empty
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
            common = _common(relay, others)
            receive = receives.get((relay.reader, relay.port))
            if receive is not None and _destination(relay.pattern, receive, buckets, running) == bucket:
                common = relay
            if common is not None and common not in checked:
                checked.add(common)
                yield common


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


def _common(relay: Relay, others: Iterable[Iterable[Relay]]) -> Relay | None:
    """Return what all buckets say of an arc in common with a relay of one; None if that is nothing.

    A tuple comes to one of the buckets, and none of them needs it.
    """
    for reported in others:
        same = [other for other in reported if (other.reader, other.port) == (relay.reader, relay.port)]
        if any(covers(other.pattern, relay.pattern) for other in same):
            continue
        met = [both for other in same if not is_empty(both := intersect(other.pattern, relay.pattern))]
        if not met or relay.until is None:
            return None
        relay = Relay(relay.reader, relay.port, met[-1], relay.until)
    return relay


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
