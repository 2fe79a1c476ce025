"""ORDER BY x LIMIT n by something else than time: the first n rows of each window, in that order."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headrace.catalog.definitions import Stream, Table
from headrace.errors import NotSupported, SyntaxFault, UnboundedStateFault
from headrace.language.syntax.clauses import RangeClause, window_call_of, window_of
from headrace.plan import nodes
from headrace.plan.binding.aggregate import is_grouped
from headrace.plan.binding.deduplication import is_deduplication
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Scope
from headrace.plan.binding.from_item import read_item
from headrace.plan.binding.limit import count_of, has_limit, offset_of
from headrace.plan.binding.rank import bind_ranked, has_ranks
from headrace.plan.binding.span import place
from headrace.plan.binding.stand_in import plan_of
from headrace.plan.binding.time_columns import time_lags
from headrace.plan.binding.whole_windows import BOUNDS
from headrace.plan.nodes import Node
from headrace.plan.traversal import walk

_TIMES = ("rowtime", "window_end")
_HINT = "write the window after the stream: FROM stream [RANGE 1 MINUTE]; LIMIT alone gives the earliest rows"


def is_time_order(order: exp.Expr) -> bool:
    """Return whether ORDER BY asks for the order of time, in which results come anyway."""
    terms = order.expressions
    return (
        len(terms) == 1
        and isinstance(terms[0].this, exp.Column)
        and terms[0].this.name.lower() in _TIMES
        and not terms[0].args.get("desc")
    )


def with_rowtime(tree: exp.Expr, env: Environment) -> exp.Expr:
    """Return a query in which ORDER BY names rowtime instead of columns in the same order, such as window_start."""
    order = tree.args.get("order")
    if order is None or not isinstance(tree, exp.Select) or is_time_order(order) or is_deduplication(tree):
        return tree
    if not all(not term.args.get("desc") and _follows_time(term.this, tree, env) for term in order.expressions):
        return tree
    ordered = tree.copy()
    by_time = exp.Order(expressions=[exp.Ordered(this=exp.column("rowtime"))])
    by_time.meta.update(_place_of(order))
    ordered.set("order", by_time)
    return ordered


def _follows_time(node: exp.Expr, select: exp.Select, env: Environment) -> bool:
    """Return whether an expression of ORDER BY grows with the timestamps of the results."""
    if isinstance(node, exp.Literal) and node.name.isdecimal() and 1 <= int(node.name) <= len(select.expressions):
        node = select.expressions[int(node.name) - 1].unalias()
    elif isinstance(node, exp.Column) and not node.table:
        aliases = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
        node = aliases.get(node.name.lower(), node)
    from_ = select.args.get("from_")
    if not isinstance(node, exp.Column) or from_ is None or select.args.get("joins") or select.args.get("laterals"):
        return False
    name, clause = node.name.lower(), window_of(from_.this)
    if is_grouped(select, env, ExpressionBinder(Scope(()), env.catalog)):
        starts_in_order = isinstance(clause, RangeClause) and not clause.per_tuple
        return not node.table and (name == "window_end" or (name == "window_start" and starts_in_order))
    if clause is not None:
        return False  # the order within a window
    item = read_item(from_.this, env)
    is_own = not node.table or node.table.lower() in (known.lower() for known in item.names)
    if not is_own or isinstance(item.source, Table):
        return False
    return name == "rowtime" or name in (known.lower() for known in time_lags(item.source, env))


def is_top(tree: exp.Expr) -> bool:
    """Return whether a query asks for its first rows by something else than time."""
    order = tree.args.get("order")
    return order is not None and has_limit(tree) and not is_time_order(order)


def bind_top(tree: exp.Expr, env: Environment, bind_select: Callable[[exp.Select, Environment], Node]) -> Node:
    """Bind the query as one that ranks the rows of each window and keeps the first n."""
    order, count, skipped = tree.args["order"], count_of(tree), offset_of(tree)
    first = order.expressions[0]
    if (_is_named_time(first.this) and len(order.expressions) > 1) or _is_of_window(first.this, tree, env):
        raise _by_time_first(first, order)
    select = _alone(tree)
    keys = _window_keys(select, env)
    ranking = exp.Window(this=exp.Anonymous(this="row_number"), partition_by=keys, order=_with_items(order, select))
    ranking.meta.update(_place_of(order))
    kept: exp.Expr = exp.LTE(this=ranking, expression=exp.Literal.number(count + skipped))
    if skipped:
        kept = exp.And(this=exp.GT(this=ranking.copy(), expression=exp.Literal.number(skipped)), expression=kept)
    select.set("qualify", exp.Qualify(this=kept))
    return bind_ranked(select, env, lambda inner, env: _checked(bind_select(inner, env), tree, keys, env))


def _is_named_time(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and node.name.lower() in _TIMES


def _is_of_window(node: exp.Expr, tree: exp.Expr, env: Environment) -> bool:
    """Return whether an expression of ORDER BY is the same for all results of a window."""
    return (
        isinstance(tree, exp.Select)
        and is_grouped(tree, env, ExpressionBinder(Scope(()), env.catalog))
        and _follows_time(node, tree, env)
    )


def _by_time_first(first: exp.Expr, order: exp.Expr) -> NotSupported:
    """Return the error for a top N whose rows would be those of the first or last windows."""
    if first.args.get("desc"):
        return NotSupported(
            "ORDER BY time DESC LIMIT n asks for the last rows, and a stream has no last row",
            span=place(order),
            hint="a window [ROWS 10] holds the newest tuples; ORDER BY x LIMIT n gives the first n rows of each window",
        )
    return NotSupported(
        f"ORDER BY {first.this.sql()} LIMIT n gives the first rows of all windows together, by time alone",
        span=place(order),
        hint="leave the time out: ORDER BY x LIMIT n gives the first n rows of each window",
    )


def _alone(tree: exp.Expr) -> exp.Select:
    """Return the query without ORDER BY and LIMIT, in a sub-query if it has other clauses that come before them."""
    inner = tree.copy()
    for clause in ("order", "limit", "offset", "with_"):
        inner.set(clause, None)
    if (
        isinstance(inner, exp.Select)
        and inner.args.get("distinct") is None
        and inner.args.get("qualify") is None
        and not has_ranks(inner)
    ):
        return inner
    below = inner if isinstance(inner, exp.Subquery) else exp.Subquery(this=inner)
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=below))


def _window_keys(select: exp.Select, env: Environment) -> list[exp.Expr]:
    """Return the columns that tell windows apart; none for a window in brackets over plain tuples."""
    item = from_.this if (from_ := select.args.get("from_")) is not None else None
    if is_grouped(select, env, ExpressionBinder(Scope(()), env.catalog)):
        return [exp.column("window_end")]
    if item is not None and not select.args.get("joins"):
        call = window_call_of(item)
        if call is not None and call.is_table:
            return [exp.column(name) for name in BOUNDS]
        clause = window_of(item)
        if isinstance(clause, RangeClause):
            if not clause.is_tumbling:
                raise NotSupported(
                    "ORDER BY with LIMIT over tuples needs windows that do not overlap",
                    span=clause.span,
                    hint="leave SLIDE out, or group: GROUP BY item ORDER BY max(price) DESC LIMIT 3",
                )
            return []
    return [] if env.on_tables else [exp.column("rowtime")]


def _with_items(order: exp.Expr, select: exp.Select) -> exp.Order:
    """Return ORDER BY in which the number of a column stands for the column."""
    terms = []
    for term in order.copy().expressions:
        if isinstance(term.this, exp.Literal) and not term.this.is_string:
            number = int(term.this.name) if term.this.name.isdecimal() else 0
            if not 1 <= number <= len(select.expressions):
                raise SyntaxFault(
                    f"ORDER BY {term.this.name} is no column of SELECT",
                    span=place(term),
                    hint=f"write a number from 1 to {len(select.expressions)}, or the name of a column",
                )
            item = select.expressions[number - 1]
            term.set("this", (exp.column(item.alias) if item.alias else item).copy())
        terms.append(term)
    return exp.Order(expressions=terms)


def _checked(node: Node, tree: exp.Expr, keys: list[exp.Expr], env: Environment) -> Node:
    """Refuse the first rows of each instant of a stream: nobody means that."""
    if [key.name for key in keys] == ["rowtime"] and not _has_windows(node, env):
        raise UnboundedStateFault(
            "ORDER BY with LIMIT needs a window, since a stream has no last row",
            span=place(tree.args["order"]),
            hint=_HINT,
        )
    return node


def _has_windows(node: Node, env: Environment) -> bool:
    """Return whether a plan has results of windows, also in the queries and views that it reads."""
    for part in walk(node):
        if isinstance(part, nodes.Aggregate):
            return True
        if isinstance(part, nodes.Scan) and not isinstance(env.catalog.get(part.name), Stream):
            whole = plan_of(part, env)
            if whole is None or _has_windows(whole, env):
                return True
    return False


def _place_of(node: exp.Expr) -> dict[str, int]:
    span = place(node)
    return {} if span is None else {"start": span.start, "end": span.end - 1}
