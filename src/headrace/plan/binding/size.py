"""Refuses a plan that is too large before anything walks it recursively (model/limits.py has the limits)."""

from __future__ import annotations

from headrace.errors import NotSupported, Span
from headrace.model import limits
from headrace.model.expressions.expression import Expr, depth, size
from headrace.plan.nodes import Node, inputs
from headrace.plan.traversal import expressions

_SPLIT_HINT = "compute parts of it in a sub-query or a view"
#: Optimized predicates may be so much deeper than written ones, because they are combined.
_COMBINED = 40


def check_plan(plan: Node, span: Span | None) -> None:
    """Refuse a plan with too many nodes, levels or columns, or with an expression that is too large."""
    sizes: dict[int, tuple[int, int]] = {}  # by identity of the node: how many nodes and levels are below
    pending = [(plan, False)]
    while pending:
        node, below_known = pending.pop()
        if id(node) in sizes:
            continue
        if not below_known:
            pending += [(node, True), *((child, False) for child in inputs(node))]
            continue
        below = [sizes[id(child)] for child in inputs(node)]
        count, levels = 1 + sum(part[0] for part in below), 1 + max((part[1] for part in below), default=0)
        sizes[id(node)] = count, levels
        if count > limits.PLAN_NODES:
            raise NotSupported(
                f"the query has more than {limits.PLAN_NODES:,} operators, those of its views included",
                span=span,
                hint="a view that is read twice counts twice: read it once, or make it a query (CREATE QUERY)",
            )
        if levels > limits.PLAN_DEPTH:
            raise NotSupported(
                f"the query has more than {limits.PLAN_DEPTH} operators one behind the other, those of its views "
                "included",
                span=span,
                hint="let it read fewer queries, views and sub-queries that read each other",
            )
        if len(node.schema) > limits.COLUMNS:
            raise NotSupported(
                f"the query has {len(node.schema):,} columns in one place; at most {limits.COLUMNS:,} are allowed",
                span=span,
                hint="select the columns that are needed",
            )
        for expr in expressions(node):
            check_expression(expr, span)


def check_expression(expr: Expr, span: Span | None) -> None:
    """Refuse a bound expression that is too large."""
    if depth(expr) > limits.EXPRESSION_DEPTH + _COMBINED or size(expr) > limits.EXPRESSION_PARTS:
        raise NotSupported(
            f"an expression has more than {limits.EXPRESSION_DEPTH} levels or {limits.EXPRESSION_PARTS:,} parts",
            span=span,
            hint=_SPLIT_HINT,
        )
