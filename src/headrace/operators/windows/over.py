"""Aggregates over the tuples before each tuple of a partition, in the order of time: the OVER clause."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
import polars as pl

from headrace.model.expressions.expression import Expr
from headrace.model.frame import Frame, RangeFrame
from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.pattern import Pattern
from headrace.model.schema import HIDDEN, SEQ, TS
from headrace.model.time import END
from headrace.model.window import AggregateCall
from headrace.operators.arrays import Array, Flags, greatest
from headrace.operators.capabilities import Choose, chosen_by
from headrace.operators.expressions.evaluate import compile_expr
from headrace.operators.keyed_spec import KeyedSpec
from headrace.operators.operator import Operator, State
from headrace.operators.order.held_back import Pending
from headrace.operators.partitioning import Keys
from headrace.operators.state.given import given_up, kept_as
from headrace.operators.state.hash_slots import SLOT, Slots
from headrace.operators.state.runs import Runs
from headrace.operators.text import calls_text, listed
from headrace.operators.windows.aggregates import Aggregates
from headrace.operators.windows.running_folds import RunningFolds, runs
from headrace.operators.windows.slices import first_within, firsts, fold_slices, group_numbers, lasts, merge_prefixes

_FRESH = "__fresh"


class Over(KeyedSpec, frozen=True, tag="over"):
    """Each tuple with aggregates of its frame: tuples before it that agree in `by`.

    Of tuples with equal timestamps, the columns named in `ties` say which comes first. A range frame holds all of them.
    """

    by: tuple[Expr, ...]
    frame: Frame
    calls: tuple[AggregateCall, ...]
    ties: tuple[str, ...]

    def build(self) -> OverOperator:
        return OverOperator(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        per = f" of each {listed(self.by)}" if self.by else ""
        return f"{calls_text(self.calls)}{per} over {self.frame}"


class OverOperator(Operator):
    """The running half of `Over`: tuples wait until the frontier has passed them, then go through in order."""

    def __init__(self, spec: Over) -> None:
        self._spec = spec
        self._names = [f"__by{i}" for i in range(len(spec.by))]
        keys = tuple(zip(self._names, spec.by, strict=True))
        self._by = [compile_expr(expr).alias(name) for name, expr in keys]
        self._order = [*self._names, TS, *spec.ties]
        self._aggregates = Aggregates(keys, spec.calls)
        self._runs = spec.frame.preceding is None and runs(spec.calls)
        self._history: _History = (
            RunningFolds(self._aggregates) if self._runs else _history(spec.frame, self._aggregates)
        )
        self._pending = Pending()

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        self._pending.add(page.rows)
        return ()

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        ready = self._pending.take(mark.bound)
        if ready is None:
            self._history.expire(mark.bound)
            return (mark,)
        rows = ready.with_columns(self._by).sort(self._order, maintain_order=True)
        added = self._history.extend(self._aggregates.read(rows))
        values = added if self._runs else self._aggregates.finals(added)
        self._history.expire(mark.bound)
        visible = [name for name in ready.columns if name not in HIDDEN]
        results = pl.concat([rows.select([*visible, TS]), values], how="horizontal")
        names = [call.name for call in self._aggregates.calls]
        return (Page(results.select([*visible, *names, TS]).sort(TS, maintain_order=True)), mark)

    def state(self) -> State:
        return {**self._pending.state(), **self._history.state()}

    def restore(self, state: State) -> None:
        self._pending.restore(state)
        self._history.restore(state)

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        kept = chosen_by(choose, kept_as(keys[0], self._spec.by, self._names))
        return given_up(pending=self._pending.give(chosen_by(choose, keys[0])), history=self._history.give(kept))

    def take(self, given: State) -> None:
        if "pending" in given:
            self._pending.add(given["pending"])
        if "history" in given:
            self._history.take(given["history"])

    def purge(self, port: int, pattern: Pattern) -> int:
        groups = self._aggregates.groups(pattern)
        return 0 if groups is None else self._pending.remove(pattern) + self._history.remove(groups)

    def held(self) -> int:
        return len(self._pending) + len(self._history)

    def due(self) -> int | None:
        return self._pending.due()


class _History(Protocol):
    """What is kept of tuples that went through."""

    def extend(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Take in tuples in the order of keys and time, later than all before; return partials of their frames."""
        ...

    def expire(self, bound: int) -> None: ...
    def state(self) -> dict[str, pl.DataFrame]: ...
    def restore(self, state: Mapping[str, pl.DataFrame]) -> None: ...
    def remove(self, pattern: Pattern) -> int: ...
    def give(self, choose: Callable[[pl.DataFrame], Flags]) -> pl.DataFrame | None: ...
    def take(self, given: pl.DataFrame) -> None: ...
    def __len__(self) -> int: ...


def _history(frame: Frame, aggregates: Aggregates) -> _History:
    is_range = isinstance(frame, RangeFrame)
    if frame.preceding is None:
        return _Totals(aggregates, peers=is_range)
    return _RecentRows(aggregates, frame.preceding) if is_range else _NewestRows(aggregates, frame.preceding)


class _NewestRows:
    """The newest tuples of each key."""

    def __init__(self, aggregates: Aggregates, count: int) -> None:
        self._aggregates, self._count = aggregates, count
        self._rows = Slots("rows", aggregates.names)

    def extend(self, rows: pl.DataFrame) -> pl.DataFrame:
        fresh = self._rows.assign(rows.drop(SEQ, strict=False)).with_columns(pl.lit(True).alias(_FRESH))
        touched = fresh[SLOT].unique(maintain_order=True).to_list()
        before = [part.with_columns(pl.lit(False).alias(_FRESH)) for part in self._rows.of(touched)]
        ordered = pl.concat([*before, fresh.select(before[0].columns if before else fresh.columns)])
        if self._aggregates.names:
            ordered = ordered.sort(self._aggregates.names, maintain_order=True)
        ordered = _numbered(ordered)
        groups = group_numbers(ordered, self._aggregates.names)
        position, first = np.arange(ordered.height), firsts(groups)
        places = np.flatnonzero(ordered[_FRESH].to_numpy())
        partials = fold_slices(self._aggregates, ordered, np.maximum(position - self._count, first)[places], places + 1)
        kept = ordered.filter(pl.Series(lasts(groups) - position < self._count)).drop(_FRESH, SEQ)
        self._rows.replace(touched, kept)
        return partials  # keys sort the fresh rows as they were

    def expire(self, bound: int) -> None:
        """Keep all: a key may come back."""

    def state(self) -> dict[str, pl.DataFrame]:
        return self._rows.state()

    def restore(self, state: Mapping[str, pl.DataFrame]) -> None:
        self._rows.restore(state)

    def remove(self, pattern: Pattern) -> int:
        return self._rows.remove(pattern)

    def give(self, choose: Callable[[pl.DataFrame], Flags]) -> pl.DataFrame | None:
        return self._rows.give(choose)

    def take(self, given: pl.DataFrame) -> None:
        self._rows.take(given)

    def __len__(self) -> int:
        return len(self._rows)


class _RecentRows:
    """The tuples of the last `span` microseconds."""

    def __init__(self, aggregates: Aggregates, span: int) -> None:
        self._aggregates, self._span = aggregates, span
        self._rows = Runs("row", TS, None)
        self._next = 0

    def extend(self, rows: pl.DataFrame) -> pl.DataFrame:
        names, start = self._aggregates.names, self._next
        fresh = rows.with_columns(pl.int_range(start, start + rows.height, dtype=pl.Int64).alias(SEQ))
        self._next += rows.height
        oldest = int(rows[TS].to_numpy().min())
        earlier = self._rows.between(oldest - self._span, END)
        if names:
            earlier = [part.join(fresh, on=names, how="semi", nulls_equal=True) for part in earlier]
        ordered = pl.concat([part.select(fresh.columns) for part in (*earlier, fresh)]).sort(*names, TS, SEQ)
        self._rows.append(fresh)
        groups, stamps = group_numbers(ordered, names), ordered[TS].to_numpy()
        places = np.flatnonzero((ordered[SEQ] >= start).to_numpy())
        starts = first_within(stamps, groups, self._span)[places]
        stops = lasts(_instants(groups, stamps))[places] + 1
        return fold_slices(self._aggregates, ordered, starts, stops)

    def expire(self, bound: int) -> None:
        if self._rows.least() < bound - self._span:
            self._rows.expire(bound - self._span)

    def state(self) -> dict[str, pl.DataFrame]:
        return self._rows.state()

    def restore(self, state: Mapping[str, pl.DataFrame]) -> None:
        self._rows.restore(state)
        self._next = 1 + max((greatest(rows[SEQ]) for rows in self._rows.between(self._rows.horizon, END)), default=-1)

    def remove(self, pattern: Pattern) -> int:
        return self._rows.remove(pattern)

    def give(self, choose: Callable[[pl.DataFrame], Flags]) -> pl.DataFrame | None:
        given = self._rows.give(choose)
        return pl.concat(given) if given else None

    def take(self, given: pl.DataFrame) -> None:
        self._next = max(self._next, 1 + greatest(given[SEQ]))
        # what is older is in no frame of a tuple still to come
        self._rows.append(given.filter(pl.col(TS) >= self._rows.horizon))

    def __len__(self) -> int:
        return len(self._rows)


class _Totals:
    """One partial of each key, of all its tuples."""

    def __init__(self, aggregates: Aggregates, *, peers: bool) -> None:
        self._aggregates, self._peers = aggregates, peers
        self._totals = Slots("total", aggregates.names)
        self._columns = [*aggregates.names, SLOT, *(part.name for part in aggregates.parts)]
        self._next = 0

    def extend(self, rows: pl.DataFrame) -> pl.DataFrame:
        names, start = self._aggregates.names, self._next
        numbered = rows.with_columns(pl.int_range(start, start + rows.height, dtype=pl.Int64).alias(SEQ))
        self._next += rows.height
        fresh = self._totals.assign(numbered)
        touched = fresh[SLOT].unique(maintain_order=True).to_list()
        single = self._aggregates.fold(fresh, [SEQ, SLOT, TS, *names])
        before = [part.with_columns(pl.lit(-1, pl.Int64).alias(SEQ)) for part in self._totals.of(touched)]
        ordered = pl.concat([*before, single], how="diagonal").sort(*names, SEQ)
        groups = group_numbers(ordered, names)
        merged = merge_prefixes(self._aggregates, ordered, groups)
        latest = np.append(groups[1:] != groups[:-1], True)
        whole = pl.concat([ordered.select(*names, SLOT), merged], how="horizontal")
        self._totals.replace(touched, whole.filter(pl.Series(latest)).select(self._columns))
        places = np.flatnonzero((ordered[SEQ] >= 0).to_numpy())
        if self._peers:
            stamps = ordered[TS].fill_null(-(2**62)).to_numpy()
            places = lasts(_instants(groups, stamps))[places]
        return merged[places]

    def expire(self, bound: int) -> None:
        """Keep all: a key may come back."""

    def state(self) -> dict[str, pl.DataFrame]:
        return self._totals.state()

    def restore(self, state: Mapping[str, pl.DataFrame]) -> None:
        self._totals.restore(state)
        self._next = 1 + max((self._aggregates.newest(rows) for rows in self._totals.rows()), default=-1)

    def remove(self, pattern: Pattern) -> int:
        return self._totals.remove(pattern)

    def give(self, choose: Callable[[pl.DataFrame], Flags]) -> pl.DataFrame | None:
        return self._totals.give(choose)

    def take(self, given: pl.DataFrame) -> None:
        self._totals.take(given)
        self._next = max(self._next, 1 + self._aggregates.newest(given))

    def __len__(self) -> int:
        return len(self._totals)


def _numbered(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(SEQ))


def _instants(groups: Array, stamps: Array) -> Array:
    """Number the instants of groups, of rows that are sorted by both."""
    changes = np.append(False, (groups[1:] != groups[:-1]) | (stamps[1:] != stamps[:-1]))
    return np.cumsum(changes)
