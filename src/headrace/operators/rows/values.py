"""What conditions and measures of a row pattern read: values of other rows, and aggregates over stretches of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import polars as pl

from headrace.model.expressions.expression import columns
from headrace.model.row_pattern import Fold, Lookup, RowPattern
from headrace.model.schema import HIDDEN
from headrace.operators.arrays import Array, Ints
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


class Values:
    """Computes lookups and folds for many places of sorted rows at once."""

    def __init__(self, lookups: Sequence[Lookup], folds: Sequence[Fold]) -> None:
        self._lookups = lookups
        self._folds = [(fold.variable, Aggregates((), (fold.call,))) for fold in folds]
        self.names = frozenset([lookup.name for lookup in lookups] + [fold.call.name for fold in folds])

    def read(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Add what lookups are of, once for all places."""
        return rows.with_columns(compile_expr(lookup.of).alias(lookup.name) for lookup in self._lookups)

    def columns(
        self, rows: pl.DataFrame, stretch: StretchOf, current: Ints, only: frozenset[str] | None = None
    ) -> list[pl.Series]:
        """Return the values at the places; `stretch` says which rows a variable has there."""
        found: list[pl.Series] = []
        for lookup in self._lookups:
            if only is None or lookup.name in only:
                before = lookup.place == "prev"
                at = current - lookup.offset if before else stretch(lookup.variable).place(lookup)
                found.append(_gather(rows[lookup.name], at))
        for variable, aggregates in self._folds:
            if only is None or aggregates.calls[0].name in only:
                found.append(_folded(aggregates, rows, stretch(variable)))
        return found


class Conditions:
    """The conditions of the variables of a pattern."""

    def __init__(self, pattern: RowPattern) -> None:
        self._values = Values(pattern.lookups, pattern.folds)
        self._conditions = [
            (compile_predicate(variable.condition), columns(variable.condition) & self._values.names)
            for variable in pattern.variables
        ]
        self._read = [sorted(columns(variable.condition) - self._values.names) for variable in pattern.variables]

    def read(self, rows: pl.DataFrame) -> pl.DataFrame:
        return self._values.read(rows)

    def test(self, number: int, rows: pl.DataFrame, stretch: StretchOf, current: Ints) -> Array:
        """Return for each place whether the current row satisfies the condition of a variable."""
        condition, needed = self._conditions[number]
        own = rows.select(pl.int_range(pl.len()).alias("__row"), *self._read[number])[current]
        frame = own.with_columns(self._values.columns(rows, stretch, current, needed)) if needed else own
        return frame.with_columns(condition.alias("__holds"))["__holds"].to_numpy()


def visible(rows: pl.DataFrame) -> list[str]:
    """Return the columns of rows that are not hidden."""
    return [name for name in rows.columns if name not in HIDDEN]


def _gather(column: pl.Series, at: Ints) -> pl.Series:
    taken = column.gather(np.maximum(at, 0))
    if (at >= 0).all():
        return taken
    kept = pl.select(pl.when(pl.Series(at >= 0)).then(taken)).to_series()
    return kept.alias(column.name)


def _folded(aggregates: Aggregates, rows: pl.DataFrame, stretch: Stretch) -> pl.Series:
    """Return an aggregate of each stretch; of none it is NULL, and a count is 0."""
    call = aggregates.calls[0]
    some = stretch.count > 0
    default = 0 if call.function == "count" else None
    if not some.any():
        return pl.Series(call.name, [default] * len(some), dtype=call.type.polars)
    starts, stops = stretch.first[some], (stretch.first + stretch.count)[some]
    values = aggregates.finals(fold_slices(aggregates, aggregates.read(rows), starts, stops)).to_series()
    if some.all():
        return values.alias(call.name)
    filled = values.gather(np.maximum(np.cumsum(some) - 1, 0))
    return pl.select(pl.when(pl.Series(some)).then(filled).otherwise(pl.lit(default))).to_series().alias(call.name)
