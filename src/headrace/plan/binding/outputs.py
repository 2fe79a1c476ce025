"""Binds what SELECT names: the columns of the output."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sqlglot import exp

from headrace.errors import NameFault, NotSupported, SyntaxFault, TypeFault
from headrace.language.names import did_you_mean
from headrace.model.expressions.expression import Column, Expr
from headrace.model.types import Type
from headrace.plan import nodes
from headrace.plan.binding.expressions.item_name import item_name
from headrace.plan.binding.expressions.nested import fields
from headrace.plan.binding.expressions.scope import unique
from headrace.plan.binding.from_clause import Source
from headrace.plan.binding.span import place
from headrace.plan.nodes import Node

#: Bind an expression of SELECT; take in a column that * brings.
Bind: TypeAlias = Callable[[exp.Expr], Expr]
Accept: TypeAlias = Callable[[exp.Expr, Expr], Expr]
_BOUNDS = ("window_start", "window_end", "rowtime")


def outputs_of(select: exp.Select, source: Source, bind_item: Bind, accept: Accept) -> tuple[tuple[str, Expr], ...]:
    """Return the columns of SELECT by name; `accept` takes each column of a star."""
    taken: set[str] = set()
    outputs: list[tuple[str, Expr]] = []
    for item in select.expressions:
        if item.is_star and isinstance(item, exp.Star | exp.Column):
            for name, expr in _starred(item, source):
                outputs.append((unique(name, taken), accept(item, expr)))
            continue
        if isinstance(item, exp.Dot) and isinstance(item.expression, exp.Star):
            outputs += [(unique(name, taken), expr) for name, expr in fields(bind_item(item.this), place(item))]
            continue
        alias = item.alias if isinstance(item, exp.Alias) else ""
        _check_aliases(item, select, source)
        if alias.startswith("__"):
            raise NameFault(f"{alias!r}: names that begin with '__' are reserved", span=place(item))
        expr = bind_item(item.this if isinstance(item, exp.Alias) else item)
        if expr.type is Type.NULL:
            raise TypeFault(
                "the type of NULL is not known", span=place(item), hint="write for example CAST(NULL AS STRING)"
            )
        outputs.append((unique(alias or item_name(item), taken), expr))
    if not outputs:
        raise SyntaxFault("SELECT names no columns", span=place(select), hint="EXCEPT leaves out all of them")
    return tuple(outputs)


def projected(node: Node, columns: tuple[tuple[str, Expr], ...]) -> Node:
    """Project the columns, unless that would change nothing."""
    same = tuple((field.name, Column(field.name, field.type)) for field in node.schema)
    return node if columns == same else nodes.Project(node, columns)


def _check_aliases(item: exp.Expr, select: exp.Select, source: Source) -> None:
    """Refuse a name that another column of SELECT gives."""
    for column in item.find_all(exp.Column):
        name = column.name.lower()
        others = (
            other for other in select.expressions if other is not item and isinstance(other, exp.Alias) and other.alias
        )
        written = next((other for other in others if other.alias.lower() == name), None)
        if written is not None and len(column.parts) == 1 and not source.scope.has(name) and name not in _BOUNDS:
            raise NameFault(
                f"{column.name!r} is a name that SELECT gives, and its other columns cannot read it",
                span=place(column),
                hint="write its expression again, or name it in a sub-query: FROM (SELECT *, ... AS "
                f"{column.name} FROM ...)",
            )


def _starred(item: exp.Expr, source: Source) -> list[tuple[str, Expr]]:
    """Return the columns of *, but for those that EXCEPT names."""
    star = item.this if isinstance(item, exp.Column) else item
    if any(star.args.get(clause) for clause in ("replace", "rename")):
        raise NotSupported(
            "* cannot have REPLACE or RENAME", span=place(item), hint="write the names of the columns, with AS"
        )
    columns = source.scope.star(item if isinstance(item, exp.Column) else None)
    excepted: list[exp.Expr] = star.args.get("except_") or []
    known = [name for name, _ in columns]
    for column in excepted:
        if column.name.lower() not in (name.lower() for name in known):
            raise NameFault(
                f"EXCEPT names {column.name!r}, which is no column of *",
                span=place(column),
                hint=did_you_mean(column.name, known, otherwise=f"columns are {', '.join(known[:12])}"),
            )
    left_out = {column.name.lower() for column in excepted}
    return [(name, expr) for name, expr in columns if name.lower() not in left_out]
