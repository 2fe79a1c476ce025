"""Find matches of a pattern whose conditions read nothing but the row that they test.

Which rows fit a variable is then known before the search, and so is, for each row, the first one from it on that does
not fit. A variable takes its rows at once, however many they are: all starts of all partitions walk together, in one
step for each variable.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.model.row_pattern import RowPattern, Variable
from headrace.model.time import END
from headrace.operators.arrays import Array, Flags, Ints, stable_order
from headrace.operators.rows.found import Found, Matches, found
from headrace.operators.windows.slices import lasts


def find_plain(pattern: RowPattern, fits: Sequence[Flags], groups: Array, ts: Ints, tried: Flags, bound: int) -> Found:
    """Find all matches that are decided at a bound; `fits` says for each variable which rows satisfy its condition.

    Rows are sorted by group, then by time. No variable is optional.
    """
    search = _Search(pattern, fits, groups, ts, bound)
    starts = np.flatnonzero(fits[0]) if pattern.variables[0].least else np.arange(len(ts))
    hold = np.full(len(ts), END, np.int64)
    if pattern.overlapping:
        matches, open_starts = search.walk(starts[~tried[starts]])
        still = np.ones(len(ts), bool)
        still[open_starts] = False
        return found(matches, pattern, groups, ts, open_starts=open_starts, tried=still, hold=hold)
    matches, open_starts = search.walk(starts)
    chosen, holding = search.disjoint(matches, open_starts, hold)
    nothing = np.zeros(len(ts), bool)
    return found(_of(matches, chosen), pattern, groups, ts, open_starts=holding, tried=nothing, hold=hold)


class _Search:
    def __init__(self, pattern: RowPattern, fits: Sequence[Flags], groups: Array, ts: Ints, bound: int) -> None:
        self._pattern, self._fits, self._groups, self._ts, self._bound = pattern, fits, groups, ts, bound
        self._ends = lasts(groups) + 1

    def walk(self, starts: Ints) -> tuple[Matches, Ints]:
        """Return the matches that begin at some rows, and the starts that later rows may complete, both in order."""
        start = row = starts
        first: list[Ints] = []
        count: list[Ints] = []
        opened: list[Ints] = []
        for variable, fit in zip(self._pattern.variables, self._fits, strict=True):
            done, waits, taken = self._step(variable, fit, start, row)
            opened.append(self._open(start[waits]))
            first = [*(own[done] for own in first), row[done]]
            count = [*(own[done] for own in count), taken[done]]
            start, row = start[done], (row + taken)[done]
        matches = Matches(start, row, np.stack(first, axis=1), np.stack(count, axis=1))
        return matches, np.sort(np.concatenate(opened))

    def _step(self, variable: Variable, fit: Flags, start: Ints, row: Ints) -> tuple[Flags, Flags, Ints]:
        """Return which lanes have all rows of a variable, which have no row left, and how many rows they take."""
        end = self._ends[start]
        least, most = variable.least, variable.most
        if least == most == 1:
            there = row < end
            at = np.minimum(row, len(fit) - 1)
            return there & fit[at] & self._in_time(start, at), ~there, np.ones(len(row), np.int64)
        until = np.minimum(_refusing(fit)[row], end)
        taken = until - row
        if least == most:
            done = taken >= least
            return done & self._in_time(start, row + least - 1), ~done & (until == end), np.full(len(row), least)
        few = taken >= 0 if most is None else taken <= most
        # the row behind the last of a variable without a fixed number must be known not to fit
        done = (until < end) & (taken >= least) & few
        return done & self._in_time(start, until), (until == end) & few, taken

    def _in_time(self, start: Ints, row: Ints) -> Flags:
        """Return whether rows are near enough to their starts."""
        if self._pattern.within is None:
            return np.ones(len(row), bool)
        near: Flags = self._ts[np.minimum(row, len(self._ts) - 1)] - self._ts[start] < self._pattern.within
        return near

    def _open(self, start: Ints) -> Ints:
        """Return the starts of lanes without a row left that rows at the bound or later may complete."""
        if self._bound >= END:
            return start[:0]
        if self._pattern.within is None:
            return start
        waits = self._ts[start] > self._bound - self._pattern.within
        return start[waits & self._in_time(start, self._ends[start] - 1)]

    def disjoint(self, matches: Matches, open_starts: Ints, hold: Ints) -> tuple[Ints, Ints]:
        """Choose the matches that do not begin within one before, up to the first open start of each group.

        Return their numbers, and those open starts. A match behind one may come out later: `hold` notes when it ends.
        """
        begin = np.concatenate([matches.start, open_starts])
        number = stable_order(begin)
        begin, is_open = begin[number], number >= len(matches.start)
        stop = np.append(matches.stop, np.zeros(len(open_starts), np.int64))[number]
        free = self._free(begin, stop, is_open)
        group = self._groups[begin]
        stopped = np.full(int(self._groups[-1]) + 1, len(self._ts), np.int64)
        np.minimum.at(stopped, group[free & is_open], begin[free & is_open])
        ahead = begin < stopped[group]
        behind = ~ahead & ~is_open
        np.minimum.at(hold, stopped[group[behind]], self._ts[stop[behind] - 1])
        return number[free & ahead & ~is_open], begin[is_open & (begin == stopped[group])]

    def _free(self, begin: Ints, stop: Ints, is_open: Flags) -> Flags:
        """Return which starts lie in no match that is chosen before them; of those behind an open start, any."""
        free = np.ones(len(begin), bool)
        reach = np.maximum.accumulate(stop)  # rows of later groups come behind all of earlier ones
        inside = np.append(False, begin[1:] < reach[:-1])[: len(begin)]
        if not inside.any():
            return free
        group = self._groups[begin]
        touched = np.zeros(int(self._groups[-1]) + 1, bool)
        touched[group[inside]] = True
        places = np.flatnonzero(touched[group])
        following, over = 0, -1
        lanes = zip(*(part[places].tolist() for part in (group, begin, stop, is_open)), strict=True)
        for place, (own, at, until, waits) in zip(places.tolist(), lanes, strict=True):
            if own == over:
                continue
            if at < following:
                free[place] = False
            elif waits:
                over = own
            else:
                following = until
        return free


def _refusing(fit: Flags) -> Ints:
    """Return for each row, and for the place behind all, the first row from it on that does not fit."""
    size = len(fit)
    places = np.full(size + 1, size, np.int64)
    others = np.flatnonzero(~fit)
    places[others] = others
    return np.minimum.accumulate(places[::-1])[::-1]


def _of(matches: Matches, chosen: Ints) -> Matches:
    return Matches(matches.start[chosen], matches.stop[chosen], matches.first[chosen], matches.count[chosen])
