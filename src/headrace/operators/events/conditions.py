"""Conditions between the parts of an event, tested while occurrences are paired."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from headrace.elements.event import Event, Retention, primitives
from headrace.elements.expression import Expr, columns
from headrace.elements.schema import TS, Schema
from headrace.elements.types import Type
from headrace.operators.evaluate import compile_predicate
from headrace.operators.events.occurrence import Row, newest


class Parts:
    """The primitive events of an expression by number, and which of their columns are kept."""

    def __init__(self, event: Event, schemas: Sequence[Schema], needed: frozenset[str]) -> None:
        self.events = tuple(primitives(event))
        self.names = tuple(part.name for part in self.events)
        self.kept = tuple(tuple(field for field in schemas[part.port] if f"{part.name}.{field.name}" in needed) for part in self.events)

    def split(self, qualified: str) -> tuple[int, str]:
        """The part and the column that a qualified name means."""
        part, _, column = qualified.partition(".")
        return self.names.index(part), column

    def place(self, part: int, column: str) -> int:
        """Where a column stands among the values of a part's rows."""
        return next(i for i, field in enumerate(self.kept[part]) if field.name == column)

    def type(self, part: int, column: str) -> Type:
        return self.kept[part][self.place(part, column)].type

    def by(self, retention: Retention) -> tuple[tuple[int, int], ...]:
        """Part and place of the columns by which a retention divides."""
        part = self.names.index(retention.part)
        return tuple((part, self.place(part, column)) for column in retention.by)


class Test:
    """Whether the parts of a candidate fit together; a condition on a part that a candidate lacks says nothing about it.

    Of a part with several tuples the newest is looked at.
    """

    def __init__(self, parts: Parts, terms: Sequence[Expr]) -> None:
        self._parts = parts
        self._terms = [(compile_predicate(term), sorted(columns(term))) for term in terms]

    def __bool__(self) -> bool:
        return bool(self._terms)

    def __call__(self, candidates: Sequence[tuple[Row, ...]]) -> list[bool]:
        """For each candidate whether all conditions hold."""
        result = [True] * len(candidates)
        for predicate, names in self._terms:
            wanted = {self._parts.split(name)[0] for name in names}
            found = [{part: newest(rows, part) for part in wanted} for rows in candidates]
            asked = [i for i, rows in enumerate(found) if result[i] and None not in rows.values()]
            if not asked:
                continue
            frame = pl.DataFrame([self._column(name, [found[i] for i in asked]) for name in names])
            # as a new column: select would give a constant the length one
            for i, holds in zip(asked, frame.with_columns(predicate.alias("__holds"))["__holds"].to_list(), strict=True):
                result[i] = holds
        return result

    def _column(self, name: str, found: list[dict[int, Row | None]]) -> pl.Series:
        part, column = self._parts.split(name)
        rows = [row for each in found if (row := each[part]) is not None]
        if column == TS:
            return pl.Series(name, [row.ts for row in rows], dtype=pl.Int64)
        place = self._parts.place(part, column)
        return series(name, [row.values[place] for row in rows], self._parts.type(part, column))


def series(name: str, values: Sequence[object], type_: Type) -> pl.Series:
    """A column from values as they are stored."""
    dtype = type_.polars
    return pl.Series(name, values, dtype=_PHYSICAL.get(type_, dtype)).cast(dtype)


_PHYSICAL = {Type.DATE: pl.Int32(), Type.TIMESTAMP: pl.Int64(), Type.INTERVAL: pl.Int64()}
