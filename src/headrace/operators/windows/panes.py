"""Aggregates over Range, Landmark and Cumulative windows, by panes.

A tuple is added once to its pane, a window is made of whole panes.

`PartialAggregate` turns raw pages into partials per pane and group and keeps nothing, so it may run before a shuffle.
`PaneAggregate` gathers partials and, when a punctuation says that a window is complete, merges the window's panes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import polars as pl
from msgspec import UNSET, UnsetType

from headrace.model.expressions.expression import Column, Expr
from headrace.model.page import Completion, Element, Page, Punctuation
from headrace.model.patterns.match import Between, IsNull, Match, OneOf
from headrace.model.patterns.pattern import Pattern, matches, pattern
from headrace.model.schema import TS
from headrace.model.time import BEGIN, END
from headrace.model.types import Type
from headrace.model.window import AggregateCall, Cumulative, Landmark, Panes, Range
from headrace.operators.capabilities import Choose
from headrace.operators.keyed_spec import UnorderedByKey
from headrace.operators.operator import Operator, State
from headrace.operators.partitioning import Keys, computed_from, renamed
from headrace.operators.spec import Order, Spec
from headrace.operators.state.completed import latest, named_as, shown_as, times_of
from headrace.operators.state.run_tree import RunTree
from headrace.operators.text import aggregation
from headrace.operators.windows.aggregates import Aggregates, GroupKeys
from headrace.operators.windows.pane_blocks import PaneBlocks

#: Start of a partial's pane, Int64.
PANE = "__pane"
_WINDOW_END = "__end"
#: The chunk, and its column, that says up to where cumulative windows have closed.
_CLOSED = "closed"
#: The same for where the panes begin that have not closed, in what is given away.
_HORIZON = "horizon"
#: How many rows to lay out at most for one merge.
_BATCH_ROWS = 1_000_000
#: The chunk that says of which groups windows have closed ahead of time, and up to where; and a column of such rows.
_AHEAD, _UNTIL = "ahead", "__until"


class PartialAggregate(Spec, frozen=True, tag="partial_aggregate"):
    """Partials of each page: one row per pane and group, with `__pane`, the keys, the parts, and the least `__ts`.

    Tuples in no window (in gaps, before a landmark) are dropped.
    """

    window: Range | Landmark
    keys: GroupKeys
    calls: tuple[AggregateCall, ...]

    def build(self) -> Operator:
        return _Partial(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        return f"partial {aggregation(self.window, self.keys, self.calls)}"

    @property
    def is_stateless(self) -> bool:
        return True

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        return tuple(expr for _, expr in self.keys)

    def keys_after(self, keys: Keys) -> Keys | None:
        return renamed(keys, self.keys)

    def keys_before(self, keys: Keys) -> Keys | None:
        return computed_from(keys, self.keys)

    @property
    def output_order(self) -> Order:
        return Order.NONE


class PaneAggregate(UnorderedByKey, frozen=True, tag="pane_aggregate"):
    """Results of every window that a punctuation completes, from the partials of its panes.

    Windows that begin before `since` are left out; of a landmark window, the panes that do.
    """

    window: Panes
    keys: GroupKeys
    calls: tuple[AggregateCall, ...]
    since: int | UnsetType = UNSET  # not NULL, so that others are called as ever

    def build(self) -> Operator:
        aggregates = Aggregates(self.keys, self.calls)
        since = BEGIN if self.since is UNSET else self.since
        match self.window:
            case Range():
                return _RangeWindows(self.window, aggregates, since)
            case Landmark():
                return _LandmarkWindows(self.window, aggregates, since)
            case Cumulative():
                return _CumulativeWindows(self.window, aggregates, since)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        return aggregation(self.window, self.keys, self.calls)

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        return tuple(Column(name, expr.type) for name, expr in self.keys)

    def output_keys(self, positions: tuple[int, ...]) -> tuple[Expr, ...] | None:
        return tuple(Column(self.keys[i][0], self.keys[i][1].type) for i in positions)


class _Partial(Operator):
    def __init__(self, spec: PartialAggregate) -> None:
        self._aggregates = Aggregates(spec.keys, spec.calls)
        self._shown = shown_as(spec.keys)
        ts, self._inside = pl.col(TS), None
        match spec.window:
            case Range(size=size, slide=slide, offset=offset):
                self._pane = _floor(ts, math.gcd(size, slide), offset)
                if slide > size:
                    self._inside = ts - _floor(ts, slide, offset) < size
            case Landmark(start=start, slide=slide):
                first = start or 0
                self._pane = (ts - first) // slide * slide + first
                if start is not None:
                    self._inside = ts >= start

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        rows = page.rows if self._inside is None else page.rows.filter(self._inside)
        if rows.height == 0:
            return ()
        raw = self._aggregates.read(rows, self._pane.alias(PANE))
        return (Page(self._aggregates.fold(raw, [PANE, *self._aggregates.names], pl.col(TS).min())),)

    def on_completion(self, port: int, completion: Completion) -> Iterable[Element]:
        return named_as(completion, self._shown)


class _RangeWindows(Operator):
    def __init__(self, window: Range, aggregates: Aggregates, since: int) -> None:
        self._window, self._aggregates = window, aggregates
        self._since = since if since <= BEGIN else _ceiling(since, window.slide, window.offset)  # a window begins there
        self._columns = [PANE, *aggregates.names, *(part.name for part in aggregates.parts)]
        self._panes = RunTree("pane", PANE, self._merge, aggregates.names)
        length = math.gcd(window.size, window.slide)
        self._blocks = PaneBlocks(
            self._panes, PANE, length=length, origin=window.offset, count=window.size // length, merge=self._merge
        )
        self._panes.expire(self._since)
        self._ahead: pl.DataFrame | None = None  # the ends up to which windows of a group have closed, if they overlap

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        rows = page.rows.select(self._columns)
        self._panes.append(rows if self._since <= BEGIN else rows.filter(pl.col(PANE) >= self._since))
        return ()

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        bound = mark.bound
        bound_after = Punctuation(END if bound >= END else _next_end(bound, self._window))
        least = self._panes.least()
        if least == END or self._next_close(least) > bound:
            self._forget_closed(bound)
            return (bound_after,)
        result = self._close(bound)
        # The horizon is where the first window that has not closed starts; earlier panes are in no window any more.
        self._blocks.expire(min(_next_end(bound, self._window) - self._window.size, END))
        self._forget_closed(bound)
        return (Page(result), bound_after)

    def on_completion(self, port: int, completion: Completion) -> Iterable[Element]:
        """Close the windows of some groups ahead of time, and forget what no other window of theirs needs."""
        results = self._close_ahead(completion.rows)
        # a later result has the end of a window that has not closed
        later = Completion(completion.rows.with_columns(_next_end(pl.col(TS), self._window)))
        return (later,) if results is None else (Page(results), later)

    def _close_ahead(self, completed: pl.DataFrame) -> pl.DataFrame | None:
        """Return results of the groups of these keys, for windows that end by the time of the key."""
        size, slide, end = self._window.size, self._window.slide, pl.col(_WINDOW_END)
        first = self._panes.horizon + size
        open_panes = self._panes.between(BEGIN, int(completed[TS].max()))  # type: ignore[arg-type]  # not empty
        parts = [rows.with_columns(times_of(rows, completed).alias(_UNTIL)) for rows in open_panes]
        parts = [part for rows in parts if (part := rows.filter(pl.col(PANE) < pl.col(_UNTIL))).height]
        if not parts:
            return None
        rows = pl.concat(parts)
        closed = pl.lit(BEGIN, pl.Int64) if self._ahead is None else times_of(rows, self._ahead)
        rows = rows.with_columns(pl.max_horizontal(closed, pl.lit(first - slide, pl.Int64)).alias("__closed"))
        own = _floor(pl.col(PANE), slide, self._window.offset) + size
        inside = (end > pl.col(PANE)) & (end <= pl.col(_UNTIL)) & (end > pl.col("__closed"))
        spread = pl.concat(
            [rows.with_columns((own - k * slide).alias(_WINDOW_END)).filter(inside) for k in range(-(-size // slide))]
        )
        self._forget_ahead(completed, rows)
        if not spread.height:
            return None
        merged = self._merge_windows([spread.drop(_UNTIL, "__closed")])
        return self._in_order(self._aggregates.results(merged, start=end - size, end=end, stamp=end))

    def _forget_ahead(self, completed: pl.DataFrame, rows: pl.DataFrame) -> None:
        """Forget the panes of these keys that are in no window that has not closed, and note what has closed."""
        window, names = self._window, self._aggregates.names
        starts = completed.with_columns(_next_end(pl.col(TS), window) - window.size)  # of windows that have not closed
        self._panes.give(lambda panes: (panes[PANE] < times_of(panes, starts)).to_numpy())
        self._blocks.forget()
        if window.slide < window.size:
            groups = rows.select(*names, _last_end(pl.col(_UNTIL), window).alias(TS)).unique()
            self._set_ahead(latest(groups if self._ahead is None else pl.concat([self._ahead, groups])))

    def _forget_closed(self, bound: int) -> None:
        if self._ahead is not None:
            self._set_ahead(self._ahead.filter(pl.col(TS) > bound))

    def _set_ahead(self, rows: pl.DataFrame) -> None:
        if self._ahead is None or not rows.equals(self._ahead):
            self._ahead = rows if rows.height else None

    def _not_ahead(self, merged: pl.DataFrame) -> pl.DataFrame:
        """Return windows without those that have closed ahead of time."""
        return merged if self._ahead is None else merged.filter(merged[_WINDOW_END] > times_of(merged, self._ahead))

    def state(self) -> State:
        return {**self._panes.state(), **({} if self._ahead is None else {_AHEAD: self._ahead})}

    def restore(self, state: State) -> None:
        self._ahead = state.get(_AHEAD)
        self._panes.restore(state)
        self._panes.expire(self._since)
        self._blocks.forget()

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        given = self._panes.give(lambda rows: choose(rows, keys[0]))
        self._blocks.forget()
        ahead: dict[str, pl.DataFrame] = {}
        if self._ahead is not None and (chosen := choose(self._ahead, keys[0])).any():
            ahead[_AHEAD] = self._ahead.filter(chosen)
            self._set_ahead(self._ahead.filter(~chosen))
        return {"panes": pl.concat(given), _HORIZON: _one(self._panes.horizon), **ahead} if given else {}

    def take(self, given: State) -> None:
        # a pane in several windows may have been in one that has closed
        self._panes.expire(int(given[_HORIZON].item()))
        self._panes.append(given["panes"])
        self._blocks.forget()
        if _AHEAD in given:
            self._set_ahead(given[_AHEAD] if self._ahead is None else pl.concat([self._ahead, given[_AHEAD]]))

    def held(self) -> int:
        return len(self._panes)

    def due(self) -> int | None:
        least = self._panes.least()
        return None if least == END else self._next_close(least)

    def purge(self, port: int, pattern: Pattern) -> int:
        count = self._panes.remove(pattern)
        if count:
            self._blocks.forget()
        return count

    def settled(self, pattern: Pattern) -> Sequence[Pattern]:
        results = self._results_so_far()
        return (
            ()
            if results is None
            else groups_of(self._aggregates.keys, results.filter(matches(pattern, results)), self._window)
        )

    def _results_so_far(self) -> pl.DataFrame | None:
        """Return what would come out if the input ended now; None if no window is open."""
        least, size, slide = self._panes.least(), self._window.size, self._window.slide
        if least == END:
            return None
        newest = max(int(rows[PANE][-1]) for rows in self._panes.between(BEGIN, END))
        end, overlap = pl.col(_WINDOW_END), -(-size // slide)
        last = _floor(newest, slide, self._window.offset) + size
        merged = self._merge_windows([self._spread(self._next_close(least), last, overlap)])
        merged = self._not_ahead(merged)
        return self._in_order(self._aggregates.results(merged, start=end - size, end=end, stamp=end))

    def _in_order(self, results: pl.DataFrame) -> pl.DataFrame:
        return results.sort(TS, *self._aggregates.names)

    def _merge(self, partials: pl.DataFrame) -> pl.DataFrame:
        return self._aggregates.merge(partials, [PANE, *self._aggregates.names]).select(self._columns)

    def _next_close(self, pane: int) -> int:
        """Return the end of the first window that holds a pane and has not closed."""
        return max(_next_end(pane, self._window), self._panes.horizon + self._window.size)

    def _close(self, bound: int) -> pl.DataFrame:
        """Return results of the windows that have not closed and end by `bound`."""
        size, slide = self._window.size, self._window.slide
        first = self._next_close(self._panes.least())
        newest = max(int(rows[PANE][-1]) for rows in self._panes.between(BEGIN, bound))
        last = min(_last_end(bound, self._window), _floor(newest, slide, self._window.offset) + size)
        windows, overlap = (last - first) // slide + 1, -(-size // slide)
        if windows > overlap and len(self._panes) * overlap <= _BATCH_ROWS:
            merged = self._merge_windows([self._spread(first, last, overlap)])
        else:
            merged = self._merge_each(first, last)
        merged, end = self._not_ahead(merged), pl.col(_WINDOW_END)
        return self._in_order(self._aggregates.results(merged, start=end - size, end=end, stamp=end))

    def _spread(self, first: int, last: int, overlap: int) -> pl.DataFrame:
        """Return each pane once for every window that holds it, with the end of that window."""
        size, slide, end = self._window.size, self._window.slide, pl.col(_WINDOW_END)
        rows = pl.concat(self._panes.between(first - size, last))
        own = _floor(pl.col(PANE), slide, self._window.offset) + size
        inside = (end > pl.col(PANE)) & end.is_between(first, last)
        spread = (rows.with_columns((own - k * slide).alias(_WINDOW_END)) for k in range(overlap))
        return pl.concat([_filtered(part, inside) for part in spread])

    def _merge_each(self, first: int, last: int) -> pl.DataFrame:
        """Merge window by window, some at a time."""
        self._blocks.build(last)
        done, waiting, height = [], [], 0
        for end in self._occupied(first, last):
            for rows in self._blocks.between(end - self._window.size, end):
                waiting.append(rows.with_columns(pl.lit(end, pl.Int64).alias(_WINDOW_END)))
                height += rows.height
            if height > _BATCH_ROWS:
                done.append(self._merge_windows(waiting))
                waiting, height = [], 0
        return pl.concat([*done, self._merge_windows(waiting)] if waiting else done)

    def _occupied(self, first: int, last: int) -> Iterator[int]:
        """Yield the ends of windows that hold a pane; a long silence costs nothing."""
        size, slide = self._window.size, self._window.slide
        panes = np.unique(np.concatenate([rows[PANE].to_numpy() for rows in self._panes.between(first - size, last)]))
        end = first
        while end <= last and (place := int(np.searchsorted(panes, end - size))) < len(panes):
            pane = int(panes[place])
            if pane < end:
                yield end
                end += slide
            else:
                end = _next_end(pane, self._window)

    def _merge_windows(self, rows: list[pl.DataFrame]) -> pl.DataFrame:
        return self._aggregates.merge(pl.concat(rows), [_WINDOW_END, *self._aggregates.names])


class _LandmarkWindows(Operator):
    """Open panes, and for each group the total of all closed ones."""

    def __init__(self, window: Landmark, aggregates: Aggregates, since: int) -> None:
        self._window, self._aggregates, self._since = window, aggregates, since
        self._columns = [PANE, *aggregates.names, *(part.name for part in aggregates.parts)]
        self._panes = RunTree("pane", PANE, self._merge, aggregates.names)
        # A total needs no pane: all have the same, so that the totals of a group merge.
        self._totals = RunTree("total", PANE, self._merge, aggregates.names)

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        self._panes.append(page.rows.select(self._columns))
        return ()

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        bound, slide = mark.bound, self._window.slide
        ahead = _floor(bound, slide, self._window.start or 0) + slide
        if self._window.start is not None:
            ahead = max(ahead, self._window.start + slide)
        results = []
        while (least := self._panes.least()) + slide <= bound:
            results.append(self._close(least))
        bound_after = Punctuation(END if bound >= END else ahead)
        return (Page(pl.concat(results)), bound_after) if results else (bound_after,)

    def state(self) -> State:
        return {**self._panes.state(), **self._totals.state()}

    def restore(self, state: State) -> None:
        self._panes.restore(state)
        self._totals.restore(state)

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        return _given_by(self._panes, self._totals, keys[0], choose)

    def take(self, given: State) -> None:
        _taken_by(self._panes, self._totals, given)

    def held(self) -> int:
        return len(self._panes) + len(self._totals)

    def due(self) -> int | None:
        least = self._panes.least()
        return None if least == END else least + self._window.slide

    def purge(self, port: int, pattern: Pattern) -> int:
        # a total is of all panes before: it goes only with the whole group
        return self._panes.remove(pattern) + (self._totals.remove(pattern) if pattern.get(PANE) is None else 0)

    def _merge(self, partials: pl.DataFrame) -> pl.DataFrame:
        return self._aggregates.merge(partials, [PANE, *self._aggregates.names]).select(self._columns)

    def _close(self, pane: int) -> pl.DataFrame:
        end = pane + self._window.slide
        fresh = self._merge(pl.concat(self._panes.between(pane, end))).with_columns(pl.lit(0, pl.Int64).alias(PANE))
        results = self._totals_with(fresh, end)
        if pane < self._since:  # it was reported before
            results = results.clear()
        self._totals.append(fresh)
        self._panes.expire(end)
        return results

    def _totals_with(self, fresh: pl.DataFrame, end: int) -> pl.DataFrame:
        """Return results of the groups of fresh partials, which have the pane 0, with all that came before."""
        names, earlier = self._aggregates.names, self._totals.between(BEGIN, END)
        if names:
            earlier = [
                rows.join(fresh, on=names, how="semi", nulls_equal=True, maintain_order="left") for rows in earlier
            ]
        totals = self._aggregates.merge(pl.concat([fresh, *earlier]), [PANE, *names]).sort(names or PANE)
        start = pl.lit(self._window.start, pl.Int64)
        return self._aggregates.results(totals, start=start, end=pl.lit(end, pl.Int64), stamp=pl.lit(end, pl.Int64))


class _CumulativeWindows(Operator):
    """Open panes, and for each group the total of the closed ones of this period.

    The last end of a window that closed is part of the state: a group has results for later ends as well.
    """

    def __init__(self, window: Cumulative, aggregates: Aggregates, since: int) -> None:
        self._window, self._aggregates = window, aggregates
        self._since = since if since <= BEGIN else _ceiling(since, window.size, window.offset)  # a period begins there
        self._columns = [PANE, *aggregates.names, *(part.name for part in aggregates.parts)]
        self._panes = RunTree("pane", PANE, self._merge, aggregates.names)
        # The pane of a total is the start of its period.
        self._totals = RunTree("total", PANE, self._merge, aggregates.names)
        self._set_closed(BEGIN)
        self._forget_earlier()

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        rows = page.rows.select(self._columns)
        self._panes.append(rows if self._since <= BEGIN else rows.filter(pl.col(PANE) >= self._since))
        return ()

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        bound, step = mark.bound, self._window.step
        results = []
        while (end := self._next_close()) <= bound and end < END:
            results.append(self._close(end))
        bound_after = Punctuation(END if bound >= END else _floor(bound, step, self._window.offset) + step)
        return (Page(pl.concat(results)), bound_after) if results else (bound_after,)

    def state(self) -> State:
        totals = self._totals.state()
        return {**self._panes.state(), **totals, **({_CLOSED: self._closed_chunk} if totals else {})}

    def restore(self, state: State) -> None:
        self._panes.restore(state)
        self._totals.restore(state)
        self._set_closed(int(state[_CLOSED][_CLOSED][0]) if _CLOSED in state else BEGIN)
        self._forget_earlier()

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        given = _given_by(self._panes, self._totals, keys[0], choose)
        return {**given, _CLOSED: self._closed_chunk} if given else {}

    def take(self, given: State) -> None:
        _taken_by(self._panes, self._totals, given)
        self._set_closed(max(self._closed, int(given[_CLOSED].item())))

    def held(self) -> int:
        return len(self._panes) + len(self._totals)

    def due(self) -> int | None:
        end = self._next_close()
        return None if end >= END else end

    def purge(self, port: int, pattern: Pattern) -> int:
        # a total is of all panes before: it goes only with the whole group
        return self._panes.remove(pattern) + (self._totals.remove(pattern) if pattern.get(PANE) is None else 0)

    def _merge(self, partials: pl.DataFrame) -> pl.DataFrame:
        return self._aggregates.merge(partials, [PANE, *self._aggregates.names]).select(self._columns)

    def _next_close(self) -> int:
        """Return the end of the first window that has not closed and holds a tuple; END or more if there is none."""
        fresh = min(END, self._panes.least() + self._window.step)
        return min(fresh, self._closed + self._window.step) if len(self._totals) else fresh

    def _close(self, end: int) -> pl.DataFrame:
        step, size = self._window.step, self._window.size
        start = _floor(end - step, size, self._window.offset)
        period = pl.lit(start, pl.Int64)
        if fresh := self._panes.between(end - step, end):
            self._totals.append(self._merge(pl.concat(fresh).with_columns(period.alias(PANE))))
            self._panes.expire(end)
        names, until = self._aggregates.names, pl.lit(end, pl.Int64)
        totals = self._aggregates.merge(pl.concat(self._totals.between(start, end)), [PANE, *names])
        results = self._aggregates.results(totals.sort(names or PANE), start=period, end=until, stamp=until)
        if end == start + size:
            self._totals.expire(end)
        self._set_closed(end)
        return results

    def _forget_earlier(self) -> None:
        self._panes.expire(self._since)
        self._totals.expire(self._since)

    def _set_closed(self, end: int) -> None:
        self._closed = end
        self._closed_chunk = pl.DataFrame({_CLOSED: [end]}, schema={_CLOSED: pl.Int64})


def _given_by(panes: RunTree, totals: RunTree, keys: Keys, choose: Choose) -> dict[str, pl.DataFrame]:
    parts = {"panes": panes, "totals": totals}
    given = {name: tree.give(lambda rows: choose(rows, keys)) for name, tree in parts.items()}
    return {name: pl.concat(rows) for name, rows in given.items() if rows}


def _taken_by(panes: RunTree, totals: RunTree, given: State) -> None:
    if "panes" in given:
        panes.append(given["panes"])
    if "totals" in given:
        totals.append(given["totals"])


def _one(bound: int) -> pl.DataFrame:
    return pl.DataFrame({_HORIZON: [bound]}, schema={_HORIZON: pl.Int64})


def pane_length(window: Panes) -> int:
    """Return how long a pane of a window is."""
    match window:
        case Range(size=size, slide=slide):
            return math.gcd(size, slide)
        case Landmark(slide=slide):
            return slide
        case Cumulative(step=step):
            return step


def groups_of(keys: GroupKeys, results: pl.DataFrame, window: Range) -> list[Pattern]:
    """Return the partials that results were made of: one pattern a window if there is one key, else one a group."""
    patterns: list[Pattern] = []
    if any(expr.type is Type.BINARY or not isinstance(expr.type, Type) for _, expr in keys):
        return patterns
    columns = [Column(name, expr.type) for name, expr in keys]
    for (end,), rows in results.group_by(TS, maintain_order=True):
        assert isinstance(end, int)
        panes = (Column(PANE, Type.BIGINT), Between(end - window.size, end - pane_length(window)))
        values = [rows[column.name].to_physical() for column in columns]
        if len(columns) == 1:
            present = values[0].drop_nulls()
            choices: list[list[Match]] = [[OneOf(tuple(present.to_list()))]] if len(present) else []
            choices += [[IsNull()]] if values[0].null_count() else []
        else:
            choices = (
                [
                    [IsNull() if value is None else OneOf((value,)) for value in group]
                    for group in zip(*values, strict=True)
                ]
                if values
                else [[]]
            )
        patterns += [pattern(panes, *zip(columns, choice, strict=True)) for choice in choices]
    return patterns


_T = TypeVar("_T", int, pl.Expr)


def _filtered(rows: pl.DataFrame, condition: pl.Expr) -> pl.DataFrame:
    """Return the rows for which a condition is true; what they hold, such as long lists, is copied only if it must."""
    chosen = rows.select(condition).to_series()
    return rows if chosen.all() else rows.filter(chosen)


def _floor(time: _T, length: int, origin: int) -> _T:
    """Return the greatest time <= `time` that is a multiple of `length` after the origin."""
    return (time - origin) // length * length + origin


def _ceiling(time: int, length: int, origin: int) -> int:
    return -((origin - time) // length) * length + origin


def _last_end(bound: _T, window: Range) -> _T:
    """Return the greatest window end <= bound."""
    return _floor(bound - window.size, window.slide, window.offset) + window.size


def _next_end(bound: _T, window: Range) -> _T:
    """Return the least window end > bound."""
    return _last_end(bound, window) + window.slide
