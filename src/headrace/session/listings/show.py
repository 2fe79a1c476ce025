"""SHOW lists definitions, statistics and decisions; DESCRIBE, what is known of one definition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import ON_DEMAND, RAISED, SCHEDULE, START_ON, STOP_ON, Query, Rule, Stream, Table
from headrace.commands.command import AddQuery, Steer
from headrace.commands.running import Running
from headrace.commands.running_graph import names_in, whole_of
from headrace.control.decision_log import Decided
from headrace.control.migration_log import MigrationLog
from headrace.engine.statistics import QueryStatistics, RuleStatistics, Statistics, StreamStatistics
from headrace.errors import HeadraceError
from headrace.graph.naming import Names
from headrace.model.qos import Qos, format_qos, qos_of
from headrace.model.time import MILLISECOND, format_duration, format_instant
from headrace.session.listings.plans import show_migrations, show_plans
from headrace.session.listings.settings import setting_text, show_settings
from headrace.session.outcome import Listing
from headrace.session.promises import unshed_places
from headrace.session.stints import state_of
from headrace.storage.requests import Requests
from headrace.worker.wire import BucketNote

#: Columns whose numbers only the process that runs the queries knows.
COUNTS = frozenset(
    {"tuples", "bad", "late", "behind", "unread", "results", "failed", "detections", "called", "waiting"}
)


def show(
    what: str,
    catalog: Catalog,
    running: Running,
    statistics: Statistics,
    now: int,
    decisions: Sequence[Decided] = (),
    failure: HeadraceError | None = None,
    budget: int | None = None,
    buckets: Sequence[BucketNote] = (),
    stores: Mapping[str, Mapping[str, Requests]] | None = None,
    migrations: MigrationLog | None = None,
    problems: Mapping[str, str] | None = None,
) -> Listing:
    """List the definitions of a kind, or the statistics of every vertex; after a `failure` no query runs.

    `budget` is what the controller calculated, in nanoseconds; `buckets`, what they reported last; `stores`, the
    requests of each kind of process, by store; `problems`, why tables could not be read again.
    """
    match what:
        case "STREAMS":
            return _streams(catalog, running, statistics)
        case "TABLES":
            return Listing(
                ("table", "source", "refresh", "problem"),
                tuple(
                    (
                        table.name,
                        table.connector.kind,
                        format_duration(table.refresh) if table.refresh else None,
                        (problems or {}).get(table.name),
                    )
                    for table in catalog.tables()
                ),
            )
        case "QUERIES":
            return _queries(catalog, running, statistics, now, failure)
        case "EVENTS":
            rows = tuple(
                (query.name, query.text.removeprefix("DETECT ")) for query in catalog.queries() if query.is_event
            )
            raised = tuple(
                (stream.name, f"raised by rules: {', '.join(stream.schema.names)}")
                for stream in catalog.streams()
                if stream.connector.kind == RAISED
            )
            return Listing(("event", "definition"), rows + raised)
        case "RULES":
            return _rules(catalog, running, statistics)
        case "AGGREGATES":
            declared = tuple(
                (aggregate.name, aggregate.arguments, aggregate.result.value, aggregate.target or "SQL")
                for aggregate in catalog.aggregates()
            )
            return Listing(("aggregate", "arguments", "result", "target"), declared)
        case "FUNCTIONS":
            own = tuple(
                (function.name, ", ".join(arg.value for arg in function.args), function.result.value, function.target)
                for function in catalog.functions()
            )
            return Listing(("function", "arguments", "result", "target"), own)
        case "FEEDBACK":
            return _feedback(names_in(running), statistics)
        case "DECISIONS":
            made = tuple(
                (format_instant(decision.time), decision.query or "all", decision.action, decision.reason)
                for decision in decisions
            )
            return Listing(("time", "query", "decision", "reason"), made)
        case "SHEDDING":
            return _shedding(running, statistics)
        case "SETTINGS":
            return show_settings(running, budget)
        case "BUCKETS":
            return _buckets(buckets)
        case "STORES":
            return _stores(stores or {})
        case "PLANS":
            known, apart = ({}, {}) if migrations is None else (migrations.boxes, migrations.apart)
            return show_plans(running, known, len(buckets), apart)
        case "MIGRATIONS":
            return show_migrations([] if migrations is None else migrations.all())
        case _:
            return _operators(running, statistics)


def _buckets(notes: Sequence[BucketNote]) -> Listing:
    """List the buckets with the machines that ran them in the last micro-batch."""
    return Listing(
        ("bucket", "machine", "state bytes", "cached bytes", "us in operators", "restored"),
        tuple(
            (
                note.bucket,
                note.machine or "driver",
                note.state_bytes,
                note.cached_bytes,
                round(note.operators_ns / 1000),
                note.restored,
            )
            for note in sorted(notes, key=lambda note: note.bucket)
        ),
    )


def _stores(requests: Mapping[str, Mapping[str, Requests]]) -> Listing:
    """List object stores with the requests that processes have made of them."""
    rows = [
        (store, process, counted.made, counted.repeated, counted.failed, counted.fault)
        for process, by_store in requests.items()
        for store, counted in by_store.items()
    ]
    return Listing(
        ("store", "process", "requests", "repeated", "given up", "last fault"),
        tuple(sorted(rows, key=lambda row: row[0])),
    )


def describe_rule(rule: Rule) -> Listing:
    """List what a rule does, and the columns of its detections."""
    reaction = rule.reaction
    effort = reaction.effort
    said = [("ON", rule.event), ("CONTEXT", rule.context or None), ("WHEN", rule.condition or None)]
    said += [("PRIORITY", f"{reaction.priority} {'DEFERRED' if reaction.deferred else 'IMMEDIATE'}")]
    if reaction.confirm is not None:
        said += [("CONFIRM WITHIN", format_duration(reaction.confirm))]
    said += [("DO", f"INSERT INTO {sink.kind} {sink.options.get('path', '')}".strip()) for sink in rule.sinks] + [
        ("DO", text) for text in reaction.texts
    ]
    said += [("WITH", f"timeout '{format_duration(effort.timeout)}', tries {effort.tries}, cascade {effort.cascade}")]
    said += [(f"WITH {name}", value) for name, value in format_qos(qos_of(rule.options))]
    said += [("STATE", "enabled" if reaction.enabled else "disabled")] + [
        ("warning", warning) for warning in rule.warnings
    ]
    return Listing(
        ("column", "type"),
        tuple((field.name, field.type.value) for field in rule.columns) + tuple(pair for pair in said if pair[1]),
    )


def describe(
    definition: Stream | Table | Query,
    running: Running,
    warnings: Iterable[str] = (),
    statistics: Statistics | None = None,
) -> Listing:
    """List the columns of a stream, table or query.

    Below them, what the query promises now, and what of an event's state nothing bounds.
    """
    columns = tuple((field.name, field.type.value) for field in definition.schema)
    promised = running.promises().get(definition.name, definition.qos) if isinstance(definition, Query) else Qos()
    warned = tuple(("warning", warning) for warning in warnings) + _scheduled(definition.name, running, statistics)
    return Listing(
        ("column", "type"),
        columns
        + tuple((f"WITH {name}", value) for name, value in format_qos(promised))
        + _stint_options(definition)
        + warned,
    )


def _scheduled(name: str, running: Running, statistics: Statistics | None) -> tuple[tuple[str, str], ...]:
    """Return the scheduler of a query, the budget if one was set, and the tuples that wait before its operators."""
    scheduler = [("SCHEDULER", chosen.name) for query, chosen in running.schedulers.items() if query == name]
    if running.budget.mode != "auto" and running.own(name):
        scheduler.append(("BUDGET", setting_text(running.budget)))
    counts = (
        {}
        if statistics is None
        else {
            vertex: statistics.vertices[vertex].queued
            for vertex in sorted(running.own(name))
            if vertex in statistics.vertices
        }
    )
    names = names_in(running)
    return (*scheduler, *((f"queued at {names[vertex]}", str(queued)) for vertex, queued in counts.items() if queued))


def _stint_options(definition: Stream | Table | Query) -> tuple[tuple[str, str], ...]:
    """Return when a query is on."""
    options = definition.options if isinstance(definition, Query) else {}
    shown = (SCHEDULE, START_ON, STOP_ON, ON_DEMAND)
    return tuple((name.upper(), str(options[name])) for name in shown if name in options)


def _streams(catalog: Catalog, running: Running, statistics: Statistics) -> Listing:
    rows = []
    for stream in catalog.streams():
        if stream.connector.kind == RAISED:
            continue
        counts = statistics.streams.get(stream.name, StreamStatistics())
        behind = format_duration(counts.behind - counts.behind % MILLISECOND) if counts.behind >= MILLISECOND else "-"
        rows.append(
            (
                stream.name,
                stream.connector.kind + _steered(running.steering(stream)),
                stream.timing.value,
                counts.tuples,
                counts.bad,
                counts.late,
                behind,
                counts.backlog,
            )
        )
    return Listing(("stream", "source", "timestamps", "tuples", "bad", "late", "behind", "unread"), tuple(rows))


def _steered(steer: Steer | None) -> str:
    """Write how a generator goes on, if not as it is defined."""
    rate = "" if steer is None or steer.rate is None else f", rate {steer.rate:g}"
    return rate + (", paused" if steer is not None and steer.paused else "")


def _queries(
    catalog: Catalog, running: Running, statistics: Statistics, now: int, failure: HeadraceError | None
) -> Listing:
    counts = statistics.queries
    listed = tuple(
        (
            query.query,
            ", ".join(sink.kind for sink in query.sinks),
            counts.get(query.query, QueryStatistics()).results,
            counts.get(query.query, QueryStatistics()).failed,
            _promised(query.qos),
            state_of(query, running, now)
            if failure is None or query in running.stopped
            else f"failed: {failure.message}",
        )
        for query in running.known
        if query.reaction is None
    )
    listed += tuple(
        (
            failed.query,
            ", ".join(sink.kind for sink in failed.added.sinks),
            counts.get(failed.query, QueryStatistics()).results,
            counts.get(failed.query, QueryStatistics()).failed,
            _promised(failed.added.qos),
            f"failed: {failed.reason}",
        )
        for failed in running.failed
        if failed.added.reaction is None
    )
    views = tuple(
        (query.name, "event" if query.is_event else "view", None, None, None, None)
        for query in catalog.queries()
        if query.is_view
    )
    return Listing(("query", "sinks", "results", "failed", "promises", "state"), listed + views)


def _rules(catalog: Catalog, running: Running, statistics: Statistics) -> Listing:
    rows = []
    failed = {failed.query: failed.reason for failed in running.failed}
    for rule in catalog.rules():
        counts, reaction = statistics.rules.get(rule.name, RuleStatistics()), rule.reaction
        execution = f"{'deferred' if reaction.deferred else 'immediate'} {reaction.priority}"
        state = "enabled" if reaction.enabled else "disabled"
        state = f"failed: {failed[rule.name]}" if rule.name in failed else state
        rows.append(
            (
                rule.name,
                rule.event,
                rule.context or None,
                execution,
                state,
                counts.detections,
                counts.done,
                counts.waiting,
                counts.failed,
            )
        )
    return Listing(
        ("rule", "event", "context", "execution", "state", "detections", "called", "waiting", "failed"), tuple(rows)
    )


def _promised(qos: Qos) -> str | None:
    return ", ".join(f"{name} {value}" for name, value in format_qos(qos)) or None


def _feedback(names: Names, statistics: Statistics) -> Listing:
    """List what feedback drops where, and what that saved."""
    rows: list[tuple[str, str, str, int, int | None]] = []
    for (reader, pattern), guard in statistics.guards.items():
        ends = "ended" if not guard.active else "-" if guard.until is None else format_instant(guard.until)
        rows.append((names[reader], pattern, ends, guard.saved, None))
    for name, stream in statistics.streams.items():
        if stream.skipped:
            rows.append((name, "not read", "", stream.skipped, stream.skipped_bytes))
    return Listing(("place", "unneeded", "until", "tuples saved", "bytes saved"), tuple(rows))


def _shedding(running: Running, statistics: Statistics) -> Listing:
    """List what is shed where, for which queries, and what each query has lost by it."""
    rows: list[tuple[str, str, str, float | None, int, int]] = []
    vertices, names = whole_of(running).by_id(), names_in(running)
    for (reader, port), arc in statistics.shed.items():
        origins = vertices[reader].inputs if reader in vertices else ()
        place = names[reader] if reader in vertices else "no longer runs"
        rows.append(
            (
                ", ".join(arc.queries),
                f"{place}, input {port + 1}" if len(origins) > 1 else place,
                arc.kind if arc.active else "ended",
                arc.share,
                arc.seen,
                arc.dropped,
            )
        )
    chosen = {query: f"manual {share:g}" if share else "off" for query, share in running.shed_shares.items()}
    for query in running.queries:
        if query.qos.error:
            rows += [(query.query, place, "never", None, 0, 0) for place in unshed_places(query)]
        counts = statistics.queries.get(query.query)
        lost = 0 if counts is None else counts.shed
        if lost or query.query in chosen:
            rows.append(
                (query.query, "total", chosen.get(query.query, "auto"), None, sum(_came(query, statistics)), lost)
            )
    return Listing(("query", "place", "kind", "share", "arrived", "dropped"), tuple(rows))


def _came(query: AddQuery, statistics: Statistics) -> list[int]:
    """Return the number of tuples that have arrived on each of a query's streams."""
    return [statistics.streams[stream.name].tuples for stream in query.streams if stream.name in statistics.streams]


def _operators(running: Running, statistics: Statistics) -> Listing:
    rows = []
    names = names_in(running)
    bursts = {
        query.output: statistics.queries[query.query].burstiness
        for query in running.queries
        if query.query in statistics.queries
    }
    for vertex, counts in statistics.vertices.items():
        service = round(counts.service_us or 0.0, 3)
        rows.append(
            (
                names[vertex],
                counts.tuples_in,
                counts.tuples_out,
                counts.queued,
                counts.queued_bytes,
                counts.held,
                counts.state_bytes,
                counts.late,
                service,
                counts.peak,
                _rounded(counts.queue_ms),
                _rounded(counts.idle_share),
                _rounded(bursts.get(vertex)),
            )
        )
    columns = ("operator", "in", "out", "queued", "queued bytes", "held", "state bytes", "late", "us per tuple")
    return Listing((*columns, "peak", "ms in queue", "idle share", "burstiness"), tuple(rows))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
