"""IN and EXISTS with a sub-query: whether a stored table has a row becomes a column of a node below the condition."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from sqlglot import exp

from headrace.catalog.definitions import Stream, Table
from headrace.errors import NotSupported, SyntaxFault, TypeFault
from headrace.language.syntax.clauses import unions_of, window_of
from headrace.model.expressions.expression import (
    TRUE,
    Call,
    Column,
    Expr,
    Literal,
    columns,
    conjunction,
    conjuncts,
    substitute,
)
from headrace.model.types import Type
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.coerce import coerce
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.function import apply
from headrace.plan.binding.expressions.nested import check_keys
from headrace.plan.binding.expressions.scope import Relation, Scope, relation_of, unique
from headrace.plan.binding.join_tree import sides
from headrace.plan.binding.scalar import check_residual, select_of_value, value_of
from headrace.plan.binding.span import place
from headrace.plan.nodes import Membership, Node

_Pairs: TypeAlias = tuple[tuple[Expr, Expr], ...]

_FORM = "write x IN (SELECT column FROM table WHERE ...) or EXISTS (SELECT * FROM table WHERE table.id = x)"
_OTHERS: dict[str, str] = {
    "joins": "JOIN in a sub-query of IN or EXISTS",
    "group": "GROUP BY in a sub-query of IN or EXISTS",
    "having": "HAVING in a sub-query of IN or EXISTS",
    "with_": "WITH in a sub-query of IN or EXISTS",
    "qualify": "QUALIFY in a sub-query of IN or EXISTS",
    "laterals": "LATERAL in a sub-query of IN or EXISTS",
    "offset": "OFFSET in a sub-query of IN or EXISTS",
}


class Memberships:
    """The sub-queries of a condition while it is bound; each is a column of a node that `over` puts below."""

    def __init__(self, scope: Scope, env: Environment, taken: Iterable[str]) -> None:
        self._scope, self._env, self._catalog = scope, env, env.catalog
        self._ours = frozenset(taken)
        self._taken = {name.lower() for name in self._ours}
        self._asked: list[Callable[[Node], Membership]] = []

    def over(self, node: Node) -> Node:
        """Put the look-ups that were bound onto a plan."""
        for ask in self._asked:
            node = ask(node)
        return node

    def bind(self, node: exp.In | exp.Exists | exp.Subquery) -> Expr:
        """Bind IN or EXISTS with a sub-query, or one that stands for a value, to the column that answers it."""
        select = select_of_value(node, self._catalog) if isinstance(node, exp.Subquery) else select_of(node)
        what = "a sub-query for a value" if isinstance(node, exp.Subquery) else "a sub-query of IN or EXISTS"
        table, relation, names = self._table(select, what)
        scope = Scope((relation, *self._scope.relations), self._scope.merged)
        binder = ExpressionBinder(scope, self._catalog, "in a sub-query", column=lambda column: _own(column, relation))
        where = select.args.get("where")
        terms = () if where is None else conjuncts(binder.predicate(where.this))
        own: dict[str, Expr] = {
            name: Column(field.name, field.type) for name, field in zip(names, table.schema, strict=True)
        }
        theirs = frozenset(own)
        keys: list[tuple[Expr, Expr]] = []
        residual: list[Expr] = []
        for term in terms:
            pair = sides(term, self._ours | {"__ts"}, theirs)
            if pair is not None and pair[0].type == pair[1].type:
                keys.append((pair[0], substitute(pair[1], own)))
            elif term != TRUE:
                residual.append(term)
        compared = self._compared(node, select, relation, binder, own) if isinstance(node, exp.In) else ()
        check_keys([mine for mine, _ in (*keys, *compared)], "a value that is looked up", place(node))
        aggregated = None
        if isinstance(node, exp.Subquery):
            check_residual(residual, theirs, place(node))
            aggregated = value_of(select, self._env)
        name = unique(f"{'in' if aggregated is None else 'value_of'}_{table.name}", self._taken)

        def ask(below: Node) -> Membership:
            parts = name, table.name, table.schema, tuple(keys), compared, conjunction(tuple(residual)), names
            return Membership(below, *parts, *(() if aggregated is None else aggregated))

        self._asked.append(ask)
        return Column(name, Type.BOOLEAN if aggregated is None else aggregated[1].type)

    def _table(self, select: exp.Select, what: str) -> tuple[Table, Relation, tuple[str, ...]]:
        """Return the table of a sub-query, its columns in its scope, and their names beside those of the tuple."""
        item = select.args["from_"].this
        if not isinstance(item, exp.Table) or unions_of(item):
            raise NotSupported(f"{what} reads one stored table", span=place(item) or place(select), hint=_FORM)
        name = ".".join(part.name for part in item.parts)
        if name.lower() in self._env.ctes:
            raise NotSupported(
                f"{what} reads one stored table, and {name} is a query of WITH",
                span=place(item.this),
                hint=f"join it in FROM: JOIN (SELECT max(x) AS top FROM {name}) AS m ON y = m.top"
                if "value" in what
                else f"join it in FROM: JOIN (SELECT DISTINCT x FROM {name}) AS m ON y = m.x",
            )
        table = self._catalog.find(name, span=place(item.this))
        if isinstance(table, Table) and table.origin is not None:
            raise NotSupported(
                f"{what} reads stored tables, and {name} is fed by {table.origin}",
                span=place(item.this),
                hint=f"write LEFT JOIN {name} FOR SYSTEM_TIME AS OF ... AS t ON ... and, in WHERE, t.column IS NULL"
                if "IN" in what
                else f"write JOIN {name} FOR SYSTEM_TIME AS OF x.rowtime AS t ON ...: the row that a key has then",
            )
        if not isinstance(table, Table):
            kind = "stream" if isinstance(table, Stream) else "query"
            raise NotSupported(
                f"{what} reads stored tables, and {name} is a {kind}",
                span=place(item.this),
                hint=_on_stream(name)
                if "value" in what
                else "over a stream, it is a condition of its own in WHERE: WHERE x.price > 3 AND EXISTS (SELECT * "
                f"FROM {name} [RANGE 5 MINUTES] WHERE {name}.id = x.id)",
            )
        if (window := window_of(item)) is not None:
            raise NotSupported(
                f"the stored table {name} cannot have a window", span=window.span, hint="leave the window out"
            )
        called = item.alias or item.name
        names = tuple(unique(f"{called}.{column}", self._taken) for column in table.schema.names)
        return table, relation_of((called,), table.schema, names, is_table=True), names

    def _compared(
        self,
        node: exp.In,
        select: exp.Select,
        relation: Relation,
        binder: ExpressionBinder,
        own: dict[str, Expr],
    ) -> _Pairs:
        written = list(node.this.expressions) if isinstance(node.this, exp.Tuple) else [node.this]
        chosen: list[tuple[exp.Expr, Expr]] = []
        for item in select.expressions:
            if item.is_star:
                chosen += [(item, expr) for _, expr in relation.columns]
            else:
                chosen.append((item, binder.bind(item.this if isinstance(item, exp.Alias) else item)))
        if len(chosen) != len(written):
            raise TypeFault(
                f"IN compares {len(written)} with {len(chosen)} columns of the sub-query",
                span=place(select.expressions[0]) or place(select),
                hint="select as many columns as stand before IN",
            )
        outer = ExpressionBinder(self._scope, self._catalog, "before IN")
        pairs = []
        for expression, (item, expr) in zip(written, chosen, strict=True):
            equality = apply("=", (outer.bind(expression), expr), place(item) or place(node))
            mine, theirs = _sides_of(equality)
            if not columns(theirs) <= own.keys():
                raise NotSupported(
                    "a column of the sub-query of IN reads the stream",
                    span=place(item) or place(node),
                    hint="write EXISTS (SELECT * FROM table WHERE ...) with the whole condition in WHERE",
                )
            pairs.append((mine, substitute(theirs, own)))
        return tuple(pairs)


def _on_stream(name: str) -> str:
    return (
        f"join the aggregate of a window: FROM {name} AS x JOIN (SELECT max(price) AS top, window_end AS until FROM "
        f"{name} [RANGE 1 MINUTE]) AS w ON x.at < w.until AND x.at >= w.until - INTERVAL 1 MINUTE WHERE x.price > w.top"
    )


def is_membership(node: exp.Expr) -> bool:
    """Return whether an expression is IN or EXISTS with a sub-query."""
    match node:
        case exp.In():
            return isinstance(node.args.get("query"), exp.Query)
        case exp.Exists():
            return isinstance(node.this, exp.Query)
        case _:
            return False


def _sides_of(equality: Expr) -> tuple[Expr, Expr]:
    """Return both sides of an equality, in one type."""
    assert isinstance(equality, Call)
    mine, theirs = equality.args
    if isinstance(mine, Literal) and mine.type != theirs.type:
        return coerce(mine, theirs.type), theirs
    return mine, theirs if mine.type == theirs.type else coerce(theirs, mine.type)


def select_of(node: exp.In | exp.Exists) -> exp.Select:
    """Return the SELECT of a sub-query of IN or EXISTS, of one table or stream and with WHERE alone."""
    select = node.args["query"] if isinstance(node, exp.In) else node.this
    while isinstance(select, exp.Subquery):
        select = select.this
    if not isinstance(select, exp.Select):
        raise NotSupported(
            f"{select.key.upper()} in a sub-query of IN or EXISTS is not supported",
            span=place(select) or place(node),
            hint="write several conditions with OR",
        )
    for clause, what in _OTHERS.items():
        if value := select.args.get(clause):
            first = value[0] if isinstance(value, list) else value
            raise NotSupported(f"{what} is not supported", span=place(first) or place(select), hint=_FORM)
    if select.args.get("from_") is None:
        raise NotSupported("the sub-query needs FROM", span=place(select), hint=_FORM)
    if not select.expressions:
        raise SyntaxFault("SELECT names no columns", span=place(select), hint="write * or columns")
    limit = select.args.get("limit")
    if limit is not None and (isinstance(node, exp.In) or _number(limit) == 0):
        raise NotSupported("LIMIT in a sub-query of IN is not supported", span=place(limit), hint="leave it out")
    return select


def _number(limit: exp.Expr) -> int | None:
    value = limit.args.get("expression")
    return int(value.name) if isinstance(value, exp.Literal) and value.name.isdigit() else None


def _own(column: exp.Column, relation: Relation) -> Expr | None:
    """Return the column of the sub-query's table; None if the name is one of the query around it."""
    scope = Scope((relation,))
    qualifier = ".".join(part.name for part in column.parts[:-1])
    if not qualifier:
        return scope.column(column) if relation.find(column.name) else None
    if relation.is_called(qualifier) or relation.is_called(column.parts[0].name):
        return scope.column(column)
    return scope.column(column) if relation.find(column.parts[0].name) else None
