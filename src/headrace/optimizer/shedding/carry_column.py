"""Read the column that decides which tuples are shed, also if the query itself does not need it.

    Project k                              Project k
      Scan t (k, v)                          Project k, v
                                               Scan t (k, v)

`push_down_projections` leaves out every column that no operator needs. Without this rewrite the column that decides
which tuples are shed would not be read.
"""

from __future__ import annotations

from headrace.model.expressions.expression import Column
from headrace.plan.nodes import Node, Project, Scan
from headrace.plan.traversal import transform


def carry_column(plan: Node, column: str) -> Node:
    """Return the plan in which every scan of a stream that has the column passes it to its first reader."""

    def keep(node: Node) -> Node:
        if not isinstance(node, Project) or not isinstance(node.input, Scan):
            return node
        field = next((field for field in node.input.schema if field.name.lower() == column.lower()), None)
        if field is None or any(isinstance(expr, Column) and expr.name == field.name for _, expr in node.columns):
            return node
        if not all(isinstance(expr, Column) and expr.name == name for name, expr in node.columns):
            return node  # it computes something, so it reads the whole scan
        return Project(Project(node.input, (*node.columns, (field.name, Column(field.name, field.type)))), node.columns)

    return transform(plan, keep)
