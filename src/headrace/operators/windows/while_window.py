"""Aggregates over While windows: runs of consecutive tuples of a partition that satisfy a predicate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from headrace.model.expressions.expression import Column, Expr
from headrace.model.page import Element, Page
from headrace.model.patterns.pattern import Pattern
from headrace.model.schema import SEQ, TS
from headrace.model.window import AggregateCall, While
from headrace.operators.capabilities import Choose
from headrace.operators.expressions.evaluate import compile_expr, compile_predicate
from headrace.operators.keyed_spec import ByKey
from headrace.operators.operator import Operator, State
from headrace.operators.partitioning import Keys, renamed
from headrace.operators.state.hash_slots import SLOT, Slots
from headrace.operators.text import aggregation
from headrace.operators.windows.aggregates import Aggregates, GroupKeys

_HOLDS, _RUN, _FIRST, _END, _PLACE = "__holds", "__run", "__first", "__end", "__place"


class WhileAggregate(ByKey, frozen=True, tag="while_aggregate"):
    """Results of each run with the tuple that ends it, by group; the input is in timestamp order."""

    window: While
    keys: GroupKeys
    calls: tuple[AggregateCall, ...]

    def build(self) -> Operator:
        return _WhileWindows(self.window, Aggregates(self.keys, self.calls))

    def describe(self, inputs: Sequence[str] = ()) -> str:
        return aggregation(self.window, self.keys, self.calls)

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        return self.window.by

    def output_keys(self, positions: tuple[int, ...]) -> tuple[Expr, ...] | None:
        return renamed(tuple(self.window.by[i] for i in positions), self.keys)


class _WhileWindows(Operator):
    """Keeps the partials of each partition's open run, by group, with the run's first timestamp."""

    def __init__(self, window: While, aggregates: Aggregates) -> None:
        self._window, self._aggregates = window, aggregates
        self._by = [f"__by{i}" for i in range(len(window.by))]
        self._extra = [compile_expr(expr).alias(name) for name, expr in zip(self._by, window.by, strict=True)]
        self._extra.append(compile_predicate(window.predicate).alias(_HOLDS))
        self._open = Slots("run", self._by)
        self._part = [SLOT, *self._by]  # names a partition
        self._columns = [*self._part, *aggregates.names, _FIRST, *(part.name for part in aggregates.parts)]
        self._next = 0

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        if not len(page):
            return ()
        read = self._aggregates.read(page.rows, *self._extra)
        numbers = pl.int_range(self._next, self._next + read.height, dtype=pl.Int64)
        rows = self._open.assign(read.with_columns(numbers.alias(SEQ), numbers.alias(_PLACE)))
        self._next += rows.height
        # The n-th tuple that does not satisfy the predicate ends run n - 1, of which there may be nothing.
        ended = (~pl.col(_HOLDS)).cast(pl.Int64).cum_sum().over(self._part)
        rows = rows.with_columns((ended - (~pl.col(_HOLDS)).cast(pl.Int64)).alias(_RUN))
        touched = rows[SLOT].unique(maintain_order=True).to_list()
        runs = self._runs(rows.filter(_HOLDS), touched)
        ends = rows.filter(~pl.col(_HOLDS)).select(*self._part, _RUN, pl.col(TS).alias(_END), _PLACE)
        with_ends = runs.join(ends, on=[*self._part, _RUN], how="left", nulls_equal=True, maintain_order="left")
        self._open.replace(touched, with_ends.filter(pl.col(_END).is_null()).select(self._columns))
        done = with_ends.filter(pl.col(_END).is_not_null()).sort(_PLACE, *self._aggregates.names)
        if done.height == 0:
            return ()
        return (Page(self._aggregates.results(done, start=pl.col(_FIRST), end=pl.col(_END), stamp=pl.col(_END))),)

    def state(self) -> State:
        return self._open.state()

    def restore(self, state: State) -> None:
        self._open.restore(state)
        self._next = 1 + max((self._aggregates.newest(rows) for rows in self._open.rows()), default=-1)

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        names = tuple(Column(self._by[self._window.by.index(key)], key.type) for key in keys[0])
        given = self._open.give(lambda rows: choose(rows, names))
        return {} if given is None else {"rows": given}

    def take(self, given: State) -> None:
        if "rows" in given:
            self._open.take(given["rows"])
            self._next = max(self._next, 1 + self._aggregates.newest(given["rows"]))

    def purge(self, port: int, pattern: Pattern) -> int:
        groups = self._aggregates.groups(pattern)
        return 0 if groups is None else self._open.remove(groups)

    def held(self) -> int:
        return len(self._open)

    def _runs(self, rows: pl.DataFrame, touched: list[int]) -> pl.DataFrame:
        """Return partials of all runs by partition, run and group; what was open before is in run 0."""
        run = [*self._part, _RUN]
        columns = [*self._columns, _RUN]
        partials = self._aggregates.fold(rows, [*run, *self._aggregates.names], pl.col(TS).min().alias(_FIRST)).select(
            columns
        )
        before = [part.with_columns(pl.lit(0, pl.Int64).alias(_RUN)).select(columns) for part in self._open.of(touched)]
        merged = self._aggregates.merge(
            pl.concat([*before, partials]), [*run, *self._aggregates.names], pl.col(_FIRST).min()
        )
        return merged.with_columns(pl.col(_FIRST).min().over(run))
