"""Windows of a span that slide: each is merged of its panes when it is complete."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import polars as pl

from headrace.model.expressions.expression import Column
from headrace.model.page import Completion, Element, Page, Punctuation
from headrace.model.patterns.match import Between, IsNull, Match, OneOf
from headrace.model.patterns.pattern import Pattern, matches, pattern
from headrace.model.schema import TS
from headrace.model.time import BEGIN, END
from headrace.model.types import Type
from headrace.model.window import Range
from headrace.operators.capabilities import Choose
from headrace.operators.operator import Operator, State
from headrace.operators.partitioning import Keys
from headrace.operators.state.completed import latest, times_of
from headrace.operators.state.run_tree import RunTree
from headrace.operators.windows.aggregates import Aggregates, GroupKeys
from headrace.operators.windows.pane_blocks import PaneBlocks
from headrace.operators.windows.pane_times import PANE, ceiling, floor, last_end, next_end, pane_length

_WINDOW_END = "__end"
#: The chunk, and its column, that says in what is given away where the panes begin that have not closed.
_HORIZON = "horizon"
#: How many rows to lay out at most for one merge.
_BATCH_ROWS = 1_000_000
#: The chunk that says of which groups windows have closed ahead of time, and up to where; and a column of such rows.
_AHEAD, _UNTIL = "ahead", "__until"


class RangeWindows(Operator):
    """Open panes, and the ends up to which windows of some groups have closed ahead of time."""

    def __init__(self, window: Range, aggregates: Aggregates, since: int) -> None:
        self._window, self._aggregates = window, aggregates
        self._since = since if since <= BEGIN else ceiling(since, window.slide, window.offset)  # a window begins there
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
        bound_after = Punctuation(END if bound >= END else next_end(bound, self._window))
        least = self._panes.least()
        if least == END or self._next_close(least) > bound:
            self._forget_closed(bound)
            return (bound_after,)
        result = self._close(bound)
        # The horizon is where the first window that has not closed starts; earlier panes are in no window any more.
        self._blocks.expire(min(next_end(bound, self._window) - self._window.size, END))
        self._forget_closed(bound)
        return (Page(result), bound_after)

    def on_completion(self, port: int, completion: Completion) -> Iterable[Element]:
        """Close the windows of some groups ahead of time, and forget what no other window of theirs needs."""
        results = self._close_ahead(completion.rows)
        # a later result has the end of a window that has not closed
        later = Completion(completion.rows.with_columns(next_end(pl.col(TS), self._window)))
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
        own = floor(pl.col(PANE), slide, self._window.offset) + size
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
        starts = completed.with_columns(next_end(pl.col(TS), window) - window.size)  # of windows that have not closed
        self._panes.give(lambda panes: (panes[PANE] < times_of(panes, starts)).to_numpy())
        self._blocks.forget()
        if window.slide < window.size:
            groups = rows.select(*names, last_end(pl.col(_UNTIL), window).alias(TS)).unique()
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
        last = floor(newest, slide, self._window.offset) + size
        merged = self._merge_windows([self._spread(self._next_close(least), last, overlap)])
        merged = self._not_ahead(merged)
        return self._in_order(self._aggregates.results(merged, start=end - size, end=end, stamp=end))

    def _in_order(self, results: pl.DataFrame) -> pl.DataFrame:
        return results.sort(TS, *self._aggregates.names)

    def _merge(self, partials: pl.DataFrame) -> pl.DataFrame:
        return self._aggregates.merge(partials, [PANE, *self._aggregates.names]).select(self._columns)

    def _next_close(self, pane: int) -> int:
        """Return the end of the first window that holds a pane and has not closed."""
        return max(next_end(pane, self._window), self._panes.horizon + self._window.size)

    def _close(self, bound: int) -> pl.DataFrame:
        """Return results of the windows that have not closed and end by `bound`."""
        size, slide = self._window.size, self._window.slide
        first = self._next_close(self._panes.least())
        newest = max(int(rows[PANE][-1]) for rows in self._panes.between(BEGIN, bound))
        last = min(last_end(bound, self._window), floor(newest, slide, self._window.offset) + size)
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
        own = floor(pl.col(PANE), slide, self._window.offset) + size
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
                end = next_end(pane, self._window)

    def _merge_windows(self, rows: list[pl.DataFrame]) -> pl.DataFrame:
        return self._aggregates.merge(pl.concat(rows), [_WINDOW_END, *self._aggregates.names])


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


def _one(bound: int) -> pl.DataFrame:
    return pl.DataFrame({_HORIZON: [bound]}, schema={_HORIZON: pl.Int64})


def _filtered(rows: pl.DataFrame, condition: pl.Expr) -> pl.DataFrame:
    """Return the rows for which a condition is true; what they hold, such as long lists, is copied only if it must."""
    chosen = rows.select(condition).to_series()
    return rows if chosen.all() else rows.filter(chosen)
