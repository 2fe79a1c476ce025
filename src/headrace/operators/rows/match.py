"""MATCH_RECOGNIZE: one result for each match of a row pattern in a partition, in the order of time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
import polars as pl

from headrace.model.expressions.expression import Column, Expr
from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.pattern import Pattern
from headrace.model.row_pattern import Fold, Lookup, RowPattern
from headrace.model.schema import TS
from headrace.model.time import END
from headrace.operators.arrays import Array, Flags, Ints, gather
from headrace.operators.capabilities import Choose, chosen_by
from headrace.operators.keyed_spec import UnorderedByKey
from headrace.operators.operator import Operator, State
from headrace.operators.order.held_back import Pending
from headrace.operators.partitioning import Keys
from headrace.operators.rows.found import Found, Matches
from headrace.operators.rows.matcher import Matcher
from headrace.operators.rows.values import Sorted, Values, visible
from headrace.operators.state.given import given_up
from headrace.operators.state.hash_slots import SLOT, Slots
from headrace.operators.text import listed

_TRIED, _DEADLINE, _HOLD = "__tried", "__deadline", "__hold"
#: What kept rows have besides their own columns.
_MARKS = frozenset({SLOT, _TRIED, _DEADLINE, _HOLD})


class MatchRows(UnorderedByKey, frozen=True, tag="match_rows"):
    """A result for each match: the columns `by`, then lookups and folds over its rows; stamped with its last row.

    Of rows with equal timestamps, the columns named in `ties` say which comes first.
    """

    by: tuple[Column, ...]
    pattern: RowPattern
    lookups: tuple[Lookup, ...]
    folds: tuple[Fold, ...]
    ties: tuple[str, ...]

    def build(self) -> MatchOperator:
        return MatchOperator(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        per = f" of each {listed(self.by)}" if self.by else ""
        return f"match {self.pattern}{per}"

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        return self.by

    def output_keys(self, positions: tuple[int, ...]) -> tuple[Expr, ...] | None:
        return tuple(self.by[i] for i in positions)


class MatchOperator(Operator):
    """The running half of `MatchRows`.

    Rows wait until the frontier has passed them. Of those, the ones from the first open match of a partition on are
    kept, and searched again when further rows come or its time is over.
    """

    def __init__(self, spec: MatchRows) -> None:
        self._spec = spec
        self._names = [column.name for column in spec.by]
        self._matcher = Matcher(spec.pattern)
        self._measures = Values(spec.lookups, spec.folds)
        self._pending = Pending()
        self._rows = Slots("rows", self._names)

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        self._pending.add(page.rows)
        return ()

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        taken = self._ready(mark.bound)
        if taken is None:
            return (Punctuation(min(mark.bound, self._held_until())),)
        rows, groups, tried = taken
        found = self._matcher.find(rows, groups, tried, mark.bound)
        self._keep(rows, found)
        out = Punctuation(min(mark.bound, self._held_until()))
        if not len(found.matches.start):
            return (out,)
        return (Page(self._results(rows, found.matches).sort([TS, *self._names], maintain_order=True)), out)

    def _ready(self, bound: int) -> tuple[Sorted, Array, Flags] | None:
        """Take the rows of all partitions in which something may be decided; say which belong together and were tried.

        They are in the order of partitions and time.
        """
        fresh = self._pending.take(bound)
        kept = self._chosen(fresh, bound)
        parts = [rows for rows in (kept, fresh) if rows is not None and rows.height]
        if not parts:
            return None
        names = [*(name for name in visible(parts[-1]) if name not in _MARKS), TS]
        tried = np.zeros(sum(rows.height for rows in parts), bool)
        if kept is not None:
            tried[: kept.height] = kept[_TRIED].to_numpy()
        rows = pl.concat([part.select(names) for part in parts])
        order, groups = _by_partition(rows, self._names)
        if fresh is not None and not _rises(rows[TS].to_numpy()[order], groups):
            parts[-1] = fresh.sort([TS, *self._spec.ties], maintain_order=True)
            rows = pl.concat([part.select(names) for part in parts])
            order, groups = _by_partition(rows, self._names)
        return Sorted(rows, order), groups, tried[order]

    def _chosen(self, fresh: pl.DataFrame | None, bound: int) -> pl.DataFrame | None:
        """Take the kept rows whose partition has fresh rows, or whose open match ends by itself.

        If there are fewer of them than fresh rows, it is quicker to look at all again, which changes nothing.
        """
        slots = list(self._rows.rows())
        if not slots:
            return None
        columns = slots[0].columns
        kept = pl.concat([rows if rows.columns == columns else rows.select(columns) for rows in slots])
        if fresh is not None and kept.height <= fresh.height:
            self._rows.clear()
            return kept
        ending = kept.filter(pl.col(_DEADLINE) <= bound).select(self._names or _DEADLINE)
        if not self._names:
            if fresh is None and not ending.height:
                return None
            self._rows.clear()
            return kept
        touched = (ending if fresh is None else pl.concat([ending, fresh.select(self._names)])).unique()
        chosen = kept.join(touched, on=self._names, how="semi", nulls_equal=True, maintain_order="left")
        if chosen.height:
            changed = chosen[SLOT].unique()
            rest = kept.filter(pl.col(SLOT).is_in(changed.implode()))
            rest = rest.join(touched, on=self._names, how="anti", nulls_equal=True, maintain_order="left")
            self._rows.replace(changed.to_list(), rest)
        return chosen

    def _keep(self, rows: Sorted, found: Found) -> None:
        numbers = np.flatnonzero(found.kept)
        if not len(numbers):
            return
        marked = self._rows.assign(gather(rows.rows, rows.places(numbers))).with_columns(
            pl.Series(_TRIED, found.tried[numbers]),
            pl.Series(_DEADLINE, found.deadline[numbers]),
            pl.Series(_HOLD, found.hold[numbers]),
        )
        slots = marked[SLOT].unique().to_list()
        others = [part.select(marked.columns) for part in self._rows.of(slots)]
        self._rows.replace(slots, pl.concat([*others, marked]))

    def _held_until(self) -> int:
        """Return the bound of what comes out: a match that waits for an earlier one may end before later rows."""
        if self._spec.pattern.overlapping:
            return END
        return min((int(rows[_HOLD].min()) for rows in self._rows.rows()), default=END)  # type: ignore[arg-type]

    def _results(self, rows: Sorted, matches: Matches) -> pl.DataFrame:
        last = matches.stop - 1
        stretch = partial(matches.stretch, self._spec.pattern)
        measured = self._measures.columns(self._measures.read(rows), stretch, last)
        keys = gather(rows.rows.select(*self._names, TS), rows.places(last))
        own = [keys[name] for name in self._names]
        return pl.DataFrame([*own, *measured, keys[TS]])

    def state(self) -> State:
        return {**self._pending.state(), **self._rows.state()}

    def restore(self, state: State) -> None:
        self._pending.restore(state)
        self._rows.restore(state)

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        chosen = chosen_by(choose, keys[0])
        return given_up(pending=self._pending.give(chosen), rows=self._rows.give(chosen))

    def take(self, given: State) -> None:
        if "pending" in given:
            self._pending.add(given["pending"])
        if "rows" in given:
            self._rows.take(given["rows"])

    def purge(self, port: int, pattern: Pattern) -> int:
        if not pattern.names <= set(self._names):
            return 0  # of a partition, what is left out would not count
        return self._pending.remove(pattern) + self._rows.remove(pattern)

    def held(self) -> int:
        return len(self._pending) + len(self._rows)

    def due(self) -> int | None:
        pending = self._pending.due()
        ends = (END if pending is None else pending, *map(_first_end, self._rows.rows()))
        return first if (first := min(ends)) < END else None


def _by_partition(rows: pl.DataFrame, names: Sequence[str]) -> tuple[Ints, Array]:
    """Return the places of rows by partition, those of one in the order in which they are, and their partitions."""
    if not names:
        return np.arange(rows.height), np.zeros(rows.height, np.int64)
    places = rows.select(names).with_row_index("__place").group_by(names, maintain_order=True).agg("__place")
    lengths = places["__place"].list.len().to_numpy()
    order = places["__place"].explode().to_numpy().astype(np.int64)
    return order, np.repeat(np.arange(len(lengths)), lengths)


def _rises(ts: Ints, groups: Array) -> bool:
    """Return whether each row of a group has a later time than the one before it."""
    return bool(np.all((ts[1:] > ts[:-1]) | (groups[1:] != groups[:-1])))


def _first_end(rows: pl.DataFrame) -> int:
    """Return when the first of the open matches that hold back others ends by itself."""
    holding = rows[_HOLD].to_numpy() < END
    return int(rows[_DEADLINE].to_numpy()[holding].min(initial=END))
