"""Compute at planning time what does not depend on the data."""

from __future__ import annotations

from msgspec.structs import replace

from headrace.model.expressions.expression import FALSE, TRUE, Expr, conjuncts
from headrace.optimizer.folding import fold, is_null
from headrace.plan.nodes import Filter, Join, Membership, Node, SequenceJoin, TableJoin
from headrace.plan.traversal import replace_expressions, transform


def fold_constants(plan: Node) -> Node:
    """Evaluate constant expressions and drop filters that are always true; NULL keeps its meaning.

    Before: Filter TRUE AND price > 2 * 50
    After:  Filter price > 100
    """
    return transform(plan, _fold_node)


def _fold_node(node: Node) -> Node:
    folded = replace_expressions(node, fold)
    match folded:
        case Filter(input=below, predicate=predicate):
            certain = _as_condition(predicate)
            return below if certain == TRUE else Filter(below, certain)
        case (
            Join(residual=residual)
            | SequenceJoin(residual=residual)
            | TableJoin(residual=residual)
            | Membership(residual=residual)
        ) if residual is not None:
            certain = _as_condition(residual)
            return replace(folded, residual=None if certain == TRUE else certain)
        case _:
            return folded


def _as_condition(predicate: Expr) -> Expr:
    """Simplify a condition, where only TRUE counts: a term that is never true makes it FALSE."""
    return FALSE if any(term == FALSE or is_null(term) for term in conjuncts(predicate)) else predicate
