"""Arrangements: the rows of some ports, joined, sorted by the key by which they are searched.

Rows that came after a change of plan began are kept apart from those before: each epoch has a side of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import polars as pl

from headrace.model.patterns.pattern import Pattern
from headrace.model.schema import EXPIRY, TS
from headrace.model.time import END
from headrace.operators.arrays import KEY, Array, Flags
from headrace.operators.operator import DERIVED, State
from headrace.operators.state.sorted_chunk import Chunk
from headrace.operators.state.sorted_side import SortedSide

#: An arrangement with more epochs than this merges the older ones before the next begins.
_MOST_EPOCHS = 3


class Place(NamedTuple):
    """Which rows an arrangement holds, by their ports, and the key classes by which they are sorted."""

    ports: tuple[int, ...]
    classes: tuple[int, ...]

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.ports))}:{'.'.join(map(str, self.classes))}"

    @property
    def is_base(self) -> bool:
        """Return whether these are the rows of one input."""
        return len(self.ports) == 1


class Arrangement:
    """All rows of a place, by epoch."""

    def __init__(self, place: Place, columns: tuple[str, ...]) -> None:
        self.place = place
        self._columns = columns
        self.stored = [*columns, TS, EXPIRY, KEY]
        self._sides: dict[int, SortedSide] = {}  # by epoch, the oldest first

    def __len__(self) -> int:
        return sum(map(len, self._sides.values()))

    def chunks(self, *, before: int | None = None) -> Iterator[Chunk]:
        """Return the chunks, of epochs before one."""
        for epoch, side in self._sides.items():
            if before is None or epoch < before:
                yield from side.chunks()

    def meeting(self, keys: Array, since: int | None, before: int | None) -> Iterator[tuple[Chunk, int, int]]:
        """Yield the chunks of some epochs that may hold some of these sorted keys, and which of the keys."""
        for epoch, side in self._sides.items():
            if (since is None or epoch >= since) and (before is None or epoch < before):
                yield from side.meeting(keys)

    def insert(self, rows: pl.DataFrame, dead_below: int, epoch: int, *, merges: bool = True) -> None:
        """Store rows that are sorted by the key of the place; unless it `merges`, as chunks of their own if it can."""
        if epoch not in self._sides:
            self._sides[epoch] = self._side(epoch)
            self._sides = dict(sorted(self._sides.items()))
        self._sides[epoch].insert(rows, None, dead_below, merges=merges)

    def purge(self, bound: int) -> int:
        """Forget rows that expired before a bound; return how many went."""
        gone = sum(chunk.held for chunk in self.chunks() if bound >= END or chunk.max_exp < bound)
        if gone:
            for side in self._sides.values():
                side.purge(bound)
            self._tidy()
        return gone

    def remove(self, pattern: Pattern) -> int:
        """Forget rows that match; return how many."""
        removed = sum(side.remove(pattern) for side in self._sides.values())
        self._tidy()
        return removed

    def give(self, choose: Callable[[pl.DataFrame], Flags]) -> list[pl.DataFrame]:
        """Give up the rows that are chosen, of all epochs."""
        given = [rows for side in self._sides.values() for rows in side.give(choose)]
        self._tidy()
        return given

    def copy(self, choose: Callable[[pl.DataFrame], Flags]) -> list[pl.DataFrame]:
        """Return the rows that are chosen, of all epochs."""
        return [rows for side in self._sides.values() for rows in side.copy(choose)]

    def has_before(self, epoch: int, bound: int) -> bool:
        """Return whether a row of an earlier epoch has not expired before a bound."""
        return any(chunk.max_exp >= bound for chunk in self.chunks(before=epoch))

    def forget_before(self, epoch: int) -> None:
        """Forget the rows of earlier epochs."""
        self._sides = {number: side for number, side in self._sides.items() if number >= epoch}

    def merge_epochs(self, dead_below: int) -> None:
        """Merge old epochs if there are many; which is which matters no more."""
        if len(self._sides) <= _MOST_EPOCHS:
            return
        newest = max(self._sides)
        rows = [chunk.present for chunk in self.chunks(before=newest)]
        self.forget_before(newest)
        for part in rows:
            self._sides[newest].insert(part, None, dead_below)

    def state(self) -> dict[str, pl.DataFrame]:
        return {name: chunk for side in self._sides.values() for name, chunk in side.state().items()}

    def restore(self, state: State) -> None:
        state = self._as_stored(state)
        self._sides = {}
        for epoch in sorted(_epochs(state, f"{self._name}@")):
            self._sides[epoch] = self._side(epoch)
            self._sides[epoch].restore(state)

    @property
    def _name(self) -> str:
        """Joined rows follow from those of the inputs."""
        return str(self.place) if self.place.is_base else f"{DERIVED}{self.place}"

    def _as_stored(self, state: State) -> State:
        """Return the state with the names and columns of today.

        Earlier versions did not mark joined rows as derived, and stored a key once for each input.
        """
        if self.place.is_base:
            return state
        prefix = f"{self.place}@"
        own = {f"{DERIVED}{name.removeprefix(DERIVED)}": state[name] for name in state if _is_of(name, prefix)}
        rows = {name: chunk for name, chunk in own.items() if KEY in chunk.columns}
        return own | {n: c if c.columns == self.stored else c.select(self.stored) for n, c in rows.items()}

    def _side(self, epoch: int) -> SortedSide:
        return SortedSide(f"{self._name}@{epoch}", self._columns, preserved=False)

    def _tidy(self) -> None:
        """Forget epochs without rows."""
        self._sides = {epoch: side for epoch, side in self._sides.items() if next(side.chunks(), None) is not None}


def _is_of(name: str, prefix: str) -> bool:
    return name.removeprefix(DERIVED).startswith(prefix)


def _epochs(names: Iterable[str], prefix: str) -> set[int]:
    return {int(name[len(prefix) :].partition("/")[0]) for name in names if name.startswith(prefix)}
