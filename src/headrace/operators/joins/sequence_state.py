"""The left tuples of a sequence join: a list in order, as immutable chunks, from which tuples are dropped anywhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from headrace.model.patterns.pattern import Pattern, matches
from headrace.model.schema import TS
from headrace.operators.arrays import KEY, Array, Flags, Ints, gather
from headrace.operators.operator import State

#: Rows of a chunk at most, unless a single page is larger.
_LIMIT = 8192
_NAME = "before-"
_GONE = "/gone"


class _Chunk:
    """Rows, and which of them are gone.

    They are taken out once they are the greater part, so a row is rarely copied.
    """

    __slots__ = ("bits", "gone", "number", "rows")

    def __init__(self, number: int, rows: pl.DataFrame, bits: pl.DataFrame | None = None) -> None:
        self.number = number
        self.rows = rows
        #: `gone` as a state value, the same object as long as it says the same; None if nothing is gone.
        self.bits = bits
        gone = (
            np.zeros(rows.height, np.bool_)
            if bits is None
            else np.unpackbits(bits["gone"].to_numpy(), count=rows.height).astype(np.bool_)
        )
        self.gone: Flags = gone

    def __len__(self) -> int:
        return int(np.count_nonzero(~self.gone))

    def drop(self, gone: Flags) -> None:
        self.gone = self.gone | gone
        if 2 * len(self) < self.rows.height:
            self.rows, self.bits = self.remaining(), None
            self.gone = np.zeros(self.rows.height, np.bool_)
        else:
            self.bits = pl.DataFrame({"gone": np.packbits(self.gone)})

    def remaining(self) -> pl.DataFrame:
        return gather(self.rows, np.flatnonzero(~self.gone)) if self.gone.any() else self.rows


class Predecessors:
    """Tuples in order. A chunk of which nothing is dropped stays the same object; small neighbors are merged."""

    def __init__(self) -> None:
        self._chunks: list[_Chunk] = []
        self._next = 0
        self._places: Ints  # of the tuples among all rows of all chunks
        #: The timestamps of all tuples; they never fall.
        self.ts: Ints
        #: The numbers of all tuples' keys.
        self.keys: Array
        self._index()

    def __len__(self) -> int:
        return len(self._places)

    def take(self, places: Ints) -> pl.DataFrame:
        """Return the tuples at these places, in this order; there must be tuples."""
        return gather(pl.concat([chunk.rows for chunk in self._chunks]), self._places[places])

    def add(self, rows: pl.DataFrame) -> None:
        """Take in tuples that are after all that are here."""
        self._chunks.append(_Chunk(self._next, rows))
        self._next += 1
        self._merge()

    def drop(self, places: Ints) -> None:
        """Forget the tuples at these places."""
        if not len(places):
            return
        gone = np.zeros(sum(chunk.rows.height for chunk in self._chunks), np.bool_)
        gone[self._places[places]] = True
        start = 0
        for chunk in self._chunks:
            mine = gone[start : start + chunk.rows.height]
            start += len(mine)
            if mine.any():
                chunk.drop(mine)
        self._chunks = [chunk for chunk in self._chunks if chunk.rows.height]
        self._merge()

    def remove(self, pattern: Pattern) -> int:
        """Forget the tuples that match; returns how many."""
        if not len(self):
            return 0
        matching = np.flatnonzero(matches(pattern, self.take(np.arange(len(self)))).to_numpy())
        self.drop(matching)
        return len(matching)

    def give(self, choose: Callable[[pl.DataFrame], Flags]) -> pl.DataFrame | None:
        """Give up the tuples that are chosen, in order; None if there are none."""
        if not len(self):
            return None
        rows = self.take(np.arange(len(self)))
        chosen = choose(rows)
        self.drop(np.flatnonzero(chosen))
        return rows.filter(chosen) if chosen.any() else None

    def take_in(self, given: pl.DataFrame) -> None:
        """Go on with tuples of keys that are not known here, each at its place in time."""
        own = [self.take(np.arange(len(self)))] if len(self) else []
        self._chunks = []
        self.add(pl.concat([*own, given]).sort(TS, maintain_order=True))

    def state(self) -> dict[str, pl.DataFrame]:
        frames = {f"{_NAME}{chunk.number}": chunk.rows for chunk in self._chunks}
        return frames | {
            f"{_NAME}{chunk.number}{_GONE}": chunk.bits for chunk in self._chunks if chunk.bits is not None
        }

    def restore(self, state: State) -> None:
        own = [name for name in state if name.startswith(_NAME) and not name.endswith(_GONE)]
        chunks = [_Chunk(int(name.removeprefix(_NAME)), state[name], state.get(name + _GONE)) for name in own]
        self._chunks = sorted(chunks, key=lambda chunk: chunk.number)
        self._next = self._chunks[-1].number + 1 if self._chunks else 0
        self._index()

    def _merge(self) -> None:
        """Merge a chunk with those before it that are not much larger.

        A tuple is thus copied a logarithmic number of times.
        """
        runs: list[tuple[list[_Chunk], int]] = []
        for chunk in self._chunks:
            run, height = [chunk], len(chunk)
            while runs and runs[-1][1] <= min(2 * height, _LIMIT - height):
                before, more = runs.pop()
                run, height = [*before, *run], height + more
            runs.append((run, height))
        self._chunks = [_merged(run) if len(run) > 1 else run[0] for run, _ in runs]
        self._index()

    def _index(self) -> None:
        rows = [chunk.rows for chunk in self._chunks]
        gone = [chunk.gone for chunk in self._chunks]
        self._places = np.flatnonzero(~np.concatenate([np.empty(0, np.bool_), *gone]))
        self.ts = np.concatenate([np.empty(0, np.int64), *(part[TS].to_numpy() for part in rows)])[self._places]
        self.keys = (
            np.concatenate([part[KEY].to_numpy() for part in rows])[self._places] if rows else np.empty(0, np.int64)
        )


def _merged(run: list[_Chunk]) -> _Chunk:
    return _Chunk(run[0].number, pl.concat([chunk.remaining() for chunk in run], rechunk=True))
