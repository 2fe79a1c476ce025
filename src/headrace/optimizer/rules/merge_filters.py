"""Make one filter of two."""

from __future__ import annotations

from headrace.model.expressions.expression import Call, chain, conjuncts, depth
from headrace.model.limits import EXPRESSION_DEPTH
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
            terms = (*conjuncts(first), *conjuncts(second))
            both = Call("and", (first, second), Type.BOOLEAN)
            return Filter(below, both if depth(both) <= EXPRESSION_DEPTH else chain("and", terms))
        case _:
            return node
