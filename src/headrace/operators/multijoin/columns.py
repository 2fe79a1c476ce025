"""Columns of joined rows: a key that several inputs have in common is carried and stored once.

Equal keys are equal values, so the key of one input says that of the others. Whoever needs all columns gets the same
values under several names, without a copy.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from headrace.model.expressions.expression import Column
from headrace.operators.multijoin.spec import MultiJoin


class SharedKeys:
    """Which columns of a join have the same values in every combination."""

    def __init__(self, spec: MultiJoin) -> None:
        self._names = spec.names
        #: The class of each key column that others of its class have in common.
        self.classes: dict[str, int] = {}
        self._columns: list[tuple[str, ...]] = []  # of each class
        for number, members in enumerate(spec.classes):
            keys = {port: expr for port, expr in enumerate(members) if isinstance(expr, Column)}
            is_alike = len(keys) > 1 and len({expr.type for expr in keys.values()}) == 1
            columns = tuple(spec.columns(port)[expr.name].name for port, expr in keys.items()) if is_alike else ()
            self._columns.append(columns)
            self.classes |= dict.fromkeys(columns, number)

    def carried(self, ports: Iterable[int]) -> tuple[str, ...]:
        """Return the columns of some inputs, a key that an earlier one has left out."""
        return self.without_repeats(name for port in ports for name in self._names[port])

    def without_repeats(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the columns, except keys that one of them has already."""
        known: dict[str | int, str] = {}
        for name in names:
            known.setdefault(self.classes.get(name, name), name)
        return tuple(known.values())

    def column(self, rows: pl.DataFrame, name: str) -> pl.Series:
        """Return a column of joined rows; a key may be there under the name of another input."""
        if name in rows.columns:
            return rows.get_column(name)
        other = self.carrier(rows.columns, name)
        return rows.get_column(other).alias(name)

    def carrier(self, names: Iterable[str], name: str) -> str:
        """Return the column among some that has the values of a column."""
        same = (name,) if name not in self.classes else (name, *self._columns[self.classes[name]])
        present = set(names)
        return next(other for other in same if other in present)
