"""What arrives on the driver in a micro-batch, sorted by kind and by query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import polars as pl

from headrace.commands.running import Running
from headrace.driver.staged_results import staged_name
from headrace.engine.statistics import SentStatistics
from headrace.graph.graph import Graph, VertexId
from headrace.model.action import Reaction
from headrace.model.page import Page
from headrace.model.patterns.feedback import Intent
from headrace.model.patterns.pattern import Pattern, matches
from headrace.operators.spec import Order
from headrace.operators.specs import Limit, OrderedJoin, OrderedUnion, Output, Reorder
from headrace.worker.bundles import unbundled
from headrace.worker.demands import taken_apart
from headrace.worker.wire import Kind, Report, Row, decode_page, decode_report


@dataclass(frozen=True, slots=True)
class Arrived:
    """The rows of a micro-batch, by vertex in the order of buckets and tasks."""

    pages: dict[VertexId, list[Page]] = field(default_factory=dict)  # of Output and Exchange vertices
    staged: dict[VertexId, list[Row]] = field(default_factory=dict)
    demanded: dict[int, list[Page]] = field(default_factory=dict)  # by number of the demand
    on_the_way: dict[int, dict[VertexId, list[Page]]] = field(default_factory=dict)  # by demand and exchange
    reports: list[Report] = field(default_factory=list)  # one of each task
    notes: int = 0  # bytes
    page_bytes: int = 0
    sent_bytes: int = 0  # of notes and pages, partly compressed

    @property
    def sent(self) -> SentStatistics:
        """How much came from tasks."""
        return SentStatistics(len(self.reports), self.notes, self.page_bytes, self.sent_bytes)


@dataclass(frozen=True, slots=True)
class QueryResults:
    """The results of one query in a micro-batch."""

    query: str
    pages: Sequence[Page]  # to hand out
    staged: Sequence[str]  # names of the files that tasks have written
    count: int
    detected: Sequence[Page] | None = None  # if it is a rule: its detections, also those of a disabled rule


def sort_out(rows: Iterable[Row]) -> Arrived:
    """Sort the rows of a micro-batch by kind."""
    sent = list(rows)
    rows = sorted(unbundled(sent), key=lambda row: (row.bucket, row.part))
    arrived = Arrived(
        sent_bytes=sum(len(row.payload) for row in sent),
        notes=sum(len(row.payload) for row in rows if row.kind in (Kind.REPORT, Kind.STAGED)),
        page_bytes=sum(len(row.payload) for row in rows if row.kind in (Kind.RESULT, Kind.PARTIAL, Kind.DEMANDED)),
    )
    for row in rows:
        match row.kind:
            case Kind.RESULT:
                arrived.pages.setdefault(row.name, []).append(decode_page(row))
            case Kind.STAGED:
                arrived.staged.setdefault(row.name, []).append(row)
            case Kind.PARTIAL:
                arrived.demanded.setdefault(int(row.name), []).append(decode_page(row))
            case Kind.DEMANDED:
                demand, exchange = taken_apart(row.name)
                arrived.on_the_way.setdefault(demand, {}).setdefault(exchange, []).append(decode_page(row))
            case Kind.REPORT:
                arrived.reports.append(decode_report(row.payload))
            case Kind.CONTROL | Kind.PAGE | Kind.BUNDLE:
                pass  # not for the driver, or taken apart
    return arrived


def outputs_of(running: Running) -> dict[VertexId, str]:
    """Return the query of each Output vertex; a query has two while one stint ends and the next has begun."""
    return {
        vertex.id: vertex.spec.query
        for query in running.working
        for vertex in query.graph.vertices
        if isinstance(vertex.spec, Output)
    }


def results_by_query(arrived: Arrived, running: Running) -> list[QueryResults]:
    """Return the results of each query that runs, in the order of the queries."""
    vertices: dict[str, list[VertexId]] = {}
    for vertex, query in outputs_of(running).items():
        vertices.setdefault(query, []).append(vertex)
    rules = {query.query: query.reaction for query in running.queries if query.reaction is not None}
    desired: dict[str, list[Pattern]] = {}  # by query, the highest priority last
    for sent in sorted(running.feedback, key=lambda sent: sent.feedback.priority):
        if sent.feedback.intent is Intent.DESIRED and not _is_sorted(sent.query, running):
            desired.setdefault(sent.query, []).append(sent.feedback.pattern)
    return [_results(query, own, arrived, rules.get(query), desired.get(query, ())) for query, own in vertices.items()]


def _results(
    query: str, vertices: Sequence[VertexId], arrived: Arrived, rule: Reaction | None, desired: Sequence[Pattern]
) -> QueryResults:
    pages = [page for vertex in vertices for page in arrived.pages.get(vertex, [])]
    staged = [row for vertex in vertices for row in arrived.staged.get(vertex, [])]
    for pattern in desired if pages else ():
        pages = _desired_first(pages, pattern)
    handed_out = [] if rule is not None and not rule.enabled else pages
    return QueryResults(
        query=query,
        pages=handed_out,
        staged=[staged_name(row) for row in staged],
        count=sum(map(len, handed_out)) + sum(row.n for row in staged),
        detected=None if rule is None else pages,
    )


def _is_sorted(name: str, running: Running) -> bool:
    """Return whether a query promises its results in the order of time, which no desire may change."""
    graph = next((query.graph for query in running.working if query.query == name), Graph())
    vertices = graph.by_id()
    vertex = graph.vertices[-1] if graph.vertices else None
    while vertex is not None and len(vertex.inputs) == 1 and vertex.spec.output_order is Order.KEPT:
        vertex = vertices[vertex.inputs[0]]
    return vertex is not None and isinstance(vertex.spec, Reorder | OrderedUnion | OrderedJoin | Limit)


def _desired_first(pages: Sequence[Page], desired: Pattern) -> list[Page]:
    """Return the rows that match a pattern, then the others."""
    rows = pl.concat([page.rows for page in pages])
    mask = matches(desired, rows)
    return [Page(rows.filter(mask)), Page(rows.filter(~mask))]
