"""A SELECT on stored tables alone: it is answered at once, by the same operators as queries over streams.

All rows of a table have the same timestamp, and every window is that instant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from sqlglot import exp

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import Table
from headrace.catalog.references import references_of
from headrace.connectors import read_table
from headrace.engine.engine import Engine
from headrace.errors import NameFault, NotSupported, Span
from headrace.graph.lower import lower
from headrace.language.syntax.statements import Select
from headrace.model.expressions.expression import columns
from headrace.model.outcome import Answer
from headrace.model.page import Page, Punctuation
from headrace.model.schema import SEQ, TS
from headrace.model.time import END
from headrace.model.window import of_nothing
from headrace.operators.endpoints import Scan
from headrace.optimizer.optimizer import best
from headrace.plan import nodes
from headrace.plan.binding.binder import bind
from headrace.plan.binding.span import place
from headrace.plan.explain import explain
from headrace.plan.nodes import Node
from headrace.plan.traversal import expressions, transform, walk


def is_on_tables(select: exp.Expr, catalog: Catalog) -> bool:
    """Return whether a SELECT reads stored tables and nothing else."""
    read = [catalog.get(name) for name in references_of(select).relations]
    return bool(read) and all(isinstance(relation, Table) and relation.origin is None for relation in read)


def explain_on_tables(select: exp.Expr, text: str, catalog: Catalog) -> str:
    """Return the plan of a SELECT on tables as text."""
    plan = best(bind(_without_order(select)[0], text, catalog, on_tables=True))
    return f"plan (on tables alone, answered at once)\n{explain(plan)}"


def answer_on_tables(statement: Select, catalog: Catalog) -> Answer:
    """Return the rows of a SELECT on tables, in the order that it asks for."""
    if statement.sinks:
        raise NotSupported(
            "a SELECT on tables alone has no INTO: it is answered at once, and then it is over",
            span=statement.sinks[0].span,
            hint="leave INTO out, or join a stream",
        )
    tree, order, limit, offset = _without_order(statement.select)
    plan = bind(tree, statement.text, catalog, on_tables=True)
    names = plan.schema.names
    terms = [] if order is None else order.expressions
    hidden = [term for term in terms if _column(term.this, names) is None]
    if hidden:
        plan = bind(_with_hidden(tree, hidden, names), statement.text, catalog, on_tables=True)
    for node in walk(plan):
        if any(TS in columns(expr) for expr in expressions(node)):
            written = (place(column) for column in tree.find_all(exp.Column) if column.name.lower() == "rowtime")
            raise NameFault(
                "a table has no rowtime",
                span=next(written, Span(0, len(statement.text))),
                hint="name a column of the table",
            )
    tables = {
        table.name: read_table(table) for table in catalog.tables() if table.origin is None and _reads(plan, table)
    }
    frame = _Evaluation(tables).rows(plan).select(plan.schema.names)
    frame = _sorted(frame, terms, dict(zip(map(id, hidden), plan.schema.names[len(names) :], strict=True)))
    start = 0 if offset is None else _number(offset)
    frame = frame.slice(start, None if limit is None else _number(limit))
    return Answer(names, tuple(frame.select(names).iter_rows()))


def _without_order(select: exp.Expr) -> tuple[exp.Expr, exp.Expr | None, exp.Expr | None, exp.Expr | None]:
    """Return a SELECT without what is done with its rows at the end, and that."""
    tree = select.copy()
    return tree, *(tree.args.pop(name, None) for name in ("order", "limit", "offset"))


def _with_hidden(tree: exp.Expr, terms: list[exp.Expr], names: Sequence[str]) -> exp.Expr:
    """Return a SELECT with further columns for the terms of ORDER BY that are no columns of its result."""
    if not isinstance(tree, exp.Select) or tree.args.get("distinct") is not None:
        raise NotSupported(
            "ORDER BY of a UNION or of SELECT DISTINCT names columns of the result",
            span=place(terms[0]),
            hint=f"columns are {', '.join(names[:12])}; give an expression a name with AS",
        )
    aliases = {item.alias.lower(): item.this for item in tree.expressions if isinstance(item, exp.Alias)}

    def written_out(node: exp.Expr) -> exp.Expr:
        is_alias = isinstance(node, exp.Column) and not node.table and node.name.lower() in aliases
        return aliases[node.name.lower()].copy() if is_alias else node

    whole = tree.copy()
    for number, term in enumerate(terms):
        value = term.this.copy().transform(written_out)
        whole.append("expressions", exp.Alias(this=value, alias=exp.to_identifier(f"$order{number}", quoted=True)))
    return whole


def _reads(plan: Node, table: Table) -> bool:
    names = {node.name for node in walk(plan) if isinstance(node, nodes.Scan)}
    looked_up = {node.table for node in walk(plan) if isinstance(node, nodes.TableJoin | nodes.Membership)}
    return table.name in names | looked_up


class _Evaluation:
    """Runs a plan piece by piece: each aggregate is complete before what reads it begins."""

    def __init__(self, tables: Mapping[str, pl.DataFrame]) -> None:
        self._frames = dict(tables)
        self._stored = {name: Page(frame).encode() for name, frame in tables.items()}

    def rows(self, plan: Node) -> pl.DataFrame:
        """Return the rows of a plan."""
        return self._run(transform(plan, self._complete))

    def _complete(self, node: Node) -> Node:
        """Replace an aggregate by its rows; one of all rows has a row also if there are none."""
        if not isinstance(node, nodes.Aggregate):
            return node
        frame = self._run(node)
        if not node.keys and not frame.height:
            values: dict[str, Any] = {call.name: of_nothing(call) for call in node.calls}
            frame = pl.DataFrame([{name: values.get(name) for name in node.schema.names}], schema=node.schema.polars())
        name = f"aggregate {len(self._frames)}"
        self._frames[name] = frame
        return nodes.Scan(name, node.schema)

    def _run(self, plan: Node) -> pl.DataFrame:
        # each piece is optimized by itself: a condition on the row of an aggregate may not go below it, since there is
        # a row of nothing here, other than in a window
        graph = lower(best(plan), "select", self._stored)
        engine = Engine(graph)
        scans = [vertex for vertex in graph if isinstance(vertex.spec, Scan)]
        for vertex in scans:
            assert isinstance(vertex.spec, Scan)
            rows = self._frames[vertex.spec.stream].select(vertex.spec.columns)
            rows = rows.with_columns(pl.lit(0, pl.Int64).alias(TS))
            if vertex.spec.seq:
                rows = rows.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(SEQ))
            engine.push(vertex.id, Page(rows))
        for vertex in scans:
            engine.push(vertex.id, Punctuation(END))
        engine.run()
        pages = engine.take_results().get(graph.vertices[-1].id, [])
        engine.close()
        visible = [page.visible() for page in pages if len(page)]
        return pl.concat(
            [pl.DataFrame(schema=plan.schema.polars()), *(frame.select(plan.schema.names) for frame in visible)]
        )


def _sorted(frame: pl.DataFrame, terms: list[exp.Expr], hidden: Mapping[int, str]) -> pl.DataFrame:
    """Sort rows by terms of ORDER BY; `hidden` names the columns of those that are no columns of the result."""
    if not terms:
        return frame
    names, descending, nulls_last = [], [], []
    for term in terms:
        names.append(hidden.get(id(term)) or _column(term.this, frame.columns) or "")
        descending.append(bool(term.args.get("desc")))
        first = term.args.get("nulls_first")
        nulls_last.append(descending[-1] if first is None else not first)
    return frame.sort(names, descending=descending, nulls_last=nulls_last, maintain_order=True)


def _column(term: exp.Expr, names: Sequence[str]) -> str | None:
    """Return the column of the result that ORDER BY names, by name or position; None if it names none."""
    if isinstance(term, exp.Literal) and term.name.isdigit():
        if not 1 <= int(term.name) <= len(names):
            raise NameFault(f"ORDER BY {term.name}: SELECT has no column {term.name}", span=place(term) or Span(0, 1))
        return names[int(term.name) - 1]
    is_plain = isinstance(term, exp.Column) and not term.table
    return next((name for name in names if is_plain and name.lower() == term.name.lower()), None)


def _number(clause: exp.Expr) -> int:
    value = clause.args.get("expression")
    if not isinstance(value, exp.Literal) or not value.name.isdigit():
        raise NotSupported("LIMIT and OFFSET need a number", span=place(clause) or Span(0, 1))
    return int(value.name)
