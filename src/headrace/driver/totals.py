"""Adds up what buckets and ingest tasks report of each micro-batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from msgspec.structs import replace

from headrace.commands.running import Running
from headrace.commands.running_graph import placement_of
from headrace.commands.shedders_in_force import readers_of, shedders_in
from headrace.connectors.kinds import unread_unit
from headrace.driver.waiting_times import Burstiness, WaitingTimes
from headrace.engine.statistics import (
    GuardStatistics,
    QueryStatistics,
    QueueStatistics,
    SentStatistics,
    ShedStatistics,
    Statistics,
    StreamCounts,
    StreamStatistics,
    VertexCounts,
)
from headrace.graph.graph import Arc
from headrace.model.time import MILLISECOND
from headrace.operators.multijoin.seen import merged_boxes
from headrace.operators.specs import MultiJoin, Punctuate, Scan
from headrace.storage.requests import added
from headrace.worker.wire import GuardSeen, Report

#: So many guards that are not active any more stay in the statistics.
_KEPT_INACTIVE = 100


class Totals:
    """The sums over all micro-batches; `statistics` is a new value after each."""

    def __init__(self) -> None:
        self.statistics = Statistics()
        self._vertices: dict[str, VertexCounts] = {}
        self._commands = 0  # those in force when vertices were last forgotten
        self._streams: dict[str, StreamCounts] = {}
        self._bucket_guards: dict[int, list[GuardSeen]] = {}  # with counts so far, by bucket
        self._times, self._burstiness = WaitingTimes(), Burstiness()

    def add(
        self,
        batch: int,
        reports: Sequence[Report],
        running: Running,
        results: Mapping[str, int],
        failed: Mapping[str, int] | None = None,
        *,
        delivered: int,
        milliseconds: float | None,
        sent: SentStatistics | None = None,
    ) -> None:
        """Add the reports of a micro-batch, and the results by query, delivered and failed; it was `delivered` then."""
        before = self.statistics
        for name in running.reset_since(self._commands):
            if name in self._streams:
                self._streams[name].forget_times()
        self._count_vertices(reports)
        self._count_once(reports, running)
        self._forget_vertices(running)
        self._count_streams(reports)
        self._count_contradictions(reports, running)
        queries = _with_results(before.queries, results, failed or {})
        shed = _add_shed(before.shed, reports, running)
        queries = _with_shed(queries, reports, shed)
        queries = _with_latency(queries, reports, running, delivered)
        queues = reduce(QueueStatistics.plus, (report.queues for report in reports), QueueStatistics())
        vertices = {name: counts.total() for name, counts in self._vertices.items()}
        self.statistics = Statistics(
            batch=batch,
            batch_ms=milliseconds,
            asked=before.asked + sum(report.asked for report in reports),
            queues=queues,
            peak_tuples=max(before.peak_tuples, queues.peak_tuples),
            peak_bytes=max(before.peak_bytes, queues.peak_bytes),
            vertices=self._times.add(before.vertices, vertices, delivered),
            streams=self._stream_totals(reports, running),
            queries=self._burstiness.add(queries, results, delivered),
            guards=self._add_guards(before.guards, reports),
            purged=before.purged + sum(report.purged for report in reports),
            shed=shed,
            sent=sent or SentStatistics(),
            stores=added([before.stores, *(report.stores for report in reports)]),
        )

    def _forget_vertices(self, running: Running) -> None:
        """Forget the vertices of queries that were dropped or replaced, and of stints that have ended."""
        if self._commands == running.commands:
            return
        self._commands = running.commands
        placement = placement_of(running)
        alive = {vertex.id for graph in (placement.ingest, placement.keyed) for vertex in graph}
        self._vertices = {name: counts for name, counts in self._vertices.items() if name in alive}

    def _count_vertices(self, reports: Sequence[Report]) -> None:
        peaks = {name: counts.peak for name, counts in self._vertices.items()}
        for counts in self._vertices.values():
            counts.held = counts.queued = counts.queued_bytes = counts.state_bytes = counts.peak = counts.waits = 0
        for report in reports:
            for vertices in (report.vertices, *(task.vertices for task in report.tasks)):
                for name, counts in vertices.items():
                    self._vertices.setdefault(name, VertexCounts()).add(counts)
        for name, peak in peaks.items():
            self._vertices[name].peak = max(peak, self._vertices[name].peak)

    def _count_once(self, reports: Sequence[Report], running: Running) -> None:
        """Count tuples once that several buckets have taken: of joins in a grid, and of heavy keys that are split."""
        copies = [task.copies for report in reports for task in report.tasks if task.copies]
        if copies:
            keyed = placement_of(running).keyed.readers()
            for route, count in (item for some in copies for item in some.items()):
                for reader, _ in keyed.get(route, ()):
                    if reader in self._vertices:
                        self._vertices[reader].tuples_in -= count
        taken = merged_boxes(report.boxes for report in reports)
        if not taken:
            return
        buckets = sum(len(report.buckets) for report in reports)
        for vertex in (vertex for query in running.queries for vertex in query.graph if vertex.id in taken):
            if isinstance(vertex.spec, MultiJoin) and vertex.spec.cells is not None:
                counts = [port.taken for port in taken.pop(vertex.id).ports]
                once = vertex.spec.cells.once(counts, running.cells(vertex.id, buckets))
                self._vertices[vertex.id].tuples_in -= sum(counts) - once

    def _count_streams(self, reports: Sequence[Report]) -> None:
        for report in reports:
            for task in report.tasks:
                for name, counts in task.streams.items():
                    self._streams.setdefault(name, StreamCounts()).add(counts)

    def _count_contradictions(self, reports: Sequence[Report], running: Running) -> None:
        """Count tuples that came after the end of their key as late ones of their stream.

        Each query that reads the stream with other columns finds the same ones.
        """
        late: dict[str, int] = {}
        for query in running.queries:
            scans = {vertex.id: vertex.spec.stream for vertex in query.graph if isinstance(vertex.spec, Scan)}
            for vertex in query.graph:
                if isinstance(vertex.spec, Punctuate) and (stream := scans.get(vertex.inputs[0])) is not None:
                    found = sum(report.vertices[vertex.id].late for report in reports if vertex.id in report.vertices)
                    late[stream] = max(found, late.get(stream, 0))
        for stream, count in late.items():
            if count:
                self._streams.setdefault(stream, StreamCounts()).late += count

    def _stream_totals(self, reports: Sequence[Report], running: Running) -> dict[str, StreamStatistics]:
        units = {stream.name: unread_unit(stream.connector.kind) for query in running.known for stream in query.streams}
        behind = {name: time for report in reports for name, time in report.behind.items()}
        unread = {name: count for report in reports for name, count in report.unread_input.items()}
        return {
            name: replace(
                counts.total(),
                behind=behind.get(name, 0),
                unread=unread.get(name, 0),
                unread_unit=units.get(name, "rows"),
            )
            for name, counts in self._streams.items()
        }

    def _add_guards(
        self, before: Mapping[tuple[str, str], GuardStatistics], reports: Sequence[Report]
    ) -> dict[tuple[str, str], GuardStatistics]:
        """Add what guards dropped: a bucket reports all that its guards have dropped so far, the ingest what is new."""
        guards = {key: replace(guard, active=False) for key, guard in before.items()}
        for report in reports:
            for note in report.buckets:
                known = {_key(guard): guard.saved for guard in self._bucket_guards.get(note.bucket, ())}
                for guard in (*note.guards, *note.ended):
                    _save(guards, guard, guard.saved - known.get(_key(guard), 0))
                self._bucket_guards[note.bucket] = note.guards
                for guard in note.guards:
                    guards[_key(guard)] = replace(guards[_key(guard)], active=True)
            for guard in (guard for task in report.tasks for guard in task.guards):
                total = _save(guards, guard, guard.saved)
                ended = total.ended or guard.ended
                guards[_key(guard)] = replace(total, ended=ended, active=not ended)
        for key in [key for key, guard in guards.items() if not guard.active][:-_KEPT_INACTIVE]:
            del guards[key]
        return guards


def _key(guard: GuardSeen) -> tuple[str, str]:
    return guard.reader, guard.pattern


def _save(guards: dict[tuple[str, str], GuardStatistics], guard: GuardSeen, count: int) -> GuardStatistics:
    """Add tuples that a guard dropped; return its total."""
    total = guards.get(_key(guard), GuardStatistics(guard.until))
    guards[_key(guard)] = total = replace(total, saved=total.saved + count)
    return total


def _add_shed(
    before: Mapping[Arc, ShedStatistics], reports: Sequence[Report], running: Running
) -> dict[Arc, ShedStatistics]:
    """Add up what shedders dropped, by arc."""
    shedders = shedders_in(running)
    shed = {arc: replace(total, active=arc in shedders) for arc, total in before.items()}
    if not shedders:
        return shed
    readers = readers_of(running)
    for arc, shedder in shedders.items():
        total = shed.get(arc, ShedStatistics((), "", 0.0))
        shed[arc] = replace(
            total, queries=readers[arc[0]], kind=shedder.shedding.kind, share=shedder.share, active=True
        )
    for counted in (counted for report in reports for counted in report.all_shed()):
        total = shed[counted.reader, counted.port]
        shed[counted.reader, counted.port] = replace(
            total, seen=total.seen + counted.seen, dropped=total.dropped + counted.dropped
        )
    return shed


def _with_results(
    before: Mapping[str, QueryStatistics], results: Mapping[str, int], failed: Mapping[str, int]
) -> dict[str, QueryStatistics]:
    queries = dict(before)
    for name, count in results.items():
        total = queries.get(name, QueryStatistics())
        queries[name] = replace(total, results=total.results + count, failed=total.failed + failed.get(name, 0))
    return queries


def _with_shed(
    before: Mapping[str, QueryStatistics], reports: Sequence[Report], shed: Mapping[Arc, ShedStatistics]
) -> dict[str, QueryStatistics]:
    """Add what was dropped on an arc to each query that reads it."""
    queries = dict(before)
    for counted in (counted for report in reports for counted in report.all_shed()):
        if (counted.reader, counted.port) in shed:
            for name in shed[counted.reader, counted.port].queries:
                total = queries.get(name, QueryStatistics())
                queries[name] = replace(total, shed=total.shed + counted.dropped)
    return queries


def _with_latency(
    before: Mapping[str, QueryStatistics], reports: Sequence[Report], running: Running, delivered: int
) -> dict[str, QueryStatistics]:
    """Set the latency of each query: of the oldest tuple that was read, or that waited in a bucket."""
    alive = {query.query for query in running.added}
    queries = {name: total for name, total in before.items() if name in alive}
    arrived = {name: since for report in reports for name, since in report.arrived.items()}
    for query in running.queries:
        total = queries.get(query.query, QueryStatistics())
        since = [arrived[stream.name] for stream in query.streams if stream.name in arrived]
        since += [report.waiting[query.output] for report in reports if query.output in report.waiting]
        if since:
            total = replace(total, latency_ms=max(0, delivered - min(since)) / MILLISECOND)
        queries[query.query] = total
    return queries
