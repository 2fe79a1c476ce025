"""Sub-queries that stand for a value: an aggregate of the rows of a stored table, of all or of those of a key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from headrace.catalog.catalog import Catalog
from headrace.errors import NotSupported, Span, TypeFault
from headrace.model.expressions.expression import Expr, columns
from headrace.model.window import AggregateCall
from headrace.plan import nodes
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Scope
from headrace.plan.binding.span import place

_FORM = "write (SELECT max(price) FROM table WHERE table.id = x): an aggregate over a stored table"
_OTHERS: dict[str, str] = {
    "joins": "write the joined rows as a table of their own; or join the tables in FROM of the outer query",
    "group": "leave GROUP BY out, and compare the key in WHERE: (SELECT max(price) FROM table WHERE table.id = x.id)",
    "having": "write CASE WHEN ... THEN ... END around the aggregate",
    "with_": "write the query of WITH in FROM of the outer query",
    "qualify": "write max_by(x, y): the x of the largest y",
    "laterals": "explode in FROM of the outer query",
    "order": "write max_by(x, y) or min_by(x, y): the x of the largest or smallest y",
    "limit": "leave it out: an aggregate has one row; max_by(x, y) gives the x of the largest y",
    "offset": "leave it out: an aggregate has one row",
    "distinct": "leave it out: an aggregate has one row",
}

_NAMES = {"joins": "JOIN", "group": "GROUP BY", "with_": "WITH", "laterals": "explode", "order": "ORDER BY"}


def select_of_value(node: exp.Subquery, catalog: Catalog) -> exp.Select:
    """Return the SELECT of a sub-query that stands for a value, if it can have one row only."""
    select: exp.Expr = node
    while isinstance(select, exp.Subquery):
        select = select.this
    if not isinstance(select, exp.Select) or select.args.get("from_") is None:
        raise NotSupported("a sub-query for a value reads a stored table", span=place(node), hint=_FORM)
    for clause, hint in _OTHERS.items():
        if value := select.args.get(clause):
            first = value[0] if isinstance(value, list) else value
            what = f"{_NAMES.get(clause, clause.upper())} in a sub-query for a value is not supported"
            raise NotSupported(what, span=place(first) or place(node), hint=hint)
    if len(select.expressions) != 1 or select.expressions[0].is_star:
        raise TypeFault(
            "a sub-query for a value selects one column", span=place(select.expressions[0]) or place(node), hint=_FORM
        )
    known = ExpressionBinder(Scope(()), catalog)
    if not any(known.aggregate_name(part) is not None for part in select.expressions[0].walk()):
        table = select.args["from_"].this
        name = f"{table.name} AS {table.alias}" if table.alias else table.name
        raise NotSupported(
            "a sub-query for a value needs an aggregate: several rows may have a value",
            span=place(select.expressions[0]) or place(node),
            hint=f"write max(...) around the column, or a join: LEFT JOIN {name} ON ...",
        )
    return select


def check_residual(terms: Iterable[Expr], table: frozenset[str], span: Span | None) -> None:
    """Refuse conditions that read the tuple but for equality: the table is aggregated once, by the keys."""
    if any(not columns(term) <= table for term in terms):
        raise NotSupported(
            "WHERE of a sub-query for a value compares the table with the stream by = only",
            span=span,
            hint="write table.id = x.id, and other conditions on the table alone; or join the table",
        )


def value_of(select: exp.Select, env: Environment) -> tuple[tuple[AggregateCall, ...], Expr]:
    """Return the aggregates over the table, and the value over them."""
    alone = select.copy()
    alone.set("where", None)
    plan = env.bind_query(alone, replace(env, on_tables=True, ctes={}))
    match plan:
        case nodes.Project(input=nodes.Aggregate(input=nodes.Scan(), keys=(), calls=calls), columns=((_, value),)) if (
            columns(value) <= {call.name for call in calls}
        ):
            return calls, value
        case _:
            raise NotSupported("this sub-query for a value is not supported", span=place(select), hint=_FORM)
