"""Aggregates of groups without a window, as a changelog: how the row of a group changes from instant to instant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from headrace.model.changelog import AFTER, BEFORE, DELETE, INSERT
from headrace.model.expressions.expression import Column, Expr
from headrace.model.expressions.text import format_expr
from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.pattern import Pattern
from headrace.model.schema import TS
from headrace.model.time import BEGIN, format_duration
from headrace.model.window import AggregateCall
from headrace.operators.arrays import Array, Flags
from headrace.operators.capabilities import Choose, chosen_by
from headrace.operators.expressions.evaluate import compile_predicate, evaluate
from headrace.operators.keyed_spec import UnorderedByKey
from headrace.operators.operator import Operator, State
from headrace.operators.order.held_back import Pending
from headrace.operators.partitioning import Keys
from headrace.operators.state.given import given_up, kept_as
from headrace.operators.state.hash_slots import SLOT, Slots
from headrace.operators.text import calls_text, listed
from headrace.operators.windows.aggregates import Aggregates, GroupKeys
from headrace.operators.windows.slices import group_numbers, merge_prefixes

_FRESH, _PLACE, _PART = "__fresh", "__place", "__part"
#: Forgotten groups may stay for this share of the time to live, so that few punctuations look at all groups.
_SWEEPS = 8


class Changes(UnorderedByKey, frozen=True, tag="changes"):
    """The changes of `columns` of each group, over keys and calls; a group that fails `condition` has no row.

    A group that has had no tuple for more than `ttl` microseconds begins anew. `change` names the column that tells the
    kind of a change.
    """

    keys: GroupKeys
    calls: tuple[AggregateCall, ...]
    ttl: int
    columns: tuple[tuple[str, Expr], ...]
    condition: Expr | None
    change: str

    def build(self) -> Operator:
        return _Changes(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        per = f" per {listed([expr for _, expr in self.keys])}" if self.keys else ""
        having = "" if self.condition is None else f" having {format_expr(self.condition)}"
        return f"changes of {calls_text(self.calls)}{per}{having}, kept for {format_duration(self.ttl)}"

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        return tuple(expr for _, expr in self.keys)

    def output_keys(self, positions: tuple[int, ...]) -> tuple[Expr, ...] | None:
        shown = {expr.name: name for name, expr in self.columns if isinstance(expr, Column)}
        keys = [self.keys[i] for i in positions]
        if not all(name in shown for name, _ in keys):
            return None
        return tuple(Column(shown[name], expr.type) for name, expr in keys)


class _Changes(Operator):
    """Tuples wait until the frontier has passed them. One partial of each group is kept, with its last timestamp."""

    def __init__(self, spec: Changes) -> None:
        self._spec = spec
        self._aggregates = Aggregates(spec.keys, spec.calls)
        self._names = self._aggregates.names
        self._totals = Slots("total", self._names)
        self._kept = [*self._names, SLOT, TS, *(part.name for part in self._aggregates.parts)]
        self._pending = Pending()
        self._swept: pl.DataFrame | None = None  # up to where groups were forgotten

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        self._pending.add(page.rows)
        return ()

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        ready = self._pending.take(mark.bound)
        changed = None if ready is None else self._extend(ready)
        self._sweep(mark.bound)
        return (mark,) if changed is None else (Page(changed), mark)

    def state(self) -> State:
        swept = {} if self._swept is None else {"swept": self._swept}
        return {**self._pending.state(), **self._totals.state(), **swept}

    def restore(self, state: State) -> None:
        self._pending.restore(state)
        self._totals.restore(state)
        self._swept = state.get("swept")

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        kept = chosen_by(choose, kept_as(keys[0], self._spec.partition_by(0), self._names))
        return given_up(pending=self._pending.give(chosen_by(choose, keys[0])), totals=self._totals.give(kept))

    def take(self, given: State) -> None:
        if "pending" in given:
            self._pending.add(given["pending"])
        if "totals" in given:
            self._totals.take(given["totals"])

    def purge(self, port: int, pattern: Pattern) -> int:
        return 0  # a group whose tuples are not needed may have a row that is

    def held(self) -> int:
        return len(self._pending) + len(self._totals)

    def due(self) -> int | None:
        return self._pending.due()

    def _extend(self, ready: pl.DataFrame) -> pl.DataFrame | None:
        """Take in tuples later than all before; return the changes, in order."""
        names = self._names
        fresh = self._totals.assign(self._aggregates.read(ready))
        touched = fresh[SLOT].unique(maintain_order=True).to_list()
        single = self._aggregates.fold(fresh, [*names, SLOT, TS]).with_columns(pl.lit(True).alias(_FRESH))
        before = [part.with_columns(pl.lit(False).alias(_FRESH)) for part in self._totals.of(touched)]
        ordered = pl.concat([*before, single.select([*self._kept, _FRESH])]).sort(*names, TS)
        groups, stamps = group_numbers(ordered, names), ordered[TS].to_numpy()
        lives = self._lives(groups, stamps)
        merged = pl.concat(
            [ordered.select(*names, SLOT, TS), merge_prefixes(self._aggregates, ordered, lives)], how="horizontal"
        )
        latest = np.append(groups[1:] != groups[:-1], True)
        self._totals.replace(touched, merged.filter(pl.Series(latest)).select(self._kept))
        return self._changes(merged, lives, ordered[_FRESH].to_numpy())

    def _lives(self, groups: Array, stamps: Array) -> Array:
        """Number the lives of groups: one ends if no tuple comes for longer than the time to live."""
        begins = (groups[1:] != groups[:-1]) | (stamps[1:] - stamps[:-1] > self._spec.ttl)
        return np.cumsum(np.append(False, begins))

    def _changes(self, merged: pl.DataFrame, lives: Array, fresh: Flags) -> pl.DataFrame | None:
        """Compare each row with the one before it in its life."""
        spec = self._spec
        finals = pl.concat([merged.select(*self._names, TS), self._aggregates.finals(merged)], how="horizontal")
        passed = np.ones(finals.height, dtype=bool)
        if spec.condition is not None:
            passed = finals.select(compile_predicate(spec.condition).alias(_PART))[_PART].to_numpy()
        values = evaluate(finals, [expr for _, expr in spec.columns])
        rows = pl.DataFrame([value.alias(name) for value, (name, _) in zip(values, spec.columns, strict=True)])
        had = np.append(False, (lives[1:] == lives[:-1]) & passed[:-1])
        previous = np.maximum(np.arange(finals.height) - 1, 0)
        differs = np.zeros(finals.height, dtype=bool)
        for column in rows:
            differs |= column.ne_missing(column.gather(previous)).to_numpy()
        updated = fresh & had & passed & differs
        kinds: list[tuple[str, Array, Array]] = [
            (DELETE, np.flatnonzero(fresh & had & ~passed), previous),
            (BEFORE, np.flatnonzero(updated), previous),
            (AFTER, np.flatnonzero(updated), np.arange(finals.height)),
            (INSERT, np.flatnonzero(fresh & ~had & passed), np.arange(finals.height)),
        ]
        parts = [
            rows[source[places]].with_columns(
                pl.lit(kind).alias(spec.change),
                finals[TS].gather(places).alias(TS),
                pl.Series(_PLACE, places),
                pl.lit(number).alias(_PART),
            )
            for number, (kind, places, source) in enumerate(kinds)
            if len(places)
        ]
        return pl.concat(parts).sort(TS, _PLACE, _PART).drop(_PLACE, _PART) if parts else None

    def _sweep(self, bound: int) -> None:
        """Forget groups that would begin anew, now and then; when depends on the bounds alone."""
        edge = bound - self._spec.ttl
        last = BEGIN if self._swept is None else int(self._swept.item())
        if not len(self._totals) or edge - last < max(1, self._spec.ttl // _SWEEPS):
            return
        self._swept = pl.DataFrame({"swept": [edge]})
        kept = [rows.filter(pl.col(TS) >= edge) for rows in self._totals.rows()]
        slots = [int(rows[SLOT][0]) for rows in self._totals.rows()]
        alive = [rows for rows in kept if rows.height]
        if sum(rows.height for rows in alive) < len(self._totals):
            empty = next(iter(self._totals.rows())).clear()
            self._totals.replace(slots, pl.concat([empty, *alive]))
