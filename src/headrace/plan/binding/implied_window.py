"""Windows of aggregates that are not written: groups by the end of a window that the input has already.

`SELECT window_end, sum(n) FROM (SELECT ..., window_end FROM s [RANGE 1 MINUTE] GROUP BY ...) GROUP BY window_end` adds
up results of one instant. `GROUP BY window_start` over tuples of TABLE(TUMBLE(...)) is an aggregate over this window.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.model.expressions.expression import Column, Expr
from headrace.model.window import Range
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.stand_in import plan_of
from headrace.plan.binding.time_columns import instant_columns
from headrace.plan.binding.tumbling import tumbling_columns
from headrace.plan.nodes import Aggregate, Node, Scan
from headrace.plan.traversal import walk


def implied_window(node: Node, keys: Mapping[str, Expr], env: Environment) -> Range | None:
    """Return the window that contains each group, if one of the keys says which it is."""
    named = {expr.name for expr in keys.values() if isinstance(expr, Column)}
    if named & instant_columns(node, env):
        return Range(1, 1)
    ends = tumbling_columns(node, env)
    return next((ends[name].window for name in ends if name in named), None)


def window_ends(node: Node, env: Environment) -> list[str]:
    """Return the columns by which an aggregate over a node could group, so that it needs no window."""
    known = frozenset(tumbling_columns(node, env))
    whole = plan_of(node, env) if isinstance(node, Scan) else node
    if not known and whole is not None and any(isinstance(part, Aggregate) for part in walk(whole)):
        known = instant_columns(node, env)
    return [name for name in node.schema.names if name in known]
