"""Results and exchanged pages that tasks write to files.

Only a note with the name of the file goes to the driver. It puts files of results into place, and tells the next
micro-batch to read those of exchanges. Results of a query without state are ready in the ingest already, so they need
neither the shuffle nor a bucket.

Small pages go to the driver: a file costs more than they do, and users get fewer files. There is a limit to what a task
sends, so that the driver does not become the bottleneck of many tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
import polars as pl

from headrace.commands.command import AddQuery
from headrace.commands.running import Running
from headrace.connectors import make_staging_sink
from headrace.connectors.connector import SelectiveSink
from headrace.connectors.kinds import can_stage, refused
from headrace.connectors.spool import Spooled, exchange_spool
from headrace.graph.graph import VertexId
from headrace.model.page import Page
from headrace.model.streams import exchange_of
from headrace.storage import files
from headrace.storage.names import file_name
from headrace.worker.wire import Kind, Row, Stage

#: Results of a query in one ingest task are staged there from this size on.
STAGE_BYTES = 128 * 1024
#: The driver gets about so many bytes of pages that tasks could write, divided among the tasks of a micro-batch.
_DRIVER_BYTES = 128 * 1024
#: A task may send this much, however many tasks there are.
_LEAST_BYTES = 4 * 1024
#: Files of tasks are not smaller: on one machine, where the driver is as near as the disk, and on a cluster.
_LEAST_FILE, _LEAST_FILE_ON_CLUSTER = 4 * 1024, 1024
#: A page takes so many bytes in addition to those of its tuples; on the way they are compressed.
_PAGE_BYTES = 200
#: Pages that a task holds for one file; more of them make several files.
_HELD_BYTES = 16 * 1024 * 1024
#: The folder of a checkpoint that holds a file for each query with subscribers.
_SUBSCRIBED = "subscribed"


def subscribe_to(directory: Path, query: str) -> None:
    """Let the tasks send all results of a query to the driver, because a function there takes them."""
    files.replace(_mark(directory, query), b"", durable=False)


def forget_subscriptions(directory: Path) -> None:
    """Forget the subscriptions of an earlier process."""
    folder = directory / _SUBSCRIBED
    files.remove(*(folder / name for name in files.names(folder)))


def is_subscribed(directory: Path, query: str) -> bool:
    """Return whether the results of a query go to the driver, however large they are."""
    return files.exists(_mark(directory, query))


class Allowance(NamedTuple):
    """How many bytes of pages that it could write a task may send to the driver; `least`: of a file."""

    bytes: int
    least: int = 0


def allowance_of(tasks: int, *, is_local: bool = True) -> Allowance:
    """Return what one of so many tasks may send to the driver."""
    if is_local:
        return Allowance(max(_LEAST_BYTES, _DRIVER_BYTES // tasks), _LEAST_FILE)
    return Allowance(_LEAST_BYTES, _LEAST_FILE_ON_CLUSTER)


class Writer:
    """Writes results of queries all of whose sinks allow it, and pages of exchanges.

    `name` is that of the micro-batch and task, the same for every try: writing again replaces a file by the same bytes.
    `batch` is the number of the micro-batch, known in the keyed stage, where exchanges are.
    """

    def __init__(self, directory: Path, name: str, *, batch: int | None = None, task: int = 0) -> None:
        self.directory, self.name, self.batch, self.task = directory, name, batch, task
        self._made = 0

    def can_write(self, vertex: VertexId, running: Running) -> bool:
        """Return whether what comes out of a vertex may be written by a task."""
        if exchange_of(vertex) is not None:
            return self.batch is not None
        query = self._query(vertex, running)
        if query is None or not all(map(can_stage, query.sinks)):
            return False
        # else the driver needs the detections
        return query.reaction is None or (query.reaction.enabled and not query.reaction.actions)

    def write(
        self, bucket: int, vertex: VertexId, pages: Sequence[Page], running: Running, part: int | None = None
    ) -> Row | None:
        """Write what came out of a vertex and return a note for the driver; None if only the driver can take it."""
        if not self.can_write(vertex, running):
            return None
        rows = pl.concat([page.rows for page in pages])
        origin = exchange_of(vertex)
        if origin is not None:
            assert self.batch is not None
            writer = f"t{self.task}-{self._next()}"
            name = exchange_spool(origin, self.directory).put_part(self.batch, rows, writer).name
        else:
            query = self._query(vertex, running)
            if query is None or is_subscribed(self.directory, query.query):
                return None
            visible = Page(rows).visible()
            sinks = [make_staging_sink(query.query, sink, query.schema, self.directory) for sink in query.sinks]
            if any(refused(sink, visible) is not None for sink in query.sinks) or any(
                isinstance(sink, SelectiveSink) and sink.refused(visible) is not None for sink in sinks
            ):
                return None  # the driver sets the rows aside that a sink cannot hold
            name = f"{self.name}-{self._next()}"
            for sink in sinks:
                sink.stage(Page(rows), name)
        payload = msgspec.msgpack.encode(name)
        return Row(bucket, Kind.STAGED, vertex, self._made if part is None else part, rows.height, payload)

    def _next(self) -> int:
        self._made += 1
        return self._made

    def _query(self, vertex: VertexId, running: Running) -> AddQuery | None:
        return next((query for query in running.working if query.graph.vertices[-1].id == vertex), None)


class IngestStager:
    """Stages large results that are ready in an ingest task."""

    def __init__(self, directory: Path, name: str, running: Running, *, least: int = STAGE_BYTES) -> None:
        self._writer, self._running, self._least = Writer(directory, name), running, least

    def __call__(self, bucket: int, vertex: VertexId, pages: Sequence[Page], part: int = 0) -> list[Row] | None:
        """Write the results of an Output vertex and return a note for the driver; None if the pages are to be sent."""
        if _size(pages) < self._least:
            return None
        note = self._writer.write(bucket, vertex, pages, self._running, part)
        return None if note is None else [note]


class HasRunning(Protocol):
    """A bucket, as far as a stager must know it."""

    running: Running


class BucketStager:
    """Holds what could be written of all buckets of a task, then writes the most and lets the allowance travel.

    What is smaller than the least file travels anyhow.
    """

    def __init__(self, writer: Writer, allowance: Allowance) -> None:
        self._writer, self._allowance = writer, allowance
        self._held: dict[VertexId, list[Page]] = {}
        self._first = 0  # bucket
        self._running = Running()

    def of(self, running: HasRunning) -> Stage:
        """Return what takes the pages of one bucket."""

        def take(bucket: int, vertex: VertexId, pages: Sequence[Page], part: int = 0) -> list[Row] | None:
            self._running = running.running  # a command may just have changed it
            if not self._writer.can_write(vertex, self._running):
                return None
            if not self._held:
                self._first = bucket
            held = self._held.setdefault(vertex, [])
            held += pages
            return self._rows(vertex) if _size(held) >= _HELD_BYTES else []

        return take

    def finish(self) -> list[Row]:
        """Return the rows for the driver once all buckets of the task have run: notes, and pages within the limit."""
        rows: list[Row] = []
        sizes = {vertex: _size(pages) + _PAGE_BYTES for vertex, pages in self._held.items()}
        total = sum(sizes.values())
        for vertex in sorted(sizes, key=lambda vertex: (-sizes[vertex], vertex)):
            if total > self._allowance.bytes and sizes[vertex] >= self._allowance.least:
                rows += self._rows(vertex)
                total -= sizes[vertex]
        for vertex in list(self._held):
            rows += self._sent(vertex, self._held.pop(vertex))
        return rows

    def _rows(self, vertex: VertexId) -> list[Row]:
        """Write what is held of a vertex and return a note; if that cannot be, return the pages."""
        pages = self._held.pop(vertex)
        note = self._writer.write(self._first, vertex, pages, self._running)
        return self._sent(vertex, pages) if note is None else [note]

    def _sent(self, vertex: VertexId, pages: Sequence[Page]) -> list[Row]:
        rows = pl.concat([page.rows for page in pages])
        # `part` orders rows of a vertex; those that were written have smaller numbers
        return [Row(self._first, Kind.RESULT, vertex, 1 << 31, rows.height, Page(rows).encode())]


def _size(pages: Sequence[Page]) -> int:
    return sum(int(page.rows.estimated_size()) for page in pages)


def part_in(row: Row) -> Spooled:
    """Return the part of an exchange that a STAGED row names."""
    part = Spooled.named(staged_name(row))
    assert part is not None
    return part


def staged_name(row: Row) -> str:
    """Return the name in a STAGED row."""
    return msgspec.msgpack.decode(row.payload, type=str)


def _mark(directory: Path, query: str) -> Path:
    return directory / _SUBSCRIBED / file_name(query)
