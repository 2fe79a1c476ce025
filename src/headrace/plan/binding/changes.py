"""EMIT CHANGES: a GROUP BY without a window becomes the changelog of its groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sqlglot import exp

from headrace.errors import NameFault, UnboundedStateFault
from headrace.language.syntax.clauses import EmitClause
from headrace.model.expressions.expression import Expr, columns
from headrace.plan import nodes
from headrace.plan.binding.aggregate import Grouping
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.scope import unique
from headrace.plan.binding.from_clause import Source
from headrace.plan.binding.span import place
from headrace.plan.nodes import Node

#: What an aggregate without a window may be instead.
AGGREGATE_HINT = (
    "write a window after it, such as [RANGE 5 MINUTES]; or EMIT CHANGES STATE TTL '1 day' at the end: a changelog"
)
_Outputs: TypeAlias = Callable[
    [exp.Select, Source, Callable[[exp.Expr], Expr], Callable[[exp.Expr, Expr], Expr]], tuple[tuple[str, Expr], ...]
]


def bind_changes(select: exp.Select, source: Source, env: Environment, emit: EmitClause, outputs: _Outputs) -> Node:
    """Plan the changelog of a GROUP BY; without a time to live it would keep every group forever."""
    if emit.ttl is None:
        raise UnboundedStateFault(
            f"the changes of a GROUP BY over {source.streams[0].names[0]} would need the state of every group forever",
            span=emit.span,
            hint="write EMIT CHANGES STATE TTL '1 day': a group without a tuple for a day begins anew",
        )
    grouping = Grouping(select, source, env, None)
    shown = outputs(select, source, grouping.output, grouping.star)
    having = select.args.get("having")
    condition = None if having is None else grouping.condition(having.this)
    named = {name for name, _ in grouping.keys} | {call.name for call in grouping.calls}
    for expr in (*(expr for _, expr in shown), *(() if condition is None else (condition,))):
        if not columns(expr) <= named:
            raise NameFault(
                "window_start and window_end exist only with a window",
                span=place(select.expressions[0]),
                hint="leave them out; the rowtime of a change is the time of its last tuple",
            )
    node = source.node
    if source.where is not None:
        node = nodes.Filter(node, source.where)
    change = unique("change", {name.lower() for name, _ in shown})
    return nodes.Changes(
        node,
        grouping.keys,
        grouping.calls,
        emit.ttl,
        shown,
        condition,
        change,
    )
