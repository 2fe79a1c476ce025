"""Deploys on Spark: one streaming query that reads pages, keeps buckets in its state, and delivers in foreachBatch."""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headrace.commands.command import AddQuery, Command, Drain
from headrace.commands.rebucketing import rebucketing
from headrace.commands.running import Running
from headrace.connectors.kafka.publishing import Publication, publish_elsewhere
from headrace.control.decisions import GiveUp
from headrace.driver.bucket_numbers import bucket_numbers
from headrace.driver.delivery import Delivery
from headrace.driver.deployed import Deployments
from headrace.driver.exclusion import TRIES, exclude
from headrace.driver.offset import START
from headrace.driver.pause import pause, resume
from headrace.driver.progress import read_progress
from headrace.driver.turn import Turn
from headrace.engine.clock import SystemClock
from headrace.errors import HeadraceError, HostFault, OwnerFault, SinkFault
from headrace.hosts.host import Rescaled, file_fault
from headrace.hosts.spark.collecting import TASKS, give_back
from headrace.hosts.spark.connecting import is_unanswered, retried, unanswered
from headrace.hosts.spark.dataframes import create_stream_text
from headrace.hosts.spark.essence import essence
from headrace.hosts.spark.faults import JVM_LOST, batch_fault, lost_jvm, no_start
from headrace.hosts.spark.feeders import Feeders
from headrace.hosts.spark.hashing import spread_from
from headrace.hosts.spark.logs import mend, sweep
from headrace.hosts.spark.offset_log import read_logs, read_offset, read_partitions
from headrace.hosts.spark.processor import BucketProcessor
from headrace.hosts.spark.rescaling import complete_rescaling, redivide, rescale
from headrace.hosts.spark.sizing import BUCKETS, partitions_for, sizes
from headrace.hosts.spark.source import HeadraceSource
from headrace.hosts.spark.starting.context import is_cluster, is_on_cluster, session_for
from headrace.hosts.spark.starting.executors import slots, wait_for_executors
from headrace.hosts.spark.starting.handshake import shake_hands
from headrace.hosts.spark.starting.jvm import with_log
from headrace.hosts.spark.starting.launch import Launch
from headrace.hosts.spark.starting.settings import PARTITIONS, PLANS
from headrace.hosts.spark.starting.shipping import added_paths, ship_modules
from headrace.hosts.spark.stores import store_session
from headrace.hosts.spark.supervisor import Supervisor
from headrace.model.allowed_python import allowed
from headrace.storage import files
from headrace.storage.fence import claim_to, is_lost, owner_fault
from headrace.storage.location import ObjectPath, resolved
from headrace.storage.mirror import copies_of
from headrace.storage.object_settings import configured
from headrace.storage.scratch import scratch_of
from headrace.worker.ingest import PAGE_TUPLES
from headrace.worker.wire import SPARK_SCHEMA, Kind, Row, from_spark

_LOG = logging.getLogger(__name__)
#: How long a stop waits for the running micro-batch.
STOP_SECONDS = 60.0
#: Seconds that a micro-batch takes beside its operators, at least; what `headrace plan` assumes too.
OVERHEAD = 0.05


class SparkDeployment:
    """All queries of a checkpoint directory as one streaming query; a temporary one goes with its session."""

    def __init__(
        self,
        directory: Path,
        *,
        buckets: int | None = None,
        limit: int = 1_000_000,
        page: int = PAGE_TUPLES,
        interval: float = 0.0,
        is_temporary: bool = False,
        launch: Launch | None = None,
        restart: bool = True,
    ) -> None:
        self.directory = resolved(directory)
        self.is_temporary = is_temporary
        self.launch = launch or Launch()
        self.stage = "starting Spark"  # what a start is doing
        self.spark: SparkSession | None = None  # of our queries, once Spark has started
        self.limit, self.page, self.interval = limit, page, interval
        self.wanted_buckets = buckets
        self.cores = 1  # until Spark has started
        self.overhead = OVERHEAD
        self.delivery = Delivery(self.directory)
        self.deployments = Deployments(self.directory)
        self.query: StreamingQuery | None = None
        self.feeders = Feeders(self.directory, self._give_up)
        self.drained = threading.Event()
        self.turn = Turn(self.directory, self.deployments.log, self.delivery, SystemClock())
        self.control = self.turn.control
        self.buckets: list[int] = []  # their numbers, known once Spark has started
        self.fault: HeadraceError | None = None  # what ended the deployment
        self.raised = False  # whether the failure has been raised to the caller
        self._delivery_fault: HeadraceError | None = None  # of the micro-batch that failed
        self._delivery_tries = 0
        self._source_fault: HeadraceError | None = None  # of a Spark source that cannot be read
        self._supervisor = Supervisor(restarts=restart)
        self._is_stopped = threading.Event()  # by `stop`
        self._unanswered = 0  # starts since the last delivery in which a Python process did not answer
        self._is_over = threading.Event()  # the streaming query has ended, and is not started again
        self._lock = threading.Lock()  # of `query`
        self._least_buckets = 1  # since there are more cores than before
        self._partitions = 1  # into which Spark divides the buckets, known once it has started

    def takes_long(self) -> bool:
        return is_on_cluster(self.launch)

    def prepare(self) -> None:
        """Raise a fault if queries cannot run; on a cluster, start Spark and look at the executors."""
        if self.takes_long():
            self._session()

    def start(self) -> None:
        """Start the streaming query; on a directory that has run before it continues where it was."""
        self._check_directory()
        running = self.deployments.newest()
        self.delivery.resume(running)
        self.turn.resume()
        if read_progress(self.directory).ended:
            self.delivery.reactions.outbox.settle()  # calls may have come back with a power cut
            self.drained.set()
            return
        self.turn.refreshing.resume(running)
        if files.exists(self.directory / "local.msgpack"):
            raise HostFault(
                f"the checkpoint {self.directory} was made by the local host, and Spark cannot continue it",
                hint="use --host local, or a new checkpoint",
            )
        resume(self.directory)
        for name in ("spark", "feeders"):  # Spark would make them with the modes of the umask
            files.make_directory(self.directory / name)
        mend(self.directory / "spark")
        if swept := sweep(self.directory / "spark"):
            _LOG.info("deleted %d files that an earlier Spark had left half done", swept)
        shutil.rmtree(scratch_of(self.directory) / "cache", ignore_errors=True)  # of an earlier version
        spark = self._session()
        complete_rescaling(self.directory, spark)
        self.cores = slots(spark.sparkContext)
        self.delivery.publish = partial(_publish, spark.sparkContext)
        _register(spark)
        parallel, partitions = self._size(spark)
        self._partitions = partitions
        self._rebucket(running)
        python = ship_modules(spark.sparkContext, allowed()) if is_cluster(spark) else allowed()
        pages = retried(
            _for_plans(spark)
            .readStream.format("headrace")
            .schema(SPARK_SCHEMA)  # or Spark's process that makes the source would have to import it
            .option("directory", str(self.directory))
            .option("owner", "" if (claim := claim_to(self.directory)) is None else claim.token)
            .option("copies", copies_of(self.directory))
            .option("storage", json.dumps(configured()))
            .option("paths", json.dumps(added_paths(spark.sparkContext)))
            .option("buckets", json.dumps(self.buckets))
            .option("python", msgspec.json.encode(python).decode())
            .option("parallel", str(parallel))
            .option("limit", str(self.limit))
            .option("page", str(self.page))
            .load
        )
        stage = pages.groupBy("bucket").transformWithState(
            BucketProcessor(
                str(self.directory), python, configured(), self.buckets, partitions, is_local=not is_cluster(spark)
            ),
            SPARK_SCHEMA,
            "Append",
            "None",
        )
        writer = stage.writeStream.foreachBatch(self._deliver).option(
            "checkpointLocation", str(self.directory / "spark")
        )
        if self.interval:
            writer = writer.trigger(processingTime=f"{round(self.interval * 1000)} milliseconds")
        if not running.draining:
            self._feed()
        self.query = retried(writer.start)
        threading.Thread(target=self._watch, args=(writer, self.query), name="watch", daemon=True).start()

    def warm(self) -> None:
        """Start Spark, although there is no query yet: the first one then starts at once."""
        self._session()

    def rescale(self, cores: int) -> Rescaled:
        return rescale(self.directory, cores, self._session())

    def _size(self, spark: SparkSession) -> tuple[int, int]:
        """Choose the buckets and partitions of a new checkpoint; return how many ingest tasks and partitions there are.

        Spark keeps the number of partitions of a checkpoint that has run, whatever its settings are.
        """
        is_local = not is_cluster(spark)
        cores = int(spark.conf.get(PARTITIONS) or 2) if is_local else self.cores
        chosen = sizes(cores, is_local=is_local, wanted=self.wanted_buckets)
        self.buckets = bucket_numbers(self.directory, lambda: chosen.buckets)
        in_use = self.deployments.newest().in_use(self.buckets)
        # on one machine keys are divided among as many buckets as it has cores, unless somebody wants another number
        possible = min(cores, self.wanted_buckets or cores) if is_local else partitions_for(len(in_use), cores)
        if not is_local and not self._is_set(PARTITIONS, spark):
            spark.conf.set(PARTITIONS, str(possible))
        divided = read_partitions(self.directory / "spark") or int(spark.conf.get(PARTITIONS) or 2)
        if is_local and divided < possible and redivide(self.directory, possible, spark):
            divided = possible
            self._least_buckets = possible
        if divided < possible:
            _LOG.warning(
                "the buckets run on %d cores, and could on %d; to divide them, stop and run: "
                "headrace rescale --checkpoint %s --cores %d",
                divided,
                possible,
                self.directory,
                cores,
            )
        return cores, divided

    def _rebucket(self, running: Running) -> None:
        """Divide keys among as many buckets as are wanted; among more if more cores can run them than before."""
        in_use = running.in_use(self.buckets)
        wanted = self.wanted_buckets or max(len(in_use), self._least_buckets)
        if wanted != len(in_use):
            self.deployments.log.append(*rebucketing(running, self.buckets, self.choose_buckets(wanted)))

    def exclude(self, fault: HeadraceError) -> bool:
        return exclude(self.deployments, fault, self.now())

    def choose_buckets(self, count: int) -> list[int]:
        if not self.buckets:
            self.wanted_buckets = count
            return []
        return spread_from(self.deployments.newest().in_use(self.buckets), count, self._partitions)

    def expected_buckets(self) -> int:
        of_machine = BUCKETS[0] if self.takes_long() else os.cpu_count() or 1
        return len(self.buckets) or self.wanted_buckets or of_machine

    def begin_sources(self, *commands: Command) -> None:
        added = [stream for command in commands if isinstance(command, AddQuery) for stream in command.streams]
        self.feeders.begin(self._session, added)

    def send(self, *commands: Command) -> None:
        is_draining = any(isinstance(command, Drain) for command in commands)
        if is_draining:
            self._feed()
            self.feeders.read_to_the_end()
        self.deployments.log.append(*commands)
        if self.query is not None and not is_draining:
            self._feed()

    def read_frame(self, name: str, frame: DataFrame, timestamp: str | None, skew: str | None) -> str:
        text = create_stream_text(name, frame, timestamp, skew)
        self.feeders.frames[name.lower()] = frame
        return text

    def now(self) -> int:
        return SystemClock().now()

    def settle(self, commands: int, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while self.delivery.commands < commands and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.delivery.commands >= commands

    def wait(self, timeout: float | None = None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.query is not None and not self._is_over.is_set():
            remaining = None if deadline is None else deadline - time.monotonic()
            if self.drained.wait(0.05 if remaining is None else max(0.0, min(0.05, remaining))):
                self.stop()
                return True
            if remaining is not None and remaining <= 0:
                return False
        self._raise()
        return True

    def failure(self) -> HeadraceError | None:
        return self.fault

    def stop(self) -> None:
        self._is_stopped.set()
        with self._lock:
            query, self.query = self.query, None
        if query is not None:
            try:
                was_interrupted = self._stop(query)
                if not was_interrupted or is_lost(self.directory):
                    self.fault = self.fault or self._fault_of(query)
            except JVM_LOST as error:
                self.fault = self.fault or lost_jvm(error)
            if not is_lost(self.directory):
                resume(self.directory)
            self._raise()
        self.turn.refreshing.close()
        self.delivery.close()

    def _stop(self, query: StreamingQuery) -> bool:
        """Stop the streaming queries, ours between two micro-batches; return whether one was interrupted all the same.

        Such a micro-batch fails in some way, which is nobody's fault: PySpark may give a part of its rows as if it were
        all of them. It is repeated when the queries go on.
        """
        self.feeders.stop()
        # Spark's stop interrupts a running micro-batch; it would be run again, but there is no need
        deadline = time.monotonic()
        if not is_lost(self.directory):
            pause(self.directory)
            deadline += STOP_SECONDS
        while (is_busy := query.isActive and query.status["isTriggerActive"]) and time.monotonic() < deadline:
            time.sleep(0.01)
        query.stop()
        return is_busy

    def _watch(self, writer: DataStreamWriter, query: StreamingQuery) -> None:
        """Wait for the end of the streaming query, and start it again: without the queries that made it fail, or later.

        What ended it for good is its fault.
        """
        delay: float | None = None  # seconds until it is started again; None: it runs
        while True:
            if delay is None:
                with suppress(Exception):  # its fault is asked for below
                    query.awaitTermination()
            else:
                self._is_stopped.wait(delay)
            with self._lock:
                if self.query is not query:
                    return  # it was stopped
                try:
                    if self._source_fault is not None:
                        raise self._source_fault
                    fault = None if delay is not None else self._fault_of(query)
                    if delay is not None or (fault is not None and self._is_repeated(fault)):
                        try:
                            query, delay = writer.start(), None
                        except (Py4JJavaError, PySparkException) as error:
                            fault = no_start(error)
                        else:
                            self.query = query
                            continue
                    delay = None if fault is None else self._pause_after(fault)
                    if delay is not None:
                        continue
                except HeadraceError as error:
                    fault = error
                except JVM_LOST as error:
                    fault = lost_jvm(error)
                except Exception as error:
                    fault = HostFault(f"the queries cannot go on: {type(error).__name__}: {error}")
                self.fault = fault
                self._is_over.set()
                return

    def _give_up(self, fault: HeadraceError) -> None:
        """End the queries, because a Spark source cannot be read."""
        self._source_fault = fault
        if (query := self.query) is not None:
            with suppress(*JVM_LOST):  # which ends them, too
                self._stop(query)

    def _pause_after(self, fault: HeadraceError) -> float | None:
        """Return after how many seconds the micro-batch that failed is repeated; None: it is not."""
        cause = fault.__cause__
        is_ours = not isinstance(cause, PySparkException | Py4JJavaError) or "headrace.errors." in str(cause)
        verdict = self._supervisor.failed(self._next_batch(), fault, is_ours=is_ours)
        if verdict is None:
            return None
        decision = verdict if isinstance(verdict, GiveUp) else verdict.decision
        level = logging.ERROR if isinstance(verdict, GiveUp) else logging.WARNING
        _LOG.log(level, "%s: %s", decision.action, decision.reason)
        with suppress(OSError, OwnerFault):  # it has been told
            self.control.decisions.add(self.now(), [decision])
        return None if isinstance(verdict, GiveUp) else verdict.pause

    def _next_batch(self) -> int:
        """Return the number of the micro-batch after the last that was committed, or delivered as far as we know."""
        try:
            committed = read_logs(self.directory / "spark").committed
        except OSError:  # the store does not answer
            committed = self.delivery.statistics.batch
        return 0 if committed is None else committed + 1

    def _is_repeated(self, fault: HeadraceError) -> bool:
        """Return whether the micro-batch that failed is to be tried again, perhaps without some queries."""
        if is_unanswered(fault.__cause__):
            self._unanswered += 1
            final = unanswered(self._unanswered)
            if final is not None:
                raise final from fault
            return True
        is_delivery, self._delivery_fault = fault is self._delivery_fault, None
        if is_delivery and fault.culprits and self._delivery_tries < TRIES:
            return True  # Spark has tried tasks several times, but a delivery once
        return self.exclude(fault)

    def _session(self) -> SparkSession:
        """Return the Spark session of the queries; the first call starts Spark if it does not run."""
        if self.spark is None:
            place = self.directory
            is_kept = not self.is_temporary and not isinstance(place, ObjectPath)
            session = session_for(self.launch, checkpoint=place if is_kept else None)
            if isinstance(place, ObjectPath):
                session = store_session(session, place)
            context = session.sparkContext
            if is_cluster(session):
                wait_for_executors(context, self.launch.executors, self._tell)
                self._tell("looking at the executors")
                for warning in shake_hands(context, self.directory, slots(context), is_temporary=self.is_temporary):
                    _LOG.warning(warning)
                self._tell("starting the queries")
            if not self._is_set(PARTITIONS, session):
                session.conf.set(PARTITIONS, str(slots(context)))
            self.spark = session
        return self.spark

    def _is_set(self, name: str, session: SparkSession) -> bool:
        """Return whether the user has chosen the value of a setting."""
        return name in self.launch.conf or session.sparkContext.getConf().contains(name)

    def _tell(self, stage: str) -> None:
        """Say what a start is doing."""
        self.stage = stage

    def _feed(self) -> None:
        """Read the foreign sources that queries read."""
        known = self.deployments.newest().known
        self.feeders.follow(self._session, [stream for query in known for stream in query.streams])

    def _deliver(self, frame: DataFrame, batch: int) -> None:
        began = time.perf_counter_ns()
        rows = from_spark(frame.collect())
        if not rows and read_offset(self.directory / "spark", batch) == START:
            return  # a stop came before the first micro-batch: Spark plans one that reads nothing
        try:
            # what Spark must remember of this micro-batch lasts at least as long as its first effect
            files.force(self.directory / "spark")
            # a restarted batch sees the queries that were in force when it was planned
            deployed = self.deployments.at(self._commands(rows))
            took = (time.perf_counter_ns() - began) / 1e6
            buckets = deployed.running.all_buckets(self.buckets)
            done = self.delivery.deliver(batch, rows, deployed.running, took, buckets=buckets)
            if done:
                self.drained.set()
            if is_cluster(frame.sparkSession):
                self.cores = slots(frame.sparkSession.sparkContext)  # machines come and go
            self.turn.follow_up(deployed, buckets, now=self.now(), cores=self.cores, ended=done)
            self.turn.refreshing.start()
            self._delivery_tries = self._unanswered = 0
            self._supervisor.delivered()
            if batch % TASKS == 0:
                give_back()
        except HeadraceError as error:
            self._delivery_fault = error
            self._delivery_tries += 1
            raise
        except OSError as error:
            self._delivery_fault = file_fault(error, self.directory)
            raise self._delivery_fault from error

    def _commands(self, rows: list[Row]) -> int:
        """Return how many commands were in force in this micro-batch, as its buckets report."""
        return max((row.n for row in rows if row.kind in (Kind.REPORT, Kind.BUNDLE)), default=self.deployments.count())

    def _check_directory(self) -> None:
        try:
            files.replace(self.directory / "writable", b"", durable=False)
            files.remove(self.directory / "writable", durable=False)
        except OSError as error:
            raise HostFault(
                f"cannot write the checkpoint {self.directory}: {error.strerror}", hint="choose a writable directory"
            ) from error

    def _raise(self) -> None:
        """Raise what ended the deployment, once."""
        if self.fault is None or self.raised:
            return
        self.raised = True
        if is_lost(self.directory):  # which could not be known as long as the store was out of reach
            self.fault, cause = owner_fault(self.directory), self.fault
            raise self.fault from cause
        raise self.fault

    def _fault_of(self, query: StreamingQuery) -> HeadraceError | None:
        """Return what made a streaming query end; None if nothing failed."""
        if is_lost(self.directory):  # whatever came of that
            return owner_fault(self.directory)
        if self._delivery_fault is not None:
            return self._delivery_fault
        if query.isActive or (error := query.exception()) is None:
            return None
        return batch_fault(error, self.directory)


def _publish(context: SparkContext, publications: Sequence[Publication]) -> None:
    """Let tasks of Spark send results, one for each publication."""
    try:
        context.parallelize(publications, len(publications)).foreach(partial(publish_elsewhere, configured()))
    except Py4JJavaError as error:
        what = essence(str(error))
        raise SinkFault(what.partition(": ")[2] or what, hint=with_log("start again, which tries it again")) from error


def _for_plans(spark: SparkSession) -> SparkSession:
    """Return a session like this one, with settings for a plan of few rows that is made anew for each micro-batch."""
    own = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    for setting in PLANS:
        if not spark.sparkContext.getConf().contains(setting.name):
            own.conf.set(setting.name, setting.value)
    return own


def _register(spark: SparkSession) -> None:
    """Let a session know our source; Spark asks the active session whether it does, so ours is active meanwhile."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        spark.dataSource.register(HeadraceSource)
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
