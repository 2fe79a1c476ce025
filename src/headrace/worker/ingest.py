"""The ingest: reads splits of streams, runs the stateless part of the graph, and routes pages to buckets.

It keeps no state. Late tuples are found here: a tuple is late if it lies more than the skew behind the newest earlier one. What arrived in earlier
micro-batches is known by the `newest` timestamp that the plan of the micro-batch carries.
"""

from __future__ import annotations

import time as clock
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl
from msgspec import UNSET, Struct

from headrace.catalog.definitions import BAD, Stream, Timing
from headrace.commands.running import Running
from headrace.commands.running_graph import closed_in
from headrace.commands.shedders_in_force import place_shedders, shedders_in
from headrace.connectors.connector import Skipped, SkippingSource, Slice, Source
from headrace.engine.engine import Engine
from headrace.engine.observed import Observed
from headrace.engine.shedding.shedders import Shedders, ShedSeen
from headrace.engine.statistics import StreamStatistics
from headrace.graph.graph import Graph, Vertex
from headrace.graph.place import Placement
from headrace.model.expressions.expression import Expr
from headrace.model.page import Page
from headrace.model.schema import SEQ, TS, WEIGHT
from headrace.model.streams import bad_stream, is_exchange_stream, late_stream
from headrace.model.time import BEGIN
from headrace.operators.expressions.evaluate import evaluate
from headrace.operators.expressions.hashing import hash_columns
from headrace.operators.specs import Output, Receive, Scan
from headrace.worker.ingest_guards import Screen
from headrace.worker.source_needs import Needed
from headrace.worker.wire import Control, Kind, Row, Stage, encode

#: Tuples gathered for a route before they go to the buckets, and the most that one page holds.
PAGE_TUPLES = 128 * 1024


class Work(Struct, frozen=True):
    """A split of a stream to read; `newest` is the stream's newest timestamp before this micro-batch, `since` when that one was planned."""

    stream: str
    split: Any
    newest: int
    since: int


class Task(Struct, frozen=True):
    """What one ingest task does in a micro-batch. `base` (first task only) says what all buckets are told."""

    number: int
    time: int
    work: tuple[Work, ...]
    base: Control | None


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
    ) -> None:
        self.placement = placement
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
        self.screen = (
            Screen(self.engine, running) if running is not None and (running.assumptions() or running.relays) else None
        )

    def run(self, task: Task, stage: Stage | None = None) -> Iterator[Row]:
        """Read, filter, route; last of all tell every bucket how far the streams have come. `stage` may take results that are ready here."""
        began = clock.perf_counter_ns()
        outbox = _Outbox(self.routes, self.buckets, task.number, self.page, self.ends, stage, self.shedders)
        for shedders in (self.engine.shedders, self.shedders):
            if shedders.active:
                shedders.forget()  # the worker that runs a task again may have run others before
                shedders.begin("ingest", task.number, task.time, msgspec.json.encode(task.work))
        counts: dict[str, StreamStatistics] = {}
        bounds = (
            dict(task.base.bounds) if task.base else {}
        )  # a stream that has ended stays so, however far its last tuples came
        if self.screen is not None:
            self.screen.expire(bounds | {work.stream: self._floor(work, task.time) for work in task.work})
        for work in task.work:
            seen = counts.setdefault(work.stream, StreamStatistics())
            newest = work.newest
            for piece in self._read(work):
                if isinstance(piece, Skipped):
                    seen.skipped += piece.records
                    seen.skipped_bytes += piece.size
                    newest = max(newest, piece.newest or BEGIN)
                    continue
                newest = self._take(work.stream, piece, newest, task.time, seen)
                yield from self._collect(outbox)
            stream = self.streams.get(work.stream)
            if stream is not None and stream.timing is Timing.EXTERNAL and newest > BEGIN:
                bounds[work.stream] = max(newest - stream.skew, bounds.get(work.stream, BEGIN))
                seen.newest, seen.frontier = newest, newest - stream.skew
                if seen.oldest is not None:
                    seen.punctual = seen.oldest >= work.since - stream.skew
        yield from outbox.flush()
        base, observed = task.base, self.engine.observe()
        shed, guards = self._shed(observed), None if self.screen is None else self.screen.report(observed)
        for index, bucket in enumerate(self.buckets):
            first = index == 0
            told = Control(
                time=base.time if base else None,
                bounds=bounds,
                clocks=base.clocks if base else {},
                commands=base.commands if base else [],
                streams=counts if first else None,
                ingest=observed.vertices if first else None,
                budget=base.budget if base else None,
                guards=guards if first else None,
                arrived=base.arrived if base else {},
                busy_ns=clock.perf_counter_ns() - began if first else 0,
                shed=shed if first else None,
            )
            yield Row(bucket, Kind.CONTROL, "", task.number, 0, encode(told))

    def _shed(self, observed: Observed) -> list[ShedSeen] | None:
        """What was dropped on arcs and on routes, the latter by the arc behind the cut."""
        counts = [*observed.shed]
        for seen in self.shedders.take_counts():
            setting = self.shedders.settings[seen.reader, seen.port]
            counts.append(ShedSeen(setting.reader, setting.port, seen.seen, seen.dropped))
        return counts or None

    def _read(self, work: Work) -> Iterator[Slice | Skipped]:
        """Read a split, if possible without what nobody needs."""
        source, columns, unneeded = (
            self.sources[work.stream],
            self.needed.columns(work.stream),
            self.needed.unneeded(work.stream),
        )
        if unneeded and isinstance(source, SkippingSource):
            return source.read_without(work.split, columns, unneeded)
        return source.read(work.split, columns)

    def _floor(self, work: Work, time: int) -> int:
        """No tuple below this is in a split."""
        stream = self.streams.get(work.stream)
        if stream is None:
            return BEGIN
        return (
            time
            if stream.timing is not Timing.EXTERNAL
            else work.newest - stream.skew
            if work.newest > BEGIN
            else BEGIN
        )

    def _take(self, stream: str, piece: Slice, newest: int, time: int, seen: StreamStatistics) -> int:
        """Stamp a slice, set late and bad records aside, and push the rest; returns the newest timestamp so far."""
        rows, bad = piece.rows, piece.bad
        definition = self.streams.get(stream)
        if definition is None:  # an exchange: its tuples carry their timestamps
            self._push(stream, rows)
            seen.tuples += rows.height
            return newest
        rows = rows.with_columns(piece.seq.alias(SEQ))
        late: pl.DataFrame | None = None
        if definition.timing is Timing.EXTERNAL and definition.time_column is not None:
            column = definition.time_column
            rows = rows.with_columns(pl.col(column).cast(pl.Datetime("us")).to_physical().cast(pl.Int64).alias(TS))
            if rows[TS].null_count():
                bad = _untimed(rows.filter(pl.col(TS).is_null()), column, bad)
                rows = rows.filter(pl.col(TS).is_not_null())
            rows, late, newest = _split_late(rows, newest, definition.skew)
            seen.oldest = _least(seen.oldest, rows)
        else:
            rows = rows.with_columns(pl.lit(time, dtype=pl.Int64).alias(TS))
        seen.tuples += rows.height
        self._push(stream, rows)
        if late is not None:
            seen.late += late.height
            # a late tuple counts from when it came, so that windows over <stream>.late close
            self._push(late_stream(stream), late.with_columns(pl.lit(time, dtype=pl.Int64).alias(TS)))
        if bad is not None and bad.height:
            seen.bad += bad.height
            stamped = bad.select(BAD.names).with_columns(
                pl.lit(time, dtype=pl.Int64).alias(TS), pl.int_range(pl.len()).alias(SEQ)
            )
            self._push(bad_stream(stream), stamped)
        return newest

    def _push(self, stream: str, rows: pl.DataFrame) -> None:
        if not rows.height:
            return
        for vertex in self.needed.scans.get(stream, []):
            spec = vertex.spec
            assert isinstance(spec, Scan)
            if is_exchange_stream(stream):
                self.engine.push(vertex.id, Page(rows))
                continue
            if WEIGHT in spec.columns and WEIGHT not in rows.columns:
                rows = rows.with_columns(pl.lit(1.0).alias(WEIGHT))
            hidden = [TS, SEQ] if spec.seq else [TS]
            found = (
                rows
                if spec.stint is UNSET
                else rows.filter(pl.col(TS).is_between(spec.stint.begin, spec.stint.end, closed="left"))
            )
            self.engine.push(vertex.id, Page(found.select([*spec.columns, *hidden])))

    def _collect(self, outbox: _Outbox) -> Iterator[Row]:
        self.engine.run()
        for name, pages in self.engine.take_results().items():
            for page in pages:
                if name in outbox.origins:  # else all that read it are being stopped
                    outbox.add(name, page)
        yield from outbox.full()


class _Outbox:
    """Pages on their way to the buckets, gathered per route."""

    def __init__(
        self,
        routes: Sequence[Vertex],
        buckets: list[int],
        number: int,
        page: int,
        ends: Mapping[str, Sequence[str]],
        stage: Stage | None,
        shedders: Shedders,
    ) -> None:
        self.ends, self.stage, self.shedders = ends, stage, shedders
        self.routes = {vertex.id: vertex.spec for vertex in routes if isinstance(vertex.spec, Receive)}
        self.origins: dict[str, list[str]] = {}
        for name, spec in self.routes.items():
            self.origins.setdefault(spec.origin, []).append(name)
        self.buckets = buckets
        self.number = number
        self.page = page
        self.waiting: dict[str, list[pl.DataFrame]] = {}
        self.sizes: dict[str, int] = {}
        self.sent = 0

    def add(self, origin: str, page: Page) -> None:
        for name in self.origins[origin]:
            sent = page
            if self.shedders.active and (name, 0) in self.shedders.settings:
                sent = self.shedders.screen((name, 0), page)
                if not len(sent):
                    continue
            self.waiting.setdefault(name, []).append(sent.rows)
            self.sizes[name] = self.sizes.get(name, 0) + len(sent)

    def full(self) -> Iterator[Row]:
        for name in [name for name, size in self.sizes.items() if size >= self.page]:
            if (
                self.stage is None or name not in self.ends
            ):  # what may be staged is gathered, so that a task leaves one file
                yield from self._send(name)

    def flush(self) -> Iterator[Row]:
        for name in list(self.waiting):
            yield from self._send(name)

    def _send(self, name: str) -> Iterator[Row]:
        frames = self.waiting.pop(name)
        self.sizes.pop(name)
        staged = self._staged(name, frames)
        if staged is not None:
            yield from staged
            return
        rows = frames[0] if len(frames) == 1 else pl.concat(frames)
        keys = self.routes[name].keys
        for bucket, part in self._divide(rows, keys):
            for piece in part.iter_slices(self.page):
                self.sent += 1
                yield Row(bucket, Kind.PAGE, name, self.number << 32 | self.sent, piece.height, Page(piece).encode())

    def _staged(self, name: str, frames: list[pl.DataFrame]) -> list[Row] | None:
        """Notes of where the results are, if every query that the route ends in could be staged."""
        ends = self.ends.get(name, ())
        if self.stage is None or not ends:
            return None
        self.sent += 1
        bucket = self.buckets[self.number % len(self.buckets)]
        pages = [Page(frame) for frame in frames]
        notes = [self.stage(bucket, end, pages, self.number << 32 | self.sent) for end in ends]
        if any(note is None for note in notes):
            return None  # a file that was staged in vain is never put into place
        return [note for note in notes if note is not None]

    def _divide(self, rows: pl.DataFrame, keys: tuple[Expr, ...] | None) -> Iterator[tuple[int, pl.DataFrame]]:
        count = len(self.buckets)
        if keys == () or count == 1:
            yield self.buckets[0], rows
        elif keys is None:
            yield self.buckets[(self.number + self.sent) % count], rows
        else:
            hashes = hash_columns(evaluate(rows, keys))
            yield from divide(rows, (hashes % np.uint64(count)).astype(np.int64), self.buckets)


def _ends(keyed: Graph) -> dict[str, list[str]]:
    """The routes that lead to nothing but outputs, and which."""
    readers = keyed.readers()
    specs = {vertex.id: vertex.spec for vertex in keyed.vertices}
    found: dict[str, list[str]] = {}
    for name, spec in specs.items():
        ends = [reader for reader, _ in readers[name]]
        if isinstance(spec, Receive) and ends and all(isinstance(specs[end], Output) for end in ends):
            found[name] = ends
    return found


def divide(rows: pl.DataFrame, places: np.ndarray, buckets: Sequence[int]) -> Iterator[tuple[int, pl.DataFrame]]:
    """Split rows by the number of their bucket, keeping their order within it."""
    order = np.argsort(places, kind="stable")
    ends = np.searchsorted(places[order], np.arange(len(buckets) + 1))
    sorted_rows = rows[order]
    for index, bucket in enumerate(buckets):
        if ends[index] < ends[index + 1]:
            yield bucket, sorted_rows[int(ends[index]) : int(ends[index + 1])]


def _split_late(rows: pl.DataFrame, newest: int, skew: int) -> tuple[pl.DataFrame, pl.DataFrame | None, int]:
    """Rows in time, late rows (None: none), and the newest timestamp after them."""
    if not rows.height:
        return rows, None, newest
    ts = rows[TS].to_numpy()
    so_far = np.maximum.accumulate(np.concatenate(([newest], ts)))
    late = ts < so_far[:-1] - skew if newest > BEGIN else ts < np.maximum(so_far[:-1], BEGIN + skew) - skew
    after = int(so_far[-1])
    if not late.any():
        return rows, None, after
    mask = pl.Series(late)
    return rows.filter(~mask), rows.filter(mask), after


def _least(before: int | None, rows: pl.DataFrame) -> int | None:
    found = rows[TS].min()
    return before if not isinstance(found, int) else found if before is None else min(before, found)


def _untimed(rows: pl.DataFrame, column: str, bad: pl.DataFrame | None) -> pl.DataFrame:
    """Records without a timestamp, as bad records."""
    texts = [str({k: v for k, v in row.items() if k not in (TS, SEQ)}) for row in rows.iter_rows(named=True)]
    found = pl.DataFrame(
        {
            "record": texts,
            "reason": [f"{column} is NULL, so the tuple has no timestamp"] * len(texts),
            "origin": [""] * len(texts),
        },
        schema=BAD.polars(),
    )
    return found if bad is None else pl.concat([bad.select(BAD.names), found])
