"""SPARK: any Spark source or sink by the name of its format.

A foreign source is read by a small streaming query of its own (hosts/spark/feeder.py), which leaves its rows in a spool
that we read as pages. A foreign sink gets each micro-batch's rows by Spark's batch writer: at least once, since Spark's
writers know nothing of our batch numbers (formats that take txnAppId and txnVersion, such as Delta, ignore a repeated
batch).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from headrace.catalog.definitions import Connector
from headrace.errors import SinkFault
from headrace.model.page import Page
from headrace.model.schema import Schema


class SparkSink:
    """Writes by `DataFrameWriter`; options `format` and `mode` are ours, all others the format's own."""

    def __init__(self, query: str, connector: Connector, schema: Schema, checkpoint: Path) -> None:
        self._query = query
        self._schema = schema
        self._options = {name: str(value) for name, value in connector.options.items()}
        self._format = self._options.pop("format")
        self._mode = self._options.pop("mode", "append")
        self._application = f"{Path(checkpoint).name}-{query}"

    def write(self, batch: int, pages: Sequence[Page]) -> None:
        """Hand one micro-batch to Spark; empty ones are left out."""
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
        if not pages:
            return
        rows = pl.concat([page.visible().select(self._schema.names) for page in pages])
        frame = session.createDataFrame(rows.to_arrow(compat_level=pl.CompatLevel.oldest()))
        try:
            options = {**self._options, "txnAppId": self._application, "txnVersion": str(batch)}
            frame.write.format(self._format).options(**options).mode(self._mode).save()
        except Exception as error:
            raise SinkFault(
                f"query {self._query}: Spark cannot write format {self._format!r}: {error}",
                hint="check the options, and that the format's jar is there",
            ) from error

    def close(self) -> None:
        """Release nothing."""
