"""Make one projection of two, and none of one that changes nothing."""

from __future__ import annotations

from collections import Counter

from headrace.model.expressions.expression import Column, Literal, depth, substitute, walk
from headrace.model.limits import EXPRESSION_DEPTH
from headrace.plan.nodes import Node, Project
from headrace.plan.traversal import transform


def merge_projects(plan: Node) -> Node:
    """Compute columns in one step instead of two, unless something would then be computed twice.

    Before: Project x + 1 AS y         After: Project a * b + 1 AS y
              Project a * b AS x                Scan s
                Scan s
    """
    return transform(plan, _merge)


def _merge(node: Node) -> Node:
    match node:
        case Project(input=Project() as lower) if not _repeats_work(node, lower) and not _too_deep(node, lower):
            by = dict(lower.columns)
            return _merge(Project(lower.input, tuple((name, substitute(expr, by)) for name, expr in node.columns)))
        case Project(input=below, columns=columns) if columns == tuple(
            (field.name, Column(field.name, field.type)) for field in below.schema
        ):
            return below
        case _:
            return node


def _repeats_work(upper: Project, lower: Project) -> bool:
    reads = Counter(part.name for _, expr in upper.columns for part in walk(expr) if isinstance(part, Column))
    return any(reads[name] > 1 for name, expr in lower.columns if not isinstance(expr, Column | Literal))


def _too_deep(upper: Project, lower: Project) -> bool:
    """Return whether one expression would be deeper than any may be."""
    deepest = (max((depth(expr) for _, expr in project.columns), default=0) for project in (upper, lower))
    return sum(deepest) > EXPRESSION_DEPTH
