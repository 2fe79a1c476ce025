"""Large results and exchanged pages: the tasks that make them write them to files.

Only a note with the name of the file goes to the driver. It puts files of results into place, and tells the next
micro-batch to read those of exchanges. Results of a query without state are ready in the ingest already, so they need
neither the shuffle nor a bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import polars as pl

from headrace.commands.running import Running
from headrace.connectors import STAGING_SINKS, make_staging_sink
from headrace.connectors.kinds import refused
from headrace.connectors.spool import Spooled, exchange_spool
from headrace.graph.graph import VertexId
from headrace.model.page import Page
from headrace.model.streams import exchange_of
from headrace.storage import files
from headrace.storage.names import file_name
from headrace.worker.wire import Kind, Row

#: Results of a query in one bucket and micro-batch are staged from this size on.
STAGE_BYTES = 128 * 1024
#: Pages of an exchange in one bucket and micro-batch are written by the task from this size on.
EXCHANGE_BYTES = 64 * 1024
#: The folder of a checkpoint that holds a file for each query with subscribers.
_SUBSCRIBED = "subscribed"


def subscribe_to(directory: Path, query: str) -> None:
    """Let the tasks send all results of a query to the driver, because a function there takes them."""
    files.replace(_mark(directory, query), b"", durable=False)


def forget_subscriptions(directory: Path) -> None:
    """Forget the subscriptions of an earlier process."""
    folder = directory / _SUBSCRIBED
    files.remove(*(folder.iterdir() if folder.is_dir() else ()))


def is_subscribed(directory: Path, query: str) -> bool:
    """Return whether the results of a query go to the driver, however large they are."""
    return _mark(directory, query).exists()


class Stager:
    """Stages results of queries all of whose sinks allow it, and pages of exchanges.

    `name` is that of the micro-batch and task, the same for every try: writing again replaces a file by the same bytes.
    `batch` is the number of the micro-batch, known in the keyed stage, where exchanges are.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        running: Running,
        *,
        batch: int | None = None,
        least: int = STAGE_BYTES,
        least_exchanged: int = EXCHANGE_BYTES,
    ) -> None:
        self.directory = directory
        self.name = name
        self.batch = batch
        self.least, self.least_exchanged = least, least_exchanged
        self._made = 0
        self._queries = {query.graph.vertices[-1].id: query for query in running.working}

    def __call__(self, bucket: int, vertex: VertexId, pages: Sequence[Page], part: int = 0) -> Row | None:
        """Write what came out of a vertex and return a note for the driver; None if the pages are to be sent."""
        origin = exchange_of(vertex)
        if origin is not None:
            return self._exchanged(bucket, vertex, origin, pages)
        query = self._queries.get(vertex)
        if query is None or any(sink.kind not in STAGING_SINKS for sink in query.sinks):
            return None
        if query.reaction is not None and (query.reaction.actions or not query.reaction.enabled):
            return None  # the driver needs the detections
        if sum(page.rows.estimated_size() for page in pages) < self.least or is_subscribed(self.directory, query.query):
            return None
        rows = Page(pl.concat([page.rows for page in pages]))
        if any(refused(sink, rows.visible()) is not None for sink in query.sinks):
            return None  # the driver sets the rows aside that a sink cannot hold
        self._made += 1
        name = f"{self.name}-{bucket}-{self._made}"
        for sink in query.sinks:
            make_staging_sink(query.query, sink, query.schema, self.directory).stage(rows, name)
        return Row(bucket, Kind.STAGED, vertex, part, len(rows), msgspec.msgpack.encode(name))

    def _exchanged(self, bucket: int, vertex: VertexId, origin: VertexId, pages: Sequence[Page]) -> Row | None:
        if self.batch is None or sum(page.rows.estimated_size() for page in pages) < self.least_exchanged:
            return None
        rows = pl.concat([page.rows for page in pages])
        spooled = exchange_spool(origin, self.directory).put_part(self.batch, rows, f"b{bucket}")
        return Row(bucket, Kind.STAGED, vertex, 0, rows.height, msgspec.msgpack.encode(spooled.name))


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
