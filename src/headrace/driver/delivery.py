"""Takes what the buckets send in a micro-batch to where it belongs: results to sinks, exchanged pages to the spool, counts to the statistics.

Runs on the driver, once per micro-batch, perhaps again after a crash: everything it does is idempotent by batch number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import polars as pl

from headrace.catalog.definitions import SHED, Connector
from headrace.commands.running import Running
from headrace.commands.shedders_in_force import readers_of, shedders_in
from headrace.connectors import SINKS
from headrace.connectors.connector import Sink
from headrace.connectors.files.sink import FilesSink
from headrace.connectors.spool import exchange_spool, stream_spool
from headrace.driver.progress import read_progress, write_progress
from headrace.driver.rules.raising import raisers
from headrace.driver.rules.reactions import Reactions
from headrace.driver.shed_rows import shed_rows
from headrace.driver.staged_results import staged_name
from headrace.engine.clock import Clock, SystemClock
from headrace.engine.statistics import (
    GuardStatistics,
    QueryStatistics,
    ShedStatistics,
    Statistics,
    StreamStatistics,
    VertexStatistics,
)
from headrace.model.page import Page
from headrace.model.patterns.feedback import Intent
from headrace.model.patterns.pattern import Pattern, matches
from headrace.model.schema import Schema
from headrace.model.streams import exchange_of
from headrace.model.time import BEGIN, END, MILLISECOND
from headrace.operators.specs import Output
from headrace.worker.wire import GuardSeen, Kind, Report, Row, Wait, decode_report

Subscriber = Callable[[int, Sequence[Page]], None]
#: So many guards that have ended are remembered.
_ENDED_SHOWN = 100
#: Files of so many queries are written at once: most of the time goes into waiting for the disk.
_WRITERS = 8


class Delivery:
    """The driver's end of a deployment."""

    def __init__(self, directory: Path, clock: Clock | None = None) -> None:
        self.directory = directory
        self.clock: Clock = clock or SystemClock()
        self.statistics = Statistics()
        self.reports: list[Report] = []  # of the last micro-batch
        self.sinks: dict[str, list[Sink]] = {}
        self.subscribers: dict[str, list[Subscriber]] = {}
        self.bounds: dict[str, int] = {}  # how far the ends of the graph are
        self.partials: dict[str, list[Page]] = {}  # by query: what was demanded last, before it was final
        self.commands = 0  # taken by the last micro-batch
        self.reactions = Reactions(directory, self.statistics)
        self._opened: dict[str, tuple[tuple[Connector, ...], Schema]] = {}
        self._guards: dict[int, list[GuardSeen]] = {}  # by bucket
        self._writers = ThreadPoolExecutor(_WRITERS, "files")

    def open(self, running: Running) -> None:
        """Make the sinks of new queries and close those of dropped ones."""
        wanted = {query.query: query for query in running.known}
        self.reactions.outbox.start()
        for name in [
            name
            for name in self.sinks
            if name not in wanted or self._opened[name] != (wanted[name].sinks, wanted[name].schema)
        ]:
            for sink in self.sinks.pop(name):
                sink.close()
        for name, query in wanted.items():
            if name not in self.sinks:
                self._opened[name] = query.sinks, query.schema
                self.sinks[name] = [SINKS[sink.kind](name, sink, query.schema, self.directory) for sink in query.sinks]

    def deliver(self, batch: int, rows: Iterable[Row], running: Running, milliseconds: float | None = None) -> bool:
        """Hand out one micro-batch; returns True if every query of a draining deployment has given its last result."""
        self.open(running)
        pages: dict[str, list[Page]] = {}
        staged: dict[str, list[Row]] = {}
        partial: dict[str, list[Page]] = {}
        reports: list[Report] = []
        for row in sorted(rows, key=lambda row: (row.bucket, row.part)):
            if row.kind is Kind.RESULT:
                pages.setdefault(row.name, []).append(Page.decode(row.payload))
            elif row.kind is Kind.STAGED:
                staged.setdefault(row.name, []).append(row)
            elif row.kind is Kind.PARTIAL:
                partial.setdefault(row.name, []).append(Page.decode(row.payload))
            elif row.kind is Kind.REPORT:
                reports.append(decode_report(row.payload))
        outputs = {
            vertex.id: vertex.spec.query
            for query in running.working
            for vertex in query.graph.vertices
            if isinstance(vertex.spec, Output)
        }
        bounds = _least_bounds(reports)
        self.bounds = bounds
        self._exchange(batch, pages, bounds)
        writing = []
        rules = {query.query: query.reaction for query in running.queries if query.reaction is not None}
        detected: dict[str, list[Page]] = {}
        first = {
            sent.query: sent.feedback.pattern for sent in running.feedback if sent.feedback.intent is Intent.DESIRED
        }
        for query in dict.fromkeys(outputs.values()):
            own = [
                vertex for vertex, output in outputs.items() if output == query
            ]  # two if one stint is being ended and the next is on
            if any(vertex in partial for vertex in own):
                self.partials[query] = [page for vertex in own for page in partial.get(vertex, [])]
            found = [page for vertex in own for page in pages.get(vertex, [])]
            elsewhere = [row for vertex in own for row in staged.get(vertex, [])]
            if query in first and found:
                found = _ahead(found, first[query])
            rule = rules.get(query)
            if rule is not None:
                detected[query] = found
                found = found if rule.enabled else []
            count = sum(map(len, found)) + sum(row.n for row in elsewhere)
            self.statistics.queries.setdefault(query, QueryStatistics()).results += count
            for sink in self.sinks.get(query, []):
                if isinstance(sink, FilesSink):
                    writing.append(
                        self._writers.submit(sink.write, batch, found, [staged_name(row) for row in elsewhere])
                    )
                else:
                    sink.write(batch, found)
            for subscriber in self.subscribers.get(query, []):
                subscriber(batch, found)
        for written in writing:
            written.result()
        ends = (*outputs, *running.watched())
        ended = (
            running.draining
            and all(bounds.get(vertex, BEGIN) >= END for vertex in ends)
            and _all_read(reports, running)
        )
        self.reactions.react(batch, running, detected, ended=ended)
        self._remember(reports, bounds, running)
        if any(stream.name == SHED.name for query in running.queries for stream in query.streams):
            stream_spool(SHED.name, self.directory).put(batch, shed_rows(reports, running))
        # last, so that whoever sees a tuple counted can see its results
        self._count(batch, reports, running, milliseconds)
        self.reports, self.commands = reports, running.commands
        if ended:
            self.reactions.outbox.settle()
        return ended

    def close(self) -> None:
        """Release the sinks; what a MEMORY sink holds can still be read."""
        self._writers.shutdown()
        self.reactions.outbox.close()
        for sinks in self.sinks.values():
            for sink in sinks:
                sink.close()

    def _exchange(self, batch: int, pages: dict[str, list[Page]], bounds: dict[str, int]) -> None:
        for vertex in bounds:
            origin = exchange_of(vertex)
            if origin is not None and vertex in pages:
                exchange_spool(origin, self.directory).put(batch, pl.concat([page.rows for page in pages[vertex]]))

    def _remember(self, reports: list[Report], bounds: dict[str, int], running: Running) -> None:
        before = read_progress(self.directory)
        newest = dict(before.newest)
        punctual: dict[str, bool] = {}
        for report in reports:
            for counts in report.streams:
                for name, seen in counts.items():
                    if seen.newest is not None:
                        newest[name] = max(newest.get(name, BEGIN), seen.newest)
                    if seen.punctual is not None:
                        punctual[name] = punctual.get(name, True) and seen.punctual
        exchanges = {origin: bound for vertex, bound in bounds.items() if (origin := exchange_of(vertex)) is not None}
        raised = {event: min(bounds.get(rule, BEGIN) for rule in rules) for event, rules in raisers(running).items()}
        after = msgspec.structs.replace(
            before,
            newest=newest,
            punctual={**before.punctual, **punctual},
            exchanges=exchanges,
            waits=_least_waits(reports),
            unread=sum(report.unread for report in reports),
            raised=raised,
            raising=sorted(self.reactions.raised),
        )
        if after != before:
            write_progress(self.directory, after)

    def _guard(self, reports: list[Report]) -> None:
        """Note what feedback has saved so far: of the buckets' guards the counts go on, of those that ended and of the ingest's they are new."""
        guards = self.statistics.guards
        for seen in guards.values():
            seen.active = False
        for report in reports:
            before = {(guard.reader, guard.pattern): guard.saved for guard in self._guards.get(report.bucket, ())}
            for guard in (*report.guards, *report.ended):
                key = guard.reader, guard.pattern
                guards.setdefault(key, GuardStatistics(guard.until)).saved += guard.saved - before.get(key, 0)
            self._guards[report.bucket] = report.guards
            for guard in report.guards:
                guards[guard.reader, guard.pattern].active = True
            for guard in (guard for screened in report.screened for guard in screened):
                found = guards.setdefault((guard.reader, guard.pattern), GuardStatistics(guard.until))
                found.saved += guard.saved
                found.ended |= guard.ended
                found.active = not found.ended
        for key in [key for key, seen in guards.items() if not seen.active][:-_ENDED_SHOWN]:
            del guards[key]
        self.statistics.purged += sum(report.purged for report in reports)

    def _shed(self, reports: list[Report], running: Running) -> None:
        """Add up what was dropped to keep promises."""
        total, settings = self.statistics.shed, shedders_in(running)
        for arc, seen in total.items():
            seen.active = arc in settings
        if not settings:
            return
        readers = readers_of(running)
        for arc, setting in settings.items():
            found = total.setdefault(arc, ShedStatistics((), "", 0.0))
            found.queries, found.kind, found.share, found.active = (
                readers[arc[0]],
                setting.shedding.kind,
                setting.share,
                True,
            )
        for counted in (counted for report in reports for counted in report.shed):
            arc = counted.reader, counted.port
            total[arc].seen += counted.seen
            total[arc].dropped += counted.dropped
            for query in total[arc].queries:
                self.statistics.queries.setdefault(query, QueryStatistics()).shed += counted.dropped

    def _count(self, batch: int, reports: list[Report], running: Running, milliseconds: float | None) -> None:
        total = self.statistics
        total.batch, total.batch_ms = batch, milliseconds
        total.asked += sum(report.asked for report in reports)
        self._guard(reports)
        self._shed(reports, running)
        for seen in total.vertices.values():
            seen.held = seen.queued = seen.state_bytes = 0
        for report in reports:
            for counts in (report.vertices, *report.ingest):
                for vertex, seen in counts.items():
                    _add(total.vertices.setdefault(vertex, VertexStatistics()), seen)
            for streams in report.streams:
                for name, told in streams.items():
                    stream = total.streams.setdefault(name, StreamStatistics())
                    stream.tuples += told.tuples
                    stream.bad += told.bad
                    stream.late += told.late
                    stream.skipped += told.skipped
                    stream.skipped_bytes += told.skipped_bytes
                    if told.newest is not None and told.frontier is not None:
                        stream.newest = max(stream.newest or BEGIN, told.newest)
                        stream.frontier = max(stream.frontier or BEGIN, told.frontier)
        alive = {query.query for query in running.known}
        total.queries = {name: seen for name, seen in total.queries.items() if name in alive}
        arrived = {name: came for report in reports for name, came in report.arrived.items()}
        delivered = self.clock.now()
        for query in running.queries:
            known = total.queries.setdefault(query.query, QueryStatistics())
            came = [arrived[stream.name] for stream in query.streams if stream.name in arrived]
            came += [report.waiting[query.output] for report in reports if query.output in report.waiting]
            if came:
                known.latency_ms = max(0, delivered - min(came)) / MILLISECOND


def _all_read(reports: list[Report], running: Running) -> bool:
    """Whether nothing is left to read that could be of a later stint."""
    streams = {
        stream.name for query in running.stopped if query.activation.schedule is not None for stream in query.streams
    }
    return all(report.reached.get(name, BEGIN) >= END for report in reports for name in streams)


def _ahead(pages: list[Page], wanted: Pattern) -> list[Page]:
    """The rows that are wanted first, then the others."""
    rows = pl.concat([page.rows for page in pages])
    found = matches(wanted, rows)
    return [Page(rows.filter(found)), Page(rows.filter(~found))]


def _least_bounds(reports: list[Report]) -> dict[str, int]:
    names = {name for report in reports for name in report.bounds}
    return {name: min(report.bounds.get(name, BEGIN) for report in reports) for name in names}


def _least_waits(reports: list[Report]) -> list[Wait]:
    least: dict[tuple[tuple[str, ...], bool], int] = {}
    for report in reports:
        for wait in report.waits:
            key = wait.streams, wait.anyhow
            least[key] = min(wait.bound, least.get(key, wait.bound))
    return [Wait(bound, streams, anyhow) for (streams, anyhow), bound in least.items()]


def _add(total: VertexStatistics, seen: VertexStatistics) -> None:
    total.tuples_in += seen.tuples_in
    total.tuples_out += seen.tuples_out
    total.pages_in += seen.pages_in
    total.busy_ns += seen.busy_ns
    total.queued += seen.queued
    total.held += seen.held
    total.state_bytes += seen.state_bytes
    total.late += seen.late
