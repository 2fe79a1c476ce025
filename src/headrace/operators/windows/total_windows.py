"""Windows that grow with each step: closed panes are added to a total of their group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.pattern import Pattern
from headrace.model.time import BEGIN, END
from headrace.model.window import Cumulative, Landmark
from headrace.operators.capabilities import Choose
from headrace.operators.operator import Operator, State
from headrace.operators.partitioning import Keys
from headrace.operators.state.run_tree import RunTree
from headrace.operators.windows.aggregates import Aggregates
from headrace.operators.windows.pane_times import PANE, ceiling, floor

#: The chunk, and its column, that says up to where cumulative windows have closed.
_CLOSED = "closed"


class LandmarkWindows(Operator):
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
        ahead = floor(bound, slide, self._window.start or 0) + slide
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


class CumulativeWindows(Operator):
    """Open panes, and for each group the total of the closed ones of this period.

    The last end of a window that closed is part of the state: a group has results for later ends as well.
    """

    def __init__(self, window: Cumulative, aggregates: Aggregates, since: int) -> None:
        self._window, self._aggregates = window, aggregates
        self._since = since if since <= BEGIN else ceiling(since, window.size, window.offset)  # a period begins there
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
        bound_after = Punctuation(END if bound >= END else floor(bound, step, self._window.offset) + step)
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
        start = floor(end - step, size, self._window.offset)
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
