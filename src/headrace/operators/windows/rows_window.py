"""Aggregates over Rows windows: each `slide` tuples of a partition, the last `size` of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from headrace.model.expressions.expression import Column, Expr
from headrace.model.page import Element, Page
from headrace.model.patterns.pattern import Pattern
from headrace.model.schema import SEQ, TS
from headrace.model.window import AggregateCall, Rows
from headrace.operators.arrays import Array
from headrace.operators.capabilities import Choose
from headrace.operators.expressions.evaluate import compile_expr
from headrace.operators.keyed_spec import ByKey
from headrace.operators.operator import Operator, State
from headrace.operators.partitioning import Keys, renamed
from headrace.operators.state.hash_slots import SLOT, Slots
from headrace.operators.text import aggregation
from headrace.operators.windows.aggregates import Aggregates, GroupKeys
from headrace.operators.windows.slices import STRETCH, firsts, fold_slices, fold_slices_by, group_numbers

#: Number of a tuple in its partition, from 0; of a tuple on a page, until it is known, NULL.
_INDEX = "__index"
_PLACE = "__place"


class RowsAggregate(ByKey, frozen=True, tag="rows_aggregate"):
    """Results of each complete window, by group; the input is in timestamp order."""

    window: Rows
    keys: GroupKeys
    calls: tuple[AggregateCall, ...]

    def build(self) -> Operator:
        return _RowsWindows(self.window, Aggregates(self.keys, self.calls))

    def describe(self, inputs: Sequence[str] = ()) -> str:
        return aggregation(self.window, self.keys, self.calls)

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        return self.window.by

    def output_keys(self, positions: tuple[int, ...]) -> tuple[Expr, ...] | None:
        return renamed(tuple(self.window.by[i] for i in positions), self.keys)


class _RowsWindows(Operator):
    """Keeps the tuples of each partition that a later window holds, and at least the last one, for its number."""

    def __init__(self, window: Rows, aggregates: Aggregates) -> None:
        self._window, self._aggregates = window, aggregates
        self._by = [f"__by{i}" for i in range(len(window.by))]
        self._one_group = all(
            expr in window.by for _, expr in aggregates.keys
        )  # a partition, and so a window, is of one group
        unknown = pl.lit(None, pl.Int64)
        self._extra = [
            *(compile_expr(expr).alias(name) for name, expr in zip(self._by, window.by, strict=True)),
            unknown.alias(_INDEX),
        ]
        self._kept = Slots("rows", self._by)

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        if not len(page):
            return ()
        fresh = self._kept.assign(self._aggregates.read(page.rows, *self._extra)).with_row_index(_PLACE)
        touched = fresh[SLOT].unique(maintain_order=True).to_list()
        kept = [
            rows.with_columns(pl.lit(None, pl.UInt32).alias(_PLACE)).select(fresh.columns)
            for rows in self._kept.of(touched)
        ]
        ordered = (
            pl.concat([*kept, fresh]).sort(self._by, maintain_order=True) if self._by else pl.concat([*kept, fresh])
        )
        if self._aggregates.needs_order:
            ordered = ordered.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(SEQ))
        parts = group_numbers(ordered, self._by)
        first = firsts(parts)
        index = np.arange(ordered.height) - first + ordered[_INDEX].fill_null(0).to_numpy()[first]
        self._keep(touched, ordered, parts, index)
        size, slide = self._window.size, self._window.slide
        is_last = ordered[_PLACE].is_not_null().to_numpy() & (index >= size - 1) & ((index - size + 1) % slide == 0)
        lasts = np.flatnonzero(is_last)
        return (Page(self._results(ordered, lasts)),) if len(lasts) else ()

    def state(self) -> State:
        return self._kept.state()

    def restore(self, state: State) -> None:
        self._kept.restore(state)

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        names = tuple(Column(self._by[self._window.by.index(key)], key.type) for key in keys[0])
        given = self._kept.give(lambda rows: choose(rows, names))
        return {} if given is None else {"rows": given}

    def take(self, given: State) -> None:
        if "rows" in given:
            self._kept.take(given["rows"])

    def purge(self, port: int, pattern: Pattern) -> int:
        groups = self._aggregates.groups(pattern)
        return 0 if groups is None else self._kept.remove(groups)

    def held(self) -> int:
        return len(self._kept)

    def _keep(self, slots: list[int], ordered: pl.DataFrame, parts: Array, index: Array) -> None:
        size, slide = self._window.size, self._window.slide
        is_last = np.append(parts[1:] != parts[:-1], True)
        counts = (index[is_last] + 1)[parts]
        next_start = np.maximum(-((size - 1 - counts) // slide), 0) * slide  # of the first window that is not complete
        needed = (index >= next_start) | is_last
        self._kept.replace(slots, ordered.with_columns(pl.Series(_INDEX, index)).filter(pl.Series(needed)).drop(_PLACE))

    def _results(self, ordered: pl.DataFrame, lasts: Array) -> pl.DataFrame:
        names = self._aggregates.names
        starts = lasts - self._window.size + 1
        bounds = (
            ordered[lasts].select(pl.col(TS).alias("__end"), _PLACE).with_columns(ordered[starts][TS].alias("__start"))
        )
        if self._one_group:
            partials = fold_slices(self._aggregates, ordered, starts, lasts + 1)
            placed = pl.concat([ordered[lasts].select(names), partials, bounds], how="horizontal").sort(_PLACE)
        else:
            partials = fold_slices_by(self._aggregates, ordered, starts, lasts + 1, names)
            placed = pl.concat([partials, bounds[partials[STRETCH].to_numpy()]], how="horizontal").sort(_PLACE, *names)
        return self._aggregates.results(placed, start=pl.col("__start"), end=pl.col("__end"), stamp=pl.col("__end"))
