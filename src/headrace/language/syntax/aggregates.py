"""The body of an aggregate that is written in SQL, as it was read."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headrace.errors import Span
from headrace.language.syntax.names import Name
from headrace.model.types import DataType


@dataclass(frozen=True, slots=True)
class TableClause:
    """TABLE name(column TYPE, ...) [KEEP n ROWS]."""

    name: Name
    columns: tuple[tuple[Name, DataType], ...]
    keep: int | None


@dataclass(frozen=True, slots=True)
class StepClause:
    """INSERT, UPDATE, DELETE or INSERT INTO RETURN; `table` is None for the last."""

    span: Span
    kind: str
    table: Name | None
    #: What is inserted or returned; for UPDATE the new values of `columns`.
    values: tuple[exp.Expr, ...]
    columns: tuple[Name, ...]
    source: Name | None
    where: exp.Expr | None


@dataclass(frozen=True, slots=True)
class AggregateBody:
    """{ TABLE ...; INITIALIZE: ...; ITERATE: ...; TERMINATE: ... }."""

    span: Span
    tables: tuple[TableClause, ...]
    initialize: tuple[StepClause, ...]
    iterate: tuple[StepClause, ...]
    terminate: tuple[StepClause, ...]
