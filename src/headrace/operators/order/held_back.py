"""Tuples that wait for the frontier, as immutable chunks in the order of arrival."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from headrace.model.patterns.pattern import Pattern, without
from headrace.model.schema import TS
from headrace.model.time import END
from headrace.operators.arrays import Flags
from headrace.operators.operator import State

#: Rows of a chunk at most, unless a single page is larger: a split rewrites no more than this.
_LIMIT = 8192


@dataclass(frozen=True, slots=True)
class _Chunk:
    number: int
    rows: pl.DataFrame
    low: int
    high: int


class Pending:
    """A bag of tuples from which those below a bound are taken.

    Small chunks are merged with their neighbors when these are not much larger, so that many tiny pages make few
    chunks and a tuple is copied a logarithmic number of times. A punctuation touches only chunks that have a tuple
    below its bound.
    """

    def __init__(self) -> None:
        self._chunks: list[_Chunk] = []
        self._next = 0

    def __len__(self) -> int:
        return sum(chunk.rows.height for chunk in self._chunks)

    def oldest(self) -> int:
        """Return the smallest timestamp of a tuple, or END."""
        return min((chunk.low for chunk in self._chunks), default=END)

    def due(self) -> int | None:
        """Return the least bound that lets a tuple go; None if there is none."""
        oldest = self.oldest()
        return None if oldest == END else oldest + 1

    def add(self, rows: pl.DataFrame) -> None:
        """Take in tuples, after all that are here."""
        if rows.height == 0:
            return
        chunk = _chunk(self._next, rows)
        while self._chunks and _mergeable(self._chunks[-1].rows.height, chunk.rows.height):
            last = self._chunks.pop()
            both = pl.concat([last.rows, chunk.rows], rechunk=True)
            chunk = _Chunk(last.number, both, min(last.low, chunk.low), max(last.high, chunk.high))
        self._chunks.append(chunk)
        self._next = chunk.number + 1

    def take(self, bound: int) -> pl.DataFrame | None:
        """Remove and return the tuples below `bound`, in the order of arrival; None if there are none."""
        taken: list[pl.DataFrame] = []
        kept: list[_Chunk] = []
        for chunk in self._chunks:
            if chunk.low >= bound:
                kept.append(chunk)
            elif chunk.high < bound:
                taken.append(chunk.rows)
            else:
                below = chunk.rows[TS] < bound
                taken.append(chunk.rows.filter(below))
                kept.append(_chunk(chunk.number, chunk.rows.filter(~below)))
        if not taken:
            return None
        self._chunks = kept
        return pl.concat(taken)

    def take_all(self) -> list[pl.DataFrame]:
        """Remove and return all tuples, in the order of arrival."""
        taken, self._chunks = [chunk.rows for chunk in self._chunks], []
        return taken

    def remove(self, pattern: Pattern) -> int:
        """Drop the tuples that match; returns how many."""
        before, kept = len(self), list[_Chunk]()
        for chunk in self._chunks:
            rows = without(pattern, chunk.rows)
            if rows.height:
                kept.append(chunk if rows is chunk.rows else _chunk(chunk.number, rows))
        self._chunks = kept
        return before - len(self)

    def give(self, choose: Callable[[pl.DataFrame], Flags]) -> list[pl.DataFrame]:
        """Give up the tuples that are chosen, in the order of arrival."""
        kept, given = list[_Chunk](), list[pl.DataFrame]()
        for chunk in self._chunks:
            chosen = choose(chunk.rows)
            if not chosen.any():
                kept.append(chunk)
                continue
            given.append(chunk.rows.filter(chosen))
            if not chosen.all():
                kept.append(_chunk(chunk.number, chunk.rows.filter(~chosen)))
        self._chunks = kept
        return given

    def state(self) -> dict[str, pl.DataFrame]:
        return {f"pending-{chunk.number}": chunk.rows for chunk in self._chunks}

    def restore(self, state: State) -> None:
        chunks = [
            (int(name.removeprefix("pending-")), rows) for name, rows in state.items() if name.startswith("pending-")
        ]
        self._chunks = [_chunk(number, rows) for number, rows in sorted(chunks, key=lambda pair: pair[0])]
        self._next = self._chunks[-1].number + 1 if self._chunks else 0


def _mergeable(before: int, new: int) -> bool:
    return before <= 2 * new and before + new <= _LIMIT


def _chunk(number: int, rows: pl.DataFrame) -> _Chunk:
    stamps = rows[TS].to_numpy()
    return _Chunk(number, rows, int(stamps.min()), int(stamps.max()))
