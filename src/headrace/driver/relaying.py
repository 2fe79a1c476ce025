"""What operators find out in buckets, for the ingest of the next micro-batches: only what is true of all buckets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np
import polars as pl

from headrace.commands.command import Relay, UseRelays
from headrace.commands.running import Running
from headrace.graph.place import Placement
from headrace.model.expressions.expression import Column
from headrace.model.patterns.match import OneOf
from headrace.model.patterns.pattern import Pattern, covers
from headrace.model.time import SECOND
from headrace.operators.expressions.hashing import hash_columns
from headrace.operators.specs import Receive
from headrace.worker.wire import Report

#: So much is relayed at most; to relay less is always right.
MOST_RELAYS = 64
#: Of keys that a pattern lists, so many are looked at.
MOST_COMBINATIONS = 1000
#: The ingest is not told more often: a command makes it start anew.
EVERY = SECOND


class Relaying:
    """Decides when the ingest is to be told something else."""

    def __init__(self) -> None:
        self._told_at: int | None = None

    def command(
        self, reports: Sequence[Report], running: Running, placement: Placement, buckets: Sequence[int]
    ) -> UseRelays | None:
        """What to send after a micro-batch; None if nothing is new, or it is too early."""
        now = max((report.time for report in reports), default=0)
        if self._told_at is not None and now - self._told_at < EVERY:
            return None
        found = tuple(agreed(reports, placement, buckets))[-MOST_RELAYS:]
        if set(found) == set(running.relays) or running.draining:
            return None
        self._told_at = now
        return UseRelays(found)


def agreed(reports: Sequence[Report], placement: Placement, buckets: Sequence[int]) -> Iterable[Relay]:
    """What no bucket needs: all say so, or only those that do could get it."""
    said = {report.bucket: report.relays for report in reports}
    if not any(said.values()):
        return
    receives = {vertex.id: vertex.spec for vertex in placement.keyed if isinstance(vertex.spec, Receive)}
    inputs = {(vertex.id, port): origin for vertex in placement.keyed for port, origin in enumerate(vertex.inputs)}
    for arc, origin in inputs.items():
        while origin not in receives and (origin, 0) in inputs and (origin, 1) not in inputs:
            origin = inputs[origin, 0]  # who stands before may hear it as well
        if origin != inputs[arc] and origin in receives and receives[origin].keys == ():
            inputs[arc] = origin
    seen: set[Relay] = set()
    for bucket, relays in said.items():
        for relay in relays:
            receive = receives.get(inputs.get((relay.reader, relay.port), ""))
            if relay in seen or receive is None:
                continue
            seen.add(relay)
            others = [number for number in buckets if number != bucket]
            if (
                all(_says(said.get(number, ()), relay) for number in others)
                or _goes_to(relay.pattern, receive, buckets) == bucket
            ):
                yield relay


def _says(relays: Iterable[Relay], wanted: Relay) -> bool:
    return any(
        (one.reader, one.port) == (wanted.reader, wanted.port) and covers(one.pattern, wanted.pattern) for one in relays
    )


def _goes_to(wanted: Pattern, receive: Receive, buckets: Sequence[int]) -> int | None:
    """The one bucket that gets the tuples of a pattern; None if there may be several."""
    if receive.keys == () or len(buckets) == 1:
        return buckets[0]
    values = []
    for key in receive.keys or ():
        match = wanted.get(key.name) if isinstance(key, Column) else None
        if not isinstance(match, OneOf):
            return None
        values.append(match.values)
    if not values or math.prod(map(len, values)) > MOST_COMBINATIONS:
        return None
    combined = list(zip(*product(*values), strict=True))
    columns = [
        pl.Series(list(column)).cast(key.type.polars) for column, key in zip(combined, receive.keys or (), strict=True)
    ]
    found = {buckets[int(place)] for place in hash_columns(columns) % np.uint64(len(buckets))}
    return found.pop() if len(found) == 1 else None
