"""EXISTS, IN and LEFT SEMI JOIN of streams: semi and anti joins, written as joins that give each tuple once.

`FROM a WHERE EXISTS (SELECT * FROM b [RANGE 5 MINUTES] WHERE b.k = a.k)` asks for each tuple of a whether b has a tuple
of the last 5 minutes. A sequence join that takes the most recent one answers that, with one result for each tuple of a.
NOT EXISTS is a left join whose right side is missing. Both are a sub-query that stands for a.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.catalog.definitions import Table
from headrace.errors import NotSupported, Span, UnboundedStateFault
from headrace.language.syntax.clauses import (
    FollowingClause,
    NowClause,
    RangeClause,
    RowsClause,
    window_call_of,
    window_of,
)
from headrace.model.expressions.expression import conjuncts
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Scope, relation_of
from headrace.plan.binding.from_item import Item, read_item
from headrace.plan.binding.interval_join import implied_spans
from headrace.plan.binding.membership import is_membership, select_of
from headrace.plan.binding.semi_joins import exists_of, is_semi_join
from headrace.plan.binding.span import place
from headrace.plan.binding.time_columns import FOUND, time_lags
from headrace.plan.binding.tumbling import tumbling_columns
from headrace.plan.binding.whole_windows import BOUNDS, wait_for_end

#: The name of the tuple that is tested; nobody writes it.
OUTER = "the tuple"
_WINDOW = ("window", "window_call")


def with_stream_memberships(select: exp.Select, env: Environment) -> exp.Select:
    """Return the SELECT with each (NOT) EXISTS and IN over a stream, a condition of its own, as a join in FROM."""
    if env.on_tables or select.args.get("from_") is None:
        return select
    if not any(_is_test(part, env) for part in (*_conditions(select), *_semi_joins(select))):
        return select
    select = select.copy()
    tests = [part for part in _conditions(select) if _is_test(part, env)]
    rest = [part for part in _conditions(select) if not _is_test(part, env)]
    for join in [join for join in select.args.get("joins") or [] if _is_test(join, env)]:
        tests.append(exists_of(join, select.args["from_"].this))
        select.args["joins"].remove(join)
    if select.args.get("joins"):
        raise NotSupported(
            "IN and EXISTS over a stream test the tuples of one stream, and FROM has a join",
            span=place(tests[0]),
            hint="write the join in a sub-query: FROM (SELECT ... FROM a JOIN b ON ...) AS x WHERE EXISTS (...)",
        )
    from_ = select.args["from_"]
    for test in sorted(
        tests, key=_is_negated_test
    ):  # one that waits for the end of its window gives its time to others
        from_.set("this", _tested(from_.this, test, env))
    select.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)
    return select


def _conditions(select: exp.Select) -> Iterator[exp.Expr]:
    where = select.args.get("where")
    waiting = [] if where is None else [where.this]
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, exp.Paren):
            waiting.insert(0, part.this)
        elif isinstance(part, exp.And):
            waiting[:0] = [part.this, part.expression]
        else:
            yield part


def _semi_joins(select: exp.Select) -> list[exp.Expr]:
    return list(select.args.get("joins") or [])


def _is_test(part: exp.Expr, env: Environment) -> bool:
    """Return whether a condition, or a join, asks whether a stream has tuples."""
    if isinstance(part, exp.Join):
        return is_semi_join(part) and _is_stream(part.this, env)
    inner = _positive(part)
    if not is_membership(inner):
        return False
    query = inner.args["query"] if isinstance(inner, exp.In) else inner.this
    while isinstance(query, exp.Subquery):
        query = query.this
    from_ = query.args.get("from_")
    return isinstance(query, exp.Select) and from_ is not None and _is_stream(from_.this, env)


def _is_stream(item: exp.Expr, env: Environment) -> bool:
    if not isinstance(item, exp.Table):
        return isinstance(item, exp.Subquery)
    name = ".".join(part.name for part in item.parts)
    return name.lower() in env.ctes or (
        not isinstance(env.catalog.get(name), Table) and (env.catalog.get(name) is not None or "." in name)
    )


def _positive(condition: exp.Expr) -> exp.Expr:
    """Return a condition without the NOTs before it."""
    while isinstance(condition, exp.Not | exp.Paren):
        condition = condition.this
    return condition


def _is_negated(condition: exp.Expr) -> bool:
    negated = False
    while isinstance(condition, exp.Not | exp.Paren):
        negated ^= isinstance(condition, exp.Not)
        condition = condition.this
    return negated


def _is_negated_test(test: exp.Expr) -> bool:
    return not isinstance(test, exp.Join) and _is_negated(test)


@dataclass(frozen=True, slots=True)
class _Test:
    """A sub-query over a stream, and the item of FROM whose tuples it tests."""

    node: exp.Expr
    item: exp.Expr
    inner: exp.Expr
    outer: Item
    stream: Item
    name: str
    condition: exp.Expr | None

    @property
    def span(self) -> Span | None:
        return place(self.node)


def _tested(item: exp.Expr, condition: exp.Expr, env: Environment) -> exp.Expr:
    """Return a sub-query with the tuples of an item of FROM for which the condition holds, under the same name."""
    item = item.copy()
    if _names_windows(condition):
        condition = condition.copy()
        tested = _positive(condition)
        assert isinstance(tested, exp.In | exp.Exists)
        item, inner = _as_sub_query(item), select_of(tested).args["from_"]
        inner.set("this", _as_sub_query(inner.this))
    # a window of GROUP BY is that of what is left
    call = window_call_of(item)
    after = {name: item.meta.pop(name) for name in _WINDOW if call is not None and not call.is_table}
    test = _read(item, _positive(condition), env, negated=_is_negated(condition))
    test = _in_one_window(test, env, negated=_is_negated(condition))
    join = _left_join(test, env) if _is_negated(condition) else _sequence_join(test, env)
    name = item.alias or item.name
    called = exp.TableAlias(this=exp.to_identifier(name, quoted=True)) if name else None
    tested = exp.Subquery(this=join, alias=called)
    tested.meta.update(after)
    return tested


def _names_windows(condition: exp.Expr) -> bool:
    """Return whether a test names the ends of windows."""
    return any(column.name.lower() in BOUNDS for column in condition.find_all(exp.Column))


def _as_sub_query(item: exp.Expr) -> exp.Expr:
    """Return TABLE(TUMBLE(...)) as a sub-query, whose tuples have the ends of their windows as columns."""
    call = window_call_of(item)
    if call is None or not call.is_table:
        return item
    alias = item.args.get("alias") or exp.TableAlias(this=exp.to_identifier(item.name, quoted=True))
    item.set("alias", None)
    select = exp.Select(expressions=[exp.Star()], from_=exp.From(this=item))
    return exp.Subquery(this=select, alias=alias)


def _read(item: exp.Expr, node: exp.Expr, env: Environment, *, negated: bool) -> _Test:
    assert isinstance(node, exp.In | exp.Exists)
    select = select_of(node)
    inner = select.args["from_"].this
    outer, stream = read_item(item, env), read_item(inner, env)
    if isinstance(outer.source, Table):
        raise NotSupported(
            f"{outer.names[0]} is a stored table, which cannot be tested against a stream",
            span=outer.span or place(node),
            hint="put the stream into FROM, and the table into the sub-query",
        )
    if isinstance(clause := window_of(inner), RowsClause):
        raise NotSupported(
            "EXISTS and IN over a stream need a window of time", span=clause.span, hint="write [RANGE 5 MINUTES]"
        )
    name = inner.alias or inner.name or "partners"
    where = select.args.get("where")
    terms = [] if where is None else [where.this.copy()]
    terms = [_qualified(term, outer, stream, name) for term in terms]
    test = _Test(node, item, inner, outer, stream, name, exp.and_(*terms, copy=False) if terms else None)
    if not isinstance(node, exp.In):
        return test
    equal = exp.and_(*_equalities(node, select, outer, stream, name), copy=False)
    if negated and (window_of(inner) is not None or _implied_spans(test, env) is None):
        written = f"{name}.{select.expressions[0].unalias().name} = {outer.names[0]}.{node.this.name or 'x'}"
        raise NotSupported(
            "NOT IN over a stream is not supported: a NULL among its values would let nothing through",
            span=place(node),
            hint=f"write NOT EXISTS (SELECT * FROM {name} [RANGE 5 MINUTES] WHERE {written}); NOT IN can compare the "
            "windows of two TABLE(TUMBLE(...))",
        )
    if negated:  # x NOT IN (...) is true if x differs from each value, which NULL does not
        equal = exp.Anonymous(this="coalesce", expressions=[equal, exp.true()])
    return replace(test, condition=exp.and_(*terms, equal, copy=False))


def _in_one_window(test: _Test, env: Environment, *, negated: bool) -> _Test:
    """Let the tuples of both sides come at the end of their windows if it is the windows that are compared.

    A partner then has the timestamp of the tuple, whether it came before or after it.
    """
    spans = _implied_spans(test, env)
    if any(window_of(side) is not None for side in (test.item, test.inner)) or (
        spans is not None and (negated or spans[0] <= 0)
    ):
        return test
    sides = {OUTER: (test.item.copy(), test.outer), test.name: (test.inner.copy(), test.stream)}
    for name, (item, read) in sides.items():
        if not isinstance(read.source, Table) and tumbling_columns(read.source, env):
            own = [side.name for eq in _equal_columns(test) for side in (eq.this, eq.expression) if side.table == name]
            wait_for_end(item, {column.lower() for column in own})
    (item, _), (inner, _) = sides.values()
    waiting = replace(test, item=item, inner=inner, outer=read_item(item, env), stream=read_item(inner, env))
    return waiting if _implied_spans(waiting, env) == (0, 0) else test


def _equal_columns(test: _Test) -> list[exp.EQ]:
    """Return the terms that compare a column of each side."""
    terms = [] if test.condition is None else list(test.condition.flatten())
    return [
        term
        for term in terms
        if isinstance(term, exp.EQ) and all(isinstance(side, exp.Column) for side in (term.this, term.expression))
    ]


def _equalities(node: exp.In, select: exp.Select, outer: Item, stream: Item, name: str) -> list[exp.Expr]:
    written = list(node.this.expressions) if isinstance(node.this, exp.Tuple) else [node.this]
    chosen = [item.this if isinstance(item, exp.Alias) else item for item in select.expressions]
    if len(written) != len(chosen) or any(item.is_star for item in chosen):
        raise NotSupported(
            f"IN compares {len(written)} with {len(chosen)} columns of the sub-query",
            span=place(select.expressions[0]) or place(node),
            hint="name as many columns as stand before IN",
        )
    return [
        exp.EQ(
            this=_qualified(mine.copy(), outer, None, name), expression=_qualified(theirs.copy(), outer, stream, name)
        )
        for mine, theirs in zip(written, chosen, strict=True)
    ]


def _qualified(tree: exp.Expr, outer: Item, stream: Item | None, name: str) -> exp.Expr:
    """Say of each column whether it is the sub-query's or the tuple's; a name that both have is the sub-query's."""
    whole = exp.Paren(this=tree)
    for column in list(whole.find_all(exp.Column)):
        parts = [part.copy() for part in column.parts]
        first = parts[0].name.lower()
        is_qualified = len(parts) > 1 or isinstance(column.this, exp.Star)
        if stream is not None and is_qualified and first == name.lower():
            continue
        if is_qualified and first in (known.lower() for known in outer.names):
            parts = parts[1:]
            side = OUTER
        else:
            own = stream is not None and first in (known.lower() for known in stream.schema.names)
            side = name if own else OUTER
        column.replace(_column(side, parts))
    result: exp.Expr = whole.this
    return result.pop()


def _column(side: str, parts: list[exp.Expr]) -> exp.Expr:
    """Return a column of one side; what stands behind it are fields."""
    first, *fields = parts
    column: exp.Expr = exp.Column(this=first, table=exp.to_identifier(side, quoted=True))
    for field in fields:
        column = exp.Dot(this=column, expression=field)
    return column


def _sequence_join(test: _Test, env: Environment) -> exp.Select:
    """Return the tuples that have a partner: each with the most recent one, which is left out."""
    span = test.span or Span(0, 1)
    if window_of(test.item) is not None:
        raise NotSupported(
            "EXISTS and IN over a stream test each tuple when it comes, and its stream has a window",
            span=span,
            hint=f"leave the window of {test.outer.names[0]} out, or write it after a sub-query: "
            f"FROM (SELECT * FROM {test.outer.names[0]} WHERE EXISTS (...)) [RANGE 1 MINUTE]",
        )
    first = test.inner.copy()
    if window_of(first) is None:
        first.meta["window"] = RangeClause(_span_before(test, env), None, False, span)
    first.set("alias", exp.TableAlias(this=exp.to_identifier(test.name, quoted=True)))
    join = exp.Join(this=_as_outer(test), on=test.condition or exp.true())
    join.meta["following"] = FollowingClause("recent", True, span)
    return exp.Select(expressions=[_star()], from_=exp.From(this=first), joins=[join])


def _left_join(test: _Test, env: Environment) -> exp.Select:
    """Return the tuples that have no partner, once none can come any more."""
    span = test.span or Span(0, 1)
    outer, bare = _as_outer(test), test.inner.copy()
    if window_of(bare) is not None and window_of(outer) is None:
        outer.meta["window"] = NowClause(span)
    elif window_of(bare) is None:
        _spans(test, env)  # the conditions of the join bound its time, or it is refused
    window = bare.meta.pop("window", None)
    mark = exp.Alias(this=exp.true(), alias=exp.to_identifier(FOUND, quoted=True))
    marked = exp.Subquery(
        this=exp.Select(expressions=[exp.Star(), mark], from_=exp.From(this=bare)),
        alias=exp.TableAlias(this=exp.to_identifier(test.name, quoted=True)),
    )
    if window is not None:
        marked.meta["window"] = window
    join = exp.Join(this=marked, side="LEFT", on=test.condition or exp.true())
    missing = exp.Is(this=exp.column(exp.to_identifier(FOUND, quoted=True)), expression=exp.Null())
    return exp.Select(expressions=[_star()], from_=exp.From(this=outer), joins=[join], where=exp.Where(this=missing))


def _as_outer(test: _Test) -> exp.Expr:
    item = test.item.copy()
    item.set("alias", exp.TableAlias(this=exp.to_identifier(OUTER, quoted=True)))
    return item


def _star() -> exp.Expr:
    return exp.Column(this=exp.Star(), table=exp.to_identifier(OUTER, quoted=True))


def _span_before(test: _Test, env: Environment) -> int:
    """Return how long before a tuple its partner may be; refuse partners that come after it."""
    after, before = _spans(test, env)
    if after > 0:
        name = test.outer.names[0]
        raise NotSupported(
            f"EXISTS would let tuples of {name} wait for tuples of {test.name} that come later",
            span=test.span,
            hint=f"end at the time of the tuple: BETWEEN {name}.at - INTERVAL 5 MINUTES AND {name}.at; for later "
            f"ones, join {test.name}",
        )
    return before


def _spans(test: _Test, env: Environment) -> tuple[int, int]:
    """Return for how long a tuple and its partners wait for each other, by the conditions on their times."""
    spans = _implied_spans(test, env)
    if spans is None:
        outer = test.outer.names[0]
        raise UnboundedStateFault(
            f"the sub-query would have to keep all tuples of {test.stream.names[0]} forever",
            span=test.span,
            hint=f"write how long they count: FROM {test.stream.names[0]} [RANGE 5 MINUTES], or {test.name}.at BETWEEN "
            f"{outer}.at - INTERVAL 5 MINUTES AND {outer}.at",
        )
    return spans


def _implied_spans(test: _Test, env: Environment) -> tuple[int, int] | None:
    """Return what the conditions say about the times of both sides; None if they do not bound them."""
    sides = ((OUTER, test.outer, "o."), (test.name, test.stream, "s."))
    relations, times, windows = [], [], []
    for called, item, prefix in sides:
        assert not isinstance(item.source, Table)
        names = [f"{prefix}{name}" for name in item.schema.names]
        relations.append(relation_of((called,), item.schema, names))
        times.append({f"{prefix}{name}": lag for name, lag in time_lags(item.source, env).items()})
        windows.append({f"{prefix}{name}": bound for name, bound in tumbling_columns(item.source, env).items()})
    binder = ExpressionBinder(Scope(tuple(relations)), env.catalog, "in a sub-query")
    terms = () if test.condition is None else conjuncts(binder.predicate(test.condition))
    found = implied_spans(times, terms, windows)
    return None if found is None else (found[0], found[1])
