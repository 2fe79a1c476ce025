"""The first records of a stream that is not created yet: can its source be reached, and do the records fit?"""

from __future__ import annotations

import tempfile
from pathlib import Path

import polars as pl
from msgspec import Struct

from headrace.catalog.definitions import Stream
from headrace.connectors.kinds import make_source
from headrace.errors import NotSupported
from headrace.model.time import SECOND
from headrace.worker.computed import computed_rows

#: So many records are read, and for sources whose records come with time, as if so much of it had passed.
RECORDS, LATER = 20, (0, SECOND, 10 * SECOND, 100 * SECOND)
#: Why others cannot be tried.
_OTHERS = {
    "MEMORY": "it has the rows that are pushed",
    "SOCKET": "what is received can be read once only",
    "SPARK": "Spark reads it when a query runs",
}


class Trial(Struct, frozen=True):
    """Records that fit the columns, and records that do not, each with the reason and where it stands."""

    stream: Stream
    rows: pl.DataFrame
    bad: tuple[tuple[str, str, str], ...]


def try_stream(stream: Stream, now: int) -> Trial:
    """Read the first records of a stream without leaving a trace; raise what a query would raise."""
    kind = stream.connector.kind
    if kind in _OTHERS:
        raise NotSupported(f"a stream FROM {kind} cannot be tried: {_OTHERS[kind]}", hint="create it, and read it")
    rows = pl.DataFrame(schema=stream.schema.polars())
    bad: list[tuple[str, str, str]] = []
    with tempfile.TemporaryDirectory(prefix="headrace-try-") as folder:
        source = make_source(stream, Path(folder))
        offset = None
        for later in LATER:
            end = source.latest(offset, now=now + later, limit=RECORDS)
            if end != offset:
                for split in source.splits(offset, end, parallel=1):
                    for piece in source.read(split):
                        read = computed_rows(stream, piece.rows, now + later).select(stream.schema.names)
                        rows = pl.concat([rows, read]).head(RECORDS)
                        if piece.bad is not None:
                            bad += [(str(a), str(b), str(c)) for a, b, c in piece.bad.head(RECORDS).iter_rows()]
                        if rows.height >= RECORDS or len(bad) >= RECORDS:
                            return Trial(stream, rows, tuple(bad[:RECORDS]))
            offset = end
            if rows.height or bad:
                break
    return Trial(stream, rows, tuple(bad))
