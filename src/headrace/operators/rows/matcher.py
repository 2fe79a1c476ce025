"""Find the matches of a row pattern in sorted rows.

A candidate start is a lane: how far it has come, in which variable, and where the rows of each variable are. All lanes
advance together, on columns. A lane in a repeated variable tests several rows at once, twice as many each time. Where
an optional variable can take a row, another lane of the same start goes on without; the one that ends first counts.

If matches do not overlap, those lanes are only needed that no earlier match takes in. A round therefore runs some
starts of each partition, lets only the first go far, and decides in the order of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from headrace.model.row_pattern import RowPattern
from headrace.model.schema import TS
from headrace.model.time import END
from headrace.operators.arrays import Array, Flags, Ints
from headrace.operators.rows.found import Found, Matches, found
from headrace.operators.rows.plain import find_plain
from headrace.operators.rows.values import Conditions, Sorted, Stretch
from headrace.operators.windows.slices import lasts

_RUNNING, _COMPLETE, _FAILED, _OPEN, _POSTPONED = range(5)
#: Rows that a lane tests at once at most.
_BLOCK = 1024
#: A lane that is not the first of its partition waits after so many rows.
_FAR = 64
#: Starts of a partition that a round tries at most.
_STARTS = 8192
_MANY = 2**62


class Matcher:
    """Finds matches of one pattern."""

    def __init__(self, pattern: RowPattern) -> None:
        self._pattern = pattern
        self._conditions = Conditions(pattern)
        optional = any(variable.is_optional for variable in pattern.variables)
        #: Whether rows are needed in no other way than for conditions that read nothing but the row itself.
        self.is_plain = self._conditions.are_plain and not optional

    def find(self, rows: Sorted, groups: Array, tried: Flags, bound: int) -> Found:
        """Find all matches that are decided when no row below `bound` can come any more.

        Rows are sorted by group, then by time.
        """
        if self.is_plain:
            fits = [fit if rows.order is None else fit[rows.order] for fit in self._conditions.fits(rows.rows)]
            return find_plain(self._pattern, fits, groups, rows.column(TS), tried, bound)
        run = _Run(self._pattern, self._conditions, rows.all_of(rows.rows), groups, bound)
        return run.overlapping(tried) if self._pattern.overlapping else run.disjoint()


@dataclass(slots=True)
class _Lanes:
    """Candidate starts, in the order of rows."""

    start: Ints
    row: Ints  # the next row
    number: Ints  # of the variable
    first: Ints
    count: Ints
    block: Ints
    status: Ints

    @staticmethod
    def at(starts: Ints, variables: int) -> _Lanes:
        size, grid = len(starts), (len(starts), variables)
        whole = np.zeros(grid, np.int64)
        return _Lanes(
            starts, starts.copy(), np.zeros(size, np.int64), whole, whole.copy(), np.ones(size, np.int64),
            np.full(size, _RUNNING, np.int64),
        )  # fmt: skip

    def of(self, chosen: Ints) -> _Lanes:
        """Return some of the lanes."""
        return _Lanes(*(getattr(self, name)[chosen] for name in _PARTS))

    def add(self, copied: Ints) -> Ints:
        """Add copies of lanes; return where they are."""
        before = len(self.start)
        for name in _PARTS:
            own = getattr(self, name)
            setattr(self, name, np.concatenate([own, own[copied]]))
        return np.arange(before, len(self.start))


_PARTS = ("start", "row", "number", "first", "count", "block", "status")


class _Run:
    """One search."""

    def __init__(
        self, pattern: RowPattern, conditions: Conditions, rows: pl.DataFrame, groups: Array, bound: int
    ) -> None:
        self._pattern, self._conditions, self._groups, self._bound = pattern, conditions, groups, bound
        self._rows, self._fits = conditions.read(rows), conditions.fits(rows)
        self._ts, self._ends = rows[TS].to_numpy(), lasts(groups) + 1
        within = pattern.within
        self._stops = self._ends if within is None else np.minimum(self._ends, _behind(self._ts, groups, within))
        self._most = [_MANY if variable.most is None else variable.most for variable in pattern.variables]
        self._forks = any(variable.is_optional for variable in pattern.variables)
        # where a match can begin; one whose first variable may have no row can begin at any
        self._can_begin = self._fits[0] if pattern.variables[0].least else np.ones(len(self._ts), bool)

    def overlapping(self, tried: Flags) -> Found:
        """Try every row that was not tried yet."""
        starts = np.flatnonzero(~tried & self._can_begin)
        lanes = self._finished(starts)
        open_starts = starts[lanes.status == _OPEN]
        still = np.ones(len(tried), bool)
        still[open_starts] = False
        return self._found(lanes.of(np.flatnonzero(lanes.status == _COMPLETE)), open_starts, still, [])

    def disjoint(self) -> Found:
        """Try rows from left to right, each behind the match before."""
        size = len(self._ts)
        begins = np.flatnonzero(np.diff(self._groups, prepend=-1)) if size else np.zeros(0, np.int64)
        following = begins.copy()  # by group: where the next match may begin
        over = np.zeros(len(begins), bool)
        parts: list[tuple[_Lanes, list[int]]] = []
        open_starts: list[int] = []
        holds: list[tuple[int, int]] = []
        limit = _STARTS
        while not over.all():
            ahead = following.copy()  # behind the rows that this round tries
            ahead[~over] = np.minimum(following + limit, self._ends[begins])[~over]
            starts = _between(following[~over], ahead[~over])
            lanes = self._finished(starts[self._can_begin[starts]])
            chosen: list[int] = []
            waiting = self._choose(lanes, following, ahead, over, chosen, open_starts, holds)
            limit = max(1, limit // 4) if waiting else min(_STARTS, limit * 2)
            over |= following >= self._ends[begins]
            parts.append((lanes, chosen))
        lanes = _joined(parts, len(self._pattern.variables))
        return self._found(lanes, np.array(open_starts, np.int64), np.zeros(size, bool), holds)

    def _choose(
        self, lanes: _Lanes, following: Ints, ahead: Ints, over: Flags, chosen: list[int], open_starts: list[int],
        holds: list[tuple[int, int]],
    ) -> bool:  # fmt: skip
        """Decide the lanes of a round from left to right; return whether one of them waits for another round."""
        alive = np.flatnonzero(lanes.status != _FAILED)
        waiting: set[int] = set()
        stopped: dict[int, int] = {}
        going_on = ~over
        groups, starts = self._groups[lanes.start[alive]].tolist(), lanes.start[alive].tolist()
        states, rows = lanes.status[alive].tolist(), lanes.row[alive].tolist()
        for lane, group, start, state, row in zip(alive.tolist(), groups, starts, states, rows, strict=True):
            if group in stopped:  # behind an open match: it may come out when that one is decided
                instant = self._ts[row - 1] if state == _COMPLETE else self._ts[start]
                if state != _OPEN:
                    holds.append((stopped[group], int(instant)))
            elif group in waiting or start < following[group]:
                continue
            elif state == _COMPLETE:
                chosen.append(lane)
                following[group] = row
                ahead[group] = max(ahead[group], row)
            elif state == _OPEN:
                stopped[group] = start
                open_starts.append(start)
                over[group] = True
                untried = ahead[group]
                if untried < self._ends[start]:
                    holds.append((start, int(self._ts[untried])))
            else:
                waiting.add(group)
                following[group] = start
        going_on[[*waiting, *stopped]] = False
        following[going_on] = ahead[going_on]
        return bool(waiting)

    def _finished(self, starts: Ints) -> _Lanes:
        """Advance lanes until each of them is decided or waits."""
        lanes = _Lanes.at(starts, len(self._pattern.variables))
        active = np.arange(len(starts))
        while len(active):
            for number, variable in enumerate(self._pattern.variables):
                here = active[lanes.number[active] == number]
                if not len(here):
                    continue
                if variable.is_optional:
                    active = np.append(active, self._fork(lanes, number, here))
                else:
                    self._step(lanes, number, here)
            active = active[lanes.status[active] == _RUNNING]
            if not self._pattern.overlapping:
                active = active[np.argsort(lanes.start[active], kind="stable")] if self._forks else active
                start, groups = lanes.start[active], self._groups[lanes.start[active]]
                behind = np.append(False, (groups[1:] == groups[:-1]) & (start[1:] != start[:-1]))[: len(active)]
                far = behind & (lanes.row[active] - start > _FAR)
                lanes.status[active[far]] = _POSTPONED
                active = active[~far]
        return lanes.of(_first_to_end(lanes)) if self._forks else lanes

    def _fork(self, lanes: _Lanes, number: int, here: Ints) -> Ints:
        """Let lanes go past an optional variable, and those whose next row it can take also through it.

        Return the lanes that are added.
        """
        at_end = lanes.row[here] >= self._stops[lanes.start[here]]
        self._end(lanes, here[at_end])
        here = here[~at_end]
        if not len(here):
            return here
        holds = self._test(lanes, number, here, np.zeros(len(here), np.int64))
        lanes.number[here] += 1
        lanes.block[here] = 1
        taking = here[holds]
        added = lanes.add(taking)
        lanes.first[taking, number] = lanes.row[taking]
        lanes.count[taking, number] = 1
        lanes.row[taking] += 1
        return added

    def _step(self, lanes: _Lanes, number: int, here: Ints) -> None:
        """Let lanes that are in a variable take as many of their next rows as it may have."""
        stops = self._stops[lanes.start[here]]
        at_end = lanes.row[here] >= stops
        if at_end.any():
            self._end(lanes, here[at_end])
            here, stops = here[~at_end], stops[~at_end]
            if not len(here):
                return
        variable, most = self._pattern.variables[number], self._most[number]
        had = lanes.count[here, number]
        exact = variable.least == most
        tested = most if exact else most + 1  # what follows must not fit a variable that may have fewer or more rows
        size = np.minimum(np.minimum(lanes.block[here], stops - lanes.row[here]), tested - had)
        cuts = np.cumsum(size) - size
        place = np.repeat(np.arange(len(here)), size)
        offset = np.arange(len(place)) - cuts[place]
        holds = self._test(lanes, number, here[place], offset)
        taken = np.minimum.reduceat(np.where(holds, size[place], offset), cuts)
        lanes.first[here, number] = np.where(had == 0, lanes.row[here], lanes.first[here, number])
        lanes.count[here, number] += taken
        lanes.row[here] += taken
        refused, counted = taken < size, had + taken
        lanes.block[here] = np.where(refused, 1, np.minimum(2 * lanes.block[here], _BLOCK))
        failed = (refused & (counted < variable.least)) | (counted > most)
        lanes.status[here[failed]] = _FAILED
        done = here[~failed & (refused | (exact & (counted == most)))]
        lanes.number[done] += 1
        lanes.block[done] = 1
        if number == len(self._pattern.variables) - 1:
            lanes.status[done] = _COMPLETE

    def _test(self, lanes: _Lanes, number: int, lane: Ints, offset: Ints) -> Array:
        """Return whether rows belong to a variable, supposing that those of the lane before them do."""
        fits: Flags = self._fits[number][lanes.row[lane] + offset]
        if not self._conditions.has_others(number):
            return fits
        places = np.flatnonzero(fits)
        holds = np.zeros(len(lane), bool)
        if len(places):
            holds[places] = self._test_others(lanes, number, lane[places], offset[places])
        return holds

    def _test_others(self, lanes: _Lanes, number: int, lane: Ints, offset: Ints) -> Array:
        """Test what a condition says of other rows."""
        current = lanes.row[lane] + offset

        def stretch(variable: str | None) -> Stretch:
            if variable is None:
                return Stretch(lanes.start[lane], current + 1 - lanes.start[lane])
            i = self._pattern.number(variable)
            first, count = lanes.first[lane, i], lanes.count[lane, i]
            if i != number:
                return Stretch(first, count)
            first = np.where(count == 0, lanes.row[lane], first)
            return Stretch(first, current + 1 - first)

        return self._conditions.test(number, self._rows, stretch, current)

    def _end(self, lanes: _Lanes, here: Ints) -> None:
        """Decide lanes that have no row left: later rows may still come in time, or not."""
        start = lanes.start[here]
        may_go_on = (self._stops[start] == self._ends[start]) & (self._bound < END)
        if self._pattern.within is not None:
            may_go_on &= self._ts[start] > self._bound - self._pattern.within
        lanes.status[here] = np.where(may_go_on, _OPEN, _FAILED)

    def _found(self, lanes: _Lanes, open_starts: Ints, tried: Flags, holds: list[tuple[int, int]]) -> Found:
        """Return what complete lanes and open starts give."""
        hold = np.full(len(self._ts), END, np.int64)
        for row, instant in holds:
            hold[row] = min(hold[row], instant)
        matches = Matches(lanes.start, lanes.row, lanes.first, lanes.count)
        return found(matches, self._pattern, self._groups, self._ts, open_starts=open_starts, tried=tried, hold=hold)


def _behind(ts: Ints, groups: Array, span: int) -> Ints:
    """Return for each row the first row of its group that is at least `span` later, or the group's end."""
    since = ts - ts.min()
    width = int(since.max()) + 2
    if (int(groups[-1]) + 1) * width < 2**62:
        later = np.minimum(since, width - 1 - min(span, width - 1)) + min(span, width - 1)
    else:  # then ranks instead, so that group and time fit in one number
        instants = np.unique(ts)
        width = len(instants) + 1
        since, later = np.searchsorted(instants, ts), np.searchsorted(instants, ts + span)
    found: Ints = np.searchsorted(groups * width + since, groups * width + later)
    return found


def _between(first: Ints, stop: Ints) -> Ints:
    """Return the rows of each stretch, in order."""
    size = stop - first
    cuts = np.cumsum(size) - size
    place = np.repeat(np.arange(len(first)), size)
    rows: Ints = first[place] + np.arange(len(place)) - cuts[place]
    return rows


def _first_to_end(lanes: _Lanes) -> Ints:
    """Choose one of the lanes of each start: the match that ends first; of several, the one that takes a row earlier.

    A lane that waits may still end before a match that is further. An open lane ends later than any match.
    """
    row = np.where(lanes.status == _FAILED, _MANY, np.where(lanes.status == _OPEN, _MANY - 1, lanes.row))
    waits = lanes.status != _COMPLETE
    order = np.lexsort((*(-lanes.count[:, i] for i in reversed(range(lanes.count.shape[1]))), waits, row, lanes.start))
    chosen: Ints = order[np.diff(lanes.start[order], prepend=-1) != 0]
    return chosen


def _joined(parts: list[tuple[_Lanes, list[int]]], variables: int) -> _Lanes:
    """Return the chosen lanes of all rounds."""
    if not parts:
        return _Lanes.at(np.zeros(0, np.int64), variables)
    pieces = [(lanes, np.array(chosen, np.int64)) for lanes, chosen in parts]

    def all_of(name: str) -> Ints:
        return np.concatenate([getattr(lanes, name)[chosen] for lanes, chosen in pieces])

    return _Lanes(*(all_of(name) for name in _PARTS))
