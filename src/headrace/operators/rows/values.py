"""What conditions and measures of a row pattern read: values of other rows, and aggregates over stretches of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import polars as pl

from headrace.model.expressions.expression import columns, conjunction, conjuncts
from headrace.model.row_pattern import Fold, Lookup, RowPattern
from headrace.model.schema import HIDDEN
from headrace.operators.arrays import Array, Flags, Ints
from headrace.operators.expressions.evaluate import compile_expr, compile_predicate
from headrace.operators.windows.aggregates import Aggregates
from headrace.operators.windows.slices import fold_slices


@dataclass(frozen=True, slots=True)
class Stretch:
    """For each of several places, the first row and the number of rows that belong to a variable, or to all."""

    first: Ints
    count: Ints

    def place(self, lookup: Lookup) -> Ints:
        """Return the row that a lookup means; negative if there is none."""
        at = self.first + (lookup.offset if lookup.place == "first" else self.count - 1 - lookup.offset)
        return np.where(lookup.offset < self.count, at, -1)


#: Gives the rows of a variable, or with None those of the whole match.
StretchOf: TypeAlias = Callable[[str | None], Stretch]


@dataclass(frozen=True, slots=True)
class Sorted:
    """Rows in an order, of which only what is read is put into it: the places of the rows; None if they are in it."""

    rows: pl.DataFrame
    order: Ints | None = None

    def places(self, numbers: Ints) -> Ints:
        """Return where the rows with these numbers in the order are."""
        return numbers if self.order is None else self.order[numbers]

    def column(self, name: str) -> Array:
        """Return a column in order."""
        values = self.rows[name].to_numpy()
        return values if self.order is None else values[self.order]

    def all_of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return columns that were computed of the rows, in order."""
        return rows if self.order is None else rows[self.order]


class Values:
    """Computes lookups and folds for many places of sorted rows at once."""

    def __init__(self, lookups: Sequence[Lookup], folds: Sequence[Fold]) -> None:
        self._lookups = lookups
        self._folds = [(fold.variable, Aggregates((), (fold.call,))) for fold in folds]
        self.names = frozenset([lookup.name for lookup in lookups] + [fold.call.name for fold in folds])

    def read(self, rows: Sorted) -> Sorted:
        """Add what lookups are of, once for all places."""
        added = (compile_expr(lookup.of).alias(lookup.name) for lookup in self._lookups)
        return Sorted(rows.rows.with_columns(added), rows.order)

    def columns(
        self, rows: Sorted, stretch: StretchOf, current: Ints, only: frozenset[str] | None = None
    ) -> list[pl.Series]:
        """Return the values at the places; `stretch` says which rows a variable has there."""
        found: list[pl.Series] = []
        for lookup in self._lookups:
            if only is None or lookup.name in only:
                before = lookup.place == "prev"
                at = current - lookup.offset if before else stretch(lookup.variable).place(lookup)
                found.append(_gather(rows, lookup.name, at))
        for variable, aggregates in self._folds:
            if only is None or aggregates.calls[0].name in only:
                found.append(_folded(aggregates, rows, stretch(variable)))
        return found


class Conditions:
    """The conditions of the variables of a pattern.

    The terms of a condition that read nothing but the row itself are tested once for all rows.
    """

    def __init__(self, pattern: RowPattern) -> None:
        self._values = Values(pattern.lookups, pattern.folds)
        self._own: list[pl.Expr | None] = []
        self._others: list[pl.Expr | None] = []
        self._needed: list[frozenset[str]] = []
        self._read: list[list[str]] = []
        for variable in pattern.variables:
            terms = conjuncts(variable.condition)
            own = conjunction(tuple(term for term in terms if not columns(term) & self._values.names))
            others = conjunction(tuple(term for term in terms if columns(term) & self._values.names))
            read = frozenset() if others is None else columns(others)
            self._own.append(None if own is None else compile_predicate(own))
            self._others.append(None if others is None else compile_predicate(others))
            self._needed.append(read & self._values.names)
            self._read.append(sorted(read - self._values.names))

    @property
    def are_plain(self) -> bool:
        """Return whether no condition reads anything but the row that it tests."""
        return not any(self._needed)

    def fits(self, rows: pl.DataFrame) -> list[Flags]:
        """Return for each variable which rows satisfy the terms that read nothing else."""
        tests = {str(i): own for i, own in enumerate(self._own) if own is not None}
        wide = rows.with_columns(own.alias(f"__fits{name}") for name, own in tests.items())
        every = np.ones(rows.height, bool)
        return [wide[f"__fits{i}"].to_numpy() if str(i) in tests else every for i in range(len(self._own))]

    def read(self, rows: pl.DataFrame) -> Sorted:
        return self._values.read(Sorted(rows))

    def has_others(self, number: int) -> bool:
        """Return whether the condition of a variable has terms that read something else."""
        return self._others[number] is not None

    def test(self, number: int, rows: Sorted, stretch: StretchOf, current: Ints) -> Array:
        """Return for each place whether the current row satisfies the other terms of the condition of a variable."""
        condition = self._others[number]
        assert condition is not None
        own = rows.rows.select(pl.int_range(pl.len()).alias("__row"), *self._read[number])[current]
        frame = own.with_columns(self._values.columns(rows, stretch, current, self._needed[number]))
        return frame.with_columns(condition.alias("__holds"))["__holds"].to_numpy()


def visible(rows: pl.DataFrame) -> list[str]:
    """Return the columns of rows that are not hidden."""
    return [name for name in rows.columns if name not in HIDDEN]


def _gather(rows: Sorted, name: str, at: Ints) -> pl.Series:
    taken = rows.rows[name].gather(rows.places(np.maximum(at, 0)))
    if (at >= 0).all():
        return taken
    return pl.select(pl.when(pl.Series(at >= 0)).then(taken)).to_series().alias(name)


def _folded(aggregates: Aggregates, rows: Sorted, stretch: Stretch) -> pl.Series:
    """Return an aggregate of each stretch; of none it is NULL, and a count is 0."""
    call = aggregates.calls[0]
    some = stretch.count > 0
    default = 0 if call.function == "count" else None
    if not some.any():
        return pl.Series(call.name, [default] * len(some), dtype=call.type.polars)
    starts, stops = stretch.first[some], (stretch.first + stretch.count)[some]
    read = rows.all_of(aggregates.read(rows.rows))
    values = aggregates.finals(fold_slices(aggregates, read, starts, stops)).to_series()
    if some.all():
        return values.alias(call.name)
    filled = values.gather(np.maximum(np.cumsum(some) - 1, 0))
    return pl.select(pl.when(pl.Series(some)).then(filled).otherwise(pl.lit(default))).to_series().alias(call.name)
