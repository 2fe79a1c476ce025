"""Keep the column that tuples are shed by as far as the first operator, also if the query itself does not need it.

    Project k                              Project k
      Scan t (k, v)                          Project k, v
                                               Scan t (k, v)

Columns that nobody needs are not even read, so without it there would be nothing to shed by.
"""

from __future__ import annotations

from headrace.model.expressions.expression import Column
from headrace.plan.nodes import Node, Project, Scan
from headrace.plan.traversal import transform


def carrying(plan: Node, column: str) -> Node:
    """The same plan in which scans of streams that have the column give it to their first reader."""

    def keep(node: Node) -> Node:
        if not isinstance(node, Project) or not isinstance(node.input, Scan):
            return node
        field = next((field for field in node.input.schema if field.name.lower() == column.lower()), None)
        if field is None or any(isinstance(expr, Column) and expr.name == field.name for _, expr in node.columns):
            return node
        if not all(isinstance(expr, Column) and expr.name == name for name, expr in node.columns):
            return node  # it reads the whole scan
        return Project(Project(node.input, (*node.columns, (field.name, Column(field.name, field.type)))), node.columns)

    return transform(plan, keep)
