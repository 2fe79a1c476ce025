"""Let one of many alike tuples through: when they have come too often, or when an alarm has stood too long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from headrace.model.expressions.expression import Expr
from headrace.model.page import Element, Page
from headrace.model.schema import TS, Schema
from headrace.model.suppression import Repeats, Standing, Suppression, format_suppression
from headrace.operators.arrays import Array, least
from headrace.operators.capabilities import Choose, chosen_by
from headrace.operators.expressions.evaluate import compile_expr
from headrace.operators.keyed_spec import ByKey
from headrace.operators.operator import Operator, State
from headrace.operators.partitioning import Keys
from headrace.operators.repeats.standing_alarms import StandingAlarms
from headrace.operators.state.given import given_up, kept_as
from headrace.operators.state.hash_slots import SLOT, Slots
from headrace.operators.text import listed
from headrace.operators.windows.slices import firsts, group_numbers

_FRESH, _PLACE = "__fresh", "__place"


class Suppress(ByKey, frozen=True, tag="suppress"):
    """The tuples of each group by `by` that the rule lets through, each with the oldest of them under `old_names`."""

    schema: Schema
    by: tuple[Expr, ...]
    rule: Suppression
    old_names: tuple[str, ...]

    def build(self) -> Operator:
        match self.rule:
            case Repeats():
                return _Repeated(self.rule, self.schema.names, self.by, self.old_names)
            case Standing():
                return StandingAlarms(self.rule, self.schema.names, self.by, self.old_names)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        per = f" per {listed(self.by)}" if self.by else ""
        return f"suppress{per}, {format_suppression(self.rule)}"

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        return self.by

    def output_keys(self, positions: tuple[int, ...]) -> tuple[Expr, ...] | None:
        return tuple(self.by[i] for i in positions)


class _Repeated(Operator):
    """Keeps of each group the tuples that count: since one was let through, and not too long ago."""

    def __init__(self, rule: Repeats, names: Sequence[str], by: Sequence[Expr], old_names: Sequence[str]) -> None:
        self._limit, self._span = rule.limit, rule.span
        self._names = [*names, TS]
        self._old = dict(zip(self._names, old_names, strict=True))
        self._groups, self._by = tuple(by), [f"__by{i}" for i in range(len(by))]
        self._keys = [compile_expr(expr).alias(name) for name, expr in zip(self._by, by, strict=True)]
        self._kept = Slots("repeats", self._by)

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        if not len(page):
            return ()
        fresh = self._kept.assign(page.rows.select(*self._names, *self._keys)).with_columns(pl.lit(True).alias(_FRESH))
        slots = fresh[SLOT].unique(maintain_order=True).to_list()
        kept = [
            self._alive(rows, fresh).with_columns(pl.lit(False).alias(_FRESH)).select(fresh.columns)
            for rows in self._kept.of(slots)
        ]
        rows = pl.concat([*kept, fresh]).with_row_index(_PLACE)
        rows = rows.sort(self._by, maintain_order=True) if self._by else rows
        groups = group_numbers(rows, self._by)
        fired = self._fired(rows, groups)
        self._keep(slots, rows, groups, fired)
        if not len(fired):
            return ()
        oldest = rows[fired - self._limit].select(pl.col(name).alias(old) for name, old in self._old.items())
        results = pl.concat([rows[fired].select(*self._names, _PLACE), oldest], how="horizontal").sort(_PLACE)
        return (Page(results.select(*self._names[:-1], *self._old.values(), TS)),)

    def state(self) -> State:
        return self._kept.state()

    def restore(self, state: State) -> None:
        self._kept.restore(state)

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        return given_up(kept=self._kept.give(chosen_by(choose, kept_as(keys[0], self._groups, self._by))))

    def take(self, given: State) -> None:
        self._kept.take(given["kept"])

    def held(self) -> int:
        return len(self._kept)

    def _alive(self, rows: pl.DataFrame, fresh: pl.DataFrame) -> pl.DataFrame:
        """Return what still counts for tuples from the first fresh one on."""
        return rows if self._span is None else rows.filter(pl.col(TS) >= least(fresh[TS]) - self._span)

    def _fired(self, rows: pl.DataFrame, groups: Array) -> Array:
        """Return the positions of the tuples that are let through; counting restarts after each."""
        index = np.arange(rows.height) - firsts(groups)
        if self._span is None:
            return np.flatnonzero(index % (self._limit + 1) == self._limit)
        stamps, limit = rows[TS].to_numpy(), self._limit
        enough = np.flatnonzero((index >= limit) & rows[_FRESH].to_numpy())
        close = enough[stamps[enough] - stamps[enough - limit] <= self._span]
        fired, last = list[int](), -1
        for position in close.tolist():
            if position - limit > last:
                fired.append(position)
                last = position
        return np.array(fired, np.int64)

    def _keep(self, slots: list[int], rows: pl.DataFrame, groups: Array, fired: Array) -> None:
        ends = np.append(np.flatnonzero(np.diff(groups)), rows.height - 1)  # the last of each group
        position = np.arange(rows.height)
        last = np.full(len(ends), -1, np.int64)
        last[groups[fired]] = fired  # of several, the last one stays
        needed = (position > last[groups]) & (position > ends[groups] - self._limit)
        self._kept.replace(slots, rows.filter(pl.Series(needed)).drop(_FRESH, _PLACE))
