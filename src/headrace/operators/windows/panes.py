"""Aggregates over Range, Landmark and Cumulative windows, by panes.

A tuple is added once to its pane, a window is made of whole panes.

`PartialAggregate` turns raw pages into partials per pane and group and keeps nothing, so it may run before a shuffle.
`PaneAggregate` gathers partials and, when a punctuation says that a window is complete, merges the window's panes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import polars as pl
from msgspec import UNSET, UnsetType

from headrace.model.expressions.expression import Column, Expr
from headrace.model.page import Completion, Element, Page
from headrace.model.schema import TS
from headrace.model.time import BEGIN
from headrace.model.window import AggregateCall, Cumulative, Landmark, Panes, Range
from headrace.operators.keyed_spec import UnorderedByKey
from headrace.operators.operator import Operator
from headrace.operators.partitioning import Keys, computed_from, renamed
from headrace.operators.spec import Order, Spec
from headrace.operators.state.completed import named_as, shown_as
from headrace.operators.text import aggregation
from headrace.operators.windows.aggregates import Aggregates, GroupKeys
from headrace.operators.windows.pane_times import PANE, floor
from headrace.operators.windows.range_windows import RangeWindows
from headrace.operators.windows.total_windows import CumulativeWindows, LandmarkWindows


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
                return RangeWindows(self.window, aggregates, since)
            case Landmark():
                return LandmarkWindows(self.window, aggregates, since)
            case Cumulative():
                return CumulativeWindows(self.window, aggregates, since)

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
                self._pane = floor(ts, math.gcd(size, slide), offset)
                if slide > size:
                    self._inside = ts - floor(ts, slide, offset) < size
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
