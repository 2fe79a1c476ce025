"""Samples of the keys that a join holds: the same keys of all inputs, chosen by their hash."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from headrace.operators.arrays import Array
from headrace.operators.expressions.hashing import hash_columns
from headrace.operators.multijoin.arrangement import Arrangement
from headrace.operators.multijoin.probe import Reader
from headrace.operators.multijoin.seen import KeySample
from headrace.operators.multijoin.spec import MultiJoin

#: So many keys of a port are sampled at most.
MOST_KEYS = 512
_HEAVIEST = 8


def sample_keys(spec: MultiJoin, reader: Reader, bases: Sequence[Arrangement]) -> list[KeySample]:
    """Return for each class and port how many rows are held of the sampled keys, and the keys with most rows."""
    samples: list[KeySample] = []
    for number, members in enumerate(spec.classes):
        ports = [port for port, expr in enumerate(members) if expr is not None]
        counted = {port: _counts(reader, bases[port], number) for port in ports}
        zeros = 0
        while any(len(_sampled(keys, zeros)) > MOST_KEYS for keys, _ in counted.values()):
            zeros += 1
        for port, (keys, counts) in counted.items():
            chosen = _sampled(keys, zeros)
            heaviest = np.argsort(counts, kind="stable")[::-1][:_HEAVIEST]
            samples.append(
                KeySample(port, number, zeros, _pairs(keys, counts, chosen), _pairs(keys, counts, heaviest.tolist()))
            )
    return samples


def _counts(reader: Reader, base: Arrangement, number: int) -> tuple[Array, Array]:
    """Return the hashes of all keys of a class in an arrangement, and the rows of each."""
    found = [pl.Series("h", np.empty(0, np.uint64))]
    for chunk in base.chunks():
        keys = pl.Series(chunk.keys) if base.place.classes == (number,) else None
        keys = reader.number(chunk, base.place.ports, (number,)) if keys is None else keys
        found.append(pl.Series("h", hash_columns([keys]) if keys.dtype == pl.Int64 else keys.to_numpy()))
    counts = pl.concat(found).value_counts()
    return counts["h"].to_numpy(), counts["count"].to_numpy()


def _sampled(keys: Array, zeros: int) -> Array:
    return np.flatnonzero(keys & np.uint64((1 << zeros) - 1) == 0)


def _pairs(keys: Array, counts: Array, places: Iterable[int]) -> dict[int, int]:
    return {int(keys[place]): int(counts[place]) for place in places}
