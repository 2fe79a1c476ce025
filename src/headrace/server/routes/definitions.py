"""Streams, tables, queries, events and rules by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from headrace.catalog.definitions import Rule, Stream
from headrace.language.names import did_you_mean
from headrace.server import read
from headrace.server.problems import Fault
from headrace.server.route import Call
from headrace.server.service import Service
from headrace.server.views.definitions import GraphView, OutboxView, QueryView, RuleView, StreamView, TableView

_Named = TypeVar("_Named", Stream, Rule)


def streams(call: Call) -> tuple[StreamView, ...]:
    """Return all streams."""
    service = call.server.service
    catalog, running, figures = service.catalog, service.running, service.beats.figures
    return tuple(read.stream_view(stream, catalog, running, figures) for stream in catalog.streams())


def stream(call: Call) -> StreamView:
    """Return a stream, with the newest of its late and bad records."""
    service, known = call.server.service, stream_named(call)
    counted = service.statistics.streams.get(known.name)
    view = read.stream_view(known, service.catalog, service.running, service.beats.figures)
    return view if counted is None else read.with_samples(view, counted)


def stream_named(call: Call) -> Stream:
    """Return the stream in the path."""
    return _named(call, "stream", call.server.service.catalog.streams())


def tables(call: Call) -> tuple[TableView, ...]:
    """Return all tables."""
    service = call.server.service
    catalog, running = service.catalog, service.running
    problems = service.session.deployment.turn.refreshing.problems
    return tuple(read.table_view(table, catalog, running, problems.get(table.name)) for table in catalog.tables())


def queries(call: Call) -> tuple[QueryView, ...]:
    """Return all queries, views and events."""
    service = call.server.service
    names = read.query_names(service.catalog, service.running)
    return tuple(view for name in names if (view := _query(call, name)) is not None)


def query(call: Call) -> QueryView:
    """Return a query, view or event."""
    found = _query(call, call.names["name"])
    if found is None:
        raise unknown_query(call, call.names["name"])
    return found


def query_graph(call: Call) -> GraphView:
    """Return the operators of a query."""
    service = call.server.service
    name = query_name(call)
    return read.graph_view(name, service.running, service.beats.figures)


def query_name(call: Call) -> str:
    """Return the name of the query in the path, as it was written when it was created."""
    service, name = call.server.service, call.names["name"]
    for known in (*(each.query for each in service.running.added), *read.query_names(service.catalog, service.running)):
        if known.lower() == name.lower():
            return known
    raise unknown_query(call, name)


def rules(call: Call) -> tuple[RuleView, ...]:
    """Return all rules."""
    service = call.server.service
    statistics, running = service.statistics, service.running
    return tuple(read.rule_view(rule, running, statistics) for rule in service.catalog.rules())


def rule(call: Call) -> RuleView:
    """Return a rule."""
    service = call.server.service
    return read.rule_view(rule_named(call), service.running, service.statistics)


def rule_named(call: Call) -> Rule:
    """Return the rule in the path."""
    return _named(call, "rule", call.server.service.catalog.rules())


def _named(call: Call, kind: str, known: Sequence[_Named]) -> _Named:
    name = call.names["name"]
    for definition in known:
        if definition.name.lower() == name.lower():
            return definition
    raise unknown(kind, name, [each.name for each in known])


def outbox(call: Call) -> OutboxView:
    """Return the calls that wait."""
    return outbox_of(call.server.service)


def outbox_of(service: Service) -> OutboxView:
    """Return the calls that wait, by rule."""
    outbox = service.session.deployment.delivery.reactions.outbox
    counted = tuple((name, rule.waiting) for name, rule in service.statistics.rules.items() if rule.waiting)
    return read.outbox_view(counted, outbox.fault, outbox.calls(), tuple(outbox.failures))


def unknown(kind: str, name: str, known: Sequence[str]) -> Fault:
    """Return the answer for a name that stands for nothing."""
    return Fault(404, f"there is no {kind} {name!r}", code="HR102", hint=did_you_mean(name, known))


def unknown_query(call: Call, name: str) -> Fault:
    """Return the answer for a query that is not there; while the server starts, it may still come."""
    service = call.server.service
    if service.status()[0] == "starting":
        service.check_ready()
    return unknown("query", name, read.query_names(service.catalog, service.running))


def _query(call: Call, name: str) -> QueryView | None:
    service = call.server.service
    return read.query_view(
        name,
        service.catalog,
        service.running,
        service.beats.figures,
        service.shelves.view,
        service.session.deployment.now(),
    )
