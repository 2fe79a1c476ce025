"""FROM, and the part of WHERE that joins, to a left-deep tree of joins."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.catalog.definitions import Table
from headrace.errors import NotSupported, Span, SyntaxFault
from headrace.language import other_systems
from headrace.language.syntax.clauses import (
    FollowingClause,
    MannerClause,
    NowClause,
    SessionClause,
    WindowCall,
    WindowClause,
    following_of,
    manner_of,
)
from headrace.model.expressions.expression import Call, Column, Expr, conjunction, conjuncts
from headrace.plan import nodes
from headrace.plan.binding.computed import is_proctime
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.function import apply
from headrace.plan.binding.expressions.scope import ROWTIME, Relation, Scope, unique
from headrace.plan.binding.from_item import Item, read_item
from headrace.plan.binding.interval_join import chained_spans, implied_spans
from headrace.plan.binding.join_tree import JoinTree, Step, temporal_form
from headrace.plan.binding.membership import Memberships
from headrace.plan.binding.partition import partition_of
from headrace.plan.binding.semi_joins import exists_of, is_semi_join
from headrace.plan.binding.span import place
from headrace.plan.binding.time_columns import arrival_columns, time_columns, time_lags
from headrace.plan.binding.tumbling import Bound, tumbling_columns
from headrace.plan.binding.unnest import generators_of, unnested
from headrace.plan.binding.whole_windows import BOUNDS
from headrace.plan.binding.window_functions import (
    check_joined_windows,
    check_single_stream,
    copied,
    is_tumbling,
    with_bounds,
)
from headrace.plan.nodes import Node


@dataclass(frozen=True, slots=True)
class Source:
    """The input of SELECT: the joined plan, its names, the rest of WHERE, and the items that are not stored tables."""

    node: Node
    scope: Scope
    where: Expr | None
    streams: tuple[Item, ...]
    has_table: bool
    window: WindowClause | None = None  # of the results of an interval join

    @property
    def clauses(self) -> tuple[WindowClause, ...]:
        return (
            (self.window,)
            if self.window is not None
            else tuple(item.clause for item in self.streams if item.clause is not None)
        )


def bind_from(select: exp.Select, env: Environment, *, aggregated: bool) -> Source:
    """Bind FROM and WHERE; `aggregated` permits windows that slide, which are then the aggregate's."""
    from_ = select.args.get("from_")
    if from_ is None:
        raise NotSupported("SELECT needs FROM", span=place(select), hint="name a stream: SELECT ... FROM stream")
    written, existing = _without_semi_joins(from_.this, select.args.get("joins") or [])
    if isinstance(from_.this, exp.Lateral):
        raise NotSupported("FROM needs a stream before UNNEST", span=place(from_.this.this))
    joins = [join for join in written if not isinstance(join.this, exp.Lateral)]
    items = [read_item(from_.this, env), *(read_item(join.this, env) for join in joins)]
    if env.on_tables:
        items = [_at_one_instant(item) for item in items]
    items, last = _without_joined_window(items, aggregated=aggregated)
    items = _with_window_ends(items, partition_of(select), env, aggregated=aggregated)
    kinds: list[nodes.JoinKind] = ["inner", *(_kind(join) for join in joins)]
    following: list[FollowingClause | None] = [None, *map(following_of, joins)]
    manners: list[MannerClause | None] = [None, *map(manner_of, joins)]
    inner = all(kind == "inner" for kind in kinds) and not any(following)
    items = unnested(items, generators_of(select, written), env, inner=inner)
    order = _order(items, in_any_order=inner)
    taken: set[str] = set()
    steps = {
        i: Step(
            items[i], kinds[i], tuple(unique(name, taken) for name in items[i].schema.names), following[i], manners[i]
        )
        for i in order
    }
    scope, conditions = _conditions(joins, [steps[i] for i in range(len(items))], env)
    names = [name for step in steps.values() for name in step.names]
    memberships = Memberships(scope, env, names)
    where = _where(select, scope, env, memberships, existing)
    _check_temporal([steps[i] for i in range(len(items))], scope, env)
    _check_window_join([steps[i] for i in range(len(items))], (*(t for ts in conditions.values() for t in ts), *where))
    if not any(following):
        steps = _with_spans(steps, conditions, where if inner else (), env, in_any_order=inner)
    if last is not None:
        _check_last(steps[last.place], last, is_inner=inner)
    tree = JoinTree(env, list(steps.values()), aggregated=aggregated)
    tree.start(steps[order[0]])
    if inner:
        on = tuple(term for terms in conditions.values() for term in terms)
        where = _join_in_any_order(tree, [steps[i] for i in order[1:]], on, where)
    else:
        for i in order[1:]:
            _join_as_written(tree, steps[i], conditions.get(i, ()), joins[i - 1])
    streams = tuple(item for item in items if not isinstance(item.source, Table))
    window = None if last is None else last.call.window
    return Source(memberships.over(tree.node), scope, conjunction(where), streams, len(streams) < len(items), window)


def _check_temporal(steps: list[Step], scope: Scope, env: Environment) -> None:
    """Refuse FOR SYSTEM_TIME AS OF where a table has no versions, or another time than that of the stream."""
    streams = [step for step in steps if not isinstance(step.item.source, Table)]
    for step in steps:
        source, clause = step.item.source, step.item.as_of
        if clause is None:
            if isinstance(source, Table) and step.item.versions is not None:
                raise NotSupported(
                    f"the rows of {source.name} change with {source.origin}: the join must say at which time",
                    span=step.item.span,
                    hint=temporal_form(source, streams[0].item.names[0]) if streams else None,
                )
            continue
        if step.item.versions is None:
            if isinstance(source, Table) and _is_arrival(clause.time, streams, scope, env):
                continue  # as it was read last
            raise NotSupported(
                f"{step.item.names[0]} has no versions by time",
                span=clause.span,
                hint="leave FOR SYSTEM_TIME AS OF out: a join sees a table as it was read last"
                if isinstance(source, Table)
                else "CREATE TABLE t (..., PRIMARY KEY (id)) FROM stream has them",
            )
        time = ExpressionBinder(scope, env.catalog, "in FOR SYSTEM_TIME AS OF").bind(clause.time)
        times = {name for stream in streams for name in _time_names(stream, env)}
        if time != ROWTIME and not (isinstance(time, Column) and time.name in times):
            raise NotSupported(
                "FOR SYSTEM_TIME AS OF takes the time of the stream",
                span=clause.span,
                hint=f"write FOR SYSTEM_TIME AS OF {streams[0].item.names[0]}.rowtime",
            )


def _is_arrival(time: exp.Expr, streams: list[Step], scope: Scope, env: Environment) -> bool:
    """Return whether a time is that at which a tuple was read."""
    if is_proctime(time):
        return True
    bound = ExpressionBinder(scope, env.catalog, "in FOR SYSTEM_TIME AS OF").bind(time)
    return isinstance(bound, Column) and any(bound.name in _arrival_names(stream, env) for stream in streams)


@dataclass(frozen=True, slots=True)
class _Last:
    """The item of an interval join whose time is that of the pairs, so that they can be grouped by its windows."""

    place: int
    call: WindowCall


def _without_joined_window(items: list[Item], *, aggregated: bool) -> tuple[list[Item], _Last | None]:
    """Take a window in GROUP BY from the item of a join that it names: it is one of the pairs."""
    streams = [i for i, item in enumerate(items) if not isinstance(item.source, Table)]
    windowed = [i for i in streams if items[i].clause is not None]
    if not aggregated or len(streams) < 2 or len(windowed) != 1:
        return items, None
    item = items[windowed[0]]
    if item.call is None or item.call.is_table or item.lag:
        return items, None
    plain = replace(item, clause=None, call=None)
    return [plain if other is item else other for other in items], _Last(windowed[0], item.call)


def _check_last(step: Step, last: _Last, *, is_inner: bool) -> None:
    """Refuse windows over the time of an item if another item of a pair may be later: a pair has the later time."""
    if not is_inner or step.span:
        raise NotSupported(
            f"{last.call.function} in GROUP BY of a join needs the time of the later stream",
            span=last.call.span,
            hint="write ON a.id = b.id AND b.at BETWEEN a.at AND a.at + INTERVAL 5 MINUTES and the window over b.at, "
            "or FROM (SELECT ..., rowtime AS at FROM a JOIN b ON ...) [RANGE 5 MINUTES] AS x",
        )


def _with_window_ends(
    items: list[Item], keys: frozenset[str] | None, env: Environment, *, aggregated: bool
) -> list[Item]:
    """Give the items that are table functions window_start and window_end, if no aggregate computes them."""
    streams = [item for item in items if not isinstance(item.source, Table)]
    if len(streams) > 1:
        check_single_stream([item.call for item in streams if item.call is not None])
    elif aggregated:
        return items
    return [_with_ends(item, keys, env) for item in items]


def _with_ends(item: Item, keys: frozenset[str] | None, env: Environment) -> Item:
    """Give the tuples of a table function the ends of their windows: one after the other if there are several."""
    if item.call is None or isinstance(item.source, Table):
        return item
    is_shifted = keys is not None and not isinstance(item.call.window, SessionClause) and item.call.window.offset > 0
    if is_tumbling(item.call) and not is_shifted:
        return replace(item, source=with_bounds(item.source, item.call, item.lag))
    source = copied(item.source, item.call, item.lag, keys or (), env)
    return replace(item, source=source, clause=NowClause(item.call.span))


def _check_window_join(steps: list[Step], terms: tuple[Expr, ...]) -> None:
    """Refuse a join of windows that does not compare them; without that, Flink would keep all tuples."""
    streams = [step for step in steps if not isinstance(step.item.source, Table)]
    calls = [step.item.call for step in streams]
    if len(streams) < 2 or not any(calls):
        return
    ends = [
        tuple(
            Column(name, field.type)
            for name, field in zip(step.names, step.item.schema, strict=True)
            if field.name in BOUNDS
        )
        for step in streams
    ]
    pairs = [(a, b) for a, b in zip(ends[0], ends[1], strict=False)]
    compared = {frozenset(term.args) for term in terms if isinstance(term, Call) and term.function == "="}
    check_joined_windows(calls, all(frozenset(pair) in compared for pair in pairs))


def _with_spans(
    steps: dict[int, Step],
    conditions: dict[int, tuple[Expr, ...]],
    where: tuple[Expr, ...],
    env: Environment,
    *,
    in_any_order: bool,
) -> dict[int, Step]:
    """Let the conditions of an interval join say how long its streams are kept, if none of them has a window."""
    streams = [i for i, step in steps.items() if not isinstance(step.item.source, Table)]
    if len(streams) < 2 or any(steps[i].item.clause is not None for i in streams):
        return steps
    times, windows = [_lags(steps[i], env) for i in streams], [_window_names(steps[i], env) for i in streams]
    if in_any_order or len(streams) == 2:
        tested = conditions.values() if in_any_order else [conditions.get(max(streams), ())]
        spans = implied_spans(times, (*(term for on in tested for term in on), *where), windows)
    elif all(steps[i].kind in ("inner", "left") for i in streams):
        spans = chained_spans(times, [conditions.get(i, ()) for i in streams], windows)
    else:
        spans = None  # a tuple of any stream may be missing
    if spans is None:
        return steps
    return {i: replace(step, span=dict(zip(streams, spans, strict=True)).get(i)) for i, step in steps.items()}


def _time_names(step: Step, env: Environment) -> list[str]:
    """Return the names under which the timestamps of an item come out."""
    assert not isinstance(step.item.source, Table)
    times = time_columns(step.item.source, env)
    return [name for name, field in zip(step.names, step.item.schema, strict=True) if field.name in times]


def _arrival_names(step: Step, env: Environment) -> list[str]:
    """Return the names under which the times come out at which records of an item were read."""
    assert not isinstance(step.item.source, Table)
    times = arrival_columns(step.item.source, env)
    return [name for name, field in zip(step.names, step.item.schema, strict=True) if field.name in times]


def _lags(step: Step, env: Environment) -> dict[str, int]:
    """Return the names under which an item's columns come out that are always the same time before its timestamps."""
    assert not isinstance(step.item.source, Table)
    lags = time_lags(step.item.source, env)
    named = zip(step.names, step.item.schema, strict=True)
    return {name: lags[field.name] for name, field in named if field.name in lags}


def _window_names(step: Step, env: Environment) -> dict[str, Bound]:
    """Return the names under which the ends of windows of an item come out."""
    assert not isinstance(step.item.source, Table)
    known = tumbling_columns(step.item.source, env)
    named = zip(step.names, step.item.schema, strict=True)
    return {name: known[field.name] for name, field in named if field.name in known}


def _at_one_instant(item: Item) -> Item:
    """Return an item of a SELECT on tables alone as a stream whose tuples come at one instant."""
    span = item.span or Span(0, 1)
    if item.clause is not None:
        raise NotSupported("tables have no windows", span=item.clause.span, hint="leave the window out")
    source: Node = nodes.Scan(item.source.name, item.source.schema) if isinstance(item.source, Table) else item.source
    return replace(item, source=source, clause=NowClause(span), is_stream=True)


def _without_semi_joins(first: exp.Expr, joins: list[exp.Join]) -> tuple[list[exp.Join], list[exp.Expr]]:
    """Return the other joins, and LEFT SEMI and LEFT ANTI joins as conditions: EXISTS and NOT EXISTS."""
    others: list[exp.Join] = []
    conditions: list[exp.Expr] = []
    for join in joins:
        if is_semi_join(join) and isinstance(join.this, exp.Table):
            conditions.append(exists_of(join, first))
        else:
            others.append(join)
    return others, conditions


def _where(
    select: exp.Select, scope: Scope, env: Environment, memberships: Memberships, further: list[exp.Expr]
) -> tuple[Expr, ...]:
    where = select.args.get("where")
    binder = ExpressionBinder(scope, env.catalog, "in WHERE", member=memberships.bind)
    written = [*([] if where is None else [where.this]), *further]
    return tuple(term for condition in written for term in conjuncts(binder.predicate(condition)))


def _join_in_any_order(
    tree: JoinTree, steps: list[Step], on: tuple[Expr, ...], where: tuple[Expr, ...]
) -> tuple[Expr, ...]:
    """Join inner joins, testing each condition of ON and WHERE where it first can be; return the rest of them."""
    for step in steps:
        on, where = tree.join(step, on, where)
    return (*on, *where)


def _join_as_written(tree: JoinTree, step: Step, on: tuple[Expr, ...], join: exp.Join) -> None:
    """Join an item whose conditions must all be tested by this join, because it is an outer or FOLLOWING join."""
    untested, _ = tree.join(step, on, ())
    if untested:
        raise NotSupported(
            "rowtime is not allowed in ON of an outer or FOLLOWING join",
            span=place(join),
            hint="compare columns of the two sides",
        )


def _kind(join: exp.Join) -> nodes.JoinKind:
    side, kind, method = (str(join.args.get(name) or "").upper() for name in ("side", "kind", "method"))
    if method == "NATURAL":
        raise NotSupported("NATURAL JOIN is not supported", span=place(join.this), hint="write JOIN ... USING (column)")
    if kind in ("SEMI", "ANTI"):
        hint = f"write WHERE {'NOT ' if kind == 'ANTI' else ''}EXISTS (SELECT * FROM table WHERE ...)"
        raise NotSupported(f"{kind} JOIN needs the name of a table", span=place(join.this), hint=hint)
    if method or kind not in ("", "INNER", "CROSS", "OUTER"):
        raise NotSupported(
            f"{' '.join(filter(None, (method, side, kind)))} JOIN is not supported",
            span=place(join.this),
            hint=other_systems.JOINS.get(method, "write JOIN ... ON ..."),
        )
    match side:
        case "LEFT":
            return "left"
        case "RIGHT":
            return "right"
        case "FULL":
            return "full"
        case _:
            return "inner"


def _order(items: list[Item], *, in_any_order: bool) -> list[int]:
    """Return the items as written, but a stream first, because a stored table can only be looked up."""
    first = next((i for i, item in enumerate(items) if not isinstance(item.source, Table)), None)
    if first is None:
        name, table = items[0].names[0], items[0].source
        origin = table.origin if isinstance(table, Table) else None
        if origin is not None:
            raise NotSupported(
                f"the table {name!r}, which {origin} feeds, cannot be read by itself",
                span=items[0].span,
                hint=f"join a stream with it: FROM stream AS s JOIN {name} FOR SYSTEM_TIME AS OF s.rowtime ON ...; "
                f"or read {origin}",
            )
        hint = "join a stream with it: FROM stream JOIN table ON ...; a SELECT without CREATE shows the rows of a table"
        raise NotSupported(
            f"a continuous query cannot read only the stored table {name!r}",
            span=items[0].span,
            hint=hint,
        )
    if first > 0 and not in_any_order:
        raise NotSupported(
            "an outer or FOLLOWING join cannot have a stored table on its left",
            span=items[0].span,
            hint="put the stream first: FROM stream LEFT JOIN table ON ...",
        )
    return [first, *(i for i in range(len(items)) if i != first)]


def _conditions(
    joins: list[exp.Join], steps: list[Step], env: Environment
) -> tuple[Scope, dict[int, tuple[Expr, ...]]]:
    relations: list[Relation] = [*steps[0].item.relations(steps[0].names)]
    merged: dict[str, Expr] = {}
    conditions: dict[int, tuple[Expr, ...]] = {}
    for i, join in enumerate(joins, start=1):
        before = Scope(tuple(relations), dict(merged))
        own = steps[i].item.relations(steps[i].names)
        relations += own
        on = join.args.get("on")
        using: list[exp.Identifier] = join.args.get("using") or []
        if on is None and not using and steps[i].kind != "inner":
            raise SyntaxFault(f"{steps[i].kind.upper()} JOIN needs ON or USING", span=steps[i].item.span)
        terms = (
            conjuncts(ExpressionBinder(Scope(tuple(relations), merged), env.catalog, "in ON").predicate(on))
            if on is not None
            else ()
        )
        for name in using:
            reference = exp.Column(this=name.copy())
            mine, theirs = before.column(reference), Scope(own).column(reference)
            terms += (apply("=", (mine, theirs), place(name)),)
            merged[name.name] = _merge(steps[i].kind, mine, theirs)
        conditions[i] = terms
    return Scope(tuple(relations), merged), conditions


def _merge(kind: nodes.JoinKind, left: Expr, right: Expr) -> Expr:
    match kind:
        case "inner" | "left":
            return left
        case "right":
            return right
        case "full":
            return apply("coalesce", (left, right), None)
