"""Computed columns of a stream: `at TIMESTAMP AS to_timestamp(written, 'dd.MM.yyyy HH:mm')`."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import READ_AT
from headrace.errors import NotSupported, TypeFault
from headrace.language.syntax.statements import ComputedColumn
from headrace.model.expressions.expression import Call, Expr, columns, substitute, walk
from headrace.model.python_function import is_python_function
from headrace.model.schema import TS, Field, Schema
from headrace.model.types import DataType, Type
from headrace.plan.binding.expressions.coerce import check_cast, coerce
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Scope, relation_of
from headrace.plan.binding.span import place

_VIEW = "compute it in a view: CREATE VIEW name AS SELECT *, ... FROM stream"


def bind_computed(
    stream: str, recorded: Schema, written: Sequence[ComputedColumn], catalog: Catalog
) -> tuple[Schema, tuple[tuple[str, Expr], ...]]:
    """Return all columns of a stream, and the expression of each computed one over the columns of the records.

    A computed column may read the records' columns and the computed ones before it.
    """
    schema, known = recorded, recorded
    bound: dict[str, Expr] = {}
    for column in written:
        scope = Scope((relation_of((stream,), known),))
        expr = _fitted(_bound(column, scope, catalog), column)
        bound[column.name.text] = substitute(expr, bound)
        added = Field(column.name.text, expr.type)
        known = Schema((*known, added))
        schema = Schema((*schema.fields[: column.place], added, *schema.fields[column.place :]))
    return schema, tuple(bound.items())


def _bound(column: ComputedColumn, scope: Scope, catalog: Catalog) -> Expr:
    tree = column.expression
    if is_proctime(tree):
        return READ_AT
    expr = ExpressionBinder(scope, catalog, "in a computed column").bind(tree)
    if any(isinstance(part, Call) and is_python_function(part.function) for part in walk(expr)):
        raise NotSupported("a computed column cannot call a function in Python", span=place(tree), hint=_VIEW)
    if TS in columns(expr):
        raise NotSupported("a computed column cannot read rowtime", span=place(tree), hint=_VIEW)
    if not columns(expr):
        raise NotSupported(
            f"the column {column.name.text} is a constant",
            span=column.span,
            hint=f"leave it out, or {_VIEW}",
        )
    return expr


def is_proctime(tree: exp.Expr) -> bool:
    """Return whether an expression is PROCTIME(), the time at which a record is read."""
    return isinstance(tree, exp.Anonymous) and tree.name.upper() == "PROCTIME" and not tree.expressions


def _fitted(expr: Expr, column: ComputedColumn) -> Expr:
    """Return the expression in the declared type: numbers are converted, everything else must have it."""
    target: DataType | None = column.type
    if target is None:
        if expr.type is Type.NULL:
            raise TypeFault(f"the column {column.name.text} is always NULL", span=column.span, hint="leave it out")
        return expr
    if expr.type != target and not (expr.type.is_numeric and target.is_numeric):
        raise TypeFault(
            f"the column {column.name.text} is {target.value}, but its expression {expr.type.value}",
            span=column.span,
            hint=f"write {column.name.text} {target.value} AS CAST(... AS {target.value})",
        )
    return check_cast(coerce(expr, target), column.span)
