"""The left tuples of a sequence join: a list in order, as immutable chunks, from which tuples are dropped anywhere."""

from __future__ import annotations

import numpy as np
import polars as pl

from headrace.elements.schema import TS
from headrace.operators.operator import State
from headrace.operators.pairing import KEY, Array, Ints, gather

#: Rows of a chunk at most, unless a single page is larger: dropping a tuple rewrites no more than this.
_LIMIT = 8192
_NAME = "before-"


class Predecessors:
    """Tuples in order. A chunk of which nothing is dropped stays the same object; small neighbours are merged."""

    def __init__(self) -> None:
        self._chunks: list[tuple[int, pl.DataFrame]] = []
        self._next = 0
        self._ts: Ints | None = None
        self._keys: Array | None = None

    def __len__(self) -> int:
        return sum(rows.height for _, rows in self._chunks)

    @property
    def ts(self) -> Ints:
        """The timestamps of all tuples; they never fall."""
        if self._ts is None:
            self._ts = np.concatenate([np.empty(0, np.int64), *(rows[TS].to_numpy() for _, rows in self._chunks)])
        return self._ts

    @property
    def keys(self) -> Array:
        """The numbers of all tuples' keys."""
        if self._keys is None:
            columns = [rows[KEY].to_numpy() for _, rows in self._chunks]
            self._keys = np.concatenate(columns) if columns else np.empty(0, np.int64)
        return self._keys

    def rows(self) -> pl.DataFrame:
        """All tuples; there must be some."""
        return pl.concat([rows for _, rows in self._chunks])

    def add(self, rows: pl.DataFrame) -> None:
        """Take in tuples that are after all that are here."""
        self._chunks.append((self._next, rows))
        self._next += 1
        self._merge()

    def drop(self, places: Ints) -> None:
        """Forget the tuples at these places."""
        if not len(places):
            return
        kept = np.ones(len(self), np.bool_)
        kept[places] = False
        chunks, start = self._chunks, 0
        self._chunks = []
        for number, rows in chunks:
            mine = kept[start : start + rows.height]
            start += rows.height
            if mine.all():
                self._chunks.append((number, rows))
            elif mine.any():
                self._chunks.append((number, gather(rows, np.flatnonzero(mine))))
        self._merge()

    def state(self) -> dict[str, pl.DataFrame]:
        return {f"{_NAME}{number}": rows for number, rows in self._chunks}

    def restore(self, state: State) -> None:
        found = [(int(name.removeprefix(_NAME)), rows) for name, rows in state.items() if name.startswith(_NAME)]
        self._chunks = sorted(found, key=lambda pair: pair[0])
        self._next = self._chunks[-1][0] + 1 if self._chunks else 0
        self._ts = self._keys = None

    def _merge(self) -> None:
        """Merge a chunk with those before it that are not much larger, so that a tuple is copied a logarithmic number of times."""
        merged: list[tuple[int, list[pl.DataFrame], int]] = []
        for number, rows in self._chunks:
            parts, height = [rows], rows.height
            while merged and merged[-1][2] <= 2 * height and merged[-1][2] + height <= _LIMIT:
                number, before, more = merged.pop()
                parts, height = [*before, *parts], height + more
            merged.append((number, parts, height))
        self._chunks = [(number, parts[0] if len(parts) == 1 else pl.concat(parts, rechunk=True)) for number, parts, _ in merged]
        self._ts = self._keys = None
