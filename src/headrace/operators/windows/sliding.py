"""Aggregates over Sliding windows: for each tuple, those of its group in the `size` microseconds up to and with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from headrace.model.expressions.expression import Column, Expr
from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.pattern import Pattern
from headrace.model.schema import SEQ, TS
from headrace.model.time import END
from headrace.model.window import AggregateCall, Sliding, keeps_values
from headrace.operators.arrays import greatest
from headrace.operators.capabilities import Choose
from headrace.operators.keyed_spec import ByKey
from headrace.operators.operator import Operator, State
from headrace.operators.partitioning import Keys, renamed
from headrace.operators.state.hash_slots import SLOT, Slots
from headrace.operators.state.runs import Runs
from headrace.operators.text import aggregation
from headrace.operators.windows.aggregates import Aggregates, GroupKeys
from headrace.operators.windows.slices import first_within, firsts, fold_slices, group_numbers, merge_prefixes

#: Timestamp of the first tuple that a group ever had; Int64.
_FIRST = "__first"
#: A page is worked off in pieces of so many rows where each prefix may be as large as the group.
_PIECE_ROWS = 4_096


class SlidingAggregate(ByKey, frozen=True, tag="sliding_aggregate"):
    """One result per tuple; the input is in timestamp order."""

    window: Sliding
    keys: GroupKeys
    calls: tuple[AggregateCall, ...]

    def build(self) -> Operator:
        aggregates = Aggregates(self.keys, self.calls)
        return _Growing(aggregates) if self.window.size is None else _Moving(self.window.size, aggregates)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        return aggregation(self.window, self.keys, self.calls)

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        return tuple(expr for _, expr in self.keys)

    def output_keys(self, positions: tuple[int, ...]) -> tuple[Expr, ...] | None:
        return tuple(Column(self.keys[i][0], self.keys[i][1].type) for i in positions)


class _Moving(Operator):
    """Keeps the rows of the last `size` microseconds, and of each group when it began."""

    def __init__(self, size: int, aggregates: Aggregates) -> None:
        self._size, self._aggregates = size, aggregates
        self._rows = Runs("row", TS, None)
        self._begins = Slots("begin", aggregates.names)
        self._next = 0  # position in the order of arrival, above all that are kept

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        if not len(page):
            return ()
        rows = _numbered(self._aggregates.read(page.rows), self._next)
        self._next += rows.height
        begins = self._begin(rows)
        start = int(rows[TS][0])
        earlier = self._rows.between(start - self._size, END)
        names = self._aggregates.names
        if names:
            earlier = [
                part.join(rows, on=names, how="semi", nulls_equal=True, maintain_order="left") for part in earlier
            ]
        ordered = pl.concat([*earlier, rows]).sort(*names, TS, SEQ)
        self._rows.append(rows)
        self._rows.expire(int(rows[TS][-1]) - self._size)
        fresh = np.flatnonzero((ordered[SEQ] >= rows[SEQ][0]).to_numpy())
        starts = first_within(ordered[TS].to_numpy(), group_numbers(ordered, names), self._size)[fresh]
        partials = fold_slices(self._aggregates, ordered, starts, fresh + 1)
        given = ordered[fresh].select(*names, TS, SEQ)
        if names:
            given = given.join(begins, on=names, how="left", nulls_equal=True, maintain_order="left")
        else:
            given = given.with_columns(pl.lit(begins[_FIRST][0], pl.Int64).alias(_FIRST))
        done = pl.concat([given, partials], how="horizontal").sort(SEQ)
        ts = pl.col(TS)
        return (
            Page(self._aggregates.results(done, start=pl.max_horizontal(ts - self._size, _FIRST), end=ts, stamp=ts)),
        )

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        if self._rows.least() < mark.bound - self._size:
            self._rows.expire(mark.bound - self._size)
        return (mark,)

    def state(self) -> State:
        return {**self._rows.state(), **self._begins.state()}

    def restore(self, state: State) -> None:
        self._rows.restore(state)
        self._begins.restore(state)
        self._next = 1 + max((greatest(rows[SEQ]) for rows in self._rows.between(self._rows.horizon, END)), default=-1)

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        names = _columns(self._aggregates, keys[0])
        rows = self._rows.give(lambda rows: choose(rows, names))
        begins = self._begins.give(lambda rows: choose(rows, names))
        return {**({"rows": pl.concat(rows)} if rows else {}), **({} if begins is None else {"begins": begins})}

    def take(self, given: State) -> None:
        if "begins" in given:
            self._begins.take(given["begins"])
        if "rows" in given:
            self._next = max(self._next, 1 + greatest(given["rows"][SEQ]))
            # what is older is in no window of a tuple still to come
            self._rows.append(given["rows"].filter(pl.col(TS) >= self._rows.horizon))

    def purge(self, port: int, pattern: Pattern) -> int:
        groups = self._aggregates.groups(pattern)
        return 0 if groups is None else self._rows.remove(groups) + self._begins.remove(groups)

    def held(self) -> int:
        return len(self._rows)

    def _begin(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return when the page's groups began, the new ones among them being kept."""
        names = self._aggregates.names
        slotted = self._begins.assign(rows.select(*names, pl.col(TS).alias(_FIRST)))
        groups = slotted.group_by(*names, SLOT, maintain_order=True).agg(pl.col(_FIRST).min())
        touched = groups[SLOT].unique(maintain_order=True).to_list()
        known = self._begins.of(touched)
        if known:
            before = pl.concat(known)
            new = groups.join(before, on=[*names, SLOT], how="anti", nulls_equal=True, maintain_order="left")
            groups = pl.concat([before, new])
            touched = new[SLOT].unique(maintain_order=True).to_list()
        if touched:
            self._begins.replace(touched, groups.filter(pl.col(SLOT).is_in(touched)))
        return groups.select(*names, _FIRST)


class _Growing(Operator):
    """[UNBOUNDED]: keeps one partial per group."""

    def __init__(self, aggregates: Aggregates) -> None:
        self._aggregates = aggregates
        self._totals = Slots("total", aggregates.names)
        self._columns = [*aggregates.names, SLOT, _FIRST, *(part.name for part in aggregates.parts)]
        self._next = 0

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        lists = any(map(keeps_values, self._aggregates.calls))
        return tuple(
            self._piece(rows) for rows in page.rows.iter_slices(_PIECE_ROWS if lists else 2**31) if rows.height
        )

    def state(self) -> State:
        return self._totals.state()

    def restore(self, state: State) -> None:
        self._totals.restore(state)
        self._next = 1 + max((self._aggregates.newest(rows) for rows in self._totals.rows()), default=-1)

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        names = _columns(self._aggregates, keys[0])
        given = self._totals.give(lambda rows: choose(rows, names))
        return {} if given is None else {"totals": given}

    def take(self, given: State) -> None:
        self._totals.take(given["totals"])
        self._next = max(self._next, 1 + self._aggregates.newest(given["totals"]))

    def purge(self, port: int, pattern: Pattern) -> int:
        groups = self._aggregates.groups(pattern)
        return 0 if groups is None else self._totals.remove(groups)

    def held(self) -> int:
        return len(self._totals)

    def _piece(self, page: pl.DataFrame) -> Page:
        names = self._aggregates.names
        rows = self._totals.assign(_numbered(self._aggregates.read(page, pl.col(TS).alias(_FIRST)), self._next))
        self._next += rows.height
        touched = rows[SLOT].unique(maintain_order=True).to_list()
        single = self._aggregates.fold(rows, [SEQ, SLOT, TS, _FIRST, *names])
        before = [
            part.with_columns(pl.lit(-1, pl.Int64).alias(SEQ), pl.col(_FIRST).alias(TS))
            for part in self._totals.of(touched)
        ]
        ordered = pl.concat([*before, single], how="diagonal").sort(*names, SEQ)
        groups = group_numbers(ordered, names)
        start = ordered[_FIRST].to_numpy()[firsts(groups)]
        plain = ordered.select(*names, SLOT, TS, SEQ).with_columns(pl.Series(_FIRST, start))
        merged = pl.concat([plain, merge_prefixes(self._aggregates, ordered, groups)], how="horizontal")
        latest = np.append(groups[1:] != groups[:-1], True)
        self._totals.replace(touched, merged.filter(pl.Series(latest)).select(self._columns))
        ts = pl.col(TS)
        return Page(
            self._aggregates.results(merged.filter(pl.col(SEQ) >= 0).sort(SEQ), start=pl.col(_FIRST), end=ts, stamp=ts)
        )


def _columns(aggregates: Aggregates, keys: Keys) -> Keys:
    """Return keys of the input as the columns of kept rows."""
    columns = renamed(keys, aggregates.keys)
    assert columns is not None, "an aggregate lies by its groups"
    return columns


def _numbered(rows: pl.DataFrame, start: int) -> pl.DataFrame:
    """Number the rows in the order in which they are given; this, not the stream's own number, says who is first."""
    return rows.with_columns(pl.int_range(start, start + rows.height, dtype=pl.Int64).alias(SEQ))
