"""Pairs of rows that agree in key and time: those that search, and those of the chunks that they meet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

from headrace.model.schema import EXPIRY, TS
from headrace.operators.arrays import KEY, PAIRS_AT_ONCE, Ints, matches
from headrace.operators.state.sorted_chunk import Chunk


class Hits(NamedTuple):
    """Pairs of searching rows and rows of one chunk, with the times of the joined rows."""

    chunk: Chunk
    mine: Ints
    theirs: Ints
    ts: Ints
    exp: Ints


def portions_of_hits(
    rows: pl.DataFrame, meeting: Callable[[Ints], Iterable[tuple[Chunk, int, int]]]
) -> Iterator[list[Hits]]:
    """Yield the pairs of rows, which are sorted by key, in portions of bounded size.

    `meeting` gives the chunks that may have some of the keys, each with the range of those.
    """
    needles, ts, exp = rows[KEY].to_numpy(), rows[TS].to_numpy(), rows[EXPIRY].to_numpy()
    if not len(needles):
        return
    earliest, latest = int(ts.min()), int(exp.max())
    collected: list[Hits] = []
    pairs = 0
    for chunk, start, stop in meeting(needles):
        if chunk.max_exp < earliest or chunk.min_ts > latest:
            continue
        for mine, theirs in matches(needles[start:stop], chunk.keys):
            hits = in_time(chunk, mine + start if start else mine, theirs, ts, exp)
            if len(hits.mine):
                collected.append(hits)
                pairs += len(hits.mine)
            if pairs >= PAIRS_AT_ONCE:
                yield collected
                collected, pairs = [], 0
    if collected:
        yield collected


def in_time(chunk: Chunk, mine: Ints, theirs: Ints, ts: Ints, exp: Ints) -> Hits:
    """Return those of the pairs of which each is in the other's window."""
    latest = np.maximum(ts[mine], chunk.ts[theirs])
    earliest_end = np.minimum(exp[mine], chunk.exp[theirs])
    meet = latest <= earliest_end
    if meet.all():
        return Hits(chunk, mine, theirs, latest, earliest_end)
    return Hits(chunk, mine[meet], theirs[meet], latest[meet], earliest_end[meet])
