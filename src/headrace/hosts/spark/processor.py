"""A bucket inside Spark: the stateful processor that runs buckets and keeps their state in Spark's state store."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql import Row as SparkRow
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructType

from headrace.hosts.spark.hashing import partition_of
from headrace.hosts.spark.state_requests import StateRequests

# Spark makes a processor on the driver too, in a new process, only to ask for its state variables: imports come later.
if TYPE_CHECKING:
    from headrace.driver.staged_results import Allowance
    from headrace.model.allowed_python import Allowed
    from headrace.worker.bucket import Bucket
    from headrace.worker.wire import Row

#: A bucket with more state than this is not kept in memory; the next micro-batch maps its files again.
KEEP_BYTES = 32 * 1024 * 1024
#: One variable, with types that are not text: each variable and each text costs a call of the JVM in every task.
_NAME = StructType().add("name", StringType())
_DATA = StructType().add("data", BinaryType())
#: A value of so many bytes is remembered while its bucket runs, such as the version.
_SMALL = 1024
#: Whether this worker process has excluded what it imported from garbage collection. Python can say how many objects
#: are excluded, but it counts them then: 78,000, which takes 4 ms.
_is_frozen = False
#: Buckets that this worker process has run, by checkpoint and number, each with the run of the query. They are trusted
#: only in the same run, and if their version is the store's: copies of a checkpoint share the id of their query.
_kept: dict[tuple[str, int], tuple[str, Bucket]] = {}


class BucketProcessor(StatefulProcessor):
    """Runs the micro-batches of the buckets that Spark gives to this task.

    `directory` is the checkpoint, `python` what statements may use of Python, `storage` how stores are reached.
    `buckets` are the numbers of all buckets, divided among so many Spark `partitions`. `is_local` says that all of them
    run on one machine.
    """

    def __init__(
        self,
        directory: str,
        python: Allowed,
        storage: dict[str, str],
        buckets: Sequence[int],
        partitions: int,
        *,
        is_local: bool,
    ) -> None:
        self.directory = directory
        self.python = python
        self.storage = storage
        self.buckets = tuple(buckets)
        self.partitions = partitions
        self.is_local = is_local

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.requests = StateRequests(handle)
        self.values = handle.getMapState("values", _NAME, _DATA)
        self.task: _Task | None = None

    def handleInputRows(self, key: Any, rows: Iterator[SparkRow], timerValues: Any) -> Iterator[SparkRow]:
        from headrace.hosts.spark.pandas_later import import_pandas_later
        from headrace.model.allowed_python import allow
        from headrace.storage.object_settings import configure
        from headrace.worker.wire import from_spark, to_spark
        from headrace.worker.without_pool import without_pool

        import_pandas_later()
        _freeze_once()
        allow(self.python.modules, self.python.folders)
        configure(self.storage)
        arrived = from_spark(rows)
        for row in without_pool(lambda: self._run(key[0], arrived)):
            yield SparkRow(**to_spark(row))

    def _run(self, bucket_number: int, arrived: list[Row]) -> list[Row]:
        """Run a bucket; return what goes to the driver."""
        from headrace.commands.tables import tables_in
        from headrace.driver.staged_results import allowance_of
        from headrace.hosts.spark.telling import telling
        from headrace.storage import contents
        from headrace.storage.location import location
        from headrace.worker.bucket import Bucket
        from headrace.worker.chunk_cache import machine_cache
        from headrace.worker.inbox import Inbox
        from headrace.worker.moving import Moves

        directory = location(self.directory)
        contents.offer(tables_in(directory))
        context = TaskContext.get()
        assert context is not None
        batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        run = context.getLocalProperty("spark.jobGroup.id") or ""  # Spark sets it to the id of the run
        if self.task is None:
            numbers = Inbox.of(arrived).buckets or self.buckets
            own = [number for number in numbers if partition_of(number, self.partitions) == context.partitionId()]
            allowance = allowance_of(self.partitions, is_local=self.is_local)
            self.task = _Task(directory, batch, context.partitionId(), own, allowance)
        task, store = self.task, _SparkStore(self.values, self.requests)
        kept = _kept.pop((self.directory, bucket_number), None)
        bucket = None if kept is None or kept[0] != run else kept[1]
        with telling():
            if bucket is None or not bucket.can_run(store, arrived):
                bucket = Bucket.restore(bucket_number, store, machine_cache(os.environ), arrived)
            bucket.machine = socket.gethostname()
            done = bucket.run(arrived, batch, store, Moves(directory), task.stager.of(bucket))
            out = task.after(bucket_number, done)
        if bucket.version is not None and bucket.stored_bytes < KEEP_BYTES:
            _kept[self.directory, bucket_number] = run, bucket
        else:
            bucket.close()
            gc.collect()  # now, or the state of several micro-batches would be there at once
        return out

    def close(self) -> None:
        self.requests.settle()  # before Spark commits what was written


def _freeze_once() -> None:
    """Let garbage be collected seldom, and exclude what was imported: collecting a large bucket need not visit it."""
    from headrace.hosts.spark.collecting import collect_less

    global _is_frozen
    if not _is_frozen:
        _is_frozen = True
        collect_less()
        gc.freeze()


class _Task:
    """What the buckets of one task have in common in a micro-batch."""

    def __init__(self, directory: Path, batch: int, number: int, buckets: Sequence[int], allowance: Allowance) -> None:
        from headrace.driver.staged_results import BucketStager, Writer
        from headrace.storage.storage import OBJECTS
        from headrace.worker.bundles import Bundler
        from headrace.worker.reports import TaskRows

        writer = Writer(directory, f"b{batch}-{number}", batch=batch, task=number)
        self.stager = BucketStager(writer, allowance)
        self._rows = TaskRows(buckets, self.stager.finish, OBJECTS.take_counted)
        self._bundler = Bundler()

    def after(self, bucket: int, rows: Iterable[Row]) -> list[Row]:
        """Return what goes to the driver once a bucket has given these rows."""
        sent = list(self._rows.after(bucket, rows))
        return self._bundler.after(sent, is_last=self._rows.is_complete)


class _SparkStore:
    """`worker.bucket.Store` over Spark's state, for one bucket in one micro-batch: a small value is read once."""

    def __init__(self, values: Any, requests: StateRequests) -> None:
        self._values, self._requests = values, requests
        self._read: dict[str, bytes | None] = {}

    def get(self, name: str) -> bytes | None:
        if name in self._read:
            return self._read[name]
        with self._requests.awaited():
            found = self._values.getValue((name,))
        value = None if found is None else bytes(found[0])
        if value is None or len(value) <= _SMALL:
            self._read[name] = value
        return value

    def save(self, changed: Iterable[tuple[str, bytes]], removed: Iterable[str]) -> None:
        self._read.clear()
        for name, data in changed:
            self._values.updateValue((name,), (data,))
        for name in removed:
            self._values.removeKey((name,))
