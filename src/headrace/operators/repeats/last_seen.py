"""Remember when each value was seen last, for as long as it matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from headrace.model.patterns.pattern import Pattern, without
from headrace.model.schema import TS
from headrace.operators.arrays import Flags
from headrace.operators.expressions.lookup import candidates, equal
from headrace.operators.operator import State

HASH = "__hash"
#: Before all timestamps.
NEVER = np.iinfo(np.int64).min
#: Rows of a chunk of remembered values at most, unless a single batch brings more.
_LIMIT = 32_768


@dataclass(frozen=True, slots=True)
class _Chunk:
    number: int
    rows: pl.DataFrame  # sorted by hash
    high: int


class LastSeen:
    """When each value was seen last, for as long as it matters.

    A batch adds one chunk; chunks of like size are merged, newer entries replacing older ones. A value may be in
    several chunks: the largest time counts.
    """

    def __init__(self, names: list[str], span: int) -> None:
        self._names = names
        self._span = span
        self._chunks: list[_Chunk] = []
        self._next = 0

    def __len__(self) -> int:
        return sum(chunk.rows.height for chunk in self._chunks)

    def expire(self, bound: int) -> None:
        """Forget chunks that no tuple from `bound` on can need."""
        if any(chunk.high < bound - self._span for chunk in self._chunks):
            self._chunks = [chunk for chunk in self._chunks if chunk.high >= bound - self._span]

    def last(self, values: pl.DataFrame) -> np.ndarray:
        """Return for each of the values, which are distinct and sorted by hash, when it was seen last."""
        hashes = values[HASH].to_numpy()
        result = np.full(values.height, NEVER, dtype=np.int64)
        for chunk in self._chunks:
            left, right = candidates(chunk.rows[HASH].to_numpy(), hashes)
            if len(left):
                ours, theirs = values[left], chunk.rows[right]
                agree = equal([ours[name] for name in self._names], [theirs[name] for name in self._names])
                repeated = left[agree]  # at most one row of a chunk equals a value, so no index comes twice
                result[repeated] = np.maximum(result[repeated], theirs[TS].to_numpy()[agree])
        return result

    def add(self, latest: pl.DataFrame, bound: int) -> None:
        """Remember distinct values, sorted by hash, with times later than what is known of them."""
        rows = latest.filter(pl.col(TS) >= bound - self._span)
        if rows.height == 0:
            return
        number = self._next
        while self._chunks and _mergeable(self._chunks[-1].rows.height, rows.height):
            before = self._chunks.pop()
            number = before.number
            old = before.rows.filter(pl.col(TS) >= bound - self._span)
            rows = pl.concat([old, rows]).unique(subset=self._names, keep="last", maintain_order=True).sort(HASH)
        self._chunks.append(_Chunk(number, rows, _latest(rows)))
        self._next = number + 1

    def remove(self, pattern: Pattern) -> int:
        """Forget values that match; returns how many."""
        before, kept = len(self), list[_Chunk]()
        for chunk in self._chunks:
            rows = without(pattern, chunk.rows)
            if rows.height:
                kept.append(chunk if rows is chunk.rows else _Chunk(chunk.number, rows, _latest(rows)))
        self._chunks = kept
        return before - len(self)

    def give(self, choose: Callable[[pl.DataFrame], Flags]) -> pl.DataFrame | None:
        """Give up the values that are chosen, each with when it was seen last; None if there are none."""
        kept, given = list[_Chunk](), list[pl.DataFrame]()
        for chunk in self._chunks:
            chosen = choose(chunk.rows)
            if not chosen.any():
                kept.append(chunk)
                continue
            given.append(chunk.rows.filter(chosen))
            if not chosen.all():
                rest = chunk.rows.filter(~chosen)
                kept.append(_Chunk(chunk.number, rest, _latest(rest)))
        self._chunks = kept
        return pl.concat(given).sort(TS).unique(self._names, keep="last", maintain_order=True) if given else None

    def take(self, given: pl.DataFrame) -> None:
        """Go on with values that are not known here."""
        rows = given.sort(HASH)
        self._chunks.append(_Chunk(self._next, rows, _latest(rows)))
        self._next += 1

    def state(self) -> dict[str, pl.DataFrame]:
        return {f"seen-{chunk.number}": chunk.rows for chunk in self._chunks}

    def restore(self, state: State) -> None:
        chunks = [(int(name.removeprefix("seen-")), rows) for name, rows in state.items() if name.startswith("seen-")]
        self._chunks = [
            _Chunk(number, rows, _latest(rows)) for number, rows in sorted(chunks, key=lambda pair: pair[0])
        ]
        self._next = self._chunks[-1].number + 1 if self._chunks else 0


def _mergeable(before: int, new: int) -> bool:
    return before <= 2 * new and before + new <= _LIMIT


def _latest(rows: pl.DataFrame) -> int:
    return int(rows[TS].to_numpy().max())
