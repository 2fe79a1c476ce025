"""Views of a deployment, from its catalog, what is in force, and its figures. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Literal

import msgspec
import polars as pl

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import Connector, Query, Rule, Stream, Table
from headrace.catalog.references import references
from headrace.commands.command import AddQuery
from headrace.commands.running import Running
from headrace.commands.running_graph import names_in, placement_of, whole_of
from headrace.control.decision_log import Numbered
from headrace.control.migration_log import Migrated
from headrace.driver.rules.firing import Failure
from headrace.driver.rules.outbox import WaitingCall
from headrace.engine.statistics import Aside, RuleStatistics, Statistics, StreamStatistics
from headrace.graph.graph import Graph, Vertex, VertexId
from headrace.graph.naming import Names
from headrace.graph.place import place
from headrace.model.time import format_instant
from headrace.operators.specs import Output
from headrace.operators.windows.pane_times import PANE
from headrace.redaction import MASK, is_reference, is_secret_name, redact, redact_statement
from headrace.server.figures import Figures
from headrace.server.values import columns_in, columns_of, rows_in
from headrace.server.views.control import (
    DecisionsView,
    DecisionView,
    FeedbackView,
    GuardView,
    MigrationView,
    SheddingView,
    ShedQueryView,
    ShedView,
)
from headrace.server.views.definitions import (
    CallView,
    FailureView,
    GraphView,
    OutboxView,
    QueryView,
    RelationArc,
    RelationGraph,
    RelationNode,
    RuleView,
    Sample,
    ShelfView,
    StreamView,
    TableView,
    VertexView,
)
from headrace.server.views.deployment import PartitionView, SettingView
from headrace.server.views.figures import QueryFigures, StreamFigures
from headrace.session.listings.settings import show_settings
from headrace.session.stints import state_of
from headrace.worker.wire import BucketNote

#: A comparison of the pane of a window with an instant.
_PANES = re.compile(rf"{PANE} (<=|<|>=|>|=) (-?\d{{1,18}})\b")
_NO_STREAM = StreamFigures("", 0.0, 0, 0, 0, 0, None, None, 0.0, 0, "rows")


def stream_view(stream: Stream, catalog: Catalog, running: Running, figures: Figures | None) -> StreamView:
    """Return a stream."""
    return StreamView(
        name=stream.name,
        source=stream.connector.kind,
        options=options_of(stream.connector),
        columns=columns_of(stream.schema),
        timing=stream.timing.value,
        time_column=stream.time_column,
        skew_ms=stream.skew / 1000,
        readers=_readers(stream.name, catalog, running),
        can_push=stream.connector.kind == "MEMORY",
        figures=_stream_figures(stream.name, figures),
    )


def with_samples(view: StreamView, counted: StreamStatistics) -> StreamView:
    """Return a stream with the newest records that were set aside, the newest first."""
    return msgspec.structs.replace(
        view, bad=_sample(counted.aside, "bad", counted.bad), late=_sample(counted.aside, "late", counted.late)
    )


def _sample(aside: Sequence[Aside], side: str, total: int) -> Sample:
    chosen = [each for each in reversed(aside) if each.side == side]
    frame = pl.DataFrame(
        {
            "at": pl.Series([each.at for each in chosen], dtype=pl.Int64).cast(pl.Datetime("us")),
            "record": pl.Series([redact(each.record) for each in chosen], dtype=pl.String),
            "reason": pl.Series([redact(each.reason) for each in chosen], dtype=pl.String),
            "origin": pl.Series([redact(each.origin) for each in chosen], dtype=pl.String),
        }
    )
    shown = frame if side == "bad" else frame.drop("origin")
    return Sample(columns_in(shown), rows_in(shown), total)


def table_view(table: Table, catalog: Catalog, running: Running, problem: str | None = None) -> TableView:
    """Return a table; `problem` is why it could not be read again."""
    return TableView(
        name=table.name,
        source=table.connector.kind,
        options=options_of(table.connector),
        columns=columns_of(table.schema),
        readers=_readers(table.name, catalog, running),
        refresh_ms=table.refresh / 1000 if table.refresh else None,
        origin=table.origin,
        key=table.key,
        problem=None if problem is None else redact(problem),
    )


def query_names(catalog: Catalog, running: Running) -> list[str]:
    """Return all queries, views and events by name; those that run first."""
    running_names = [query.query for query in running.added if query.reaction is None]
    return list(dict.fromkeys((*running_names, *(query.name for query in catalog.queries()))))


def query_view(
    name: str,
    catalog: Catalog,
    running: Running,
    figures: Figures | None,
    shelf: Callable[[str], ShelfView | None],
    now: int,
) -> QueryView | None:
    """Return a query, view or event; None if there is none of that name."""
    definition = next((query for query in catalog.queries() if query.name.lower() == name.lower()), None)
    added = next((query for query in running.added if query.query.lower() == name.lower()), None)
    if definition is None and (added is None or added.reaction is not None):
        return None
    known = definition.name if definition is not None else added.query if added is not None else name
    schema = definition.schema if definition is not None else added.schema if added is not None else None
    text = definition.text if definition is not None else ""
    scheduler = running.schedulers.get(known) or running.schedulers.get(None)
    sinks = definition.sinks if definition is not None else added.sinks if added is not None else ()
    return QueryView(
        name=known,
        kind=_kind(definition),
        text=redact_statement(text),
        columns=() if schema is None else columns_of(schema),
        sinks=tuple(_sink_text(sink) for sink in sinks),
        reads=_reads(definition, added, catalog),
        readers=_readers(known, catalog, running),
        options={} if definition is None else {key: str(value) for key, value in definition.options.items()},
        promises=() if figures is None else figures.standings(known),
        scheduler=None if scheduler is None else scheduler.name,
        shares_with=_sharing(known, running),
        stint=None if added is None or added.stint is None else str(added.stint.number),
        figures=_query_figures(known, added, running, figures, now),
        shelf=shelf(known),
    )


def graph_view(query: str | None, running: Running, figures: Figures | None) -> GraphView:
    """Return the operators of a query, or of all."""
    whole, names, ingest = whole_of(running), names_in(running), placement_of(running).ingest.by_id()
    working = [each for each in running.working if query in (None, each.query)]
    own = {vertex.id for each in working for vertex in each.graph}
    users = _users(running)
    return GraphView(
        query=query,
        vertices=tuple(
            _vertex(vertex, names, ingest, users.get(vertex.id, ()))
            for vertex in whole
            if query is None or vertex.id in own
        ),
        figures=() if figures is None else figures.vertices(query),
        bottleneck=None if figures is None else figures.bottleneck,
    )


def planned_graph(graph: Graph) -> GraphView:
    """Return the operators of a query that does not run."""
    names, ingest = Names(graph), place(graph).ingest.by_id()
    return GraphView(None, tuple(_vertex(vertex, names, ingest) for vertex in graph), (), None)


def _vertex(vertex: Vertex, names: Names, ingest: Container[VertexId], users: Iterable[str] = ()) -> VertexView:
    return VertexView(
        id=vertex.id,
        operator=type(vertex.spec).__name__,
        title=names[vertex.id],
        detail=redact(names.full(vertex.id)),
        half="ingest" if vertex.id in ingest else "bucket",
        inputs=vertex.inputs,
        queries=tuple(sorted(users)),
    )


def relation_graph(catalog: Catalog, running: Running, figures: Figures | None) -> RelationGraph:
    """Return who reads whom: a node for each definition and sink, no operators."""
    nodes: list[RelationNode] = []
    arcs: list[RelationArc] = []
    rates: dict[str, float] = {}
    for stream in catalog.streams():
        rates[stream.name.lower()] = rate = _stream_figures(stream.name, figures).rate
        nodes.append(RelationNode(_id("stream", stream.name), "stream", stream.name, stream.connector.kind, rate))
    for table in catalog.tables():
        nodes.append(RelationNode(_id("table", table.name), "table", table.name, table.connector.kind, None))
    kinds = {definition.name.lower(): "stream" for definition in catalog.streams()}
    kinds |= {definition.name.lower(): "table" for definition in catalog.tables()}
    kinds |= {definition.name.lower(): _node_kind(definition) for definition in catalog.queries()}
    added = {query.query.lower(): query for query in running.added if query.reaction is None}
    for name in query_names(catalog, running):
        definition = next((query for query in catalog.queries() if query.name.lower() == name.lower()), None)
        kind = _node_kind(definition)
        kinds[name.lower()] = kind
        has_figures = figures is not None and kind == "query"
        rate_out = figures.query(name).rate if figures is not None and has_figures else None
        nodes.append(RelationNode(_id(kind, name), kind, name, "", rate_out))
        for read in _reads(definition, added.get(name.lower()), catalog):
            origin = _id(kinds.get(_base(read).lower(), "stream"), _base(read))
            arcs.append(RelationArc(origin, _id(kind, name), rates.get(_base(read).lower())))
        sinks = definition.sinks if definition is not None else ()
        for number, sink in enumerate(sinks):
            node = f"sink:{name}:{number}"
            nodes.append(RelationNode(node, "sink", sink.kind, _sink_text(sink), None))
            arcs.append(RelationArc(_id(kind, name), node, rate_out))
    for table in catalog.tables():
        if (feeding := table.origin) is not None:
            node = _id(kinds.get(feeding.lower(), "stream"), feeding)
            arcs.append(RelationArc(node, _id("table", table.name), rates.get(feeding.lower())))
    for rule in catalog.rules():
        nodes.append(RelationNode(_id("rule", rule.name), "rule", rule.name, ", ".join(rule.reaction.texts), None))
        arcs.append(RelationArc(_id(kinds.get(rule.event.lower(), "event"), rule.event), _id("rule", rule.name), None))
        for raised in rule.raises:
            arcs.append(RelationArc(_id("rule", rule.name), _id(kinds.get(raised.lower(), "stream"), raised), None))
        for turned in rule.turns:
            arcs.append(RelationArc(_id("rule", rule.name), _id("query", turned), None))
    known = {node.id for node in nodes}
    return RelationGraph(tuple(nodes), tuple(arc for arc in arcs if arc.origin in known and arc.reader in known))


def rule_view(rule: Rule, running: Running, statistics: Statistics) -> RuleView:
    """Return a rule and what became of its detections."""
    counts, reaction = statistics.rules.get(rule.name, RuleStatistics()), rule.reaction
    failed = {failed.query: failed.reason for failed in running.failed}
    state = "enabled" if reaction.enabled else "disabled"
    return RuleView(
        name=rule.name,
        event=rule.event,
        context=rule.context,
        condition=rule.condition,
        text=redact_statement(rule.text),
        actions=tuple(
            [f"INSERT INTO {_sink_text(sink)}" for sink in rule.sinks] + [redact(text) for text in reaction.texts]
        ),
        execution=f"{'deferred' if reaction.deferred else 'immediate'} {reaction.priority}",
        state=f"failed: {failed[rule.name]}" if rule.name in failed else state,
        detections=counts.detections,
        ignored=counts.ignored,
        calls=counts.calls,
        done=counts.done,
        waiting=counts.waiting,
        failed=counts.failed,
    )


def outbox_view(
    counted: tuple[tuple[str, int], ...],
    fault: BaseException | None,
    calls: Sequence[WaitingCall],
    failures: Sequence[tuple[str, Failure]],
) -> OutboxView:
    """Return the calls that wait and those that were given up, the newest first."""
    return OutboxView(
        waiting=sum(waiting for _, waiting in counted),
        fault=None if fault is None else redact(str(fault)),
        rules=counted,
        calls=tuple(
            CallView(
                call.rule, call.key, redact(call.action), call.tries, call.most, call.reason and redact(call.reason)
            )
            for call in calls
        ),
        failed=tuple(
            FailureView(rule, key, redact(action), redact(reason), tries, instant // 1000, redact(detection))
            for rule, (key, action, reason, tries, instant, detection) in reversed(failures)
        ),
    )


def migration_view(change: Migrated) -> MigrationView:
    """Return a change of plan."""
    return MigrationView(
        query=change.query,
        vertex=change.vertex,
        number=change.number,
        at=change.time // 1000,
        before=change.before,
        after=change.after,
        how=change.how,
        auto=change.auto,
        batches=change.batches,
        longest_ms=change.longest_ms,
        built=change.built,
        ended=None if change.ended is None else change.ended // 1000,
        state="given up" if change.given_up else "running" if change.ended is None else "done",
    )


def decisions_view(numbered: Numbered, after: int, query: str | None, limit: int) -> DecisionsView:
    """Return the decisions after a number, of one query or of all."""
    first = numbered.newest - len(numbered.decisions) + 1
    chosen = [
        DecisionView(
            number=number,
            at=decided.time // 1000,
            query=decided.query,
            kind=type(decided.decision).__name__,
            action=redact(decided.action),
            reason=redact(decided.reason),
        )
        for number, decided in enumerate(numbered.decisions, first)
        if number > after and (query is None or decided.query in (None, query))
    ]
    return DecisionsView(tuple(chosen[-limit:]), numbered.newest)


def feedback_view(running: Running, statistics: Statistics) -> FeedbackView:
    """Return what feedback drops where, and what that saved."""
    names = names_in(running)
    guards = [
        GuardView(names[reader], reader, with_times(pattern), _ms(guard.until), guard.active, guard.saved, None)
        for (reader, pattern), guard in statistics.guards.items()
    ]
    guards += [
        GuardView(name, None, "not read", None, True, stream.skipped, stream.skipped_bytes)
        for name, stream in statistics.streams.items()
        if stream.skipped
    ]
    return FeedbackView(tuple(guards), statistics.purged)


def with_times(pattern: str) -> str:
    """Return a pattern in which panes of windows are times, as people know them."""
    return _PANES.sub(lambda found: f"pane {found[1]} TIMESTAMP '{format_instant(int(found[2]))}'", pattern)


def shedding_view(running: Running, statistics: Statistics) -> SheddingView:
    """Return what is shed, by place and by query."""
    names = names_in(running)
    places = tuple(
        ShedView(reader, names[reader], port, arc.queries, arc.kind, arc.share, arc.seen, arc.dropped, arc.active)
        for (reader, port), arc in statistics.shed.items()
    )
    chosen = {query: f"manual {share:g}" if share else "off" for query, share in running.shed_shares.items()}
    queries = []
    for query in running.queries:
        counts = statistics.queries.get(query.query)
        lost = 0 if counts is None else counts.shed
        if not lost and query.query not in chosen and query.qos.error is None:
            continue
        came = [statistics.streams[stream.name].tuples for stream in query.streams if stream.name in statistics.streams]
        arrived = sum(came)
        queries.append(
            ShedQueryView(
                query=query.query,
                mode=chosen.get(query.query, "auto"),
                arrived=arrived,
                dropped=lost,
                error=lost / arrived if arrived else None,
                allowed=query.qos.error,
            )
        )
    return SheddingView(places, tuple(queries))


def partition_views(notes: Sequence[BucketNote]) -> tuple[PartitionView, ...]:
    """Return the buckets, by number."""
    return tuple(
        PartitionView(
            bucket=note.bucket,
            machine=note.machine or "driver",
            state_bytes=note.state_bytes,
            cached_bytes=note.cached_bytes,
            operators_us=round(note.operators_ns / 1000),
            restored=note.restored,
        )
        for note in sorted(notes, key=lambda note: note.bucket)
    )


def setting_views(running: Running) -> tuple[SettingView, ...]:
    """Return the settings in force."""
    listing = show_settings(running, None)
    return tuple(SettingView(setting, value, query) for setting, query, value, _ in listing.rows)


def options_of(connector: Connector) -> dict[str, str]:
    """Return the options of a connector without secrets."""
    return {name: _shown(name, str(value)) for name, value in connector.options.items()}


def _shown(name: str, value: str) -> str:
    return MASK if is_secret_name(name) and not is_reference(value) else redact(value)


def _sink_text(sink: Connector) -> str:
    place = sink.options.get("path") or sink.options.get("topic") or sink.options.get("format")
    return sink.kind if place is None else f"{sink.kind} {redact(str(place))}"


def _kind(definition: Query | None) -> Literal["query", "view", "event", "follow"]:
    if definition is None:
        return "follow"
    return "event" if definition.is_event else "view" if definition.is_view else "query"


def _node_kind(definition: Query | None) -> Literal["query", "view", "event"]:
    kind = _kind(definition)
    return "query" if kind == "follow" else kind


def _stream_figures(name: str, figures: Figures | None) -> StreamFigures:
    return msgspec.structs.replace(_NO_STREAM, name=name) if figures is None else figures.stream(name)


def _query_figures(
    name: str, added: AddQuery | None, running: Running, figures: Figures | None, now: int
) -> QueryFigures | None:
    if added is None:
        return None
    if figures is not None:
        return msgspec.structs.replace(figures.query(name), state=_state(added, running, now))
    return QueryFigures(name, _state(added, running, now), 0.0, 0, 0, None, 0, 0, 0, 0)


def _state(query: AddQuery, running: Running, now: int) -> str:
    failed = next((failed for failed in running.failed if failed.query == query.query), None)
    return state_of(query, running, now) if failed is None else f"failed: {failed.reason}"


def _reads(definition: Query | None, added: AddQuery | None, catalog: Catalog) -> tuple[str, ...]:
    """Return what a query reads, by the names as they were written."""
    if definition is not None:
        relations = sorted(references(definition.text).relations)
        return tuple(name if (known := catalog.get(name)) is None else known.name for name in relations)
    return () if added is None else tuple(stream.name for stream in added.streams)


def _readers(name: str, catalog: Catalog, running: Running) -> tuple[str, ...]:
    """Return the queries, views, events and rules that read a relation; unnamed SELECTs too."""
    defined = {query.name for query in catalog.queries()} | {rule.name for rule in catalog.rules()}
    unnamed = [
        query.query
        for query in running.added
        if query.query not in defined and any(stream.name == name for stream in query.streams)
    ]
    return (*catalog.readers(name.lower()), *unnamed)


def _sharing(name: str, running: Running) -> tuple[str, ...]:
    own = {vertex.id for query in running.working if query.query == name for vertex in query.graph}
    return tuple(
        query.query
        for query in running.queries
        if query.query != name
        and any(vertex.id in own and not isinstance(vertex.spec, Output) for vertex in query.graph)
    )


def _users(running: Running) -> Mapping[VertexId, set[str]]:
    users: dict[VertexId, set[str]] = {}
    for query in running.working:
        for vertex in query.graph:
            users.setdefault(vertex.id, set()).add(query.query)
    return users


def _base(name: str) -> str:
    """Return the stream, query or rule of which a name may be a side stream."""
    head, dot, side = name.rpartition(".")
    return head if dot and side in ("late", "bad", "failed") else name


def _id(kind: str, name: str) -> str:
    return f"{kind}:{name}"


def _ms(instant: int | None) -> int | None:
    return None if instant is None or abs(instant) > 2**60 else instant // 1000
