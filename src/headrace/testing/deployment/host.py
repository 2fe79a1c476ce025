"""The Spark host in one process: real intake, ingest, buckets and delivery on models of Spark's logs and state.

Planning process, workers and driver have caches of their own and communicate through the disk and rows, as on Spark.
`step` does one micro-batch. There are no threads; time is virtual.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import msgspec

from headrace.commands.command import Command
from headrace.driver.bucket_numbers import bucket_numbers
from headrace.driver.delivery import Delivery
from headrace.driver.deployed import Deployed, Deployments
from headrace.driver.exclusion import exclude
from headrace.driver.intake import TICK, Intake
from headrace.driver.offset import Offset
from headrace.driver.pause import pause, resume
from headrace.driver.progress import read_progress
from headrace.driver.staged_results import Allowance, BucketStager, IngestStager, Writer
from headrace.driver.turn import Turn
from headrace.errors import HeadraceError, HostFault
from headrace.hosts.spark.logs import mend
from headrace.model.time import MILLISECOND, SECOND
from headrace.storage import files
from headrace.storage.fence import check_owner, unfenced
from headrace.storage.storage import mounted
from headrace.testing.clock import VirtualClock
from headrace.testing.deployment.spark import Logs, SparkFailure, StateStore
from headrace.worker.bucket import Bucket
from headrace.worker.ingest import Ingest, Task
from headrace.worker.moving import Moves
from headrace.worker.reports import TaskRows
from headrace.worker.wire import Kind, Row, decode_report

#: A micro-batch takes so long.
BATCH_TIME = 10 * MILLISECOND
#: Results from this size on are staged; small, so that small histories stage.
STAGE_BYTES = 100
#: A task of a bucket may send so many bytes of pages that it could write: one page with few tuples.
ALLOWANCE = 840
#: A deployment that is drained ends within so many micro-batches.
MAX_BATCHES = 200


#: What tasks of buckets did: by bucket, micro-batch, state and rows, the rows that came out, and the state after it.
Tasks: TypeAlias = dict[tuple[int, int, bytes, tuple[Row, ...]], tuple[tuple[Row, ...], bytes]]


@dataclass(slots=True)
class Worker:
    """A Python worker of Spark: what it keeps between micro-batches."""

    deployments: Deployments
    ingest: tuple[Deployed, Ingest] | None = None
    buckets: dict[int, Bucket] = field(default_factory=dict)


class SimulatedDeployment:
    """A `Deployment` whose Spark is a model; `seed` chooses workers, and tasks that are run twice.

    `tasks` are those that are not run again: a bucket with the same state and the same rows does the same.
    """

    def __init__(
        self,
        directory: Path,
        clock: VirtualClock,
        *,
        buckets: Sequence[int] = (0, 1),
        limit: int = 1_000_000,
        page: int = 1000,
        seed: int = 0,
        tasks: Tasks | None = None,
    ) -> None:
        self.directory, self.page, self.seed = directory, page, seed
        self.wanted_buckets, self.buckets = list(buckets), list[int]()
        self.clock = clock
        self.tasks = tasks
        self.delivery = Delivery(directory, clock, threads=False)
        self.deployments = Deployments(directory)
        self.turn = Turn(directory, self.deployments.log, self.delivery, clock)
        self.control = self.turn.control
        self.cores = 2
        self.overhead = BATCH_TIME / SECOND
        self.ended = False
        self.batch = 0
        self.after_batch: Callable[[], None] | None = None
        self._limit = limit
        self._workers = [Worker(Deployments(directory)) for _ in range(2)]
        self._logs = Logs(directory / "spark")
        self._is_planned = False
        self._is_started = False

    def start(self) -> None:
        resume(self.directory)
        self.buckets = bucket_numbers(self.directory, lambda: self.wanted_buckets)
        self._planner = Intake(self.directory, parallel=2, limit=self._limit, buckets=self.buckets)
        mend(self.directory / "spark")
        running = self.deployments.newest()
        self.delivery.resume(running)
        self.turn.resume()
        self.turn.refreshing.resume(running)
        self.ended = read_progress(self.directory).ended
        if self.ended:
            self.delivery.reactions.outbox.settle()
        try:
            self.batch, self._is_planned = self._logs.next()
        except SparkFailure as failure:
            raise _fault(failure) from failure
        self._is_started = True

    def choose_buckets(self, count: int) -> list[int]:
        if not self.buckets:
            return []
        in_use = self.deployments.newest().in_use(self.buckets)
        return [*in_use, *(number for number in range(3 * count) if number not in in_use)][:count]

    def expected_buckets(self) -> int:
        return len(self.buckets) or 1

    def send(self, *commands: Command) -> None:
        self.deployments.log.append(*commands)

    def now(self) -> int:
        return self.clock.now() + self.batch * BATCH_TIME

    def settle(self, commands: int, timeout: float) -> bool:
        while self.delivery.commands < commands and self.step():
            pass
        return self.delivery.commands >= commands

    def wait(self, timeout: float | None = None) -> bool:
        for _ in range(MAX_BATCHES):
            if self.ended:
                return True
            if not self.step():
                self.clock.advance(TICK)
        return False

    def failure(self) -> HeadraceError | None:
        return None  # `step` raises it

    def exclude(self, fault: HeadraceError) -> bool:
        return exclude(self.deployments, fault, self.now())

    def stop(self) -> None:
        if self._is_started:
            pause(self.directory)
            resume(self.directory)
        self.delivery.close()

    def step(self) -> bool:
        """Run one micro-batch; return False if there is nothing to do."""
        try:
            return self._step()
        except HeadraceError as fault:
            if not self.exclude(fault):
                raise
            return self.step()  # Spark repeats it
        except SparkFailure as failure:
            raise _fault(failure) from failure
        except OSError as error:
            raise SparkTaskFault(f"a micro-batch failed: {error}") from error

    def _step(self) -> bool:
        if self.ended or not self._is_started:
            return False
        start = self._logs.offset(self.batch - 1)
        if not self._is_planned:
            self.turn.refreshing.refresh()
            end = self._planner.latest(start, self.now())
            if end == start:
                return False
            check_owner(self.directory)
            self._logs.offsets.add(self.batch, msgspec.json.encode(end))
            self._is_planned = True
            if self.batch:
                if self._planner.keeps(start):
                    files.force(self.directory / "spark")
                self._planner.forget(start)
                self._logs.purge(self.batch)
        self._run(self.batch)
        self._logs.commits.add(self.batch)
        self.batch, self._is_planned = self.batch + 1, False
        if self.after_batch is not None:
            self.after_batch()
        return True

    def _run(self, batch: int) -> None:
        start, end = self._logs.offset(batch - 1), self._logs.offset(batch)
        chance = random.Random(f"{self.seed}/{batch}")
        buckets = end.buckets or self.buckets
        sent: dict[int, list[Row]] = {number: [] for number in buckets}
        tasks = self._planner.tasks(start, end)
        with mounted(self.directory, unfenced(self.directory)):  # tasks do not ask who owns the checkpoint
            for task in tasks:
                for row in self._ingest(task, end, batch, chance):
                    sent[row.bucket].append(row)
            before = self.buckets if start.buckets is None else start.buckets
            rows = [
                row
                for number in buckets
                for row in self._bucket(number, sent[number], batch, chance, is_new=number not in before)
            ]
        self._deliver(batch, rows)

    def _ingest(self, task: Task, end: Offset, batch: int, chance: random.Random) -> list[Row]:
        """Run an ingest task, perhaps twice: the rows of the first attempt are lost with its worker."""
        rows: list[Row] = []
        for _ in range(1 + (chance.random() < 0.1)):
            worker = chance.choice(self._workers)
            deployed, buckets = worker.deployments.at(end.commands), end.buckets or self.buckets
            known = worker.ingest
            if known is None or known[0].placement is not deployed.placement or known[1].buckets != buckets:
                worker.ingest = known = deployed, deployed.ingest(buckets, self.page)
            name = f"b{batch}-i{task.number}"
            stager = IngestStager(self.directory, name, deployed.running, least=STAGE_BYTES)
            rows = list(known[1].run(task, stager))
        return rows

    def _bucket(
        self, number: int, rows: list[Row], batch: int, chance: random.Random, *, is_new: bool = False
    ) -> list[Row]:
        """Run a bucket's task, perhaps twice: the first attempt may have committed its state."""
        out: list[Row] = []
        for _ in range(1 + (chance.random() < 0.1)):
            worker = chance.choice(self._workers)
            store = StateStore(self.directory / "spark", number, batch, is_new=is_new)
            bucket = worker.buckets.pop(number, None)
            before = (number, batch, store.encoded, tuple(rows))
            known = self.tasks.get(before) if self.tasks is not None else None
            if known is not None:
                out, store.encoded = list(known[0]), known[1]
            else:
                if bucket is None or not bucket.can_run(store, rows):
                    bucket = Bucket.restore(number, store, rows=rows)
                writer = Writer(self.directory, f"b{batch}-{number}", batch=batch, task=number)
                stager = BucketStager(writer, Allowance(ALLOWANCE))
                task_rows = TaskRows([number], stager.finish)
                done = bucket.run(rows, batch, store, Moves(self.directory), stager.of(bucket))
                out = list(task_rows.after(number, done))
                if bucket.version is not None:
                    worker.buckets[number] = bucket
                if self.tasks is not None and not _has_written(out):
                    self.tasks[before] = (tuple(out), store.encoded)
            store.commit()
        return out

    def _deliver(self, batch: int, rows: list[Row]) -> None:
        commands = max((row.n for row in rows if row.kind is Kind.REPORT), default=self.deployments.count())
        deployed = self.deployments.at(commands)
        files.force(self.directory / "spark")
        took = BATCH_TIME / MILLISECOND
        buckets = deployed.running.all_buckets(self.buckets)
        self.ended = self.delivery.deliver(batch, rows, deployed.running, took, buckets=buckets)
        self.turn.follow_up(deployed, buckets, now=self.now(), cores=self.cores, ended=self.ended)
        if random.Random(f"{self.seed}/calls/{batch}").random() < 0.5:  # else they are still under way
            self.delivery.reactions.outbox.work()


def _has_written(rows: Sequence[Row]) -> bool:
    """Return whether a task has left files, which must be there again if it is not run again."""
    return any(
        row.kind is Kind.STAGED or (row.kind is Kind.REPORT and bool(decode_report(row.payload).moved)) for row in rows
    )


class SparkFault(HostFault):
    """Spark's own files do not let it continue."""


class SparkTaskFault(HostFault):
    """A task of Spark failed."""


def _fault(failure: SparkFailure) -> HeadraceError:
    return SparkFault(str(failure), hint="restore the checkpoint from a copy, or start with a new one")
