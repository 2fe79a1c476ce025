"""Results as one Arrow stream that goes on: a record batch for each micro-batch, which says its number."""

from __future__ import annotations

import io

import polars as pl
import pyarrow as pa


class ArrowStream:
    """The bytes of an Arrow stream, piece by piece; readers can open it before the first results."""

    def __init__(self, schema: pl.Schema) -> None:
        self.schema = schema
        self._buffer = io.BytesIO()
        columns = pl.DataFrame(schema=schema).to_arrow().schema
        self._writer = pa.ipc.new_stream(self._buffer, columns)
        self._head: bytes = columns.serialize().to_pybytes()  # the writer would write it with the first rows only
        self._is_begun = False

    def begin(self) -> bytes:
        """Return the beginning: the columns."""
        return self._head

    def add(self, frame: pl.DataFrame, batch: int, skipped: int) -> bytes:
        """Return the results of a micro-batch; its number, and how many rows were skipped before, are metadata."""
        about = {"batch": str(batch), "skipped": str(skipped)}
        for part in frame.rechunk().to_arrow().to_batches():
            self._writer.write_batch(part, custom_metadata=about)
        return self._written()

    def end(self) -> bytes:
        """Return the end."""
        self._writer.close()
        return self._written()

    def _written(self) -> bytes:
        data = self._buffer.getvalue()
        self._buffer.seek(0)
        self._buffer.truncate()
        if data and not self._is_begun:
            self._is_begun = True
            return data.removeprefix(self._head)
        return data
