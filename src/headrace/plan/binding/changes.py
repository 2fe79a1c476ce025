"""EMIT CHANGES: a GROUP BY without a window becomes the changelog of its groups, a join that of its pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from msgspec import structs
from sqlglot import exp

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import Table
from headrace.errors import NameFault, NotSupported, Span, UnboundedStateFault
from headrace.language.syntax.clauses import EmitClause, RangeClause, emit_of, window_of
from headrace.model.changelog import INSERT
from headrace.model.expressions.expression import Column, Expr, Literal, columns
from headrace.model.schema import HIDDEN
from headrace.model.types import Type
from headrace.plan import nodes
from headrace.plan.binding.aggregate import Grouping
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Scope, unique
from headrace.plan.binding.from_clause import Source
from headrace.plan.binding.span import place
from headrace.plan.nodes import Node
from headrace.plan.traversal import expressions, replace_inputs

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
    if emit is None or emit.ttl is None or not isinstance(select, exp.Select):
        return False
    if not select.args.get("joins") or select.args.get("from_") is None:
        return False
    known = ExpressionBinder(Scope(()), catalog)
    called = (node for item in select.expressions for node in item.walk())
    if not select.args.get("group") and not any(known.aggregate_name(node) is not None for node in called):
        return True
    items = (select.args["from_"].this, *(join.this for join in select.args["joins"]))
    bare = [item for item in items if isinstance(item, exp.Table | exp.Subquery) and not _is_table(item, catalog)]
    if len(bare) > 1 and not any(map(window_of, bare)):
        raise NotSupported(
            "the changes of a GROUP BY cannot be over a join of streams in the same FROM",
            span=emit.span,
            hint="write the join in a sub-query: SELECT k, count(*) AS n FROM (SELECT a.k FROM a [RANGE 1 DAY] JOIN b "
            "[RANGE 1 DAY] ON a.id = b.id) AS pairs GROUP BY k EMIT CHANGES STATE TTL '1 day'",
        )
    return False


def limit_join(select: exp.Expr, catalog: Catalog) -> None:
    """Let streams of a join be kept for the time to live; a window that is written stays."""
    emit = emit_of(select)
    assert emit is not None
    assert emit.ttl is not None
    for item in (select.args["from_"].this, *(join.this for join in select.args["joins"])):
        if window_of(item) is None and not _is_table(item, catalog) and isinstance(item, exp.Table | exp.Subquery):
            item.meta["window"] = RangeClause(emit.ttl, None, False, emit.span)


def with_change(node: Node, select: exp.Expr, catalog: Catalog, *, ordered: bool) -> Node:
    """Add the kind of change: an inner join only inserts, an outer one takes back rows that find a partner later."""
    emit = emit_of(select)
    assert emit is not None
    change = unique("change", {field.name.lower() for field in node.schema})
    columns = tuple((field.name, Column(field.name, field.type)) for field in node.schema)
    if not any(join.side and not _is_table(join.this, catalog) for join in select.args["joins"]):
        return nodes.Project(node, (*columns, (change, Literal(INSERT, Type.STRING))))
    outer = _Outer(emit.span, catalog)
    return nodes.Project(outer.refused() if ordered else outer.changed(node), (*columns, (change, _KIND)))


#: The column that an outer join adds; its name cannot be that of a user.
_CHANGE = "__change"
_KIND = Column(_CHANGE, Type.STRING)


def _is_table(item: exp.Expr, catalog: Catalog) -> bool:
    """Return whether an item of FROM is a table: rows without a partner in it are final."""
    return isinstance(item, exp.Table) and isinstance(catalog.get(item.name), Table)


def _outer_join(node: Node) -> nodes.Join | None:
    """Return the last outer join of streams in a FROM clause."""
    while not (isinstance(node, nodes.Join) and node.kind != "inner"):
        match node:
            case nodes.Join(left=left, left_extent=None):
                node = left
            case nodes.Filter(input=below) | nodes.TableJoin(input=below):
                node = below
            case _:
                return None
    return node


@dataclass(frozen=True, slots=True)
class _Outer:
    """Turns the outer join under a SELECT into a changelog: what is above must treat each of its rows by itself."""

    span: Span
    catalog: Catalog

    def changed(self, node: Node) -> Node:
        self._check(node)
        match node:
            case nodes.Project(input=below, columns=shown):
                return nodes.Project(self.changed(below), (*shown, (_CHANGE, _KIND)))
            case nodes.Filter() | nodes.TableJoin() | nodes.Membership() | nodes.Unnest(kept=None):
                return replace_inputs(node, (self.changed(node.input),))
            case nodes.Join(kind="left" | "right" | "full") if self._is_last(node):
                return structs.replace(node, change=_CHANGE)
            case nodes.Join(kind=kind):
                last = "write it last, FROM a JOIN c ON ... LEFT JOIN b ON ...; or " if kind == "inner" else "write "
                raise NotSupported(
                    "only the last join of a changelog can be LEFT, RIGHT or FULL: rows that are taken back cannot be "
                    "joined further",
                    span=self.span,
                    hint=f"{last}a window after each stream, such as [RANGE 1 HOUR], and no EMIT CHANGES: then a row "
                    "without a partner is final",
                )
            case _:
                self.refused()

    def refused(self) -> NoReturn:
        raise NotSupported(
            "the changes of an outer join cannot have ORDER BY, LIMIT, DISTINCT, OVER or IMPUTE",
            span=self.span,
            hint="leave it out: changes come in the order of time; another query can read them and go on",
        )

    def _is_last(self, join: nodes.Join) -> bool:
        """Return whether all that the join reads is final: its inputs are streams, or inner joins."""
        for extent in (join.left_extent, join.right_extent):
            if extent is not None and extent.rows is not None:
                raise NotSupported(
                    "the changes of an outer join need windows of time",
                    span=self.span,
                    hint="write [RANGE 1 HOUR] in place of ROWS, or leave the window out",
                )
        return join.left_extent is not None or _outer_join(join.left) is None

    def _check(self, node: Node) -> None:
        """Refuse what may give other values when a row is taken back than when it came."""
        if not isinstance(node, nodes.Join) and any(not columns(expr).isdisjoint(HIDDEN) for expr in expressions(node)):
            raise NotSupported(
                "rowtime cannot be read in a query on the changes of an outer join: it is that of the change",
                span=self.span,
                hint="read it before the join, FROM (SELECT *, rowtime AS at FROM ...) AS x; results have it anyway",
            )
        if isinstance(node, nodes.TableJoin | nodes.Membership):
            table = self.catalog.get(node.table)
            if isinstance(table, Table) and table.refresh:
                raise NotSupported(
                    f"the table {node.table} with REFRESH cannot be joined after an outer join without windows: the "
                    "row may have changed when it is taken back",
                    span=self.span,
                    hint=f"join {node.table} before: FROM (SELECT ... FROM stream JOIN {node.table} ...) AS x LEFT "
                    "JOIN ...",
                )
