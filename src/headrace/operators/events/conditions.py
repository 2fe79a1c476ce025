"""Conditions between the parts of an event, tested while occurrences are paired."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from headrace.model.digits import to_column
from headrace.model.events.event import PREVIOUS, Event, Retention, primitives
from headrace.model.expressions.expression import Call, Column, Expr, columns
from headrace.model.schema import TS, Schema
from headrace.model.types import DataType, DecimalType, Type
from headrace.operators.events.occurrence import Row, newest
from headrace.operators.expressions.evaluate import compile_predicate


class Parts:
    """The primitive events of an expression by number, and which of their columns are kept."""

    def __init__(self, event: Event, schemas: Sequence[Schema], needed: frozenset[str]) -> None:
        self.events = tuple(primitives(event))
        self.names = tuple(part.name for part in self.events)
        self.kept = tuple(
            tuple(field for field in schemas[part.port] if f"{part.name}.{field.name}" in needed)
            for part in self.events
        )

    def split(self, qualified: str) -> tuple[int, str]:
        """Return the part and the column that a qualified name means."""
        part, _, column = qualified.partition(".")
        return self.names.index(part), column

    def place(self, part: int, column: str) -> int:
        """Return where a column stands among the values of a part's rows."""
        return next(i for i, field in enumerate(self.kept[part]) if field.name == column)

    def type(self, part: int, column: str) -> DataType:
        return self.kept[part][self.place(part, column)].type

    def by(self, retention: Retention) -> tuple[tuple[int, int], ...]:
        """Return part and place of the columns by which a retention divides."""
        own = retention.part in self.names
        columns_ = (self.split(f"{retention.part}.{column}" if own else column) for column in retention.by)
        return tuple((part, self.place(part, column)) for part, column in columns_)


@dataclass(frozen=True, slots=True)
class _Term:
    """A condition on columns; if it compares values of two parts, also their places (None: the timestamp) and how."""

    predicate: pl.Expr
    names: Sequence[str]
    parts: tuple[int, ...]
    places: tuple[int | None, ...] = ()
    compare: Callable[[Any, Any], bool] | None = None


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _comparison(expr: Expr) -> Callable[[Any, Any], bool] | None:
    """Return how a condition compares two columns of one type, if it does only that and values compare as columns."""
    if (
        not isinstance(expr, Call)
        or expr.function not in _COMPARISONS
        or not all(isinstance(arg, Column) for arg in expr.args)
    ):
        return None
    compare, types = _COMPARISONS[expr.function], {arg.type for arg in expr.args}
    if types <= {Type.INT, Type.BIGINT} or types == {Type.STRING}:
        return compare
    return (lambda left, right: compare(_ordered(left), _ordered(right))) if types == {Type.DOUBLE} else None


def _ordered(value: float) -> tuple[bool, float]:
    """Return a number as columns order it: NaN equals itself and is the greatest."""
    return (True, 0.0) if value != value else (False, value)


class Test:
    """Whether the parts of a candidate fit together.

    A condition on a part that a candidate lacks says nothing about it.


    Of a part with several tuples the newest is looked at.

    """

    def __init__(self, parts: Parts, terms: Sequence[Expr]) -> None:
        self._parts = parts
        self._terms = [self._term(term) for term in terms]

    def __bool__(self) -> bool:
        return bool(self._terms)

    def __call__(self, candidates: Sequence[tuple[Row, ...]]) -> list[bool]:
        """Return for each candidate whether all conditions hold."""
        result = [True] * len(candidates)
        for term in self._terms:
            operands = [[newest(rows, part) for part in term.parts] for rows in candidates]
            asked = [i for i, rows in enumerate(operands) if result[i] and None not in rows]
            if term.compare is not None:
                for i in asked:
                    left, right = (
                        row.ts if place is None else row.values[place]
                        for row, place in zip(operands[i], term.places, strict=True)
                        if row
                    )
                    result[i] = left is not None and right is not None and term.compare(left, right)
            elif asked:
                by_part = [dict(zip(term.parts, operands[i], strict=True)) for i in asked]
                frame = pl.DataFrame([self._column(name, by_part) for name in term.names])
                # as a new column: select would give a constant the length one
                for i, holds in zip(
                    asked, frame.with_columns(term.predicate.alias("__holds"))["__holds"].to_list(), strict=True
                ):
                    result[i] = holds
        return result

    def _term(self, expr: Expr) -> _Term:
        names = sorted(columns(expr))
        compare = _comparison(expr)
        if compare is not None and isinstance(expr, Call):
            named = [self._parts.split(arg.name) for arg in expr.args if isinstance(arg, Column)]
            places = tuple(None if column == TS else self._parts.place(part, column) for part, column in named)
            return _Term(compile_predicate(expr), names, tuple(part for part, _ in named), places, compare)
        return _Term(compile_predicate(expr), names, tuple({self._parts.split(name)[0] for name in names}))

    def _column(self, name: str, candidates: list[dict[int, Row | None]]) -> pl.Series:
        part, column = self._parts.split(name)
        rows = [row for candidate in candidates if (row := candidate[part]) is not None]
        if column == TS:
            return pl.Series(name, [row.ts for row in rows], dtype=pl.Int64)
        place = self._parts.place(part, column)
        return series(name, [row.values[place] for row in rows], self._parts.type(part, column))


class Links:
    """Conditions between a tuple of a part and the one before."""

    def __init__(self, parts: Parts, part: int, terms: Sequence[Expr]) -> None:
        self._parts, self._part = parts, part
        self._names = sorted({name for term in terms for name in columns(term)})
        self._holds = pl.all_horizontal([compile_predicate(term) for term in terms])

    def breaks(self, rows: Sequence[Row]) -> list[int]:
        """Return the places of the tuples that are not linked with the one before."""
        if len(rows) < 2:
            return []
        frame = pl.DataFrame([self._column(name, rows) for name in self._names])
        holds = frame.with_columns(self._holds.alias("__holds"))["__holds"].to_list()
        return [place for place, linked in enumerate(holds, 1) if not linked]

    def _column(self, name: str, rows: Sequence[Row]) -> pl.Series:
        column = name.removeprefix(PREVIOUS)
        used = rows[:-1] if name.startswith(PREVIOUS) else rows[1:]
        if column == TS:
            return pl.Series(name, [row.ts for row in used], dtype=pl.Int64)
        place = self._parts.place(self._part, column)
        return series(name, [row.values[place] for row in used], self._parts.type(self._part, column))


def series(name: str, values: Sequence[object], type_: DataType) -> pl.Series:
    """Return a column from values as they are stored."""
    dtype = type_.polars
    if isinstance(type_, DecimalType):
        return to_column(pl.Series(name, values, dtype=pl.Int128), type_)
    return pl.Series(name, values, dtype=_PHYSICAL.get(type_, dtype)).cast(dtype)


_PHYSICAL: dict[DataType, pl.DataType] = {Type.DATE: pl.Int32(), Type.TIMESTAMP: pl.Int64(), Type.INTERVAL: pl.Int64()}
