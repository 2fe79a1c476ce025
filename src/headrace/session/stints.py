"""Queries that are not always on: CREATE QUERY with START and STOP, and starting and stopping queries by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import Query, Stream
from headrace.commands.command import Activation, AddQuery, Command, StopQuery
from headrace.commands.running import Running
from headrace.commands.running_graph import sharing_in_transit
from headrace.driver.stints import start_command
from headrace.errors import NameFault, NotSupported, Span
from headrace.graph.graph import Graph
from headrace.graph.stints import for_stint
from headrace.language.names import did_you_mean
from headrace.language.syntax.names import Name
from headrace.language.syntax.stints import StintClause
from headrace.model.expressions.expression import Literal
from headrace.model.stint import Schedule, Stint
from headrace.model.time import BEGIN, END
from headrace.model.types import Type
from headrace.optimizer.gathering import ChooseGrid, no_grid
from headrace.plan.binding.scan import scan
from headrace.plan.nodes import Node, Project
from headrace.session.compile import graph_of, plan_query, streams_read


def with_activation(
    command: AddQuery, clause: StintClause, catalog: Catalog, now: int, choose_grid: ChooseGrid = no_grid
) -> AddQuery:
    """Return the command that adds a query which starts and stops by itself.

    It has its first stint, or is off until something starts it.
    """
    watched = {word: name for word, name in (("START", clause.start_on), ("STOP", clause.stop_on)) if name is not None}
    plans = {word: _watch(name, catalog) for word, name in watched.items()}
    graphs: dict[str, Graph] = {
        word: graph_of(plan, f"{command.query} {word}", catalog, choose_grid=choose_grid)
        for word, plan in plans.items()
    }
    streams = {
        stream.name: stream
        for stream in (*command.streams, *(stream for plan in plans.values() for stream in streams_read(plan, catalog)))
    }
    added = msgspec.structs.replace(
        command,
        streams=tuple(streams.values()),
        activation=Activation(clause.schedule, graphs.get("START"), graphs.get("STOP"), created=now),
    )
    always = Schedule() if clause.schedule is None else clause.schedule
    first = None if clause.start_on is not None else always.first(now)
    if first is None:
        return added
    begin, end = first
    stint = Stint(command.query, 1, begin, end)
    return msgspec.structs.replace(added, graph=for_stint(command.graph, stint, command.incarnation), stint=stint)


def bound_late(command: AddQuery, beside: Sequence[str], running: Mapping[str, AddQuery], now: int) -> AddQuery:
    """Return the command of a query that is on while all queries beside it are; at once if they are on."""
    if not beside:
        return command
    added = msgspec.structs.replace(command, activation=Activation(created=now, beside=tuple(sorted(beside))))
    if not all(_is_on(running.get(name), now) for name in beside):
        return added
    stint = Stint(command.query, 1, BEGIN, END)
    return msgspec.structs.replace(added, graph=for_stint(command.graph, stint, command.incarnation), stint=stint)


def _is_on(query: AddQuery | None, now: int) -> bool:
    if query is None:
        return False
    return query.activation.is_manual if query.stint is None else query.stint.begin <= now


def start_query(running: Running, name: Name, now: int) -> list[Command]:
    """Return the commands that start a query: none if it is on. One that waits for its time starts now."""
    query = _known(running, name)
    if query not in running.queries:
        return [start_command(query, now)]
    if query.stint is not None and query.stint.begin > now:
        return [StopQuery(query.query, query.number), start_command(query, now)]
    return []


def stop_query(running: Running, name: Name, now: int) -> list[Command]:
    """Return the commands that stop a query: none if it is off, or waits for its time."""
    query = _known(running, name)
    if query.query in running.suspended:  # it does not come back by itself
        return [StopQuery(query.query, query.number)]
    if query not in running.queries or (query.stint is not None and query.stint.begin > now):
        return []
    if query.activation.beside:
        raise NotSupported(
            f"{query.query!r} is on while {' and '.join(query.activation.beside)} are",
            span=name.span,
            hint=f"stop one of these, or drop {query.query}",
        )
    other = sharing_in_transit(query, running)
    if other is not None:
        raise NotSupported(
            f"{query.query!r} shares operators with {other!r} whose tuples are still between buckets",
            span=name.span,
            hint=f"stop {other} first, or create {query.query} with START, so that it runs by itself",
        )
    return [StopQuery(query.query, query.number)]


def state_of(query: AddQuery, running: Running, now: int) -> str:
    """Return whether a query is on, off, suspended, or waits for its time."""
    if query.query in running.suspended:
        return f"suspended: {running.suspended[query.query].reason}"
    if query in running.stopped:
        return "off"
    return "on" if query.stint is None or query.stint.begin <= now else "waits"


def by_name(text: str) -> Name:
    """Return a name that does not come from a statement."""
    return Name(text, Span(0, len(text)))


def _known(running: Running, name: Name) -> AddQuery:
    queries = [query for query in running.added if query.reaction is None]  # a rule is enabled and disabled
    for query in queries:
        if query.query.lower() == name.text.lower():
            return query
    names = [query.query for query in queries]
    raise NameFault(f"no query {name.text!r} to start or stop", span=name.span, hint=did_you_mean(name.text, names))


def _watch(name: Name, catalog: Catalog) -> Node:
    """Return the plan of what starts or stops a query: only whether a tuple comes counts, not what it holds."""
    definition = catalog.find(name.text, span=name.span)
    if isinstance(definition, Query):
        plan = plan_query(definition, catalog)
    elif isinstance(definition, Stream):
        plan = scan(definition)
    else:
        raise NameFault(
            f"{name.text!r} is a table, which never changes", span=name.span, hint="name an event, a stream or a query"
        )
    return Project(plan, (("happened", Literal(True, Type.BOOLEAN)),))
