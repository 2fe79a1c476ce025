"""ROW_NUMBER, RANK and DENSE_RANK over the tuples of a window, in SELECT and QUALIFY: the top N of a window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from headrace.errors import NotSupported, UnboundedStateFault
from headrace.language.syntax.clauses import RangeClause, window_call_of, window_of
from headrace.model.expressions.expression import Column, Expr
from headrace.model.frame import RowsFrame
from headrace.model.rank import Ranking, RankOrder
from headrace.model.types import Type
from headrace.model.window import AggregateCall
from headrace.plan import nodes
from headrace.plan.binding.aggregate import is_grouped
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Relation, Scope, unique
from headrace.plan.binding.over_place import check_tumbles
from headrace.plan.binding.partition import with_partition
from headrace.plan.binding.select_names import names_of_select
from headrace.plan.binding.span import place
from headrace.plan.binding.time_columns import instant_columns, time_lags
from headrace.plan.binding.whole_windows import BOUNDS
from headrace.plan.nodes import Node

_RANKINGS: tuple[Ranking, ...] = ("row_number", "rank", "dense_rank")
_FORM = "ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC)"
_LAST = "for the last tuple of each key: SELECT DISTINCT ON (id) * FROM stream [RANGE 1 HOUR] ORDER BY rowtime DESC"
_UNBOUNDED = f"rank the results of a window: {_FORM}; or the tuples of one: FROM stream [RANGE 1 MINUTE]"


@dataclass(frozen=True, slots=True)
class _Call:
    """One ranking of a SELECT: its node, and the columns that hold its keys, its order and its result."""

    node: exp.Window
    function: Ranking
    keys: tuple[str, ...]
    terms: tuple[str, ...]
    result: str


def has_ranks(select: exp.Select) -> bool:
    """Return whether a SELECT ranks its rows."""
    return bool(plain_ranks(select))


def bind_ranked(select: exp.Select, env: Environment, bind_select: Callable[[exp.Select, Environment], Node]) -> Node:
    """Bind the SELECT without its ranks, with what they need as columns; then rank, test QUALIFY and project."""
    if select.args.get("distinct") is not None:
        raise NotSupported(
            "a ranking cannot be combined with DISTINCT",
            span=place(select.args["distinct"]) or place(plain_ranks(select)[0]),
            hint="write DISTINCT in a sub-query",
        )
    calls: dict[str, _Call] = {}
    for window in plain_ranks(select):
        calls.setdefault(window.sql(), _call(window, len(calls)))
    ranked: dict[str, tuple[str, _Call]] = {}  # by the placeholder, the name of the column and the ranking
    aliases = {name: item.this for name, item in names_of_select(select, env).items()}
    inner = _without_ranks(select, calls, ranked, aliases)
    bound = bind_select(inner, env)
    columns = {field.name: Column(field.name, field.type) for field in bound.schema}
    node: Node = nodes.Project(bound, tuple((name, column) for name, column in columns.items() if name not in ranked))
    for call in calls.values():
        size = _size(call, node, select, env)
        terms = zip(call.terms, call.node.args["order"].expressions, strict=True)
        order = tuple(
            RankOrder(columns[name], bool(term.args.get("desc")), bool(term.args.get("nulls_first")))
            for name, term in terms
        )
        by = tuple(columns[name] for name in call.keys)
        if size is None:  # in the order of time, a place is final at once
            counted = AggregateCall(call.result, "count", None, Type.BIGINT)
            node = nodes.Over(node, by, RowsFrame(None), (counted,))
        else:
            node = nodes.Rank(node, size, by, order, call.function, call.result)
    condition = _condition(select, node, calls, ranked, env)
    if condition is not None:
        node = nodes.Filter(node, condition)
    taken: set[str] = set()
    outputs: list[tuple[str, Expr]] = []
    for name, column in columns.items():
        if name in ranked:
            written, call = ranked[name]
            outputs.append((unique(written, taken), Column(call.result, Type.BIGINT)))
        elif not name.startswith("$"):
            outputs.append((unique(name, taken), column))
    return nodes.Project(node, tuple(outputs))


def _without_ranks(
    select: exp.Select,
    calls: Mapping[str, _Call],
    ranked: dict[str, tuple[str, _Call]],
    aliases: Mapping[str, exp.Expr],
) -> exp.Select:
    """Return the SELECT with placeholders for its rankings, which go to `ranked`, and their keys and terms after it."""
    inner = select.copy()
    items: list[exp.Expr] = []
    for item, copied in zip(select.expressions, inner.expressions, strict=True):
        call = calls.get(item.unalias().sql()) if isinstance(item.unalias(), exp.Window) else None
        if call is None:
            items.append(copied)
        else:
            placeholder = f"$place{len(ranked)}"
            ranked[placeholder] = (item.alias or call.function, call)
            items.append(_named(exp.cast(exp.Literal.number(0), "BIGINT"), placeholder))
    for call in calls.values():
        keys = call.node.args.get("partition_by") or []
        terms = [term.this for term in call.node.args["order"].expressions]
        items += [
            _named(_aliased(expr, aliases), name)
            for expr, name in zip([*keys, *terms], [*call.keys, *call.terms], strict=True)
        ]
    inner.set("expressions", items)
    inner.set("qualify", None)
    return with_partition(inner, [call.node for call in calls.values()])


def plain_ranks(select: exp.Select) -> list[exp.Window]:
    """Return the rankings that are columns of a SELECT, or in its QUALIFY."""
    qualify = select.args.get("qualify")
    candidates = [item.unalias() for item in select.expressions]
    candidates += [] if qualify is None else list(qualify.find_all(exp.Window))
    return [node for node in candidates if isinstance(node, exp.Window) and node.this.name.lower() in _RANKINGS]


def _call(node: exp.Window, number: int) -> _Call:
    name = node.this.name.lower()
    function = next(ranking for ranking in _RANKINGS if ranking == name)
    order = node.args.get("order")
    if order is None or node.this.expressions or node.args.get("spec") is not None or node.args.get("alias"):
        raise NotSupported(f"{name.upper()} is not supported in this form", span=place(node), hint=f"write {_FORM}")
    keys = node.args.get("partition_by") or []
    return _Call(
        node,
        function,
        tuple(f"$key{number}_{i}" for i in range(len(keys))),
        tuple(f"$term{number}_{i}" for i in range(len(order.expressions))),
        f"$rank{number}",
    )


def _named(expr: exp.Expr, name: str) -> exp.Expr:
    return exp.Alias(this=expr, alias=exp.to_identifier(name, quoted=True))


def _aliased(expr: exp.Expr, aliases: Mapping[str, exp.Expr]) -> exp.Expr:
    """Return a copy in which columns of SELECT stand for what they are."""
    if isinstance(expr, exp.Column) and not expr.table and expr.name.lower() in aliases:
        return aliases[expr.name.lower()].copy()
    return expr.copy()


def window_size(
    window: exp.Window, keys: Iterable[str], node: Node, select: exp.Select, env: Environment
) -> int | None:
    """Return the window whose tuples OVER sees: an instant if a key tells instants apart, or a tumbling window.

    None if there is no window that is complete at some time.
    """
    if env.on_tables or instant_columns(node, env) & set(keys):
        return 1
    item = from_.this if (from_ := select.args.get("from_")) is not None and not select.args.get("joins") else None
    if item is None:
        return None
    call, bracket = window_call_of(item), window_of(item)
    if (
        isinstance(bracket, RangeClause)
        and bracket.offset
        and not is_grouped(select, env, ExpressionBinder(Scope(()), env.catalog))
    ):
        raise NotSupported(
            "tuples cannot be ranked in windows with an offset",
            span=bracket.span,
            hint="rank the results of an aggregate over these windows, or leave the offset out",
        )
    if call is None and isinstance(bracket, RangeClause) and bracket.is_tumbling:
        return None if is_grouped(select, env, ExpressionBinder(Scope(()), env.catalog)) else bracket.size
    if call is None or not call.is_table or not isinstance(call.window, RangeClause) or not call.window.is_tumbling:
        return None
    named = {key.name.lower() for key in window.args.get("partition_by") or [] if isinstance(key, exp.Column)}
    return call.window.size if named & set(BOUNDS) else None


def _size(call: _Call, node: Node, select: exp.Select, env: Environment) -> int | None:
    """Return the window in which tuples are ranked; None if row numbers follow the time, and no window is needed."""
    size = window_size(call.node, call.keys, node, select, env)
    if size is not None:
        return size
    terms = call.node.args["order"].expressions
    is_by_time = call.function == "row_number" and set(call.terms) <= set(time_lags(node, env)) and len(terms) == 1
    if is_by_time and not terms[0].args.get("desc"):
        return None
    check_tumbles(call.node, select)
    raise unbounded_rank(call.node, is_last=is_by_time)


def unbounded_rank(window: exp.Window, *, is_last: bool = False) -> UnboundedStateFault:
    """Return the error for a ranking without a window."""
    return UnboundedStateFault(
        f"{window.this.name.upper()} would have to keep all tuples forever",
        span=place(window),
        hint=_LAST if is_last else _UNBOUNDED,
    )


def _condition(
    select: exp.Select,
    node: Node,
    calls: dict[str, _Call],
    ranked: dict[str, tuple[str, _Call]],
    env: Environment,
) -> Expr | None:
    """Bind QUALIFY over the columns of SELECT and its rankings."""
    qualify = select.args.get("qualify")
    if qualify is None:
        return None
    columns: list[tuple[str, Expr]] = [
        (field.name, Column(field.name, field.type)) for field in node.schema if not field.name.startswith("$")
    ]
    columns += [(name, Column(call.result, Type.BIGINT)) for name, call in ranked.values()]
    columns += [(call.result, Column(call.result, Type.BIGINT)) for call in calls.values()]

    def numbered(part: exp.Expr) -> exp.Expr:
        call = calls.get(part.sql()) if isinstance(part, exp.Window) else None
        return part if call is None else exp.column(exp.to_identifier(call.result, quoted=True))

    scope = Scope((Relation(("SELECT",), tuple(columns)),))
    tree = qualify.this.copy().transform(numbered, copy=False)
    return ExpressionBinder(scope, env.catalog, "in QUALIFY").predicate(tree)
