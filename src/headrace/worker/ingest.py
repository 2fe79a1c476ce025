"""The ingest: reads splits of streams, runs the stateless part of the graph, and routes pages to buckets.

It keeps no state. It finds late tuples: a tuple is late if it lies more than the skew behind the newest before it in
its lane. The plan of the micro-batch carries the `newest` timestamp of earlier micro-batches; `worker.lane_times` gives
that of splits that other tasks read.
"""

from __future__ import annotations

import hashlib
import time as clock
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import UNSET, Struct

from headrace.catalog.definitions import BAD, Stream, Timing
from headrace.commands.allotments import Allotment
from headrace.commands.culprits import attributed, attributed_to_readers
from headrace.commands.running import Running
from headrace.commands.running_graph import closed_in, placement_of
from headrace.commands.shedders_in_force import place_shedders, shedders_in
from headrace.connectors.connector import Skipped, SkippingSource, Slice, Source
from headrace.engine.engine import Engine
from headrace.engine.observed import Observed
from headrace.engine.shedding.shedders import Shedders, ShedSeen
from headrace.engine.statistics import StreamCounts
from headrace.graph.graph import Graph, VertexId
from headrace.graph.place import Placement
from headrace.model.page import Page
from headrace.model.schema import SEQ, TS, WEIGHT
from headrace.model.stint import Schedule, Stint
from headrace.model.streams import bad_stream, is_exchange_stream, late_stream
from headrace.model.time import BEGIN, EARLIEST, END, LATEST, format_duration
from headrace.operators.specs import Output, Receive, Scan
from headrace.worker.computed import with_computed
from headrace.worker.ingest_guards import IngestGuards
from headrace.worker.lane_times import LaneTimes
from headrace.worker.router import Router
from headrace.worker.set_aside import SAMPLES, as_texts, bad_records, late_records
from headrace.worker.source_needs import Needed
from headrace.worker.task_times import TaskTimes, leave_times, without_times
from headrace.worker.wire import Control, Kind, Row, Stage, TaskCounts, encode

#: Tuples gathered for a route before they go to the buckets, and the most that one page holds.
PAGE_TUPLES = 128 * 1024


class Work(Struct, frozen=True):
    """A split of a stream to read.

    `newest` is the newest timestamp before it in its lane, as far as that is known without reading, `since` the time of
    the last micro-batch.
    """

    stream: str
    split: Any
    newest: int
    since: int
    lane: str | None = None  # None: the stream has one lane only
    before: tuple[Any, ...] = ()  # splits that come before it in its lane and may hold newer timestamps
    is_asked: bool = False  # whether those after it need to know its newest timestamp
    latest: int = LATEST  # a record with a later timestamp is a bad one
    may_lead: bool = False  # no such record is bad if the whole split is later


class Task(Struct, frozen=True):
    """The work of one ingest task in a micro-batch; `base` (first task only) is what all buckets must know."""

    number: int
    time: int
    work: tuple[Work, ...]
    base: Control | None
    #: The allotments by which pages are routed, if the commands of this micro-batch change them; None: those in force.
    allotments: dict[str, Allotment] | None = None
    counts_parcels: bool = False


class Ingest:
    """Runs ingest tasks for one placement."""

    def __init__(
        self,
        placement: Placement,
        streams: Mapping[str, Stream],
        sources: Mapping[str, Source],
        buckets: Sequence[int],
        page: int = PAGE_TUPLES,
        running: Running | None = None,
        notes: Path | None = None,
        patience: float = 0.0,
    ) -> None:
        self.notes = notes  # where tasks leave files for each other and for the driver
        self.lane_times = LaneTimes(notes, patience)
        self.placement = placement
        self.running = running or Running()
        self.streams = streams
        self.sources = sources
        self.buckets = list(buckets)
        self.page = page
        closed = closed_in(running) if running is not None else frozenset()
        self.routes = tuple(vertex for vertex in placement.routes() if vertex.id not in closed)
        shedders = place_shedders(placement, shedders_in(running) if running is not None else {})
        # results that a bucket is to shed must go there
        self.ends = {
            name: ends
            for name, ends in _ends(placement.keyed).items()
            if not any((end, 0) in shedders.keyed for end in ends)
        }
        origins = {vertex.spec.origin for vertex in self.routes if isinstance(vertex.spec, Receive)}
        self.engine = Engine(placement.ingest, taps=origins)
        self.engine.use_shedders(shedders.ingest)
        self.shedders = Shedders()  # of routes
        self.shedders.use({(name, 0): shedder for name, shedder in shedders.routes.items()})
        self.needed = Needed(placement.ingest, streams, running)
        self._schedules = _schedules(running) if running is not None else []
        self._beside: tuple[list[Stint], Ingest] | None = None  # the last that ran later stints, too
        self.guards = (
            IngestGuards(self.engine, running)
            if running is not None and (running.assumptions() or running.relays)
            else None
        )

    def run(self, task: Task, stage: Stage | None = None) -> Iterator[Row]:
        """Read, filter and route tuples, then send every bucket a control.

        `stage` may write results that are ready here to a file and return a note of the place. An error in a vertex
        names the queries that it works for.
        """
        with attributed(lambda: self.running):
            if not self._schedules:
                yield from self._run(task, stage, [self._read(work, task.time) for work in task.work], [])
                return
            held = [
                self._hold(work, task.time) for work in task.work
            ]  # to which stints the tuples belong decides what runs
            stints = self._stints_in(task, held)
            ingest = self._with(stints)
        with attributed(lambda: ingest.running):
            yield from ingest._run(task, stage, [_released(pieces) for pieces in held], stints)

    def _run(
        self, task: Task, stage: Stage | None, pieces: Sequence[Iterable[Slice | Skipped]], stints: list[Stint]
    ) -> Iterator[Row]:
        """Run a task on what is read of its splits."""
        began = clock.perf_counter_ns() - self.lane_times.waited_ns
        base = task.base or Control()
        bounds = dict(base.bounds)  # a stream that has ended stays so, however far its last tuples came
        lanes = {stream: dict(reached) for stream, reached in base.lanes.items()}
        self._begin(task, bounds)
        counts: dict[str, StreamCounts] = {}
        router = Router(
            task.number,
            self.routes,
            self.buckets,
            in_use=self.running.buckets,
            allotments=self.running.allotments if task.allotments is None else task.allotments,
            counts=task.counts_parcels,
            page=self.page,
            ends=self.ends,
            stage=stage,
            shedders=self.shedders,
        )
        for work, read in zip(task.work, pieces, strict=True):
            statistics = counts.setdefault(work.stream, StreamCounts())
            with attributed_to_readers(work.stream, self.running):
                newest = yield from self._process(work, read, task.time, statistics, router)
            self._advance(bounds, lanes, work, newest, statistics)
        yield from router.flush()
        control = msgspec.structs.replace(base, bounds=bounds, lanes=lanes, begun=stints)
        yield from self._controls(task, control, counts, router, began)

    def _hold(self, work: Work, time: int) -> list[Slice | Skipped]:
        with attributed_to_readers(work.stream, self.running):
            return list(self._read(work, time))

    def _stints_in(self, task: Task, held: Sequence[Sequence[Slice | Skipped]]) -> list[Stint]:
        """Return the stints after those that are on to which tuples of a task belong."""
        times: dict[str, list[npt.NDArray[np.int64]]] = {}
        for work, pieces in zip(task.work, held, strict=True):
            definition = self.streams.get(work.stream)
            if definition is None:
                continue  # an exchange belongs to a stint already
            now = np.array([task.time], dtype=np.int64)
            for side in (late_stream(work.stream), bad_stream(work.stream)):
                times.setdefault(side, []).append(now)
            if definition.timing is Timing.EXTERNAL and definition.time_column is not None:
                latest = self._times(work, pieces)[1]
                stamps = [_stamps(piece.rows, definition.time_column) for piece in pieces if isinstance(piece, Slice)]
                known = (column.filter(column.is_between(EARLIEST, latest)) for column in stamps)
                times.setdefault(work.stream, []).extend(column.to_numpy() for column in known)
                continue
            for piece in pieces:
                if isinstance(piece, Slice) and piece.rows.height:
                    is_caused = definition.timing is Timing.CAUSED and TS in piece.rows.columns
                    times.setdefault(work.stream, []).append(piece.rows[TS].to_numpy() if is_caused else now)
        stints = {
            stint
            for schedule, current, streams in self._schedules
            for stream in streams
            for part in times.get(stream, ())
            for stint in schedule.stints_of(part, current)
        }
        return sorted(stints, key=lambda stint: (stint.query, stint.number))

    def _with(self, stints: list[Stint]) -> Ingest:
        """Return an ingest that runs later stints beside those that are on."""
        running = self.running
        for stint in stints:
            running = running.begin(stint)
        if running.early == self.running.early:
            return self
        if self._beside is None or self._beside[0] != stints:
            placement = placement_of(running)
            notes, patience = self.notes, self.lane_times.patience
            beside = Ingest(placement, self.streams, self.sources, self.buckets, self.page, running, notes, patience)
            self._beside = stints, beside
        return self._beside[1]

    def _begin(self, task: Task, bounds: Mapping[str, int]) -> None:
        """Prepare shedders and guards for a task; nothing may depend on what the worker ran before."""
        for shedders in (self.engine.shedders, self.shedders):
            if shedders.active:
                shedders.forget()
                shedders.begin("ingest", task.number, task.time, msgspec.json.encode(task.work))
        if self.guards is not None:
            floors: dict[str, int] = {}
            for work in task.work:
                floor = self._floor(work, task.time)
                floors[work.stream] = min(floor, floors.get(work.stream, floor))
            self.guards.expire({**bounds, **floors})

    def _process(
        self, work: Work, read: Iterable[Slice | Skipped], time: int, statistics: StreamCounts, router: Router
    ) -> Generator[Row, None, int]:
        """Yield the pages of a split that are ready to go; returns the newest timestamp of its lane."""
        newest, latest, pieces = self._in_lane(work, read, time)
        for piece in pieces:
            if isinstance(piece, Skipped):
                statistics.skipped += piece.records
                statistics.skipped_bytes += piece.size
                if piece.newest is not None and piece.newest <= latest:  # else the newest of the others is not known
                    newest = max(newest, piece.newest)
                continue
            newest = self._take(work.stream, piece, newest, latest, time, statistics)
            self.engine.run()
            for name, pages in self.engine.take_results().items():
                for page in pages:
                    router.add(name, page)
            yield from router.full()
        return newest

    def _in_lane(
        self, work: Work, pieces: Iterable[Slice | Skipped], time: int
    ) -> tuple[int, int, Iterable[Slice | Skipped]]:
        """Return the newest timestamp before a split in its lane, the latest that is good, and what is read of it."""
        if not work.before and not work.is_asked and not work.may_lead:
            return work.newest, work.latest, pieces
        began = clock.monotonic()
        held = list(pieces)
        newest, latest = self._times(work, held)
        if work.is_asked:
            self.lane_times.tell(time, self._name(work, work.split), newest)
        reading = clock.monotonic() - began
        earlier = [self._ask(work, split, time, reading) for split in work.before]
        before = max([work.newest, *(newest for newest in earlier if newest is not None)])
        return before, latest, _released(held)

    def _ask(self, work: Work, split: Any, time: int, reading: float) -> int | None:
        """Return the newest timestamp of an earlier split: from the task that reads it, or by reading it here."""
        name = self._name(work, split)
        is_told, newest = self.lane_times.ask(time, name, reading)
        if not is_told:
            newest, _ = self._times(work, list(self._read(msgspec.structs.replace(work, split=split), time)))
            self.lane_times.tell(time, name, newest)
        return newest

    def _name(self, work: Work, split: Any) -> str:
        """Return a name for what is read of a split: which records are bad depends on the columns that are read."""
        columns, unneeded = self.needed.columns(work.stream), self.needed.unneeded(work.stream)
        content = msgspec.json.encode((work.stream, split, columns, list(map(str, unneeded))))
        return hashlib.blake2b(content, digest_size=16).hexdigest()

    def _times(self, work: Work, pieces: Sequence[Slice | Skipped]) -> tuple[int | None, int]:
        """Return the newest timestamp of what is read of a split (None if it has no tuple), and the latest allowed."""
        column = self.streams[work.stream].time_column
        assert column is not None
        times = [_stamps(piece.rows, column) for piece in pieces if isinstance(piece, Slice)]
        latest = work.latest
        if work.may_lead:
            oldest = _integers(stamps.filter(stamps.is_between(EARLIEST, LATEST)).min() for stamps in times)
            latest = LATEST if min(oldest, default=BEGIN) > latest else latest
        allowed = [_newest_until(stamps, latest) for stamps in times]
        skipped = [piece.newest for piece in pieces if isinstance(piece, Skipped)]
        newest = [*_integers(allowed), *(time for time in _integers(skipped) if time <= latest)]
        return max(newest, default=None), latest

    def _advance(
        self,
        bounds: dict[str, int],
        lanes: dict[str, dict[str, int]],
        work: Work,
        newest: int,
        statistics: StreamCounts,
    ) -> None:
        """Raise the bound of a stream whose tuples carry their timestamps, now that a split of it has been read."""
        stream = self.streams.get(work.stream)
        if stream is None or stream.timing is not Timing.EXTERNAL or newest <= BEGIN:
            return
        bound = newest - stream.skew
        if work.lane is None:
            bounds[work.stream] = max(bound, bounds.get(work.stream, BEGIN))
        else:
            for reached in (lanes.setdefault(work.stream, {}), statistics.lanes):
                reached[work.lane] = max(bound, reached.get(work.lane, BEGIN))
        statistics.newest = newest if statistics.newest is None else max(newest, statistics.newest)
        statistics.frontier = statistics.newest - stream.skew
        if statistics.oldest is not None:
            statistics.punctual = statistics.oldest >= work.since - stream.skew

    def _controls(
        self,
        task: Task,
        control: Control,
        counts: dict[str, StreamCounts],
        router: Router,
        began: int,
    ) -> Iterator[Row]:
        """Yield a control for each bucket; the first one carries the counts of the task, as the driver adds them up."""
        observed = self.engine.observe()
        counted = TaskCounts(
            task=task.number,
            streams=counts,
            vertices=without_times(observed.vertices),
            guards=[] if self.guards is None else self.guards.report(observed),
            shed=self._shed(observed),
            parcels=router.parcels(),
            copies=router.copies,
        )
        if self.notes is not None:
            vertices = {name: vertex.busy_ns for name, vertex in observed.vertices.items()}
            times = TaskTimes(clock.perf_counter_ns() - self.lane_times.waited_ns - began, vertices)
            leave_times(self.notes, task.time, task.number, times)
        first, *others = self.buckets
        yield Row(first, Kind.CONTROL, "", task.number, 0, encode(msgspec.structs.replace(control, counts=counted)))
        payload = encode(control)
        for bucket in others:
            yield Row(bucket, Kind.CONTROL, "", task.number, 0, payload)

    def _shed(self, observed: Observed) -> list[ShedSeen]:
        """Return what was dropped on arcs and on routes, the latter by the arc behind the cut."""
        counts = [*observed.shed]
        for shed in self.shedders.take_counts():
            setting = self.shedders.settings[shed.reader, shed.port]
            counts.append(ShedSeen(setting.reader, setting.port, shed.seen, shed.dropped))
        return counts

    def _read(self, work: Work, time: int) -> Iterator[Slice | Skipped]:
        """Read a split, if possible without the records that no query needs."""
        source, columns = self.sources[work.stream], self.needed.columns(work.stream)
        unneeded = self.needed.unneeded(work.stream)
        pieces: Iterator[Slice | Skipped]
        if unneeded and isinstance(source, SkippingSource):
            pieces = source.read_without(work.split, columns, unneeded, newest=work.newest)
        else:
            pieces = source.read(work.split, columns)
        stream = self.streams.get(work.stream)
        return with_computed(stream, pieces, time) if stream is not None and stream.computed else pieces

    def _floor(self, work: Work, time: int) -> int:
        """Return a lower bound of the timestamps in a split."""
        stream = self.streams.get(work.stream)
        if stream is None:
            return BEGIN
        if stream.timing is Timing.CAUSED:
            return work.newest
        if stream.timing is not Timing.EXTERNAL:
            return time
        return work.newest - stream.skew if work.newest > BEGIN else BEGIN

    def _take(self, stream: str, piece: Slice, newest: int, latest: int, time: int, statistics: StreamCounts) -> int:
        """Stamp a slice, set late and bad records aside, and push the rest; returns the newest timestamp so far."""
        rows, bad = piece.rows, piece.bad
        definition = self.streams.get(stream)
        if definition is None:  # an exchange: its tuples carry their timestamps
            self._push(stream, rows)
            statistics.tuples += rows.height
            return newest
        rows = rows.with_columns(piece.seq.alias(SEQ))
        late: pl.DataFrame | None = None
        if definition.timing is Timing.EXTERNAL and definition.time_column is not None:
            column = definition.time_column
            rows = rows.with_columns(_stamps(rows, column))
            is_timed = pl.col(TS).is_between(EARLIEST, latest).fill_null(False)
            timed = rows.filter(is_timed)
            if timed.height < rows.height:
                bad = _untimed(rows.filter(~is_timed), column, bad, ahead=latest - time)
                rows = timed
            rows, late, newest = _split_late(rows, newest, definition.skew)
            statistics.oldest = _oldest(statistics.oldest, rows)
        elif definition.timing is Timing.CAUSED and TS in rows.columns:
            late = rows.filter(pl.col(TS) < newest)
            rows = rows.filter(pl.col(TS) >= newest)
        else:
            rows = rows.with_columns(pl.lit(time, dtype=pl.Int64).alias(TS))
        statistics.tuples += rows.height
        self._push(stream, rows)
        if late is not None and late.height:
            statistics.late += late.height
            statistics.set_aside(late_records(late, definition, newest, time), SAMPLES)
            # a late tuple is stamped with its arrival, so that windows over <stream>.late close
            self._push(late_stream(stream), late.with_columns(pl.lit(time, dtype=pl.Int64).alias(TS)))
        if bad is not None and bad.height:
            statistics.bad += bad.height
            statistics.set_aside(bad_records(bad, time), SAMPLES)
            stamped = bad.select(BAD.names).with_columns(
                pl.lit(time, dtype=pl.Int64).alias(TS), pl.int_range(pl.len()).alias(SEQ)
            )
            self._push(bad_stream(stream), stamped)
        return newest

    def _push(self, stream: str, rows: pl.DataFrame) -> None:
        """Push rows of a stream into all scans that read it."""
        if not rows.height:
            return
        for vertex in self.needed.scans.get(stream, []):
            spec = vertex.spec
            assert isinstance(spec, Scan)
            self.engine.push(vertex.id, Page(rows if is_exchange_stream(stream) else _scanned(spec, rows)))


def _schedules(running: Running) -> list[tuple[Schedule, Stint, frozenset[str]]]:
    """Return the schedules that repeat, each with the stint of its query that is on and the streams that it reads."""
    return [
        (query.activation.schedule, query.stint, frozenset(_scanned_streams(query.graph)))
        for query in running.queries
        if query.activation.schedule is not None and query.activation.schedule.every is not None
        if query.stint is not None and query.stint.end < END
    ]


def _scanned_streams(graph: Graph) -> Iterator[str]:
    for vertex in graph:
        if isinstance(vertex.spec, Scan):
            yield vertex.spec.stream


def _released(held: list[Slice | Skipped]) -> Iterator[Slice | Skipped]:
    """Yield pieces and keep none that was taken."""
    held.reverse()
    while held:
        yield held.pop()


def _integers(values: Iterable[Any]) -> list[int]:
    return [value for value in values if isinstance(value, int)]


def _newest_until(stamps: pl.Series, latest: int) -> Any:
    """Return the greatest timestamp that is good; None if there is none."""
    greatest = stamps.max()
    if isinstance(greatest, int) and EARLIEST <= greatest <= latest:
        return greatest
    return stamps.filter(stamps.is_between(EARLIEST, latest)).max()


def _stamps(rows: pl.DataFrame, column: str) -> pl.Series:
    """Return a time column as timestamps."""
    return rows[column].cast(pl.Datetime("us")).to_physical().cast(pl.Int64).alias(TS)


def _scanned(spec: Scan, rows: pl.DataFrame) -> pl.DataFrame:
    """Return what a scan reads of a stream: its columns, within its stint, with a weight if its tuples are weighed."""
    if WEIGHT in spec.columns and WEIGHT not in rows.columns:
        rows = rows.with_columns(pl.lit(1.0).alias(WEIGHT))
    if spec.stint is not UNSET:
        rows = rows.filter(pl.col(TS).is_between(spec.stint.begin, spec.stint.end, closed="left"))
    return rows.select([*spec.columns, *([TS, SEQ] if spec.seq else [TS])])


def _ends(keyed: Graph) -> dict[VertexId, list[VertexId]]:
    """Return the routes that lead to nothing but outputs, with these outputs."""
    readers, specs = keyed.readers(), {vertex.id: vertex.spec for vertex in keyed}
    ends: dict[VertexId, list[VertexId]] = {}
    for name, spec in specs.items():
        behind = [reader for reader, _ in readers[name]]
        if isinstance(spec, Receive) and behind and all(isinstance(specs[end], Output) for end in behind):
            ends[name] = behind
    return ends


def _split_late(rows: pl.DataFrame, newest: int, skew: int) -> tuple[pl.DataFrame, pl.DataFrame | None, int]:
    """Return the rows in time, the late rows (None if there are none), and the newest timestamp after them."""
    if not rows.height:
        return rows, None, newest
    if rows[TS].is_sorted() and rows[TS][0] >= max(newest, BEGIN + skew) - skew:
        return rows, None, max(newest, int(rows[TS][-1]))
    ts = rows[TS].to_numpy()
    so_far = np.maximum.accumulate(np.concatenate(([newest], ts)))
    late = ts < so_far[:-1] - skew if newest > BEGIN else ts < np.maximum(so_far[:-1], BEGIN + skew) - skew
    after = int(so_far[-1])
    if not late.any():
        return rows, None, after
    mask = pl.Series(late)
    return rows.filter(~mask), rows.filter(mask), after


def _oldest(before: int | None, rows: pl.DataFrame) -> int | None:
    oldest = rows[TS].min()
    if not isinstance(oldest, int):
        return before
    return oldest if before is None else min(before, oldest)


def _untimed(rows: pl.DataFrame, column: str, bad: pl.DataFrame | None, *, ahead: int) -> pl.DataFrame:
    """Add records without a usable timestamp to the bad records; `ahead` is how far ahead of the clock it may be."""
    texts = as_texts(rows.drop(TS, SEQ))
    reason = (
        pl.when(pl.col(TS).is_null())
        .then(pl.lit(f"{column} is NULL, so the tuple has no timestamp"))
        .when(pl.col(TS).is_between(EARLIEST, LATEST))
        .then(pl.lit(f"{column} is more than {format_duration(ahead)} ahead of the clock"))
        .otherwise(pl.lit(f"{column} is not between the years 1 and 9000"))
    )
    untimed = pl.DataFrame(
        {
            "record": [str(row) for row in texts.iter_rows(named=True)],
            "reason": rows.select(reason).to_series(),
            "origin": [""] * rows.height,
        },
        schema=BAD.polars(),
    )
    return untimed if bad is None else pl.concat([bad.select(BAD.names), untimed])
