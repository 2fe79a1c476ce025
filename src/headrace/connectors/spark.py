"""SPARK: any Spark source or sink by the name of its format.

A foreign source is read by a small streaming query of its own (hosts/spark/feeder.py), which leaves its rows in a spool
that we read as pages. A foreign sink gets each micro-batch's rows by Spark's batch writer: at least once, since Spark's
writers know nothing of our batch numbers (formats that take txnAppId and txnVersion, such as Delta, ignore a repeated
batch). Tasks leave large results as Parquet in the checkpoint, and the tasks of the batch writer read them: they do not
pass through the driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from headrace.catalog.definitions import Connector
from headrace.connectors.files.sink import is_orphan
from headrace.errors import SinkFault
from headrace.model.page import Page
from headrace.model.schema import Schema
from headrace.model.types import Type
from headrace.storage import files
from headrace.storage.location import ObjectPath, absolute, located
from headrace.storage.names import file_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SUFFIX = ".parquet"
#: Where tasks leave results, in a checkpoint.
SPARK_STAGING = Path("sinks", "spark")
#: What Hadoop takes for a pattern of names.
_PATTERN = re.compile(r"[\\*?\[\]{}]")


class SparkSink:
    """Writes by `DataFrameWriter`; options `format` and `mode` are ours, all others the format's own."""

    def __init__(self, query: str, connector: Connector, schema: Schema, checkpoint: Path) -> None:
        self._query = query
        self._schema = schema
        self._options = {name: str(value) for name, value in connector.options.items()}
        self._format = self._options.pop("format")
        self._mode = self._options.pop("mode", "append")
        self._application = f"{checkpoint.name}-{query}"
        self.staging = checkpoint / SPARK_STAGING / file_name(query)
        self._is_staging = False  # whether tasks have staged results of the last micro-batch

    def stage(self, page: Page, name: str) -> str:
        """Write results from a task; hand the returned name to `write` on the driver."""
        rows = page.visible().select(self._schema.names)
        # Parquet has no spans
        rows = rows.with_columns(pl.col(name).dt.total_microseconds() for name in self._spans)
        try:
            files.replace_encoded(self._path(name), rows.write_parquet)
        except OSError as error:
            raise SinkFault(
                f"results of {self._query} cannot be written to {self.staging}: {error.strerror}",
                hint="free space; then start again",
            ) from error
        return name

    def write(self, batch: int, pages: Sequence[Page], staged: Sequence[str] = ()) -> None:
        """Hand one micro-batch to Spark; empty ones are left out."""
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
        frames = list(self._frames(session, pages, staged))
        if frames:
            frame = reduce(lambda some, more: some.union(more), frames)
            try:
                options = {**self._options, "txnAppId": self._application, "txnVersion": str(batch)}
                frame.write.format(self._format).options(**options).mode(self._mode).save()
            except Exception as error:
                raise SinkFault(
                    f"query {self._query}: Spark cannot write format {self._format!r}: {error}",
                    hint="check the options, and that the format's jar is there",
                ) from error
        if staged or self._is_staging:
            # not those of this micro-batch: another sink of the query may still read them
            old = [name for name in files.names(self.staging) if is_orphan(name, batch)]
            files.remove(*(self.staging / name for name in old), durable=False)
        self._is_staging = bool(staged)

    def sweep(self) -> int:
        """Delete what tasks staged, while no task runs."""
        staged = [self.staging / name for name in files.names(self.staging)]
        files.remove(*staged, durable=False)
        return files.sweep(self.staging) + len(staged)

    def close(self) -> None:
        """Release nothing."""

    @property
    def _spans(self) -> list[str]:
        return [field.name for field in self._schema if field.type is Type.INTERVAL]

    def _path(self, name: str) -> Path:
        return self.staging / f"{name}{_SUFFIX}"

    def _frames(self, session: SparkSession, pages: Sequence[Page], staged: Sequence[str]) -> Iterator[DataFrame]:
        if pages:
            rows = pl.concat([page.visible().select(self._schema.names) for page in pages])
            yield session.createDataFrame(rows.to_arrow(compat_level=pl.CompatLevel.oldest()))
        if staged:
            rows_of_tasks = session.read.parquet(*(url_for_spark(self._path(name)) for name in staged))
            microsecond = dict.fromkeys(self._spans, " * INTERVAL '0.000001' SECOND")
            columns = [(_quoted(name), microsecond.get(name, "")) for name in self._schema.names]
            yield rows_of_tasks.selectExpr(*(f"{column}{factor} AS {column}" for column, factor in columns))


def url_for_spark(path: Path) -> str:
    """Return a place as Spark's readers take it: with its scheme, and without a pattern in it.

    Without a scheme, Spark would look in its default file system, which on a cluster may be another one.
    """
    place = located(path)
    text = str(place) if isinstance(place, ObjectPath) else f"file://{absolute(place)}"
    return _PATTERN.sub(r"\\\g<0>", text)


def _quoted(name: str) -> str:
    """Return the name of a column as Spark's SQL takes it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"
