"""From a SELECT to what runs: bound, optimized, lowered.

A named query that a SELECT reads is optimized separately, so that all its readers share one graph. In the plan of a
reader it is a scan of a stream whose name no user can write, until that plan is optimized.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import msgspec

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import EARLY, ON_DEMAND, Connector, Query, Rule, Stream, Table, Timing
from headrace.commands.command import AddQuery, TableVersion, UseTree
from headrace.commands.tables import table_key
from headrace.connectors import check_sink, is_by_key, key_of, read_table
from headrace.engine.statistics import VertexStatistics
from headrace.errors import NameFault, NotSupported, Span
from headrace.graph.demand import on_demand
from headrace.graph.explain import explain_graph
from headrace.graph.graph import Graph, VertexId
from headrace.graph.lower import lower, streams_of, tables_of
from headrace.graph.place import Deferral
from headrace.language.parser import parse
from headrace.language.read.options import result_order
from headrace.language.syntax.names import Name
from headrace.language.syntax.rules import CreateRule
from headrace.language.syntax.statements import Detection, Select
from headrace.model.action import Reaction
from headrace.model.changelog import CHANGE
from headrace.model.events.growth import growing
from headrace.model.page import Page
from headrace.model.streams import Side, base_stream, side_stream
from headrace.optimizer.condensing import condense_joins
from headrace.optimizer.gathering import ChooseGrid, gather_joins, no_grid
from headrace.optimizer.keeping import keep
from headrace.optimizer.optimizer import best
from headrace.optimizer.shedding.prepare import prepare_for_shedding
from headrace.plan.binding.binder import bind
from headrace.plan.binding.event import bind_detection
from headrace.plan.binding.pace import late_of
from headrace.plan.binding.rule import BoundRule, bind_rule
from headrace.plan.binding.size import check_plan
from headrace.plan.changelogs import hidden_change, separation, unsteady
from headrace.plan.explain import explain as explain_plan
from headrace.plan.key_order import in_key_order
from headrace.plan.nodes import Detect, Filter, Limit, Node, Project, Scan
from headrace.plan.traversal import transform
from headrace.redaction import redact
from headrace.session.explain_joins import explain_joins
from headrace.session.python_code import check_code

_NAMED = "query "
#: The optimized plans of named queries.
Plans: TypeAlias = dict[str, Node]


def plan_select(
    select: Any, text: str, catalog: Catalog, *, ordered: bool | str = False, known: Plans | None = None
) -> Node:
    """Return the optimized plan of a SELECT that is written in `text`.

    `known` are the plans of queries that it may read; those that it needs are added.
    """
    bound = bind(
        select, text, catalog, queries=lambda name: Scan(_NAMED + name, catalog.find(name).schema), ordered=ordered
    )
    return _expanded(bound, catalog, Span(0, len(text)), known)


def plan_event(detection: Detection, catalog: Catalog, known: Plans | None = None) -> Node:
    """Return the optimized plan of an event expression."""

    def query(name: str) -> Node:
        return Scan(_NAMED + name, catalog.find(name).schema)

    def select(tree: Any) -> Node:
        return bind(tree, detection.text, catalog, queries=query)

    bound = bind_detection(detection, catalog, query, select)
    return _expanded(bound, catalog, detection.span, known)


def plan_rule(rule: CreateRule, catalog: Catalog) -> BoundRule:
    """Return a rule with the optimized plan of its detections."""
    bound = bind_rule(rule, catalog, lambda name: Scan(_NAMED + name, catalog.find(name).schema))
    return replace(bound, plan=_expanded(bound.plan, catalog, rule.name.span))


def _expanded(plan: Node, catalog: Catalog, span: Span, known: Plans | None = None) -> Node:
    """Optimize a plan, and insert the plans of the queries that it reads: of each once, however often it is read."""
    plans: Plans = {} if known is None else known

    def expand(node: Node) -> Node:
        if not isinstance(node, Scan) or not node.name.startswith(_NAMED):
            return node
        name = node.name.removeprefix(_NAMED)
        if name not in plans:
            query = catalog.find(name)
            assert isinstance(query, Query)
            read = plan_query(query, catalog, plans)
            plans[name] = read if query.is_view else transform(read, lambda part: _counted_by(query.name, part))
        return plans[name]

    expanded = transform(best(plan), expand)
    check_plan(expanded, span)
    return expanded


def _counted_by(query: str, node: Node) -> Node:
    """Let a query count the tuples of its LIMIT for all its readers; a view does not run, so each reader counts."""
    return msgspec.structs.replace(node, query=query) if isinstance(node, Limit) and not node.query else node


def plan_query(query: Query, catalog: Catalog, known: Plans | None = None) -> Node:
    """Return the optimized plan of a named query, or of the late tuples of one."""
    side = side_stream(query.name)
    if side is not None and side.side is Side.LATE:
        base = catalog.find(side.base)
        assert isinstance(base, Query)
        return late_of(plan_query(base, catalog, known), side.base)
    statement = parse(query.text)[0]
    if isinstance(statement, Detection):
        return plan_event(statement, catalog, known)
    assert isinstance(statement, Select)
    plan = plan_select(statement.select, query.text, catalog, ordered=result_order(query.options), known=known)
    return keep(plan, plans_of(query, query.basis, catalog)) if query.basis else plan


def plans_of(query: Query, texts: Iterable[str], catalog: Catalog) -> list[Node]:
    """Return the optimized plans of other texts of a query."""
    return [plan_query(msgspec.structs.replace(query, text=text, basis=()), catalog) for text in texts]


def rule_statement(rule: Rule) -> CreateRule:
    """Return the statement that created a rule."""
    (statement,) = parse(rule.text)
    assert isinstance(statement, CreateRule)
    return statement


def plan_target(target: Any, text: str, catalog: Catalog) -> Node:
    """Return the optimized plan of the target of an EXPLAIN: a query, a rule or a SELECT."""
    if not isinstance(target, Name):
        return plan_select(target, text, catalog)
    if catalog.has_rule(target.text):
        return plan_rule(rule_statement(catalog.rule(target.text)), catalog).plan
    query = catalog.find(target.text, span=target.span)
    if not isinstance(query, Query):
        hint = "EXPLAIN takes a query's name or a SELECT"
        raise NameFault(f"{target.text!r} is not a query", span=target.span, hint=hint)
    return prepare_for_shedding(_delivered(query, plan_query(query, catalog), catalog), query.qos)


def command_for(
    query: Query, plan: Node, catalog: Catalog, reaction: Reaction | None = None, *, choose_grid: ChooseGrid = no_grid
) -> AddQuery:
    """Check the sinks and the Python code of a query or rule, and return the command that starts it."""
    for sink in query.sinks:
        _check_change(sink, plan)
        check_sink(query.name, sink, query.schema)
    _check_steady(query, plan, catalog)
    for sink in query.sinks:
        _check_whole(sink, plan)
    if ON_DEMAND in query.options:
        choose_grid = no_grid  # tuples wait where they lie by key
    is_numbered = reaction is not None
    ordered = plan if is_numbered else _delivered(query, plan, catalog)
    prepared = prepare_for_shedding(ordered, query.qos)
    graph = graph_of(prepared, query.name, catalog, numbered=is_numbered, choose_grid=choose_grid)
    check_code(graph)
    if ON_DEMAND in query.options:
        graph = on_demand(graph, query.name, int(query.options[ON_DEMAND]), query.schema)
    return AddQuery(
        query.name,
        graph,
        streams_read(plan, catalog),
        query.sinks,
        query.schema,
        query.qos,
        reaction=reaction,
        tables=_versions(plan, catalog),
    )


def _delivered(query: Query, plan: Node, catalog: Catalog) -> Node:
    """Return the plan of a query with its results in the order that its sinks need."""
    keys = [frozenset(key_of(sink, query.schema)) for sink in query.sinks if is_by_key(sink)]
    if not keys or EARLY in query.options:  # what comes early is followed by what is final
        return plan

    def is_in_order(name: str) -> bool:
        stream = catalog.find(name)
        has_lanes = isinstance(stream, Stream) and stream.connector.kind == "KAFKA"
        return isinstance(stream, Stream) and not has_lanes and not stream.skew and stream.timing is not Timing.CAUSED

    # rows that agree in all of a key agree in a part of it
    return in_key_order(plan, frozenset.intersection(*keys), is_in_order)


def _check_change(sink: Connector, plan: Node) -> None:
    """Refuse a table by key that would take a column of the user for the one that says what happened to a row."""
    renamed = hidden_change(plan) if is_by_key(sink) else None
    if renamed is not None:
        raise NotSupported(
            f"{sink.kind}: a table by key reads in the column {CHANGE!r} what happened to a row, but here that is in "
            f"{renamed!r}, because the query has a column {CHANGE!r} of its own",
            hint="give yours another name, such as kind; or leave the key out: then every change is a result",
        )


def _check_whole(sink: Connector, plan: Node) -> None:
    """Refuse a table by key of a part of the changes of a changelog."""
    found = separation(plan) if is_by_key(sink) else None
    if found is not None:
        raise NotSupported(
            f"{sink.kind}: a table by key needs all changes of a changelog, and {found} leaves out or repeats some",
            hint="write it before the GROUP BY or JOIN that gives the changes; or leave the key out: then every change "
            f"is a result; or leave the column {CHANGE} out: then each result is the new row of its key",
        )


def _check_steady(query: Query, plan: Node, catalog: Catalog) -> None:
    """Refuse a changelog whose deletes may be lost, or differ from what was inserted, because a table has changed.

    A table by key needs the key of a delete only.
    """

    def is_read_again(name: str) -> bool:
        table = catalog.get(name)
        return isinstance(table, Table) and table.refresh > 0

    found = unsteady(plan, is_read_again)
    keys = [key_of(sink, query.schema) if is_by_key(sink) else query.schema.names for sink in query.sinks]
    table = found.lost or min((name for key in keys if (name := found.of(key)) is not None), default=None)
    if table is None:
        return
    without = f"; or create {table} without REFRESH" if is_read_again(table) else ""
    raise NotSupported(
        f"a changelog cannot be joined with {table}, whose rows change: if one does between the insert and the delete "
        "of a result, the delete is lost, or does not fit the insert",
        hint="join the table first: SELECT ... FROM (SELECT ... FROM stream JOIN ...) AS x GROUP BY ... EMIT CHANGES "
        "...; or LEFT JOIN it, and test none of its columns, into a table by key such as MEMORY (key 'id'), where the "
        f"key is not from it{without}",
    )


def _versions(plan: Node, catalog: Catalog) -> tuple[TableVersion, ...]:
    """Return the tables of a plan that are read again, with their rows as they are now."""
    return tuple(
        TableVersion(table_key(table), table, rows=Page(read_table(table)).encode())
        for table in _tables(plan, catalog)
        if table.refresh
    )


def _tables(plan: Node, catalog: Catalog) -> list[Table]:
    found = [catalog.find(name) for name in sorted(tables_of(plan))]
    return [table for table in found if isinstance(table, Table)]


def streams_read(plan: Node, catalog: Catalog) -> tuple[Stream, ...]:
    """Return the streams that a plan reads, directly or by their side streams."""
    bases = {base_stream(name) for name in streams_of(plan)}
    return tuple(stream for name in sorted(bases) if isinstance(stream := catalog.find(name), Stream))


def graph_of(
    plan: Node, name: str, catalog: Catalog, *, numbered: bool = False, choose_grid: ChooseGrid = no_grid
) -> Graph:
    """Return the graph of a plan with the tables that it joins.

    `numbered` keeps the position of tuples in their stream, if it has positions. `choose_grid` says which joins of
    streams without a common key run in a grid.
    """
    tables = _tables(plan, catalog)
    rows = {table.name: Page(read_table(table)).encode() for table in tables if not table.refresh}
    versioned = {table.name: table_key(table) for table in tables if table.refresh}
    return lower(_as_run(plan, catalog, choose_grid), name, rows, numbered=numbered, versioned=versioned)


def _as_run(plan: Node, catalog: Catalog, choose_grid: ChooseGrid) -> Node:
    """Return the plan with joins as one operator each, and tuples condensed before them where many come at once."""
    known = ((name, catalog.find(name)) for name in streams_of(plan))
    alike = {name for name, stream in known if isinstance(stream, Stream) and stream.timing is Timing.INTERNAL}
    return condense_joins(gather_joins(plan, choose_grid), alike)


def warnings_of(plan: Node) -> tuple[str, ...]:
    """Return warnings about unbounded state of an event's detection.

    Of the event itself, not of events that it reads.
    """
    while isinstance(plan, Filter | Project):
        plan = plan.input
    return growing(plan.event, plan.context) if isinstance(plan, Detect) else ()


def event_warnings(definition: Stream | Table | Query, catalog: Catalog) -> tuple[str, ...]:
    """Return the warnings for a definition, if it is an event."""
    is_event = isinstance(definition, Query) and definition.is_event
    return warnings_of(plan_query(definition, catalog)) if isinstance(definition, Query) and is_event else ()


def explain(
    plan: Node,
    form: str,
    catalog: Catalog,
    counters: Mapping[VertexId, VertexStatistics] | None = None,
    deferrals: Iterable[Deferral] = (),
    running: tuple[AddQuery | None, Mapping[VertexId, UseTree]] = (None, {}),
    *,
    choose_grid: ChooseGrid = no_grid,
    cells: Callable[[VertexId], int] = lambda vertex: 1,
) -> str:
    """Return plan and graph as text or JSON; with `counters`, those of each operator, by what it computes.

    `deferrals` are in force: such operators run in the buckets. `running` is the query as it runs, and the trees of
    joins. `cells` says among how many buckets a vertex is divided.
    """
    graph = graph_of(plan, "query", catalog, choose_grid=choose_grid)
    plan, written = _as_run(plan, catalog, choose_grid), plan
    if form == "json":
        return redact(msgspec.json.format(msgspec.json.encode({"plan": plan, "graph": graph})).decode())
    deferred = {deferral.vertex: deferral for deferral in deferrals}
    notes = {
        name: _counters(counts) + (", deferred" if name in deferred else "")
        for name, counts in (counters or {}).items()
    }
    warnings = "".join(f"\n\nwarning: {warning}" for warning in warnings_of(plan))
    joins = explain_joins(written, graph, *running, choose_grid=choose_grid, cells=cells)
    shown = f"plan\n{explain_plan(plan)}\n\n{explain_graph(graph, notes, deferred.values())}"
    return redact(shown + (f"\n\n{joins}" if joins else "") + warnings)


def _counters(counts: VertexStatistics) -> str:
    """Return what was counted at an operator, for EXPLAIN ANALYZE."""
    selectivity = "" if counts.selectivity is None else f", selectivity {counts.selectivity:.3f}"
    service = "" if counts.service_us is None else f", {counts.service_us:.2f} us per tuple"
    late = f", {counts.late} too late" if counts.late else ""
    unread = f", {counts.queued} unread" if counts.queued else ""
    return f"in {counts.tuples_in}, out {counts.tuples_out}{selectivity}{service}, holds {counts.held}{unread}{late}"
