"""Delivers a micro-batch: results to sinks, exchanged pages to the spool, detections to rules, counts to statistics.

Runs on the driver once per micro-batch, perhaps again after a crash: everything it does is idempotent by batch number.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import polars as pl

from headrace.catalog.definitions import FAILURES, SHED, Connector, Stream
from headrace.commands.command import AddQuery
from headrace.commands.culprits import attribute
from headrace.commands.running import Running
from headrace.commands.running_graph import placement_of
from headrace.commands.tables import sweep_tables, texts_of_log
from headrace.connectors import finish_dropped, make_sink
from headrace.connectors.connector import RollingSink, Sink, StagingSink
from headrace.connectors.kafka.publishing import Publish, PublishingSink
from headrace.connectors.kinds import delete_staged
from headrace.connectors.spool import Spooled, exchange_spool, stream_spool
from headrace.driver.demands import going_on
from headrace.driver.deployed import notes_in
from headrace.driver.exchanges import clear_parts, parts_after
from headrace.driver.failed_results import FailedResults
from headrace.driver.moment import Moment
from headrace.driver.progress import Progress, change_progress, mark_ended, read_progress
from headrace.driver.results import Arrived, QueryResults, outputs_of, results_by_query, sort_out
from headrace.driver.rules.raising import caused_bounds, feeders, raisers
from headrace.driver.rules.reactions import Reactions
from headrace.driver.shed_rows import shed_rows
from headrace.driver.staged_results import part_in
from headrace.driver.stints import begun_in
from headrace.driver.totals import Totals
from headrace.engine.clock import Clock, SystemClock
from headrace.engine.statistics import SentStatistics, Statistics, greatest
from headrace.errors import HeadraceError, HostFault, OwnerFault, SinkFault
from headrace.graph.graph import VertexId
from headrace.model.page import Page
from headrace.model.python_target import RAISED
from headrace.model.schema import Schema
from headrace.model.streams import exchange_of, is_system_stream
from headrace.model.time import BEGIN, END
from headrace.storage import files
from headrace.storage.fence import check_owner, is_kept
from headrace.worker.moving import sweep, sweep_half_done
from headrace.worker.reports import least_bounds, least_waits
from headrace.worker.task_times import forget_times, with_times
from headrace.worker.wire import Report, Row

_LOG = logging.getLogger(__name__)

Subscriber = Callable[[int, Sequence[Page]], None]
#: Takes the results of any query: the micro-batch, the query, its columns, pages, and the number of rows that tasks
#: wrote to files instead. It is called within the delivery, so it only keeps references.
Reader = Callable[[int, str, Schema, Sequence[Page], int], None]
#: Files of so many queries are written at once: most of the time goes into waiting for the disk.
_WRITERS = 8
#: Subscribers take Python values.
_SUBSCRIBER = Connector("SUBSCRIBER", {})
#: Answers to so many demands are kept until their readers fetch them.
_KEPT_ANSWERS = 64


class Delivery:
    """The driver's end of a deployment.

    Without `threads` everything is done in order within `deliver`: a simulation can repeat it step by step.
    """

    def __init__(self, directory: Path, clock: Clock | None = None, *, threads: bool = True) -> None:
        self.directory = directory
        self.clock: Clock = clock or SystemClock()
        self.reports: list[Report] = []  # of the last micro-batch
        self.sinks: dict[str, list[Sink]] = {}
        self.subscribers: dict[str, list[Subscriber]] = {}
        self.readers: list[Reader] = []
        self.watchers: list[Callable[[Moment], None]] = []  # called after each micro-batch; they only keep references
        self.bounds: dict[str, int] = {}  # of the ends of the graph
        self.demanded: dict[int, Sequence[Page]] = {}  # answers to the newest demands, by number
        self.on_the_way: dict[int, dict[VertexId, list[Page]]] = {}  # what demands send by exchanges
        self.unanswered: frozenset[int] = frozenset()  # demands that need another micro-batch
        self.refused: set[int] = set()  # demands that send too much
        self.commands = 0  # in force in the last micro-batch
        self.reactions = Reactions(directory, threads=threads)
        self.publish: Publish | None = None  # lets tasks send results; None: this process does
        self._failed_subscribers: Counter[str] = Counter()
        self._totals = Totals()
        self._opened: dict[str, tuple[tuple[Connector, ...], Schema]] = {}
        self._writers = ThreadPoolExecutor(_WRITERS, "files") if threads else None
        self._is_open = False
        self._has_leftovers = True  # whether sinks that were closed, also by an earlier process, may have left files
        self._is_over = False  # whether a draining deployment has delivered everything

    @property
    def statistics(self) -> Statistics:
        """The totals after the last micro-batch; a value that does not change."""
        totals = self._totals.statistics
        queries = {
            name: msgspec.structs.replace(query, subscriber_errors=self._failed_subscribers[name])
            for name, query in totals.queries.items()
        }
        return msgspec.structs.replace(totals, queries=queries, rules=self.reactions.counters.totals)

    def open(self, running: Running) -> None:
        """Make the sinks of new queries and close those of dropped ones."""
        self.reactions.start()
        targets = {query.query: (query.sinks, query.schema) for query in running.known}
        # what a query delivered before it failed can still be read
        targets |= {
            failed.query: (failed.added.sinks, failed.added.schema)
            for failed in running.failed
            if failed.query in self.sinks
        }
        for name in [name for name in self.sinks if self._opened[name] != targets.get(name)]:
            del self._opened[name]
            for sink in self.sinks.pop(name):
                sink.close()
            self._has_leftovers = True
        for name, (sinks, schema) in targets.items():
            if name not in self.sinks:
                self._opened[name] = sinks, schema
                self.sinks[name] = [make_sink(name, sink, schema, self.directory) for sink in sinks]
                for sink in self.sinks[name]:
                    if isinstance(sink, PublishingSink) and self.publish is not None:
                        sink.publish = self.publish
                for rolling in _rolling(self.sinks[name]):
                    rolling.has_timer = self._writers is not None
                    rolling.resume()
        if not self._is_open:
            self._is_open = True
            finish_dropped(self.directory, {rolling.directory for rolling in self._rolling()})

    def resume(self, running: Running) -> None:
        """Continue where an earlier process was: delete what it left half done, before the first task runs."""
        self.open(running)
        progress = read_progress(self.directory)
        self.bounds = progress.bounds
        if progress.ended:
            clear_parts(self.directory)
            sweep(self.directory, ())
        swept = sweep_half_done(self.directory) + sum(
            files.sweep(self.directory / folder)
            for folder in ("", "commands", "calls", "notes", "tables", "proposals", "subscribed")
        )
        sweep_tables(self.directory, lambda: texts_of_log(self.directory))
        # notes between tasks of a micro-batch that is repeated: a power cut may have cut them off
        notes = notes_in(self.directory)
        files.remove(*(notes / name for name in files.names(notes)), durable=False)
        for folder in ("sources", "exchange", "sinks"):
            swept += sum(files.sweep(self.directory / folder / name) for name in files.names(self.directory / folder))
        for sink in (sink for sinks in self.sinks.values() for sink in sinks):
            if isinstance(sink, StagingSink):
                try:
                    swept += sink.sweep()
                except OSError as error:  # nothing depends on it; a sink that cannot be written says so when it must
                    _LOG.warning("what an earlier process left half done cannot be deleted: %s", error)
        if swept:
            _LOG.info("deleted %d files that an earlier process had left half done", swept)

    def deliver(
        self,
        batch: int,
        rows: Iterable[Row],
        running: Running,
        milliseconds: float | None = None,
        *,
        buckets: Collection[int] = (),
    ) -> bool:
        """Hand out one micro-batch; return True if each query of a draining deployment has given its last result.

        Raises a fault if one of these `buckets` has not reported: what it had to say would be lost.
        """
        check_owner(self.directory)  # what sinks get is not in the checkpoint, whose storage would check
        self.open(running)
        arrived = sort_out(rows)
        _check_reports(arrived.reports, buckets)
        reports = [self._timed(report) for report in arrived.reports]
        deployed, running = running, begun_in(reports, running)
        results = results_by_query(arrived, running)
        self.bounds = least_bounds([report.bounds for report in reports])
        ended = self._has_ended(reports, running)
        written = self._exchange(batch, arrived)
        failed = self._write(batch, results, running)
        self._delete_leftovers()
        self.demanded = dict([*self.demanded.items(), *arrived.demanded.items()][-_KEPT_ANSWERS:])
        detected = {result.query: result.detected for result in results if result.detected is not None}
        self.reactions.react(batch, running, detected, self.clock.now(), ended=ended)
        self._remember(batch, reports, running, written, unread=_unread_exchanges(self.bounds, deployed, running))
        self._report_shed(batch, reports, running)
        # the statistics come last: a tuple that is counted has its results
        self._count(batch, reports, running, results, failed, milliseconds, arrived.sent)
        self.on_the_way = arrived.on_the_way
        self.unanswered = frozenset() if ended else frozenset(demand.demand for demand in going_on(reports))
        self.reports, self.commands = reports, running.commands
        if ended:
            self.reactions.outbox.settle()
            for rolling in self._rolling():
                rolling.flush()
            mark_ended(self.directory)  # before the micro-batch is committed: after that none would say so
            self._is_over = True
        return ended

    def close(self) -> None:
        """Release the sinks; what a MEMORY sink holds can still be read."""
        if self._writers is not None:
            self._writers.shutdown()
        self.reactions.outbox.close()
        is_owner = is_kept(self.directory)
        if self._is_over and is_owner:
            with suppress(OSError):  # until now the last micro-batch might have been repeated
                clear_parts(self.directory)
                sweep(self.directory, ())  # parcels that no bucket takes in any more
                sweep_half_done(self.directory)
        for sinks in self.sinks.values():
            for sink in sinks:
                if isinstance(sink, StagingSink) and is_owner:
                    with suppress(OSError):  # no task runs any more; else the next start sweeps
                        sink.sweep()
                with suppress(OwnerFault):  # it may write what waits
                    sink.close()

    def _rolling(self) -> list[RollingSink]:
        return [rolling for sinks in self.sinks.values() for rolling in _rolling(sinks)]

    def _timed(self, report: Report) -> Report:
        """Return a report with the times that its ingest tasks left."""
        notes = notes_in(self.directory)
        tasks = [with_times(notes, report.time, counts) for counts in report.tasks]
        forget_times(notes, report.time, [counts.task for counts in report.tasks])
        return msgspec.structs.replace(report, tasks=tasks)

    def _has_ended(self, reports: Sequence[Report], running: Running) -> bool:
        ends = (*outputs_of(running), *running.watched())
        return (
            running.draining
            and all(self.bounds.get(vertex, BEGIN) >= END for vertex in ends)
            and _all_read(reports, running)
        )

    def _is_settled(self, running: Running) -> bool:
        """Return whether all actions of rules have been taken, if streams end and a query reads those that failed.

        What depends on such a query by an event that a rule raises ends after it. So do the streams in which the system
        reports on itself, and what depends on these.
        """
        streams = {stream.name: stream for query in running.known for stream in query.streams}
        reports = {name for name, stream in streams.items() if stream.connector.kind == FAILURES}
        last = reports | {name for name in streams if is_system_stream(name)}
        after = last | {event for event, origins in feeders(running).items() if last & origins}
        readers = {query.query for query in running.known if any(stream.name in after for stream in query.streams)}
        others = [vertex for vertex, query in outputs_of(running).items() if query not in readers]
        if not running.draining or not reports or any(self.bounds.get(vertex, BEGIN) < END for vertex in others):
            return False
        return self.reactions.outbox.settle()

    def _exchange(self, batch: int, arrived: Arrived) -> dict[str, list[Spooled]]:
        """Spool the pages that change bucket for the next micro-batch; return all parts, also those of tasks."""
        written: dict[str, list[Spooled]] = {}
        for vertex in self.bounds:
            origin = exchange_of(vertex)
            if origin is None:
                continue
            parts = [part_in(row) for row in arrived.staged.get(vertex, ())]
            if vertex in arrived.pages:
                rows = pl.concat([page.rows for page in arrived.pages[vertex]])
                parts.insert(0, exchange_spool(origin, self.directory).put_part(batch, rows))
            if parts:
                written[origin] = parts
        return written

    def _write(self, batch: int, results: Sequence[QueryResults], running: Running) -> dict[str, int]:
        """Give results to sinks and subscribers; return how many a sink of each query cannot hold.

        Sinks that write files do so side by side.
        """
        writing: list[tuple[AddQuery, Connector, Future[None]]] = []
        queries = {query.query: query for query in running.added}
        rules = {query.query for query in running.known if query.reaction is not None}
        counts: dict[str, int] = {}
        for result in results:
            failed = FailedResults(result.query, batch)
            sinks = self.sinks.get(result.query, [])
            connectors = self._opened[result.query][0] if sinks else ()
            for sink, connector in zip(sinks, connectors, strict=True):
                query = queries[result.query]
                with _writing(query, connector):
                    pages = failed.accepted(connector, result.pages, sink)
                    if isinstance(sink, StagingSink) and self._writers is not None:
                        written = self._writers.submit(sink.write, batch, pages, result.staged)
                        writing.append((query, connector, written))
                    elif isinstance(sink, StagingSink):
                        sink.write(batch, pages, result.staged)
                    else:
                        sink.write(batch, pages)
            self._tell(batch, result, failed)
            if result.count and self.readers:
                self._show_results(batch, result, queries[result.query].schema)
            if result.query in rules:
                self.reactions.outbox.keep(result.query, failed.failures)
            elif failed.failures:
                counts[result.query] = failed.put(self.directory)
        for query, connector, written in writing:
            with _writing(query, connector):
                written.result()
        return counts

    def _delete_leftovers(self) -> None:
        """Delete what tasks left for sinks of dropped queries: no micro-batch that has them is repeated any more."""
        if self._has_leftovers:
            self._has_leftovers = False
            delete_staged(self.directory, [sink for sinks in self.sinks.values() for sink in sinks])

    def _tell(self, batch: int, result: QueryResults, failed: FailedResults) -> None:
        """Give results to subscribers; one that raises does not stop the deployment."""
        subscribers = self.subscribers.get(result.query, [])
        if subscribers and result.staged:
            # it was under way when the first of them came
            _LOG.warning("subscribers of %s begin after micro-batch %d: tasks wrote its results", result.query, batch)
            return
        for subscriber in subscribers:
            pages = failed.accepted(_SUBSCRIBER, result.pages)
            try:
                subscriber(batch, pages)
            except RAISED:  # the user's code may raise anything
                self._failed_subscribers[result.query] += 1
                _LOG.exception("a subscriber of %s raised; the deployment goes on", result.query)

    def _show_results(self, batch: int, result: QueryResults, schema: Schema) -> None:
        """Give results to those who read all queries; an error of theirs does not stop the deployment."""
        hidden = result.count - sum(map(len, result.pages))
        for reader in self.readers:
            try:
                reader(batch, result.query, schema, result.pages, hidden)
            except Exception:
                _LOG.exception("a reader of the results of %s raised; the deployment goes on", result.query)

    def show(self, moment: Moment) -> None:
        """Tell watchers that a micro-batch is over; an error of theirs does not stop the deployment."""
        for watcher in self.watchers:
            try:
                watcher(moment)
            except Exception:
                _LOG.exception("a watcher of the deployment raised; the deployment goes on")

    def _remember(
        self,
        batch: int,
        reports: Sequence[Report],
        running: Running,
        written: Mapping[str, Sequence[Spooled]],
        *,
        unread: Collection[str],
    ) -> None:
        """Write down how far streams and exchanges are, for the planning of the next micro-batch.

        `written` are the parts that it reads of exchanges; of `unread` ones also what has been waiting.
        """
        streams = {stream.name: stream for query in running.known for stream in query.streams}
        newest, lanes, punctual = _stream_progress(reports)
        raised = {
            event: min(self.bounds.get(rule, BEGIN) for rule in rules) for event, rules in raisers(running).items()
        }
        exchanges = {
            origin: bound for vertex, bound in self.bounds.items() if (origin := exchange_of(vertex)) is not None
        }

        def follow(last: Progress) -> Progress:
            before = last.of(streams, running)
            latest = {name: max(time, before.newest.get(name, BEGIN)) for name, time in newest.items()}
            reached = {name: greatest(before.lanes.get(name, {}), bounds) for name, bounds in lanes.items()}
            after = msgspec.structs.replace(
                before,
                newest=before.newest | latest,
                lanes=before.lanes | reached,
                punctual=before.punctual | punctual,
                lags=_lags(before.lags, reports, streams),
                sources=before.sources | {name: stream.source for name, stream in streams.items()},
                exchanges=exchanges,
                waits=least_waits(reports),
                unread=sum(report.unread + report.building for report in reports),
                raised=raised,
                raising=sorted(self.reactions.raised),
                caused=caused_bounds(
                    running, self.bounds, self.reactions.raised, has_backlog=any(report.unread for report in reports)
                ),
                settled=before.settled or self._is_settled(running),
                bounds={vertex: bound for vertex, bound in self.bounds.items() if exchange_of(vertex) is None},
                commands=running.commands,
                parts=parts_after(batch, written, before, self.directory, unread=unread),
                moved=[moved for report in reports for moved in report.moved],
            )
            if after == before:
                return last
            return msgspec.structs.replace(after, time=max((report.time for report in reports), default=before.time))

        change_progress(self.directory, follow)

    def _report_shed(self, batch: int, reports: Sequence[Report], running: Running) -> None:
        """Leave what was shed as rows of a system stream, if a query reads it."""
        if any(stream.name == SHED.name for query in running.queries for stream in query.streams):
            stream_spool(SHED.name, self.directory).put(batch, shed_rows(reports, running))

    def _count(
        self,
        batch: int,
        reports: Sequence[Report],
        running: Running,
        results: Sequence[QueryResults],
        failed: Mapping[str, int],
        milliseconds: float | None,
        sent: SentStatistics,
    ) -> None:
        counts, now = {result.query: result.count for result in results}, self.clock.now()
        self._totals.add(batch, reports, running, counts, failed, delivered=now, milliseconds=milliseconds, sent=sent)


@contextmanager
def _writing(query: AddQuery, sink: Connector) -> Iterator[None]:
    """Let an error that no sink should raise name the query; faults and the file system's errors are not due to it."""
    try:
        yield
    except (HeadraceError, OSError, MemoryError):
        raise
    except Exception as error:
        fault = SinkFault(
            f"the results of {query.query} cannot be written INTO {sink.kind}: {type(error).__name__}: {error}"
        )
        attribute(fault, query)
        raise fault from error


def _rolling(sinks: Sequence[Sink]) -> list[RollingSink]:
    """Return the sinks in which results wait."""
    return [sink for sink in sinks if isinstance(sink, RollingSink)]


def _check_reports(reports: Sequence[Report], buckets: Collection[int]) -> None:
    missing = {*buckets} - {note.bucket for report in reports for note in report.buckets}
    if missing:
        raise HostFault(
            f"buckets {', '.join(map(str, sorted(missing)))} have not reported in a micro-batch",
            hint="start again, which repeats it; if it happens again, it is a fault of Headrace",
        )


def _unread_exchanges(bounds: Iterable[str], deployed: Running, running: Running) -> set[str]:
    """Return the exchanges that buckets write and the micro-batch did not read, because no command has begun them."""
    if not running.early:
        return set()
    origins = {origin for vertex in bounds if (origin := exchange_of(vertex)) is not None}
    return origins - {*placement_of(deployed).exchanges()}


def _all_read(reports: Sequence[Report], running: Running) -> bool:
    """Return whether no tuple is left to read that could belong to a later stint."""
    streams = {
        stream.name for query in running.stopped if query.activation.schedule is not None for stream in query.streams
    }
    return all(report.reached.get(name, BEGIN) >= END for report in reports for name in streams)


def _lags(before: Mapping[str, int], reports: Sequence[Report], streams: Mapping[str, Stream]) -> dict[str, int]:
    """Return how far behind the clock the last tuples were of streams that run behind it.

    If all of them were late, the distance has grown: it is not known until others come.
    """
    lags = dict(before)
    for report in reports:
        for name, counts in (pair for task in report.tasks for pair in task.streams.items()):
            if name not in streams or not streams[name].behind or counts.newest is None:
                continue
            if counts.tuples:
                lags[name] = report.time - counts.newest
            elif counts.late:
                lags.pop(name, None)
    return lags


def _stream_progress(
    reports: Sequence[Report],
) -> tuple[dict[str, int], dict[str, dict[str, int]], dict[str, bool]]:
    """Return the newest timestamp of each stream, or bounds by lane, and whether all its tuples were punctual."""
    newest: dict[str, int] = {}
    lanes: dict[str, dict[str, int]] = {}
    punctual: dict[str, bool] = {}
    for task in (task for report in reports for task in report.tasks):
        for name, counts in task.streams.items():
            if counts.lanes:
                lanes[name] = greatest(lanes.get(name, {}), counts.lanes)
            elif counts.newest is not None:
                newest[name] = max(newest.get(name, BEGIN), counts.newest)
            if counts.punctual is not None:
                punctual[name] = punctual.get(name, True) and counts.punctual
    return newest, lanes, punctual
