"""Which columns of a plan's results say what happened to a row, as EMIT CHANGES adds them."""

from __future__ import annotations

import re

from headrace.model.changelog import CHANGE, INSERT
from headrace.model.expressions.expression import Column, Expr, Literal
from headrace.model.types import Type
from headrace.plan import nodes
from headrace.plan.nodes import Node, inputs

#: What the column is called beside another column `change`.
_RENAMED = re.compile(rf"{CHANGE}_\d+")


def hidden_change(plan: Node) -> str | None:
    """Return the column that says what happened to a row if another column has the name by which sinks know it."""
    changes = _changes(plan)
    others = [name for name in plan.schema.names if name.lower() == CHANGE and name not in changes]
    return min(changes) if changes and CHANGE not in changes and others else None


def _changes(node: Node) -> frozenset[str]:
    match node:
        case nodes.Changes(change=change):
            return frozenset({change})
        case nodes.Project(input=below, columns=columns):
            told = _changes(below)
            return frozenset(name for name, expr in columns if _tells(name, expr, told))
        case nodes.Join(change=change) if change:
            return frozenset({change})
        case nodes.Aggregate() | nodes.MatchRows() | nodes.Detect():  # rows of their own
            return frozenset()
        case _:
            return frozenset().union(*map(_changes, inputs(node))) & frozenset(node.schema.names)


def _tells(name: str, expr: Expr, told: frozenset[str]) -> bool:
    match expr:
        case Column(name=read):
            return read in told
        case Literal():  # of an inner join, which only inserts
            return expr == Literal(INSERT, Type.STRING) and _RENAMED.fullmatch(name) is not None
        case _:
            return False
