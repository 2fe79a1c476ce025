"""Matches in sorted rows, and what must be kept for matches to come."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.model.row_pattern import RowPattern
from headrace.model.time import END
from headrace.operators.arrays import Array, Flags, Ints
from headrace.operators.rows.values import Stretch


@dataclass(frozen=True, slots=True)
class Matches:
    """Where matches are."""

    start: Ints
    stop: Ints  # behind the last row
    first: Ints  # (match, variable)
    count: Ints

    def stretch(self, pattern: RowPattern, variable: str | None) -> Stretch:
        """Return the rows of a variable in each match, or with None all rows."""
        if variable is None:
            return Stretch(self.start, self.stop - self.start)
        number = pattern.number(variable)
        return Stretch(self.first[:, number], self.count[:, number])


@dataclass(frozen=True, slots=True)
class Found:
    """What a search gives."""

    matches: Matches
    kept: Flags  # rows that a later match may need
    tried: Flags  # rows at which a match can begin no more
    deadline: Ints  # by row: when the first open match of its partition ends by itself
    hold: Ints  # by row: a match behind an open one may end at this instant


def found(
    matches: Matches, pattern: RowPattern, groups: Array, ts: Ints, *, open_starts: Ints, tried: Flags, hold: Ints
) -> Found:
    """Keep the rows of each group from its first open start on."""
    size = len(ts)
    kept, deadline = np.zeros(size, bool), np.full(size, END, np.int64)
    if len(open_starts):
        begins = np.full(int(groups[-1]) + 1, size, np.int64)
        np.minimum.at(begins, groups[open_starts], open_starts)
        kept = np.arange(size) >= begins[groups]
        if pattern.within is not None:
            deadline[open_starts] = ts[open_starts] + pattern.within
    return Found(matches, kept, tried, deadline, hold)
