"""Projections that only leave columns out."""

from __future__ import annotations

from headrace.model.expressions.expression import Column
from headrace.model.schema import Field, Schema
from headrace.model.types import Type
from headrace.plan.nodes import Filter, Impute, Membership, Node, Project, Punctuate, Scan

#: Types in ascending order of cost; a type that is not listed is the most expensive.
_CHEAPEST = (
    Type.BOOLEAN,
    Type.INT,
    Type.DATE,
    Type.FLOAT,
    Type.BIGINT,
    Type.DOUBLE,
    Type.TIMESTAMP,
    Type.INTERVAL,
    Type.STRING,
)


def narrow(node: Node, names: tuple[str, ...]) -> Node:
    """Keep only these columns; return the node itself if it has no others."""
    if node.schema.names == names:
        return node
    return Project(
        node, tuple((field.name, Column(field.name, field.type)) for field in node.schema if field.name in names)
    )


def pick(schema: Schema, needed: frozenset[str]) -> tuple[str, ...]:
    """Return the needed columns in order; the cheapest one if none is needed, because a page needs a visible column."""
    return tuple(name for name in schema.names if name in needed) or (min(schema, key=_cost).name,)


def is_narrowed_scan(node: Node) -> bool:
    """Return whether the node is a stream of which only some columns are read."""
    return (
        isinstance(node, Project)
        and isinstance(node.input, Scan)
        and all(isinstance(e, Column) and e.name == name for name, e in node.columns)
    )


def is_base(node: Node) -> bool:
    """Return whether tuples come straight from a stream, so that arrival breaks ties, not content."""
    while isinstance(node, Filter | Project | Impute | Membership | Punctuate):
        node = node.input
    return isinstance(node, Scan)


def _cost(field: Field) -> int:
    return _CHEAPEST.index(field.type) if field.type in _CHEAPEST else len(_CHEAPEST)
