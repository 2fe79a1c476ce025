"""Samples of the keys that a join holds: the same keys of all inputs, chosen by their hash.

What is in a chunk is looked at once, because chunks do not change: so a sample costs as much as the rows that are new.
That holds for a large state, too, which is restored in every micro-batch: its chunks are the same frames then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from weakref import ref

import numpy as np
import polars as pl

from headrace.model.expressions.expression import Expr
from headrace.operators.arrays import Array, Ints
from headrace.operators.multijoin.arrangement import Arrangement
from headrace.operators.multijoin.probe import Reader
from headrace.operators.multijoin.seen import KeySample
from headrace.operators.multijoin.spec import MultiJoin
from headrace.operators.state.sorted_chunk import Chunk

#: So many keys of a port are sampled at most.
MOST_KEYS = 512
_HEAVIEST = 8
#: Keys that have most rows in some chunk are counted in all of them, so many at most.
_CANDIDATES = 8 * _HEAVIEST
#: Counts up to this number are told apart before they are sorted.
_FINE = 1 << 12
#: A key of rows, and whether its number is the key itself; None: the one by which they are sorted.
_Key = tuple[Expr, bool] | None


@dataclass(frozen=True, slots=True)
class _Part:
    """The keys of one chunk: rows of those in the sample, by hash, and the keys with most rows.

    Keys of rows that are sorted by another key are kept as well, sorted, to count the rows of some of them.
    """

    zeros: int
    hashes: Array
    counts: Ints
    heaviest: Array
    heaviest_counts: Ints
    keys: Array | None


class _Known:
    """Parts by the frame of their chunk, which is told from others by its identity, and by key; forgotten with it."""

    def __init__(self) -> None:
        self._parts: dict[int, tuple[ref[pl.DataFrame], dict[_Key, _Part]]] = {}

    def part(self, frame: pl.DataFrame, key: _Key, make: Callable[[], _Part]) -> _Part:
        """Return what is known of a frame, or make it."""
        number = id(frame)
        if number not in self._parts:
            self._parts[number] = ref(frame, lambda _: self._parts.pop(number)), {}
        _, parts = self._parts[number]
        if key not in parts:
            parts[key] = make()
        return parts[key]


_known = _Known()


class KeySampler:
    """Takes samples of the keys of one join."""

    def __init__(self, spec: MultiJoin, reader: Reader) -> None:
        self._reader = reader
        self._ports = [[port for port, expr in enumerate(members) if expr is not None] for members in spec.classes]
        self._keys = {
            (number, port): (spec.output(port, expr), spec.is_exact((number,)))
            for number, members in enumerate(spec.classes)
            for port, expr in enumerate(members)
            if expr is not None
        }

    def sample(self, bases: Sequence[Arrangement]) -> list[KeySample]:
        """Return for each class and port how many rows are held of the sampled keys, and of the heaviest keys.

        A key that is among the heaviest of one port is counted in all of them.
        """
        samples: list[KeySample] = []
        for number, ports in enumerate(self._ports):
            counted = {port: self._counts(bases[port], number) for port in ports}
            zeros = max(bits for bits, _, _ in counted.values())
            heaviest = self._heaviest([bases[port] for port in ports], number)
            hashes = _hashes(heaviest)
            for port, (_, keys, counts) in counted.items():
                chosen = np.flatnonzero(_is_sampled(keys, zeros))
                rows = self._rows_of(heaviest, bases[port], number)
                samples.append(
                    KeySample(port, number, zeros, _pairs(keys[chosen], counts[chosen]), _pairs(hashes, rows))
                )
        return samples

    def _counts(self, base: Arrangement, number: int) -> tuple[int, Array, Ints]:
        """Return how the keys of a port are sampled, their hashes, and the rows of each."""
        parts = [self._part(base, chunk, number) for chunk in base.chunks()]
        zeros = max((part.zeros for part in parts), default=0)
        hashes = np.concatenate([np.empty(0, np.uint64), *(part.hashes for part in parts)])
        counts = np.concatenate([np.empty(0, np.int64), *(part.counts for part in parts)])
        keys, places = np.unique(hashes, return_inverse=True)
        totals = np.bincount(places, counts, len(keys)).astype(np.int64)
        zeros = _fewest(keys, zeros)
        kept = _is_sampled(keys, zeros)
        return zeros, keys[kept], totals[kept]

    def _heaviest(self, bases: Sequence[Arrangement], number: int) -> Array:
        """Return the keys with most rows in some port, sorted."""
        parts = [self._part(base, chunk, number) for base in bases for chunk in base.chunks()]
        if not parts:
            return np.empty(0, np.int64)
        found, places = np.unique(np.concatenate([part.heaviest for part in parts]), return_inverse=True)
        rows = np.bincount(places, np.concatenate([part.heaviest_counts for part in parts]), len(found))
        candidates = np.sort(found[np.argsort(-rows, kind="stable")[:_CANDIDATES]])
        chosen = np.zeros(len(candidates), np.bool_)
        for base in bases:
            chosen[_largest(self._rows_of(candidates, base, number))] = True
        return candidates[chosen]

    def _rows_of(self, keys: Array, base: Arrangement, number: int) -> Ints:
        """Return how many rows of a port have each of these keys."""
        rows = np.zeros(len(keys), np.int64)
        for chunk in base.chunks():
            held = self._part(base, chunk, number).keys
            held = chunk.keys if held is None else held
            rows += np.searchsorted(held, keys, "right") - np.searchsorted(held, keys, "left")
        return rows

    def _part(self, base: Arrangement, chunk: Chunk, number: int) -> _Part:
        """Return what is in a chunk; where rows are gone, it is remembered by what says which."""
        gone, frame = chunk.gone, chunk.gone_bits()
        is_own = base.place.classes == (number,)

        def make() -> _Part:
            keys = chunk.keys if is_own else self._reader.number(chunk, base.place.ports, (number,)).to_numpy()
            keys = keys if gone is None else keys[~gone]
            return _part_of(keys if is_own else np.sort(keys), is_sorted=is_own and gone is None)

        key = None if is_own else self._keys[number, base.place.ports[0]]
        return _known.part(chunk.rows if frame is None else frame, key, make)


def _part_of(keys: Array, *, is_sorted: bool = False) -> _Part:
    """Return what is in a chunk, given its keys in their order; `is_sorted` if its rows are, too."""
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    counts = np.diff(np.append(starts, len(keys)))
    distinct = keys[starts]
    hashes = _hashes(distinct)
    zeros = _fewest(hashes, 0)
    kept = _is_sampled(hashes, zeros)
    largest = _largest(counts)
    heaviest = distinct[largest], counts[largest]
    return _Part(zeros, hashes[kept], counts[kept], *heaviest, None if is_sorted else keys)


def _hashes(keys: Array) -> Array:
    """Return the hashes of keys; those that are no integers are hashes already.

    Their last bits choose the sample, so they depend on all bits of a key (the finalizer of splitmix64).
    """
    if keys.dtype == np.uint64:
        return keys
    hashes: Array = keys.astype(np.int64).view(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        hashes = (hashes ^ (hashes >> np.uint64(shift))) * np.uint64(factor)
    hashes = hashes ^ (hashes >> np.uint64(31))
    return hashes


def _fewest(hashes: Array, zeros: int) -> int:
    """Return how many last bits must be zero for few keys to be in the sample."""
    while np.count_nonzero(_is_sampled(hashes, zeros)) > MOST_KEYS:
        zeros += 1
    return zeros


def _is_sampled(hashes: Array, zeros: int) -> Array:
    chosen: Array = hashes & np.uint64((1 << zeros) - 1) == 0
    return chosen


def _largest(counts: Ints) -> Ints:
    """Return the places of the largest counts, equal ones in the order of the keys."""
    near = np.arange(len(counts))
    if len(counts) > _HEAVIEST:  # sort those alone that can be among the largest
        at_least = np.cumsum(np.bincount(np.minimum(counts, _FINE))[::-1])[::-1]
        near = np.flatnonzero(counts >= np.flatnonzero(at_least >= _HEAVIEST)[-1])
    return near[np.argsort(-counts[near], kind="stable")[:_HEAVIEST]]


def _pairs(keys: Array, counts: Iterable[int]) -> dict[int, int]:
    return {int(key): int(count) for key, count in zip(keys, counts, strict=True)}
