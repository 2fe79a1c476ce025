"""From a SELECT to what runs: bound, optimised, lowered.

A named query that a SELECT reads is optimised by itself, so that all who read it run it as one. While the reader is optimised, it stands there as a
scan of a stream that no user can name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import Query, Rule, Stream, Table
from headrace.commands.command import AddQuery
from headrace.connectors import check_sink, read_table
from headrace.engine.statistics import Statistics
from headrace.errors import NameFault
from headrace.graph.explain import explain_graph
from headrace.graph.graph import Graph
from headrace.graph.lower import lower, streams_of, tables_of
from headrace.language.parser import parse
from headrace.language.syntax.names import Name
from headrace.language.syntax.rules import CreateRule
from headrace.language.syntax.statements import Detection, Select
from headrace.model.action import Reaction
from headrace.model.events.growth import growing
from headrace.model.option import Option
from headrace.model.page import Page
from headrace.model.streams import Side, base_stream, side_stream
from headrace.optimizer.optimizer import best
from headrace.optimizer.shedding.prepare import prepare_for_shedding
from headrace.plan.binding.binder import bind
from headrace.plan.binding.event import bind_event
from headrace.plan.binding.pace import late_of
from headrace.plan.binding.rule import BoundRule, bind_rule
from headrace.plan.explain import explain as explain_plan
from headrace.plan.nodes import Detect, Filter, Node, Scan
from headrace.plan.traversal import transform

_NAMED = "query "


def plan_select(select: Any, text: str, catalog: Catalog, *, ordered: bool | str = False) -> Node:
    """The optimised plan of a SELECT that is written in `text`."""
    return _expanded(
        bind(
            select, text, catalog, queries=lambda name: Scan(_NAMED + name, catalog.find(name).schema), ordered=ordered
        ),
        catalog,
    )


def plan_event(detection: Detection, catalog: Catalog) -> Node:
    """The optimised plan of an event expression."""
    return _expanded(
        bind_event(detection, catalog, lambda name: Scan(_NAMED + name, catalog.find(name).schema)), catalog
    )


def plan_rule(rule: CreateRule, catalog: Catalog) -> BoundRule:
    """A rule with the optimised plan of its detections."""
    bound = bind_rule(rule, catalog, lambda name: Scan(_NAMED + name, catalog.find(name).schema))
    return replace(bound, plan=_expanded(bound.plan, catalog))


def _expanded(plan: Node, catalog: Catalog) -> Node:
    """Optimise a plan and put the plans of the queries that it reads in."""

    def expand(node: Node) -> Node:
        if not isinstance(node, Scan) or not node.name.startswith(_NAMED):
            return node
        query = catalog.find(node.name.removeprefix(_NAMED))
        assert isinstance(query, Query)
        return plan_query(query, catalog)

    return transform(best(plan), expand)


def plan_query(query: Query, catalog: Catalog) -> Node:
    """The optimised plan of a named query, or of what one has left out as too late."""
    side = side_stream(query.name)
    if side is not None and side.side is Side.LATE:
        found = catalog.find(side.base)
        assert isinstance(found, Query)
        return late_of(plan_query(found, catalog), side.base)
    statement = parse(query.text)[0]
    if isinstance(statement, Detection):
        return plan_event(statement, catalog)
    assert isinstance(statement, Select)
    return plan_select(statement.select, query.text, catalog, ordered=how_ordered(query.options))


def rule_statement(rule: Rule) -> CreateRule:
    """The statement that a rule was made by."""
    (statement,) = parse(rule.text)
    assert isinstance(statement, CreateRule)
    return statement


def how_ordered(options: Mapping[str, Option]) -> bool | str:
    """Whether results come in timestamp order, and 'merge' if unions are to merge instead of what comes out being sorted."""
    found = options.get("ordered", False)
    if isinstance(found, bool) or str(found).lower() == "merge":
        return found if isinstance(found, bool) else "merge"
    raise NameFault(f"results cannot be ordered by {found!r}", hint="write WITH (ordered) or WITH (ordered merge)")


def plan_target(target: Any, text: str, catalog: Catalog) -> Node:
    """The optimised plan of what EXPLAIN names: a query or a SELECT."""
    if not isinstance(target, Name):
        return plan_select(target, text, catalog)
    if catalog.has_rule(target.text):
        return plan_rule(rule_statement(catalog.rule(target.text)), catalog).plan
    found = catalog.find(target.text, span=target.span)
    if not isinstance(found, Query):
        raise NameFault(
            f"{target.text!r} is not a query", span=target.span, hint="EXPLAIN takes a query's name or a SELECT"
        )
    return prepare_for_shedding(plan_query(found, catalog), found.qos)


def command_for(query: Query, plan: Node, catalog: Catalog, reaction: Reaction | None = None) -> AddQuery:
    """The command that starts a query or a rule, once its sinks have been checked."""
    for sink in query.sinks:
        check_sink(query.name, sink, query.schema)
    graph = graph_of(prepare_for_shedding(plan, query.qos), query.name, catalog, numbered=reaction is not None)
    return AddQuery(
        query.name, graph, streams_read(plan, catalog), query.sinks, query.schema, query.qos, reaction=reaction
    )


def streams_read(plan: Node, catalog: Catalog) -> tuple[Stream, ...]:
    """The streams that a plan reads, or whose side streams."""
    bases = {base_stream(name) for name in streams_of(plan)}
    return tuple(stream for name in sorted(bases) if isinstance(stream := catalog.find(name), Stream))


def graph_of(plan: Node, name: str, catalog: Catalog, *, numbered: bool = False) -> Graph:
    """The graph of a plan, with the stored relations that it joins; `numbered` keeps the places of tuples in their stream, where they have one."""
    tables = {}
    for table_name in tables_of(plan):
        table = catalog.find(table_name)
        assert isinstance(table, Table)
        tables[table_name] = Page(read_table(table)).encode()
    return lower(plan, name, tables, numbered=numbered)


def warnings_of(plan: Node) -> tuple[str, ...]:
    """What of the state of an event's detection nothing bounds; of the event itself, not of those it reads."""
    while isinstance(plan, Filter):
        plan = plan.input
    return growing(plan.event, plan.context) if isinstance(plan, Detect) else ()


def event_warnings(found: Stream | Table | Query, catalog: Catalog) -> tuple[str, ...]:
    """The same for what a name stands for."""
    return warnings_of(plan_query(found, catalog)) if isinstance(found, Query) and found.is_event else ()


def explain(plan: Node, form: str, catalog: Catalog, seen: Statistics | None = None) -> str:
    """Plan and graph as text or JSON; with `seen`, what was counted at each vertex."""
    graph = graph_of(plan, "query", catalog)
    if form == "json":
        return msgspec.json.format(msgspec.json.encode({"plan": plan, "graph": graph})).decode()
    notes = {}
    for name, vertex in seen.vertices.items() if seen is not None else ():
        selectivity = "" if vertex.selectivity is None else f", selectivity {vertex.selectivity:.3f}"
        service = "" if vertex.service_us is None else f", {vertex.service_us:.2f} us a tuple"
        late = f", {vertex.late} too late" if vertex.late else ""
        unread = f", {vertex.queued} unread" if vertex.queued else ""
        notes[name] = (
            f"in {vertex.tuples_in}, out {vertex.tuples_out}{selectivity}{service}, holds {vertex.held}{unread}{late}"
        )
    said = "".join(f"\n\nwarning: {warning}" for warning in warnings_of(plan))
    return f"plan\n{explain_plan(plan)}\n\n{explain_graph(graph, notes)}{said}"
