"""The rows of one table of an aggregate in SQL, in many groups: columns of places x groups.

A place holds a row or none. New rows go behind all others of their group, so places are in the order of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headrace.operators.arrays import Array

#: Groups with more rows than this are left to the code for single groups.
MOST_ROWS = 512
_FEW = 8


class FoldRows:
    """A table that may have any number of rows; of more than `keep` in a group, the oldest are dropped."""

    def __init__(self, groups: int, count: int, keep: int | None, dtypes: Sequence[Any]) -> None:
        """Begin without rows, with room for so many in each group."""
        self._keep = keep
        self._used = np.zeros(groups, np.int64)  # places of each group in which a row was put
        self._columns = [np.zeros((max(_FEW, count), groups), dtype) for dtype in dtypes]
        self._held = np.zeros((max(_FEW, count), groups), np.bool_)
        self._width = 0  # places in which a row of any group was put
        self._has_gaps = False

    def make_room(self, groups: int, count: int) -> bool:
        """Make places for so many further rows of the first groups, all that still change.

        Return whether there are few enough rows in each group.
        """
        if self._width + count <= len(self._held):
            return True
        held = self._held[:, :groups]
        order = np.argsort(~held, axis=0, kind="stable")
        self._used[:groups] = held.sum(axis=0)
        self._width, self._has_gaps = int(self._used[:groups].max(initial=0)), False
        for column in (*self._columns, self._held):
            column[:, :groups] = np.take_along_axis(column[:, :groups], order, axis=0)
        capacity = len(self._held)
        while capacity < 2 * (self._width + count):
            capacity *= 2
        further = capacity - len(self._held)
        if further:
            self._columns = [np.pad(column, ((0, further), (0, 0))) for column in self._columns]
            self._held = np.pad(self._held, ((0, further), (0, 0)))
        return capacity <= 2 * MOST_ROWS

    def take_all(self) -> None:
        """Look at all groups again, also at those that no longer change."""
        self._width = int(self._used.max(initial=0))

    def held(self, groups: int) -> Array:
        """Return which places of the first groups hold a row."""
        return self._held[: self._width, :groups]

    def column(self, number: int, groups: int) -> Array:
        """Return the values of a column in the first groups."""
        return self._columns[number][: self._width, :groups]

    def add(self, groups: int, condition: Any, *values: Any) -> None:
        """Add a row to each of the first groups for which a condition is true; there must be room."""
        chosen = np.flatnonzero(np.broadcast_to(condition, (groups,)))
        if not len(chosen):
            return
        places = self._used[chosen]
        for column, value in zip(self._columns, values, strict=True):
            column[places, chosen] = np.broadcast_to(value, (groups,))[chosen]
        self._held[places, chosen] = True
        self._used[chosen] = places + 1
        self._width = max(self._width, int(places.max()) + 1)
        if self._keep is not None:
            self._drop_oldest(chosen, places, self._keep)

    def _drop_oldest(self, chosen: Array, places: Array, keep: int) -> None:
        """Drop the oldest row of each group that has one too many since a row was put in the last of its places."""
        if self._has_gaps:
            held = self._held[: self._width, chosen]
            full = held.sum(axis=0) > keep
            self._held[held[:, full].argmax(axis=0), chosen[full]] = False
        else:
            full = places >= keep
            self._held[places[full] - keep, chosen[full]] = False

    def remove(self, groups: int, condition: Any) -> None:
        """Remove the rows of the first groups for which a condition is true."""
        self._held[: self._width, :groups] &= ~np.asarray(condition)
        self._has_gaps = True

    def rows(self, groups: int) -> Iterator[list[list[Any]]]:
        """Give the rows of each of the first groups."""
        held = self._held.T[:groups]
        every = list(map(list, zip(*(column.T[:groups][held].tolist() for column in self._columns), strict=True)))
        ends = np.cumsum(held.sum(axis=1)).tolist()
        yield from (every[start:end] for start, end in zip([0, *ends], ends, strict=False))
