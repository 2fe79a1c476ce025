"""The one source of a deployment on Spark: all streams and the command log, as rows that carry pages.

`latestOffset` and `partitions` run in a process beside the driver. The two communicate through the checkpoint only.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

# Spark makes source and reader in two new processes of their own, one after the other, only to pass them on. They
# import nothing that they do not use there; the other methods import what they need.
if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.commands.repairs import Repair
    from headrace.driver.deployed import Deployed, Deployments
    from headrace.driver.intake import Intake
    from headrace.driver.offset import Offset
    from headrace.worker.ingest import Ingest, Task
    from headrace.worker.wire import Row

#: An offset as Spark has it.
Json: TypeAlias = dict[str, Any]
#: Rows are handed to Spark once their payloads together reach this size.
_SEND_BYTES = 8 * 1024 * 1024
#: A task waits so many times as long for another one that reads the same lane as it would take to read that split.
_PATIENCE = 2.0


class HeadraceSource(DataSource):
    """`spark.readStream.format("headrace")`.

    Options: directory, owner, copies, parallel, limit, page, and as JSON buckets, python, storage and paths.
    """

    @classmethod
    def name(cls) -> str:
        return "headrace"

    def schema(self) -> str:
        from headrace.worker.wire import SPARK_SCHEMA

        return SPARK_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return HeadraceReader(dict(self.options))


class TaskPartition(InputPartition):
    """An ingest task, the number of commands in force, their repairs, and the buckets."""

    def __init__(self, task: Task, commands: int, repairs: tuple[Repair, ...], buckets: tuple[int, ...]) -> None:
        self.task = task
        self.commands = commands
        self.repairs = repairs
        self.buckets = buckets


class HeadraceReader(DataSourceStreamReader):
    """Plans micro-batches on the driver's side, runs ingest tasks in the workers."""

    def __init__(self, options: dict[str, str]) -> None:
        self._checkpoint = options["directory"]
        self.owner = options.get("owner", "")  # the token of the driver's epoch, if others may take over
        self.buckets: list[int] = json.loads(options["buckets"])
        self.python: dict[str, list[str]] = json.loads(options["python"])
        self.storage: dict[str, str] = json.loads(options["storage"])
        self.paths: list[str] = json.loads(
            options.get("paths", "[]")
        )  # where the driver has files that were added to Spark
        self.copies = options.get("copies", "")
        self.page = int(options["page"])
        self.parallel, self.limit = int(options["parallel"]), int(options["limit"])
        self._intake: Intake | None = None
        self._committed = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_intake": None}

    @property
    def directory(self) -> Path:
        from headrace.storage.location import location

        return location(self._checkpoint)

    @property
    def intake(self) -> Intake:
        if self._intake is None:
            from headrace.driver.intake import Intake
            from headrace.storage.fence import fence
            from headrace.storage.mirror import share_mirror

            # Spark leaves these files out here, and functions of users may be among them
            sys.path += [path for path in self.paths if path not in sys.path]
            self._allow()
            if self.owner:
                fence(self.directory, self.owner)
            share_mirror(self.directory, self.copies)
            self._intake = Intake(self.directory, parallel=self.parallel, limit=self.limit, buckets=self.buckets)
        return self._intake

    def initialOffset(self) -> Json:
        from headrace.driver.offset import START

        return _to_spark(START)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        from headrace.engine.clock import SystemClock
        from headrace.hosts.spark.telling import telling
        from headrace.storage.fence import check_owner
        from headrace.storage.mirror import leave_requests

        with telling():
            before = _from_spark(start)
            try:
                latest = self.intake.latest(before, SystemClock().now())
                if latest != before:
                    check_owner(self.directory)  # before Spark writes it into its log
            finally:
                leave_requests(self.directory)
            return _to_spark(latest)

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        from headrace.hosts.spark.telling import telling

        if start == end:
            return []
        offset = _from_spark(end)
        buckets = tuple(offset.buckets or self.buckets)
        with telling():
            tasks = self.intake.tasks(_from_spark(start), offset)
            repairs = self.intake.deployments.repairs()
        return [TaskPartition(task, offset.commands, repairs, buckets) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from headrace.hosts.spark.collecting import collect_less
        from headrace.hosts.spark.pandas_later import import_pandas_later
        from headrace.worker.without_pool import without_pool

        collect_less()
        import_pandas_later()
        self._allow()
        assert isinstance(partition, TaskPartition)
        batches = self._batches(partition)
        while (batch := without_pool(partial(next, batches, None))) is not None:
            yield batch

    def _batches(self, partition: TaskPartition) -> Iterator[pa.RecordBatch]:
        """Run an ingest task; yield its rows."""
        from headrace.driver.staged_results import IngestStager
        from headrace.hosts.spark.telling import telling
        from headrace.worker.wire import to_arrow

        task, place = partition.task, (self.directory, partition.buckets, self.page)
        kept = _kept.pop(place, None)
        with telling():
            deployed = _deployed(self.directory, partition.commands, partition.repairs)
            ingest = (
                kept[1]
                if kept is not None and kept[0].placement is deployed.placement  # nothing it depends on has changed
                else deployed.ingest(partition.buckets, self.page, patience=_PATIENCE)
            )
        stager = IngestStager(self.directory, f"b{_batch()}-i{task.number}", deployed.running)
        waiting: list[Row] = []
        size = 0
        with telling():
            for row in ingest.run(task, stager):
                waiting.append(row)
                size += len(row.payload)
                if size >= _SEND_BYTES:
                    yield to_arrow(waiting)
                    waiting, size = [], 0
        if waiting:
            yield to_arrow(waiting)
        _kept[place] = deployed, ingest

    def commit(self, end: Json) -> None:
        from headrace.hosts.spark.collecting import TASKS, give_back
        from headrace.storage import files

        offset = _from_spark(end)
        if self.intake.keeps(offset):
            files.force(self.directory / "spark")  # that it is committed: it cannot be repeated without its records
        self.intake.forget(offset)
        self._committed += 1
        if self._committed % TASKS == 0:
            give_back()

    def stop(self) -> None:
        pass

    def _allow(self) -> None:
        """Let statements use in this process what they may use on the driver."""
        from headrace.model.allowed_python import allow
        from headrace.storage.object_settings import configure

        allow(**self.python)
        configure(self.storage)


def _batch() -> int:
    """Return the number of the micro-batch to which the task of this worker belongs."""
    context = TaskContext.get()
    assert context is not None
    return int(context.getLocalProperty("streaming.sql.batchId") or 0)


def _to_spark(offset: Offset) -> Json:
    """Return an offset as Spark writes it into its log."""
    builtins: Json = msgspec.to_builtins(offset)
    return builtins


def _from_spark(offset: Json) -> Offset:
    from headrace.driver.offset import Offset

    return msgspec.convert(offset, Offset)


#: The ingest that this worker process has used last; a task that fails leaves none, since it may be in any state.
_kept: dict[tuple[Path, tuple[int, ...], int], tuple[Deployed, Ingest]] = {}
_deployments: dict[Path, Deployments] = {}


def _deployed(directory: Path, commands: int, repairs: tuple[Repair, ...]) -> Deployed:
    """Return what is deployed after so many commands, as this worker process knows it."""
    from headrace.driver.deployed import Deployments

    deployments = _deployments.setdefault(directory, Deployments(directory))
    deployments.log.assume(repairs)
    return deployments.at(commands)
