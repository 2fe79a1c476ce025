"""A parsed SELECT to a plan: names resolved, types checked, windows placed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from sqlglot import exp

from headrace.catalog.catalog import Catalog
from headrace.errors import NameFault, NotSupported, Span, SyntaxFault, UnboundedStateFault
from headrace.language import other_systems
from headrace.language.syntax.clauses import (
    CumulateClause,
    LandmarkClause,
    RangeClause,
    SessionClause,
    WhileClause,
    emit_of,
    pace_of,
    unions_of,
)
from headrace.model.expressions.expression import FALSE, Call, Column, Expr
from headrace.model.time import END
from headrace.model.types import Type
from headrace.model.window import Rows, While
from headrace.plan import nodes
from headrace.plan.binding.aggregate import Grouping, is_grouped
from headrace.plan.binding.changes import bind_changes, is_join_changes, limit_join, with_change
from headrace.plan.binding.deduplication import bind_deduplicated, is_deduplication
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.item_name import item_name
from headrace.plan.binding.expressions.nested import check_keys
from headrace.plan.binding.expressions.scope import Scope, unique
from headrace.plan.binding.from_clause import Source, bind_from
from headrace.plan.binding.from_item import union
from headrace.plan.binding.grouping_sets import expand_grouping_sets
from headrace.plan.binding.impute import Imputing
from headrace.plan.binding.input_window import refuse_buckets, written_or_implied_window, written_window
from headrace.plan.binding.join_tree import WINDOW_HINT
from headrace.plan.binding.limit import has_limit, limited
from headrace.plan.binding.membership import Memberships
from headrace.plan.binding.modifier import Modifiers, modifiers_of
from headrace.plan.binding.named_windows import name_windows
from headrace.plan.binding.outputs import outputs_of, projected
from headrace.plan.binding.over import bind_over, overs_of
from headrace.plan.binding.pace import Part, paced
from headrace.plan.binding.rank import bind_ranked, has_ranks
from headrace.plan.binding.select_names import columns_of
from headrace.plan.binding.size import check_plan
from headrace.plan.binding.span import place
from headrace.plan.binding.stream_membership import with_stream_memberships
from headrace.plan.binding.suppression import bind_suppression, suppression_of
from headrace.plan.binding.top import bind_top, is_time_order, is_top, with_rowtime
from headrace.plan.binding.typed_nulls import with_typed_nulls
from headrace.plan.binding.unnest import lift_generators
from headrace.plan.binding.window import distinct_span, since
from headrace.plan.binding.window_functions import check_grouping, check_session_keys
from headrace.plan.nodes import Node
from headrace.plan.traversal import walk

_CLAUSES = (
    "expressions",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "distinct",
    "with_",
    "this",
    "expression",
    "order",
    "limit",
    "offset",
    "kind",
    "alias",
    "qualify",
    "laterals",
    "windows",
)

#: The plans of named queries, as a mapping or a function.
Queries: TypeAlias = Mapping[str, Node] | Callable[[str], Node | None]


def bind(
    select: exp.Expr,
    text: str,
    catalog: Catalog,
    *,
    queries: Queries | None = None,
    ordered: bool | str = False,
    on_tables: bool = False,
) -> Node:
    """Bind a SELECT to a plan. Errors have spans into `text`, the statement that `select` was parsed from.

    `queries` gives the plans of named queries; one that it does not know is bound from the catalog's text. `ordered`
    asks for an Order on top, 'merge' for one that merges. `on_tables`: all that it reads is stored, and is there at one
    instant.
    """
    resolver = queries if callable(queries) else (queries or {}).get
    env = Environment(catalog, resolver, {}, (), _bind_nested, on_tables)
    select = with_rowtime(select, _with(select, env) if select.args.get("order") is not None else env)
    by_time = _by_time(select)
    is_join = is_join_changes(select, catalog)
    if is_join:
        limit_join(select, catalog)
    try:
        node = _bind_query(select, env)
    except RecursionError as error:
        raise NotSupported(
            "the query is nested too deeply", span=Span(0, len(text)), hint="split it into several queries"
        ) from error
    check_plan(node, Span(0, len(text)))
    if is_join:
        node = with_change(node, select, catalog, ordered=bool(ordered or by_time))
    else:
        _check_emit(select, node)
    _check_changes(select, node, ordered=bool(ordered or by_time))
    is_ordered = isinstance(node, nodes.Limit)  # the first tuples come in order anyway
    return nodes.Order(node, merge=ordered == "merge") if (ordered or by_time) and not is_ordered else node


def _check_emit(select: exp.Expr, node: Node) -> None:
    """Refuse EMIT CHANGES over an aggregate: its results would be corrected as tuples come."""
    clause = emit_of(select)
    parts = list(walk(node))
    if clause is not None and clause.ttl is not None and not any(isinstance(part, nodes.Changes) for part in parts):
        raise NotSupported(
            "STATE TTL needs a GROUP BY or a JOIN without a window",
            span=clause.span,
            hint="leave it out: this query keeps what its windows hold",
        )
    if clause is not None and clause.changes and any(isinstance(part, nodes.Aggregate) for part in parts):
        raise NotSupported(
            "an aggregate has no EMIT CHANGES: its result comes once, when the window is complete",
            span=clause.span,
            hint="leave it out, or write EMIT FINAL; [RANGE 5 MINUTES SLIDE TUPLE] gives a result with every tuple",
        )


def _check_changes(select: exp.Expr, node: Node, *, ordered: bool) -> None:
    """Refuse what would take the changes of a changelog apart."""
    clause = emit_of(select)
    if clause is None or not any(isinstance(part, nodes.Changes) for part in walk(node)):
        return
    if ordered or not isinstance(node, nodes.Changes):
        raise NotSupported(
            "the changes of a GROUP BY cannot have ORDER BY, LIMIT, DISTINCT or UNION",
            span=clause.span,
            hint="leave it out: the changes of a group come in order; another query can read them and go on",
        )


def _by_time(tree: exp.Expr) -> bool:
    """Return whether a query ends with ORDER BY rowtime."""
    order = tree.args.get("order")
    if order is None or is_deduplication(tree) or is_top(tree):
        return False
    if not is_time_order(order):
        raise NotSupported(
            "a continuous query can be ordered only by time, ascending",
            span=place(order),
            hint="write ORDER BY rowtime, or window_end; ORDER BY n DESC LIMIT 3 gives the top 3 of each window",
        )
    return True


def _bind_nested(tree: exp.Expr, env: Environment) -> Node:
    order = tree.args.get("order")
    if order is not None and not has_limit(tree) and not is_deduplication(tree):
        raise NotSupported(
            "a sub-query cannot have ORDER BY without LIMIT",
            span=place(order),
            hint="write ORDER BY at the end of the outermost query",
        )
    return _bind_query(tree, env)


def _bind_query(tree: exp.Expr, env: Environment) -> Node:
    for clause, value in tree.args.items():
        if value and clause not in _CLAUSES:
            name = {"sample": "TABLESAMPLE", "locks": "FOR UPDATE"}.get(
                clause, clause.strip("_").replace("_", " ").upper()
            )
            raise NotSupported(
                f"{name} is not supported",
                span=place(value if isinstance(value, exp.Expr) else tree),
                hint=other_systems.CLAUSES.get(name),
            )
    env = _with(tree, env)
    tree = with_rowtime(tree, env)
    if (offset := tree.args.get("offset")) is not None and not is_top(tree):
        raise NotSupported("OFFSET is not supported here", span=place(offset), hint=other_systems.CLAUSES["OFFSET"])
    if is_top(tree) and not is_deduplication(tree):
        return bind_top(tree, env, _bind_select)
    match tree:
        case exp.Subquery():
            return limited(_bind_nested(tree.this, env), tree)
        case exp.Union():
            return limited(_bind_union(tree, env), tree)
        case exp.Select():
            return limited(_bind_select(tree, env), tree)
        case _:
            name = tree.key.upper()
            hint = other_systems.EXPRESSIONS.get(name, "write a JOIN or a UNION")
            raise NotSupported(f"{name} is not supported", span=place(tree), hint=hint)


def _bind_union(tree: exp.Union, env: Environment) -> Node:
    queries = with_typed_nulls(_parts(tree), lambda part: _bind_nested(part, env).schema)
    parts = [Part(_bind_nested(part, env), _names_of(part)) for part in queries]
    united, clause = union([part.node for part in parts], place(tree)), pace_of(tree)
    if env.on_tables and tree.args.get("distinct"):
        return nodes.Distinct(united, 0)
    return united if clause is None else paced(united, parts, clause, env)


def _parts(tree: exp.Union) -> list[exp.Expr]:
    """Return the queries that one UNION after the other puts together."""
    parts = [tree.expression]
    inner = tree.this
    while (
        isinstance(inner, exp.Union)
        and bool(inner.args.get("distinct")) == bool(tree.args.get("distinct"))
        and pace_of(inner) is None
        and not any(inner.args.get(clause) for clause in ("with_", "order", "limit"))
    ):
        parts.append(inner.expression)
        inner = inner.this
    return [inner, *reversed(parts)]


def _names_of(tree: exp.Expr) -> tuple[str, ...]:
    """Return the name of a part of a UNION: that of the item it selects from."""
    while isinstance(tree, exp.Subquery) and not tree.alias:
        tree = tree.this
    if (
        isinstance(tree, exp.Select)
        and not tree.args.get("joins")
        and (from_ := tree.args.get("from_")) is not None
        and not unions_of(from_.this)
    ):
        item = from_.this
        return (item.alias_or_name,) if item.alias_or_name else ()
    return (tree.alias,) if tree.alias else ()


def _with(tree: exp.Expr, env: Environment) -> Environment:
    with_ = tree.args.get("with_")
    if with_ is None:
        return env
    if with_.args.get("recursive"):
        raise NotSupported(
            "WITH RECURSIVE is not supported",
            span=place(with_),
            hint="a rule can raise an event that it reacts to itself: CREATE RULE ... DO RAISE EVENT ...",
        )
    for cte in with_.expressions:
        node = _bind_nested(cte.this, env)
        columns = [column.name for column in cte.args["alias"].columns]
        if columns:
            if len(columns) != len(node.schema):
                raise NameFault(
                    f"the number of columns of {cte.alias} is {len(node.schema)}, not {len(columns)}",
                    span=place(cte.args["alias"]),
                )
            node = nodes.Project(
                node,
                tuple((name, Column(field.name, field.type)) for name, field in zip(columns, node.schema, strict=True)),
            )
        env = replace(env, ctes={**env.ctes, cte.alias.lower(): node})
    return env


def _bind_select(select: exp.Select, env: Environment) -> Node:
    if not select.expressions:
        raise SyntaxFault("SELECT names no columns", span=place(select), hint="write * or columns")
    distinct = select.args.get("distinct")
    known = ExpressionBinder(Scope(()), env.catalog)
    select = with_stream_memberships(lift_generators(name_windows(select)), env)
    select = expand_grouping_sets(
        select, lambda node: known.aggregate_name(node) is not None, item_name, columns_of(select, env)
    )
    if is_deduplication(select):
        return bind_deduplicated(select, env, _bind_select)
    if overs_of(select):
        return bind_over(select, env, _bind_select)
    if has_ranks(select):
        return bind_ranked(select, env, _bind_select)
    if (qualify := select.args.get("qualify")) is not None:
        raise NotSupported(
            "QUALIFY needs ROW_NUMBER, RANK or DENSE_RANK",
            span=place(qualify),
            hint="write HAVING or WHERE, or QUALIFY ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY n DESC) <= 3",
        )
    if suppression_of(select) is not None:
        if distinct is not None:
            raise NotSupported(
                "RSUPPRESS and TSUPPRESS cannot be combined with DISTINCT",
                span=place(distinct),
                hint="leave DISTINCT out, or write it in a sub-query",
            )
        return bind_suppression(select, env, outputs_of)
    modifiers = modifiers_of(select)
    if modifiers is not None and not modifiers.of_window:
        node = _consecutive(select, env, modifiers)
        return node if distinct is None else nodes.Distinct(node, 0)
    grouped = modifiers is not None or is_grouped(select, env, known)
    if modifiers is None and (having := select.args.get("having")) is not None:
        _check_having(select, having, known)
    source = bind_from(select, env, aggregated=grouped or distinct is not None)
    for item in source.streams:
        if item.call is not None and distinct is not None:
            raise NotSupported(
                "DISTINCT cannot be combined with a window function",
                span=place(distinct) or item.call.span,
                hint="GROUP BY the columns instead",
            )
        if item.call is not None and grouped:
            check_grouping(item.call, select)
    if grouped:
        node = _grouped(select, source, env, modifiers)
        return node if distinct is None else nodes.Distinct(node, 0)
    return _plain(select, source, env, distinct=distinct is not None)


def _check_having(select: exp.Select, having: exp.Having, known: ExpressionBinder) -> None:
    """Refuse HAVING that tests tuples."""
    parts = (part for item in (*select.expressions, having) for part in item.walk())
    if select.args.get("group") is None and not any(known.aggregate_name(part) is not None for part in parts):
        raise NotSupported(
            "HAVING needs GROUP BY or an aggregate", span=place(having.this), hint="write WHERE to test tuples"
        )


def _plain(select: exp.Select, source: Source, env: Environment, *, distinct: bool) -> Node:
    node = _filtered(source)
    imputing = Imputing(node, source.scope, env.catalog)
    memberships = Memberships(source.scope, env, node.schema.names)
    binder = ExpressionBinder(
        source.scope, env.catalog, "without a window", impute=imputing.bind, member=memberships.bind
    )
    columns = outputs_of(select, source, binder.bind, lambda _, expr: expr)
    node = memberships.over(imputing.node)
    if not distinct:
        for clause in source.clauses:
            if isinstance(clause, CumulateClause | SessionClause | WhileClause):
                raise NotSupported(
                    "a cumulative, SESSION or WHILE window needs an aggregate",
                    span=clause.span,
                    hint="select an aggregate such as count(*), or leave the window out",
                )
        return projected(node, columns)
    if any(isinstance(clause, RangeClause) and clause.slide is not None for clause in source.clauses):
        taken = {"window_start", "window_end"}
        keys = tuple((unique(name, taken), expr) for name, expr in columns)
        rows = nodes.Aggregate(node, written_window(source, env), keys, ())
        return nodes.Project(
            rows, tuple((name, Column(key, expr.type)) for (name, expr), (key, _) in zip(columns, keys, strict=True))
        )
    check_keys([expr for _, expr in columns], "a column of DISTINCT", place(select))
    return nodes.Distinct(projected(node, columns), _distinct_span(source))


def _filtered(source: Source) -> Node:
    node = source.node
    if len(source.streams) == 1 and isinstance(source.streams[0].clause, LandmarkClause):
        node = nodes.Filter(node, since(source.streams[0].clause.start))
    return node if source.where is None else nodes.Filter(node, source.where)


def _distinct_span(source: Source) -> int:
    if not source.clauses:
        if source.streams[0].is_stream or len(source.streams) > 1:
            name = source.streams[0].names[0]
            raise UnboundedStateFault(
                f"DISTINCT would have to keep all tuples of {name} forever",
                span=source.streams[0].span,
                hint=WINDOW_HINT,
            )
        return 0
    return min(END, max(distinct_span(clause) for clause in source.clauses))


def _consecutive(select: exp.Select, env: Environment, modifiers: Modifiers) -> Node:
    """Plan DIFF, RDIFF and SLOPE: consecutive tuples are windows of two, so the first of a partition has no result."""
    source = bind_from(select, env, aggregated=False)
    if len(source.streams) == 1 and source.clauses:
        hint = "leave the window out, or write WDIFF, WRDIFF or WSLOPE, which compare its first and last tuple"
        raise NotSupported(
            "DIFF, RDIFF and SLOPE compare consecutive tuples and cannot have a window",
            span=source.clauses[0].span,
            hint=hint,
        )
    if (group := select.args.get("group")) is not None:
        raise NotSupported(
            "DIFF, RDIFF and SLOPE cannot be combined with GROUP BY",
            span=place(group),
            hint="write DIFF(x) OVER (PARTITION BY id)",
        )
    binder = ExpressionBinder(source.scope, env.catalog, "in PARTITION BY")
    by = tuple(dict.fromkeys(binder.bind(expression) for expression in modifiers.partition))
    grouping = Grouping(select, source, env, modifiers, by)
    columns = outputs_of(select, source, grouping.output, grouping.star)
    having = select.args.get("having")
    condition = None if having is None else grouping.condition(having.this)
    node: Node = nodes.Aggregate(_filtered(source), Rows(2, 1, by), grouping.keys, grouping.calls)
    return projected(node if condition is None else nodes.Filter(node, condition), columns)


def _grouped(select: exp.Select, source: Source, env: Environment, modifiers: Modifiers | None = None) -> Node:
    emit = emit_of(select)
    if emit is not None and emit.changes and not source.clauses and len(source.streams) == 1 and modifiers is None:
        return bind_changes(select, source, env, emit, outputs_of)
    if not source.clauses:
        refuse_buckets(select)
    written = written_window(source, env) if source.clauses or modifiers is not None else None
    grouping = Grouping(select, source, env, modifiers)
    window = written or written_or_implied_window(source, dict(grouping.keys), env)
    if (call := source.streams[0].call) is not None:
        binder = ExpressionBinder(source.scope, env.catalog, "in PARTITION BY")
        check_session_keys(call, (expr for _, expr in grouping.keys), map(binder.bind, call.by))
    columns = outputs_of(select, source, grouping.output, grouping.star)
    having = select.args.get("having")
    conditions: list[Expr] = [] if having is None else [grouping.condition(having.this)]
    if modifiers is not None:
        conditions.insert(0, grouping.several())
    node = source.node
    if source.where is not None and isinstance(window, Rows | While):
        # These windows count tuples, so WHERE must not thin them out before: it decides a group inside the window
        # instead.
        passed = Call("coalesce", (source.where, FALSE), Type.BOOLEAN)
        conditions.insert(0, grouping.hidden_key("passed", passed))
    elif source.where is not None:
        node = nodes.Filter(node, source.where)
    node = nodes.Aggregate(node, window, grouping.keys, grouping.calls)
    for condition in conditions:
        node = nodes.Filter(node, condition)
    return projected(node, columns)
