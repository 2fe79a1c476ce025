"""One item of FROM: a stream, side stream, table, named query, sub-query, relation of WITH, or a union of such."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.catalog.definitions import Query, Stream, Table
from headrace.errors import HeadraceError, NameFault, NotSupported, Span, SyntaxFault, TypeFault
from headrace.language import other_systems
from headrace.language.parser import parse
from headrace.language.syntax.clauses import (
    CumulateClause,
    RangeClause,
    RowsClause,
    SessionClause,
    TemporalClause,
    WhileClause,
    WindowCall,
    WindowClause,
    pace_of,
    temporal_of,
    unions_of,
    window_call_of,
    window_of,
)
from headrace.language.syntax.matches import MatchClause, match_of
from headrace.language.syntax.statements import Detection, Select
from headrace.model.expressions.expression import Column, Expr, substitute
from headrace.model.schema import Schema
from headrace.model.streams import Side, side_stream
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.event import bind_detection
from headrace.plan.binding.expressions.coerce import unify
from headrace.plan.binding.expressions.scope import Relation, relation_of
from headrace.plan.binding.matches import bind_match
from headrace.plan.binding.pace import Part, late_of, paced
from headrace.plan.binding.scan import scan
from headrace.plan.binding.span import place
from headrace.plan.binding.whole_windows import at_end
from headrace.plan.binding.window_functions import lag_of
from headrace.plan.nodes import Node, Order, Project, Union


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of an item that go by another name than its own: (written, real) names."""

    names: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Item:
    """An item of FROM: a plan or a stored table, its names, and its window."""

    source: Node | Table
    names: tuple[str, ...]
    clause: WindowClause | None
    span: Span | None
    is_stream: bool
    call: WindowCall | None = None  # the function that stands for `clause`
    lag: int = 0  # how long before the timestamp the time of `call` is
    extra: tuple[Columns, ...] = ()  # of UNNEST
    versions: Node | None = None  # of a table that a stream feeds: its rows as they come
    as_of: TemporalClause | None = None

    @property
    def schema(self) -> Schema:
        return self.source.schema

    def relation(self, renamed: Sequence[str] | None = None) -> Relation:
        return relation_of(self.names, self.schema, renamed, is_table=isinstance(self.source, Table))

    def relations(self, renamed: Sequence[str] | None = None) -> tuple[Relation, ...]:
        """Return the item without the columns of UNNEST, and these by their own names."""
        whole = self.relation(renamed)
        if not self.extra:
            return (whole,)
        real = {name: expr for name, (_, expr) in zip(self.schema.names, whole.columns, strict=True)}
        added = {name for part in self.extra for _, name in part.columns}
        own = replace(whole, columns=tuple(pair for pair in whole.columns if pair[0] not in added))
        parts = [
            Relation(part.names, tuple((shown, real[name]) for shown, name in part.columns)) for part in self.extra
        ]
        return (own, *parts)


def read_item(node: exp.Expr, env: Environment) -> Item:
    """Resolve one item of FROM."""
    first = _single(node, env)
    further = [_single(part, env) for part in unions_of(node)]
    if not further:
        return first
    united, clause = _united([first, *further]), pace_of(node)
    if clause is None:
        return united
    parts = [Part(item.source, item.names) for item in (first, *further) if not isinstance(item.source, Table)]
    assert not isinstance(united.source, Table)
    return replace(united, source=paced(united.source, parts, clause, env))


def union(parts: Sequence[Node], span: Span | None) -> Node:
    """Unite all parts under the column names of the first; columns are matched by position."""
    width = len(parts[0].schema)
    for part in parts[1:]:
        if len(part.schema) != width:
            raise TypeFault(
                f"the parts of the UNION have {width} and {len(part.schema)} columns",
                span=span,
                hint="select the same columns in all parts",
            )
    columns: list[list[Column]] = [[Column(field.name, field.type) for field in part.schema] for part in parts]
    aligned: list[list[tuple[str, Expr]]] = [[] for _ in parts]
    for index, field in enumerate(parts[0].schema):
        kinds = [of_part[index] for of_part in columns]
        exprs = unify(kinds)
        if exprs is None:
            shown = " and ".join(dict.fromkeys(kind.type.value for kind in kinds))
            raise TypeFault(
                f"column {index + 1} of the UNION, {field.name!r}, is {shown}",
                span=span,
                hint="convert it to one type with CAST",
            )
        for position, expr in enumerate(exprs):
            aligned[position].append((field.name, expr))
    flat: list[Node] = []
    for part, pairs in zip(parts, aligned, strict=True):
        same = all(
            isinstance(expr, Column) and expr.name == name == own
            for (name, expr), own in zip(pairs, part.schema.names, strict=True)
        )
        adapted = part if same else _project(part, pairs)
        flat += adapted.inputs if isinstance(adapted, Union) else [adapted]
    return Union(tuple(flat))


def _project(node: Node, columns: list[tuple[str, Expr]]) -> Node:
    """Project, merged with a projection below."""
    if isinstance(node, Project):
        below = dict(node.columns)
        return Project(node.input, tuple((name, substitute(expr, below)) for name, expr in columns))
    return Project(node, tuple(columns))


def _single(node: exp.Expr, env: Environment) -> Item:
    if isinstance(node, exp.Subquery):
        item = Item(env.bind_query(node.this, env), ("the sub-query",), window_of(node), _span(node), False)
    elif isinstance(node, exp.Table):
        item = _named(node, env)
    else:
        raise NotSupported("FROM needs the name of a stream, table or query, or a sub-query", span=place(node))
    alias = node.args.get("alias")
    if alias is not None and alias.this is not None and not isinstance(alias.this, exp.Identifier):
        raise SyntaxFault(f"{alias.this.sql()} is not a name", span=_span(node), hint="write FROM stream AS name")
    if node.args.get("joins"):
        raise NotSupported(
            "joins cannot be nested in parentheses",
            span=_span(node),
            hint="write them one after the other, or in a sub-query",
        )
    if isinstance(item.source, Table) and item.clause is not None:
        raise NotSupported(
            f"the stored table {item.source.name} cannot have a window",
            span=item.clause.span,
            hint="leave the window out",
        )
    if (match := match_of(node)) is not None:
        item = _matched(item, match, env)
    alias = node.args.get("alias")
    if alias is not None and alias.this is not None:
        item = replace(item, names=(alias.name,))
    if (as_of := temporal_of(node)) is not None:
        item = replace(item, as_of=as_of)
    if not isinstance(item.source, Table):
        item = replace(item, source=at_end(item.source, node, item.span, env))
    call = window_call_of(node)
    if call is not None:
        lag = lag_of(call, item.source, item.names, env)
        item = replace(item, call=call, lag=lag, clause=_shifted(item.clause, lag))
    return _renamed(item, [column.name for column in alias.columns]) if alias is not None and alias.columns else item


def _shifted(clause: WindowClause | None, lag: int) -> WindowClause | None:
    """Return a window over timestamps that has the tuples of one over times that long before them."""
    match clause:
        case RangeClause(size=size, slide=slide, offset=offset):
            return replace(clause, offset=(offset + lag) % (slide or size))
        case CumulateClause(size=size, offset=offset):
            return replace(clause, offset=(offset + lag) % size)
        case _:
            return clause


def _matched(item: Item, clause: MatchClause, env: Environment) -> Item:
    """Put MATCH_RECOGNIZE on an item."""
    if isinstance(item.source, Table):
        raise NotSupported(
            f"MATCH_RECOGNIZE is of streams, and {item.source.name} is a table", span=clause.span, hint="name a stream"
        )
    if item.clause is not None and item.clause.span.start < clause.span.start:
        raise NotSupported(
            "MATCH_RECOGNIZE cannot read a window",
            span=item.clause.span,
            hint="leave it out, since WITHIN says how long a match takes; a window of matches stands behind them",
        )
    return Item(bind_match(item.source, item.names, clause, env), ("the match",), item.clause, item.span, False)


def _named(node: exp.Table, env: Environment) -> Item:
    name = ".".join(part.name for part in node.parts)
    span, clause = _span(node), window_of(node)
    names = tuple(dict.fromkeys((name, node.name)))
    shared = env.ctes.get(name.lower())
    if shared is not None:
        return Item(shared, names, clause, span, False)
    elsewhere = other_systems.SOURCES.get(node.name.upper())
    if elsewhere is not None and env.catalog.get(name) is None:
        raise NotSupported(f"{node.name} is not supported in FROM", span=span, hint=elsewhere)
    match env.catalog.find(name, span=span):
        case Stream() as stream:
            return Item(scan(stream), names, clause, span, True)
        case Table() as table:
            return Item(table, names, clause, span, False, versions=_versions(table, env, span))
        case Query() as query:
            return Item(_plan(query, env, span), names, clause, span, False)


def _versions(table: Table, env: Environment, span: Span | None) -> Node | None:
    """Return the tuples that change a table, with its columns; None if no stream feeds it."""
    if table.origin is None:
        return None
    match env.catalog.find(table.origin, span=span):
        case Stream() as stream:
            node = scan(stream)
        case Query() as query:
            node = _plan(query, env, span)
        case Table():
            raise NameFault(f"{table.origin!r} is no stream any more, so it cannot feed {table.name}", span=span)
    return Project(node, tuple((field.name, Column(field.name, field.type)) for field in table.schema))


def _plan(query: Query, env: Environment, span: Span | None) -> Node:
    node = env.queries(query.name)
    if node is None:
        if query.name in env.path:
            raise NameFault(f"query {query.name!r} would read itself", span=span)
        below = replace(env, ctes={}, path=(*env.path, query.name))
        try:
            statement = parse(query.text)[0]
            if isinstance(statement, Detection):
                node = bind_detection(
                    statement,
                    env.catalog,
                    lambda name: _plan(_query(name, env), below, span),
                    lambda select: env.bind_query(select, below),
                )
            else:
                assert isinstance(statement, Select)
                node = env.bind_query(statement.select, below)
        except HeadraceError as error:
            error.text = error.text or query.text  # not the text that names the query
            raise
        side = side_stream(query.name)
        if side is not None and side.side is Side.LATE:
            node = late_of(node, side.base)
    while isinstance(node, Order):  # a reader needs no order of arrival
        node = node.input
    return node


def _query(name: str, env: Environment) -> Query:
    query = env.catalog.find(name)
    assert isinstance(query, Query)
    return query


def _united(items: list[Item]) -> Item:
    span = Span(items[0].span.start, items[-1].span.end) if items[0].span and items[-1].span else None
    clauses = [item.clause for item in items]
    nodes = [item.source for item in items if not isinstance(item.source, Table)]
    if len(nodes) < len(items):
        raise NotSupported("a UNION cannot contain a stored table", span=span)
    shapes = {None if clause is None else replace(clause, span=Span(0, 0)) for clause in clauses}
    if len(shapes) > 1:
        raise NotSupported(
            "the parts of a UNION in FROM must have the same window",
            span=span,
            hint="write the same window after each part",
        )
    clause = clauses[0]
    if isinstance(clause, RowsClause | SessionClause | WhileClause):
        raise NotSupported(
            "a UNION in FROM can have only RANGE, LANDMARK, NOW and UNBOUNDED windows",
            span=clause.span,
            hint="write FROM (SELECT * FROM a UNION b) [ROWS 10]",
        )
    names = tuple(dict.fromkeys(name for item in items for name in item.names))
    return Item(union(nodes, span), names, clause, span, all(item.is_stream for item in items))


def _renamed(item: Item, names: list[str]) -> Item:
    if len(names) != len(item.schema):
        raise NameFault(
            f"the number of columns of {item.names[0]} is {len(item.schema)}, not {len(names)}", span=item.span
        )
    match item.source:
        case Table() as table:
            raise NotSupported(
                f"the columns of the stored table {table.name} cannot be renamed in FROM",
                span=item.span,
                hint=f"name them in CREATE TABLE {table.name}",
            )
        case node:
            columns = tuple(
                (name, Column(field.name, field.type)) for name, field in zip(names, node.schema, strict=True)
            )
            return replace(item, source=Project(node, columns))


def _span(node: exp.Expr) -> Span | None:
    if isinstance(node, exp.Table):
        places = [part for name in node.parts if (part := place(name)) is not None]
        return Span(places[0].start, places[-1].end) if places else None
    return place(node)
