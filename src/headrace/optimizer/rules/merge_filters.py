"""Make one filter of two."""

from __future__ import annotations

from headrace.model.expressions.expression import Call
from headrace.model.types import Type
from headrace.plan.nodes import Filter, Node
from headrace.plan.traversal import transform


def merge_filters(plan: Node) -> Node:
    """Join the predicates of adjacent filters, the lower one first.

    Before: Filter b            After: Filter a AND b
              Filter a                   Scan s
                Scan s
    """
    return transform(plan, _merge)


def _merge(node: Node) -> Node:
    match node:
        case Filter(input=Filter(input=below, predicate=first), predicate=second):
            return Filter(below, Call("and", (first, second), Type.BOOLEAN))
        case _:
            return node
