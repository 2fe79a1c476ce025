"""Large results are written to their files by the tasks that made them; only a note of where goes to the driver, which puts them into place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import polars as pl

from headrace.connectors.files_sink import FilesSink
from headrace.elements.page import Page
from headrace.graph.command import AddQuery
from headrace.graph.graph import VertexId
from headrace.operators.specs import Output
from headrace.runtime.bucket import Bucket
from headrace.runtime.wire import Kind, Row

#: Results of a query in one bucket and micro-batch are staged from this size on.
STAGE_BYTES = 4 * 1024 * 1024


class Stager:
    """Stages results of queries all of whose sinks are FILES; `attempt` makes names unique among tries of the same task."""

    def __init__(self, directory: Path, batch: int, attempt: str, *, least: int = STAGE_BYTES) -> None:
        self.directory = directory
        self.batch = batch
        self.attempt = attempt
        self.least = least

    def __call__(self, bucket: Bucket, vertex: VertexId, pages: Sequence[Page]) -> list[Row] | None:
        """Write the pages and return notes, or None if they should travel themselves."""
        if sum(page.rows.estimated_size() for page in pages) < self.least:
            return None
        query = next((query for query in bucket.running.queries if _ends_in(query, vertex)), None)
        if query is None or any(sink.kind != "FILES" for sink in query.sinks):
            return None
        rows = Page(pl.concat([page.rows for page in pages]))
        name = f"{self.batch}-{bucket.number}-{self.attempt}"
        for sink in query.sinks:
            FilesSink(query.query, sink, query.schema, self.directory).stage(rows, name)
        return [Row(bucket.number, Kind.STAGED, vertex, 0, len(rows), msgspec.msgpack.encode(name))]


def _ends_in(query: AddQuery, vertex: VertexId) -> bool:
    last = query.graph.vertices[-1]
    return last.id == vertex and isinstance(last.spec, Output)


def staged_name(row: Row) -> str:
    """The name in a STAGED row."""
    return msgspec.msgpack.decode(row.payload, type=str)
