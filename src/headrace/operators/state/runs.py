"""A log-structured store: immutable runs of rows in the order of one Int64 column, merged geometrically.

New rows are gathered and become a run when rows or state are asked for; runs of like size merge, so a row is rewritten
a logarithmic number of times. Values in lists count as rows do: a group that gathers them grows with each merge. Rows
below the horizon are dead: they are skipped at once and leave with their run, or when at least half of a run is dead.
Rows that were given up are left out of their run, while what is stored of it stays as it is until the run merges, or is
written anew as it has lost most of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from headrace.model.patterns.pattern import Pattern, without
from headrace.model.time import BEGIN, END
from headrace.operators.arrays import Flags, least

#: A run is kept in chunks of this many rows, so that no chunk of state is very large; runs that only grow longer by
#: merging stay below it.
CHUNK_ROWS = 65_536
#: Fresh rows become a run at the latest when there are so many.
FRESH_ROWS = 65_536
#: The end of the name of the bits that say which rows of a run have left, and their column.
_GONE = "gone"


@dataclass(slots=True)
class _Run:
    id: int
    rows: pl.DataFrame
    chunks: tuple[pl.DataFrame, ...]  # as they are stored
    order: np.ndarray[Any, np.dtype[np.int64]]  # the order column, for searching
    values: int  # in lists
    dead: int = 0  # rows below the horizon
    gone: pl.DataFrame | None = None  # which of the stored rows are not there any more, as bits

    @property
    def stored(self) -> int:
        """Return how many rows are stored."""
        return sum(chunk.height for chunk in self.chunks)

    @property
    def size(self) -> int:
        """The live rows, and the values in lists."""
        return self.rows.height - self.dead + self.values

    def below(self, bound: int) -> int:
        """Return how many rows come before `bound`."""
        return int(np.searchsorted(self.order, bound))


class Runs:
    """Rows in runs; `merge` may make them fewer and need not keep any order."""

    def __init__(self, prefix: str, order: str, merge: Callable[[pl.DataFrame], pl.DataFrame] | None) -> None:
        self._prefix, self._order, self._merge = prefix, order, merge
        self._fresh: list[pl.DataFrame] = []
        self._fresh_rows = 0
        self._fresh_least = END
        self._runs: list[_Run] = []
        self._next = 0
        self._horizon_chunk: pl.DataFrame | None = None  # made when it is asked for
        self._owed = 0  # rows written anew before they were paid for
        self._set_horizon(BEGIN)

    def append(self, rows: pl.DataFrame) -> None:
        """Add rows; none may be below the horizon."""
        if rows.height == 0:
            return
        self._fresh.append(rows)
        self._fresh_rows += rows.height
        self._fresh_least = min(self._fresh_least, least(rows[self._order]))
        self._owed = max(0, self._owed - rows.height) or self.write_thin()
        if self._fresh_rows >= FRESH_ROWS:
            self.settle()

    def least(self) -> int:
        """Return the smallest value of the order column; END if there are no rows."""
        return min([self._fresh_least, *(int(run.order[run.dead]) for run in self._runs)])

    def between(self, low: int, high: int) -> list[pl.DataFrame]:
        """Return the rows with low <= order < high, as slices of the runs."""
        self.settle()
        slices = []
        for run in self._runs:
            start, stop = max(run.dead, run.below(low)), run.below(high)
            if start < stop:
                slices.append(run.rows.slice(start, stop - start))
        return slices

    def expire(self, horizon: int) -> None:
        """Drop rows below the horizon."""
        if horizon <= self.horizon:
            return
        self.settle()
        self._set_horizon(horizon)
        kept = []
        for run in self._runs:
            run.dead = run.below(horizon)
            if 2 * run.dead >= run.rows.height:
                if run.dead < run.rows.height:
                    kept.append(self._make(run.rows.slice(run.dead)))
            else:
                kept.append(run)
        self._runs = kept

    def remove(self, pattern: Pattern) -> int:
        """Drop rows that match; returns how many."""
        self.settle()
        kept, count = [], 0
        for run in self._runs:
            alive = run.rows.slice(run.dead)
            remaining = without(pattern, alive)
            count += alive.height - remaining.height
            if remaining.height:
                kept.append(run if remaining is alive else self._make(remaining))
        self._runs = kept
        return count

    def give(self, choose: Callable[[pl.DataFrame], Flags]) -> list[pl.DataFrame]:
        """Give up the rows that are chosen."""
        self.settle()
        kept, given = list[_Run](), list[pl.DataFrame]()
        for run in self._runs:
            alive = run.rows.slice(run.dead)
            chosen = choose(alive)
            if not chosen.any():
                kept.append(run)
                continue
            given.append(alive.filter(chosen))
            if not chosen.all():
                kept.append(self._without(run, chosen))
        self._runs = kept
        return given

    def write_thin(self) -> int:
        """Write a run anew of which most stored rows were given up; return how many rows, 0 if there is no such run."""
        for place, run in enumerate(self._runs):
            if run.gone is not None and 2 * run.rows.height <= run.stored:
                self._runs[place] = self._make(run.rows.slice(run.dead))
                return self._runs[place].rows.height
        return 0

    def _without(self, run: _Run, left: Flags) -> _Run:
        """Return a run without some of its rows that are alive; what is stored stays as it is."""
        stays = np.concatenate([np.ones(run.dead, np.bool_), ~left])
        rows = run.rows.filter(stays)
        gone = np.zeros(run.stored, np.bool_) if run.gone is None else _flags(run.gone, run.stored)
        gone[np.flatnonzero(~gone)[~stays]] = True
        bits = pl.DataFrame({_GONE: np.packbits(gone)})
        return _Run(run.id, rows, run.chunks, rows[self._order].to_numpy(), _values(rows), run.dead, bits)

    def settle(self) -> None:
        """Make a run of the fresh rows and merge runs of like size."""
        if not self._fresh:
            return
        rows = self._fresh[0] if len(self._fresh) == 1 else self._merged(self._fresh)
        self._fresh, self._fresh_rows, self._fresh_least = [], 0, END
        while self._runs and self._runs[-1].size <= 2 * (rows.height + _values(rows)):
            live = self._runs[-1].rows.height - self._runs[-1].dead
            if self._merge is None and live + rows.height > CHUNK_ROWS:
                break
            older = self._runs.pop()
            rows = self._merged([older.rows.slice(older.dead), rows])
        self._runs.append(self._make(self._in_order(rows)))

    def state(self) -> dict[str, pl.DataFrame]:
        """Return all chunks by name; a chunk that is the same object has not changed."""
        self.settle()
        chunks = {f"{self._prefix}.{run.id}.{i}": chunk for run in self._runs for i, chunk in enumerate(run.chunks)}
        chunks |= {f"{self._prefix}.{run.id}.{_GONE}": run.gone for run in self._runs if run.gone is not None}
        if not chunks or self.horizon <= BEGIN:
            return chunks
        if self._horizon_chunk is None:
            self._horizon_chunk = pl.DataFrame({self._order: [self.horizon]}, schema={self._order: pl.Int64})
        return {**chunks, f"{self._prefix}.horizon": self._horizon_chunk}

    def restore(self, state: Mapping[str, pl.DataFrame]) -> None:
        """Take what `state` gave; names of others are ignored."""
        parts: dict[int, dict[int, pl.DataFrame]] = {}
        gone: dict[int, pl.DataFrame] = {}
        self._set_horizon(BEGIN)
        for name, chunk in state.items():
            match name.split("."):
                case [self._prefix, "horizon"]:
                    self.horizon, self._horizon_chunk = int(chunk[self._order][0]), chunk
                case [self._prefix, run, end] if end == _GONE:
                    gone[int(run)] = chunk
                case [self._prefix, run, i]:
                    parts.setdefault(int(run), {})[int(i)] = chunk
                case _:
                    pass
        self._fresh, self._fresh_rows, self._fresh_least = [], 0, END
        self._runs = []
        for id_, chunks in sorted(parts.items()):
            ordered = tuple(chunk for _, chunk in sorted(chunks.items()))
            rows = ordered[0] if len(ordered) == 1 else pl.concat(ordered)
            if id_ in gone:
                rows = rows.filter(~_flags(gone[id_], rows.height))
            restored = _Run(id_, rows, ordered, rows[self._order].to_numpy(), _values(rows), gone=gone.get(id_))
            restored.dead = restored.below(self.horizon) if self.horizon > BEGIN else 0
            self._runs.append(restored)
        self._next = max(parts, default=-1) + 1

    @property
    def values(self) -> int:
        """The values in lists of settled rows."""
        return sum(run.values for run in self._runs)

    def __len__(self) -> int:
        return self._fresh_rows + sum(run.rows.height - run.dead for run in self._runs)

    def _set_horizon(self, horizon: int) -> None:
        self.horizon = horizon
        self._horizon_chunk = None

    def _merged(self, parts: list[pl.DataFrame]) -> pl.DataFrame:
        rows = pl.concat(parts)
        return rows if self._merge is None else self._merge(rows)

    def _in_order(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return rows in order; what is in order already is not copied, which costs most if rows hold lists."""
        order = rows[self._order].to_numpy()
        return rows.sort(self._order, maintain_order=True) if np.any(order[1:] < order[:-1]) else rows

    def _make(self, rows: pl.DataFrame) -> _Run:
        self._next += 1
        chunks = (rows,) if rows.height <= CHUNK_ROWS else tuple(rows.iter_slices(CHUNK_ROWS))
        return _Run(self._next - 1, rows, chunks, rows[self._order].to_numpy(), _values(rows))


def _values(rows: pl.DataFrame) -> int:
    """Return how many values rows hold in lists."""
    return sum(int(column.list.len().sum() or 0) for column in rows if column.dtype == pl.List)


def _flags(bits: pl.DataFrame, count: int) -> Flags:
    return np.unpackbits(bits[_GONE].to_numpy(), count=count).astype(np.bool_)
