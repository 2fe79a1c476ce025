"""SHELF: the newest results of a query on disk, one file for each micro-batch with results.

`WITH (keep '1 day durable')` adds it to a query. A file is on disk before the micro-batch is committed, and a repeated
micro-batch replaces its file, so a reader that knows the number of the last one it has seen goes on without a gap.
"""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import polars as pl
from msgspec import Struct

from headrace.catalog.definitions import Connector
from headrace.model.keep import KEEP, Keep, keep_of
from headrace.model.page import Page, read_rows
from headrace.model.schema import Schema
from headrace.storage import files
from headrace.storage.names import file_name

_SUFFIX = ".arrow"
_ABOUT = "about.json"
#: Files are looked through for old ones after so many micro-batches with results.
_TRIM_EVERY = 64


class About(Struct, frozen=True):
    """The columns of the results, and the newest micro-batch whose file was deleted, because it was too old."""

    schema: Schema
    gone: int = -1


class ShelfFiles:
    """The files of one query's shelf."""

    def __init__(self, query: str, checkpoint: Path) -> None:
        self.directory = checkpoint / "shelves" / file_name(query)

    def about(self) -> About | None:
        """Return what is known of them; None if there are none."""
        data = files.read_if_exists(self.directory / _ABOUT)
        try:
            return None if data is None else msgspec.json.decode(data, type=About)
        except ValueError:  # DecodeError is one
            return None

    def describe(self, about: About) -> None:
        """Keep what is known of them."""
        files.replace(self.directory / _ABOUT, msgspec.json.encode(about))

    def batches(self, after: int = -1) -> list[int]:
        """Return the micro-batches that have files, in order."""
        numbers = (int(name.removesuffix(_SUFFIX)) for name in files.names(self.directory) if name.endswith(_SUFFIX))
        return sorted(number for number in numbers if number > after)

    def read(self, batch: int) -> tuple[pl.DataFrame, float] | None:
        """Return the results of a micro-batch and when they were written; None if the file has gone meanwhile."""
        try:
            data = files.read(self.path(batch))
        except FileNotFoundError:
            return None
        stamp, body = data[:8], data[8:]
        return read_rows(body), int.from_bytes(stamp) / 1e6

    def write(self, batch: int, rows: pl.DataFrame) -> None:
        """Write the results of a micro-batch; there were none if it was repeated without any."""
        if rows.is_empty():
            files.remove(self.path(batch))
            return
        buffer = io.BytesIO()
        buffer.write(round(time.time() * 1e6).to_bytes(8))
        rows.write_ipc_stream(buffer)
        files.replace(self.path(batch), buffer.getvalue())

    def remove(self, batches: Sequence[int]) -> None:
        """Delete files."""
        files.remove(*map(self.path, batches), durable=False)

    def clear(self) -> None:
        """Delete all of it."""
        files.remove_directory(self.directory)

    def path(self, batch: int) -> Path:
        """Return the file of a micro-batch."""
        return self.directory / f"{batch:012d}{_SUFFIX}"


class ShelfSink:
    """Writes results to the shelf, and deletes what is too old."""

    def __init__(self, query: str, connector: Connector, schema: Schema, checkpoint: Path) -> None:
        self._files, self._schema = ShelfFiles(query, checkpoint), schema
        self._keep: Keep = keep_of(connector.options)
        self._since_trim = 0
        about = self._files.about()
        if about is None or about.schema != schema:  # an earlier query of the same name
            self._files.clear()
            self._files.describe(About(schema))

    def write(self, batch: int, pages: Sequence[Page]) -> None:
        frames = [page.visible() for page in pages if len(page)]
        empty = pl.DataFrame(schema=self._schema.polars())
        self._files.write(batch, pl.concat(frames).select(self._schema.names) if frames else empty)
        self._since_trim += 1
        if self._since_trim >= _TRIM_EVERY:
            self._since_trim = 0
            self._trim(batch)

    def close(self) -> None:
        """Keep everything: it is read after a restart, too."""

    def _trim(self, newest: int) -> None:
        """Delete what is too old; the micro-batch that may still be repeated stays."""
        batches = [batch for batch in self._files.batches() if batch < newest]
        old = self._too_old(batches)
        if old:
            about = self._files.about() or About(self._schema)
            self._files.describe(msgspec.structs.replace(about, gone=max(about.gone, old[-1])))
            self._files.remove(old)

    def _too_old(self, batches: Sequence[int]) -> list[int]:
        keep, rows, now = self._keep, 0, time.time()
        for place in range(len(batches) - 1, -1, -1):
            found = self._files.read(batches[place])
            if found is None:
                continue
            frame, at = found
            if (keep.rows is not None and rows >= keep.rows) or (keep.seconds is not None and now - at > keep.seconds):
                return list(batches[: place + 1])
            rows += frame.height
        return []


def check_shelf(connector: Connector) -> None:
    """Refuse a shelf whose limit is not one; ValueError says why."""
    keep_of({KEEP: connector.options.get(KEEP, "1 day")})
