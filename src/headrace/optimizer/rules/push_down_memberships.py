"""Ask a table about a tuple before the tuple is joined."""

from __future__ import annotations

from msgspec.structs import replace

from headrace.model.expressions.expression import Column, Expr, columns, substitute
from headrace.plan import nodes
from headrace.plan.nodes import Node
from headrace.plan.traversal import transform


def push_down_memberships(plan: Node) -> Node:
    """Move IN and EXISTS on a table below the joins whose other side they do not read, and filters follow.

    Before: Filter in_blocked                After: Project ...
              Membership in_blocked: a.id             Join inner ...
                Join inner ...                          Filter in_blocked
                  Scan a                                  Membership in_blocked: id
                  Scan b                                    Scan a
                                                        Scan b
    """
    return transform(plan, _sunk)


def _sunk(node: Node) -> Node:
    if not isinstance(node, nodes.Membership):
        return node
    below = _sink(node, node.input)
    if below is None:
        return node
    return nodes.Project(below, tuple((field.name, Column(field.name, field.type)) for field in node.schema))


def _sink(asking: nodes.Membership, node: Node) -> Node | None:
    """Return a node with the answer among its columns, asked further below; None if it cannot be."""
    if not isinstance(node, nodes.Join):
        return None
    read = _read(asking)
    left, right = frozenset(node.left.schema.names), frozenset(node.right_names)
    if node.kind in ("inner", "left") and read <= left:
        return replace(node, left=_placed(asking, node.left))
    if node.kind in ("inner", "right") and read <= right:
        own: dict[str, Expr] = {
            name: Column(field.name, field.type)
            for name, field in zip(node.right_names, node.right.schema, strict=True)
        }
        renamed = _over(asking, own)
        if not {asking.name, *asking.table_names}.isdisjoint(node.right.schema.names):
            return None
        below = _placed(renamed, node.right)
        return replace(node, right=below, right_names=(*node.right_names, asking.name))
    return None


def _placed(asking: nodes.Membership, node: Node) -> Node:
    """Return a node with the answer as its last column."""
    deeper = _sink(replace(asking, input=node), node)
    if deeper is None:
        return replace(asking, input=node)
    schema = replace(asking, input=node).schema
    return nodes.Project(deeper, tuple((field.name, Column(field.name, field.type)) for field in schema))


def _read(asking: nodes.Membership) -> frozenset[str]:
    """Return the columns of a tuple that a membership reads."""
    mine = (expr for expr, _ in (*asking.keys, *asking.compared))
    residual = frozenset[str]() if asking.residual is None else columns(asking.residual) - frozenset(asking.table_names)
    return residual.union(*map(columns, mine))


def _over(asking: nodes.Membership, by: dict[str, Expr]) -> nodes.Membership:
    """Return a membership over other names of the tuple's columns."""
    return replace(
        asking,
        keys=tuple((substitute(mine, by), theirs) for mine, theirs in asking.keys),
        compared=tuple((substitute(mine, by), theirs) for mine, theirs in asking.compared),
        residual=None if asking.residual is None else substitute(asking.residual, by),
    )
