"""Aggregates that are written in SQL: tables of state, and the steps that tuples take through them.

INITIALIZE runs for the first tuple of a group, ITERATE for each further one in the order of time, TERMINATE at the end.
In the expressions of steps, a column `.2` is the argument with that number, and `state.total` a column of a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from headrace.model.expressions.expression import Expr
from headrace.model.schema import Field
from headrace.model.types import Type

#: Functions that steps may apply to columns of tables. Whatever is computed of arguments alone may use all functions.
STEP_FUNCTIONS = frozenset(
    {
        "and", "or", "not", "=", "<>", "<", "<=", ">", ">=", "<=>", "is_null", "in", "coalesce", "nullif", "greatest",
        "least", "+", "-", "*", "/", "%", "div", "neg", "abs", "sign", "floor", "ceil", "sqrt", "||", "length",
    }
)  # fmt: skip
#: Types of columns of tables.
STEP_TYPES = (Type.BOOLEAN, Type.BIGINT, Type.DOUBLE, Type.STRING, Type.TIMESTAMP)


class FoldTable(Struct, frozen=True, omit_defaults=True):
    """A table of state; of more than `keep` rows, the oldest are dropped."""

    name: str
    fields: tuple[Field, ...]
    keep: int | None = None


class FoldExists(Struct, frozen=True, omit_defaults=True):
    """Whether a table has a row for which a condition is true, or none if it is negated."""

    table: str
    where: Expr | None = None
    negated: bool = False


class FoldInsert(Struct, frozen=True, omit_defaults=True, tag="insert"):
    """Adds a row; with a source, one for each of its rows."""

    table: str
    values: tuple[Expr, ...]
    source: str = ""
    where: Expr | None = None
    exists: tuple[FoldExists, ...] = ()


class FoldUpdate(Struct, frozen=True, omit_defaults=True, tag="update"):
    """Changes columns of the rows for which the condition is true."""

    table: str
    sets: tuple[tuple[str, Expr], ...]
    where: Expr | None = None
    exists: tuple[FoldExists, ...] = ()


class FoldDelete(Struct, frozen=True, omit_defaults=True, tag="delete"):
    """Removes the rows for which the condition is true."""

    table: str
    where: Expr | None = None
    exists: tuple[FoldExists, ...] = ()


class FoldReturn(Struct, frozen=True, omit_defaults=True, tag="return"):
    """Gives a value; with a source, one for each of its rows."""

    value: Expr
    source: str = ""
    where: Expr | None = None
    exists: tuple[FoldExists, ...] = ()


FoldStep: TypeAlias = FoldInsert | FoldUpdate | FoldDelete | FoldReturn


class Fold(Struct, frozen=True):
    """The body of an aggregate, and its name, which people read."""

    name: str
    tables: tuple[FoldTable, ...]
    initialize: tuple[FoldStep, ...]
    iterate: tuple[FoldStep, ...]
    terminate: tuple[FoldStep, ...]

    @property
    def steps(self) -> tuple[FoldStep, ...]:
        return self.initialize + self.iterate + self.terminate

    def has_one_row(self, table: str) -> bool:
        """Return whether a table always has exactly one row: INITIALIZE adds it, and nothing else adds or removes."""
        adds = [step for step in self.steps if isinstance(step, FoldInsert | FoldDelete) and step.table == table]
        first = next((step for step in self.initialize if _names(step, table)), None)
        return (
            len(adds) == 1
            and adds[0] is first
            and isinstance(first, FoldInsert)
            and not first.source
            and first.where is None
            and not first.exists
        )


def expressions(step: FoldStep) -> Iterator[Expr]:
    """Give all expressions of a step."""
    match step:
        case FoldInsert(values=values):
            yield from values
        case FoldUpdate(sets=sets):
            yield from (value for _, value in sets)
        case FoldReturn(value=value):
            yield value
        case FoldDelete():
            pass
    if step.where is not None:
        yield step.where
    yield from (exists.where for exists in step.exists if exists.where is not None)


def _names(step: FoldStep, table: str) -> bool:
    """Return whether a step reads or changes a table."""
    changed = "" if isinstance(step, FoldReturn) else step.table
    read = step.source if isinstance(step, FoldInsert | FoldReturn) else ""
    return table in (changed, read, *(exists.table for exists in step.exists))
