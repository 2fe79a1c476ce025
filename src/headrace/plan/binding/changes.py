"""EMIT CHANGES: a GROUP BY without a window becomes the changelog of its groups, a join that of its pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sqlglot import exp

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import Table
from headrace.errors import NameFault, NotSupported, UnboundedStateFault
from headrace.language.syntax.clauses import EmitClause, RangeClause, emit_of, window_of
from headrace.model.changelog import INSERT
from headrace.model.expressions.expression import Column, Expr, Literal, columns
from headrace.model.types import Type
from headrace.plan import nodes
from headrace.plan.binding.aggregate import Grouping
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Scope, unique
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


def is_join_changes(select: exp.Expr, catalog: Catalog) -> bool:
    """Return whether a query gives the changes of a join of streams: EMIT CHANGES STATE TTL without a GROUP BY."""
    emit = emit_of(select)
    if emit is None or emit.ttl is None or not isinstance(select, exp.Select) or not select.args.get("joins"):
        return False
    known = ExpressionBinder(Scope(()), catalog)
    called = (node for item in select.expressions for node in item.walk())
    return not select.args.get("group") and not any(known.aggregate_name(node) is not None for node in called)


def limit_join(select: exp.Expr, catalog: Catalog) -> None:
    """Let streams of a join be kept for the time to live; a window that is written stays."""
    emit = emit_of(select)
    assert emit is not None
    assert emit.ttl is not None
    for join in select.args["joins"]:
        if join.side:
            raise NotSupported(
                f"a {join.side} JOIN without windows would have to take rows back, which EMIT CHANGES does not do",
                span=place(join) or emit.span,
                hint="write a window after each stream, such as [RANGE 1 HOUR]: then a row without a partner is final",
            )
    for item in (select.args["from_"].this, *(join.this for join in select.args["joins"])):
        stored = isinstance(item, exp.Table) and isinstance(catalog.get(item.name), Table)
        if window_of(item) is None and not stored and isinstance(item, exp.Table | exp.Subquery):
            item.meta["window"] = RangeClause(emit.ttl, None, False, emit.span)


def with_change(node: Node) -> Node:
    """Add the kind of change: a join only inserts."""
    change = unique("change", {field.name.lower() for field in node.schema})
    columns = tuple((field.name, Column(field.name, field.type)) for field in node.schema)
    return nodes.Project(node, (*columns, (change, Literal(INSERT, Type.STRING))))
