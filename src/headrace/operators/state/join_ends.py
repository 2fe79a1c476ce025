"""Ends of keys at the inputs of a join: as keys that all inputs have, and as columns of the output.

A completion of an input is of use if its keys are keys of the join that all inputs have. Then it says of every other
input which rows can meet nothing more, and, once all inputs have said it, of the output that these keys are complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from headrace.model.expressions.expression import Column, Expr
from headrace.model.page import Completion, Element
from headrace.model.schema import EXPIRY, TS
from headrace.operators.arrays import Flags
from headrace.operators.state.completed import times_of


class JoinEnds:
    """The keys of a join by their number.

    `keys` has for each key its expression at every port, `shown` the columns of each port as the output has them.
    """

    def __init__(self, keys: Sequence[Sequence[Expr | None]], shown: Sequence[Mapping[str, str]]) -> None:
        plain = {
            str(number): [expr for expr in members if isinstance(expr, Column)] for number, members in enumerate(keys)
        }
        plain = {number: members for number, members in plain.items() if len(members) == len(shown)}
        #: For each port, the column of each key.
        self.columns = [{number: members[port].name for number, members in plain.items()} for port in range(len(shown))]
        self._numbers = [{name: number for number, name in columns.items()} for columns in self.columns]
        self._names = [
            {number: names[column] for number, column in columns.items() if column in names}
            for columns, names in zip(self.columns, shown, strict=True)
        ]

    def keys(self, port: int, completion: Completion) -> pl.DataFrame | None:
        """Return completed keys by their numbers; None if some are no keys of the join."""
        numbers = {key: self._numbers[port].get(key) for key in completion.keys}
        known = {key: number for key, number in numbers.items() if number is not None}
        if len(known) < len(numbers):
            return None
        return completion.rows.select(
            *(pl.col(key).alias(known[key]) for key in sorted(known, key=known.__getitem__)), TS
        )

    def expired(self, rows: pl.DataFrame, completed: pl.DataFrame, columns: Mapping[str, pl.Series]) -> Flags:
        """Return which rows expire before the time of their key; `columns` are the keys of the rows."""
        named = [columns[name].alias(name) for name in completed.columns if name != TS]
        flags: Flags = (rows[EXPIRY] < times_of(pl.DataFrame(named), completed)).to_numpy()
        return flags

    def shown(self, completed: pl.DataFrame | None) -> list[Element]:
        """Return completed keys as columns of the output, once for the columns of each input."""
        if completed is None:
            return []
        keys = [name for name in completed.columns if name != TS]
        return [
            Completion(completed.rename({key: names[key] for key in keys}))
            for names in self._names
            if all(key in names for key in keys)
        ]
