"""SELECT DISTINCT ON (key): the first tuple of each key within a span, or with ORDER BY rowtime DESC the last."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headrace.errors import NotSupported, UnboundedStateFault
from headrace.language.syntax.clauses import window_call_of, window_of
from headrace.model.expressions.expression import Column
from headrace.model.time import END
from headrace.plan import nodes
from headrace.plan.binding.aggregate import is_grouped
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Scope
from headrace.plan.binding.span import place
from headrace.plan.binding.time_columns import time_columns
from headrace.plan.binding.window import distinct_span
from headrace.plan.nodes import Node

_FORM = "SELECT DISTINCT ON (id) * FROM stream [RANGE 1 HOUR]"
_TIME = "$time"


def is_deduplication(tree: exp.Expr) -> bool:
    """Return whether a query is a SELECT DISTINCT ON."""
    distinct = tree.args.get("distinct") if isinstance(tree, exp.Select) else None
    return distinct is not None and distinct.args.get("on") is not None


def bind_deduplicated(
    select: exp.Select, env: Environment, bind_select: Callable[[exp.Select, Environment], Node]
) -> Node:
    """Bind the SELECT with its keys as further columns, then let one tuple of each key pass."""
    on = select.args["distinct"].args["on"]
    keys = on.expressions if isinstance(on, exp.Tuple) else [on.this if isinstance(on, exp.Paren) else on]
    span = _span(select, on, env)
    order = _time_term(select, keys)
    if order is not None and order.args.get("desc") and span >= END:
        raise UnboundedStateFault(
            "the last tuple of a key would be known only at the end of the stream",
            span=place(order),
            hint=f"write how long to wait for another: {_FORM} ORDER BY rowtime DESC",
        )
    inner = select.copy()
    for clause in ("distinct", "order", "limit"):
        inner.set(clause, None)
    names = [f"$on{i}" for i in range(len(keys))]
    extra = [_named(key, name) for key, name in zip(keys, names, strict=True)]
    inner.set("expressions", [*inner.expressions, *extra, *([] if order is None else [_named(order.this, _TIME)])])
    bound = bind_select(inner, env)
    if order is not None and _TIME not in time_columns(bound, env):
        raise NotSupported(
            "DISTINCT ON can be ordered only by its keys and time",
            span=place(order),
            hint="write ORDER BY rowtime DESC for the last tuple of each key; for the best of a window, "
            "QUALIFY ROW_NUMBER() OVER (PARTITION BY id ORDER BY price DESC) = 1",
        )
    if isinstance(bound, nodes.Project):
        bound, names = _without_repeated(bound, names)
    columns = {field.name: Column(field.name, field.type) for field in bound.schema}
    by = tuple(columns[name] for name in dict.fromkeys(names))
    node = nodes.Deduplicate(bound, by, span, order is not None and bool(order.args.get("desc")))
    shown = tuple((name, column) for name, column in columns.items() if not name.startswith("$"))
    return nodes.Project(node, shown)


def _without_repeated(project: nodes.Project, names: list[str]) -> tuple[nodes.Project, list[str]]:
    """Let keys that are columns of the result be these columns; return the names of all keys, too."""
    shown = {expr: name for name, expr in reversed(project.columns) if not name.startswith("$")}
    keys = {name: shown[expr] for name, expr in project.columns if name in names and expr in shown}
    kept = tuple((name, expr) for name, expr in project.columns if name not in keys)
    return nodes.Project(project.input, kept), [keys.get(name, name) for name in names]


def _span(select: exp.Select, on: exp.Expr, env: Environment) -> int:
    """Return how long a tuple has no duplicates: the window of the stream."""
    if select.args.get("joins") or is_grouped(select, env, ExpressionBinder(Scope(()), env.catalog)):
        raise NotSupported(
            "DISTINCT ON works on the tuples of one stream, not on a join or an aggregate",
            span=place(on),
            hint="write the rest in a sub-query: SELECT DISTINCT ON (id) * FROM (SELECT ...) [RANGE 1 HOUR] AS x",
        )
    item = select.args["from_"].this if select.args.get("from_") is not None else None
    if item is not None and window_call_of(item) is not None:
        raise NotSupported(
            "DISTINCT ON cannot be combined with a window function",
            span=place(on),
            hint=f"write {_FORM}, or for windows that do not overlap ROW_NUMBER() OVER (PARTITION BY window_start, "
            "window_end, id ORDER BY at) and = 1",
        )
    clause = None if item is None else window_of(item)
    if clause is None:
        raise UnboundedStateFault(
            "DISTINCT ON would have to keep all keys forever",
            span=place(on),
            hint=f"write how long duplicates come after each other: {_FORM}; or [UNBOUNDED]",
        )
    return min(END, distinct_span(clause))


def _time_term(select: exp.Select, keys: list[exp.Expr]) -> exp.Expr | None:
    """Return the term of ORDER BY that is not one of the keys, if there is one."""
    order = select.args.get("order")
    written = {key.sql().lower() for key in keys}
    terms = [] if order is None else [t for t in order.expressions if t.this.sql().lower() not in written]
    if len(terms) > 1:
        raise NotSupported(
            "DISTINCT ON can be ordered only by its keys and time",
            span=place(terms[1]),
            hint="write ORDER BY rowtime, or ORDER BY rowtime DESC for the last tuple of each key",
        )
    return terms[0] if terms else None


def _named(expr: exp.Expr, name: str) -> exp.Expr:
    return exp.Alias(this=expr.copy(), alias=exp.to_identifier(name, quoted=True))
