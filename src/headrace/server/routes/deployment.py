"""The deployment as a whole: state, figures, decisions, feedback, shedding, buckets, settings."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any

import msgspec

from headrace import __version__
from headrace.catalog.definitions import Aggregate
from headrace.connectors.kinds import SINKS, SOURCES
from headrace.control.decision_log import Numbered
from headrace.hosts.local import LocalDeployment
from headrace.language.names import TYPE_NAMES
from headrace.language.parser import STATEMENTS
from headrace.model.expressions.functions import AGGREGATES, FUNCTIONS
from headrace.model.keep import KEEP
from headrace.model.qos import OPTIONS
from headrace.server import read
from headrace.server.problems import Fault
from headrace.server.relations import relations_of
from headrace.server.route import Call
from headrace.server.values import cells, columns_of
from headrace.server.views.control import DecisionsView, FeedbackView, MigrationView, SheddingView
from headrace.server.views.definitions import GraphView, RelationGraph
from headrace.server.views.deployment import (
    DeploymentView,
    Done,
    HistoryView,
    ListingView,
    PartitionView,
    SettingView,
    TokenView,
)
from headrace.server.views.statements import FunctionWord, RelationWord, WordsView
from headrace.session.listings.settings import DEFAULTS
from headrace.session.listings.show import show

KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "AS", "JOIN", "LEFT", "RIGHT", "FULL", "ON", "UNION", "ALL",
    "DISTINCT", "LIMIT", "INTO", "WITH", "TIMESTAMP", "SKEW", "AHEAD", "RANGE", "ROWS", "SESSION", "LANDMARK", "NOW",
    "SLIDE", "PARTITION BY", "AND", "OR", "NOT", "IN", "IS", "NULL", "BETWEEN", "LIKE", "CASE", "WHEN", "THEN", "ELSE",
    "END", "SEQUENCE", "WITHIN", "CONTEXT", "RECENT", "CHRONICLE", "DO", "INSERT", "CALL", "RAISE", "SECONDS",
    "MINUTES", "HOURS", "MUST", "BEST EFFORT", "DONT CARE", "window_start", "window_end", "rowtime",
)  # fmt: skip


def deployment(call: Call) -> DeploymentView:
    """Return the state of the server."""
    server, service = call.server, call.server.service
    state, stage = service.status()
    return DeploymentView(
        name=service.directory.name,
        version=__version__,
        host="local" if isinstance(service.session.deployment, LocalDeployment) else "spark",
        checkpoint=str(service.directory),
        state=state,
        stage=stage,
        problem=service.problem,
        since=round(service.began * 1000),
        uptime_s=time.time() - service.began,
        cores=service.session.deployment.cores,
        role=call.login.role,
        read_only=server.options.read_only,
        logs=server.options.log_file,
        beat=service.beats.latest,
    )


def graph(call: Call) -> RelationGraph:
    """Return who reads whom."""
    service = call.server.service
    return read.relation_graph(service.catalog, service.running, service.beats.figures)


def operators(call: Call) -> GraphView:
    """Return the operators of all queries."""
    service = call.server.service
    return read.graph_view(None, service.running, service.beats.figures)


def decisions(call: Call) -> DecisionsView:
    """Return the decisions after a number."""
    after, limit = call.number("after", 0), call.number("limit", 500, least=1, most=1000)
    return read.decisions_view(numbered(call), after, call.options.get("query"), limit)


def migrations(call: Call) -> tuple[MigrationView, ...]:
    """Return the changes of plans, the oldest first."""
    query = call.options.get("query")
    known = call.server.service.session.deployment.control.migrations.all()
    return tuple(read.migration_view(each) for each in known if query in (None, each.query))


def numbered(call: Call) -> Numbered:
    """Return all decisions that are kept."""
    return call.server.service.session.deployment.control.decisions.numbered()


def feedback(call: Call) -> FeedbackView:
    """Return what feedback saved."""
    service = call.server.service
    return read.feedback_view(service.running, service.statistics)


def shedding(call: Call) -> SheddingView:
    """Return what is shed."""
    service = call.server.service
    return read.shedding_view(service.running, service.statistics)


def partitions(call: Call) -> tuple[PartitionView, ...]:
    """Return the buckets."""
    reports = call.server.service.session.deployment.delivery.reports
    return read.partition_views([note for report in reports for note in report.buckets])


def statistics(call: Call) -> ListingView:
    """Return the counters of every operator, as SHOW STATISTICS lists them."""
    service = call.server.service
    now = service.session.deployment.now()
    listing = show("STATISTICS", service.catalog, service.running, service.statistics, now)
    return ListingView(listing.columns, tuple(map(cells, listing.rows)))


def counters(call: Call) -> Any:
    """Return the totals of streams, queries, rules and operators."""
    counted = call.server.service.statistics
    return {
        "batch": counted.batch,
        "batch_ms": counted.batch_ms,
        "queues": counted.queues,
        "peak_tuples": counted.peak_tuples,
        "peak_bytes": counted.peak_bytes,
        "vertices": counted.vertices,
        "streams": {name: msgspec.structs.replace(stream, aside=()) for name, stream in counted.streams.items()},
        "queries": counted.queries,
        "rules": counted.rules,
        "purged": counted.purged,
        "sent": counted.sent,
    }


def settings(call: Call) -> tuple[SettingView, ...]:
    """Return the settings in force."""
    return read.setting_views(call.server.service.running)


def tokens(call: Call) -> tuple[TokenView, ...]:
    """Return the names and roles of all tokens."""
    return tuple(TokenView(login.name, login.role) for login in call.server.keys.logins())


def history(call: Call) -> HistoryView:
    """Return figures over time."""
    names = [name for name in call.options.get("series", "").split(",") if name]
    step = call.number("step", 1, least=1, most=60)
    since = call.number("from", 0)
    return call.server.history.view(names, step, since)


def words(call: Call) -> WordsView:
    """Return what can be typed."""
    catalog = call.server.service.catalog
    relations = [RelationWord(stream.name, "stream", columns_of(stream.schema)) for stream in catalog.streams()]
    relations += [RelationWord(table.name, "table", columns_of(table.schema)) for table in catalog.tables()]
    relations += [
        RelationWord(query.name, "event" if query.is_event else "view" if query.is_view else "query",
                     columns_of(query.schema))
        for query in catalog.queries()
    ]  # fmt: skip
    functions = [
        FunctionWord(name, function.help, False) for name, function in FUNCTIONS.items() if name.isidentifier()
    ]
    functions += [FunctionWord(name, "", True) for name in AGGREGATES]
    functions += [FunctionWord(aggregate.name, _signature(aggregate), True) for aggregate in catalog.aggregates()]
    return WordsView(
        keywords=tuple(dict.fromkeys((*STATEMENTS, *KEYWORDS))),
        functions=tuple(functions),
        relations=tuple(relations),
        rules=tuple(rule.name for rule in catalog.rules()),
        types=tuple(TYPE_NAMES),
        options=(*OPTIONS, "ordered", "force", KEEP),
        settings=tuple((name, ()) for name in DEFAULTS),
        sources=tuple(kind for kind in SOURCES if kind not in ("RAISED", "FAILURES", "SYSTEM", "CLOCK")),
        sinks=tuple(SINKS),
        snapshots=tuple(relations_of(call.server)),
    )


def _signature(aggregate: Aggregate) -> str:
    arguments = [f"{param.name} {param.type.value}" for param in aggregate.params] or [aggregate.arg.value]
    language = "Python" if aggregate.target else "SQL"
    return f"{aggregate.name}({', '.join(arguments)}) returns {aggregate.result.value}, in {language}"


def retry(call: Call) -> Future[Done]:
    """Start a deployment again that has failed."""
    service = call.server.service
    if service.problem is None:
        raise Fault(409, "nothing has failed")
    return service.retry()


def stop(call: Call) -> Done:
    """Stop the server: the micro-batch is finished, and the checkpoint released."""
    call.server.request_stop()
    return Done("the server is stopping")
