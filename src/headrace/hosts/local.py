"""The local host: the same ingest, buckets and delivery in this process, one micro-batch at a time.

For tests, simulation and small inputs; deterministic when given a virtual clock. Its state is in memory and is saved
when it stops, so that it continues from there; after a crash it cannot, and says so.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from itertools import count
from pathlib import Path

import msgspec
from msgspec import Struct

from headrace.commands.command import Command
from headrace.commands.rebucketing import rebucketing
from headrace.driver.delivery import Delivery
from headrace.driver.exclusion import TRIES, exclude
from headrace.driver.intake import Intake
from headrace.driver.offset import START, Offset
from headrace.driver.progress import read_progress
from headrace.driver.turn import Turn
from headrace.engine.clock import Clock, SystemClock
from headrace.errors import HeadraceError, HostFault
from headrace.hosts.host import file_fault
from headrace.storage import files, sealed
from headrace.worker.bucket import Bucket
from headrace.worker.chunk_cache import ChunkCache
from headrace.worker.ingest import PAGE_TUPLES
from headrace.worker.moving import Moves
from headrace.worker.saved_state import VERSION
from headrace.worker.wire import Row

_LOG = logging.getLogger(__name__)
#: Seconds that a micro-batch takes beside its operators, about.
OVERHEAD = 0.002
#: Seconds between two looks for new data.
_PAUSE = 0.01


class MemoryStore:
    """A bucket's state as bytes in a dictionary."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def get(self, name: str) -> bytes | None:
        return self.values.get(name)

    def save(self, changed: Iterable[tuple[str, bytes]], removed: Iterable[str]) -> None:
        self.values.update(list(changed))
        for name in removed:
            self.values.pop(name, None)


class Saved(Struct, frozen=True):
    """What a local deployment leaves when it stops: the next offset, and the state of each bucket.

    The number beside a state is the version of one that has none among its values, from an earlier Headrace.
    """

    batch: int
    offset: Offset
    stores: dict[int, tuple[int | None, dict[str, bytes]]]
    planned: Offset | None = None  # of a micro-batch that failed, and is repeated


def read_saved(path: Path) -> Saved | None:
    """Return what a local deployment has left; None if there is nothing."""
    data = sealed.read_if_exists(path)
    try:
        return None if data is None else msgspec.msgpack.decode(data, type=Saved)
    except ValueError as error:  # DecodeError is one
        raise sealed.damaged(path, error) from error


class LocalDeployment:
    """Runs a micro-batch per `step`; one that is `live` steps by itself, in a background thread.

    `forgetful` restores every bucket from its saved state before each of them.
    """

    def __init__(
        self,
        directory: Path,
        *,
        buckets: int | None = None,
        limit: int = 1_000_000,
        page: int = PAGE_TUPLES,
        clock: Clock | None = None,
        forgetful: bool = False,
        live: bool = False,
    ) -> None:
        self.directory = directory
        self.clock: Clock = clock or SystemClock()
        self.wanted_buckets = buckets
        self.intake = Intake(directory, parallel=1, limit=limit, buckets=range(buckets or 1))
        self.delivery = Delivery(directory, self.clock)
        self.buckets = list(range(buckets or 1))
        self.turn = Turn(directory, self.intake.deployments.log, self.delivery, self.clock)
        self.control = self.turn.control
        self.page = page
        self.forgetful = forgetful
        self.stores = {number: MemoryStore() for number in self.buckets}
        self.kept: dict[int, Bucket] = {}
        self.cache = ChunkCache(None)  # the state is in memory anyway
        self.offset = START
        self.batch = 0
        self.planned: Offset | None = None  # of the micro-batch that runs, or that failed
        self.ended = False
        self.cores = 1
        self.overhead = OVERHEAD
        self._failure: HeadraceError | None = None
        self._live = live
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        try:
            files.make_directory(self.directory)
        except OSError as error:
            raise HostFault(
                f"cannot write the checkpoint {self.directory}: {error.strerror}", hint="choose a writable directory"
            ) from error
        self.turn.resume()
        self.ended = read_progress(self.directory).ended
        if not self.batch and not self.ended:
            self._continue()
        if not self.ended:
            if self.wanted_buckets is not None and self.batch:
                running = self.intake.deployments.newest()
                self.send(*rebucketing(running, self.buckets, self.choose_buckets(self.wanted_buckets)))
            self.turn.refreshing.resume(self.intake.deployments.newest())
        if self._live:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._step_on, name="headrace", daemon=True)
            self._thread.start()

    def _step_on(self) -> None:
        """Run micro-batches until the deployment ends, fails or is stopped."""
        while not (self._stopping.is_set() or self.ended):
            try:
                has_run = self.step()
            except Exception:
                _LOG.exception("the queries have stopped")
                return
            if not has_run:
                self._stopping.wait(_PAUSE)

    def choose_buckets(self, count: int) -> list[int]:
        in_use = self.intake.deployments.newest().in_use(self.buckets)
        return [*in_use, *(number for number in range(count) if number not in in_use)][:count]

    def expected_buckets(self) -> int:
        return len(self.buckets)

    def send(self, *commands: Command) -> None:
        self.intake.deployments.log.append(*commands)

    def now(self) -> int:
        return self.clock.now()

    def step(self) -> bool:
        """Run one micro-batch; return False if there was nothing to do.

        A micro-batch that fails is the next one again. If it fails again and again because of certain queries, it is
        repeated without them.
        """
        try:
            has_run = self._try_step()
        except HeadraceError as error:
            self._failure = error
            raise
        except OSError as error:
            self._failure = file_fault(error, self.directory)
            raise self._failure from error
        except Exception as error:
            self._failure = HostFault(f"a micro-batch failed: {type(error).__name__}: {error}")
            raise
        if has_run:
            self._failure = None
        return has_run

    def _try_step(self) -> bool:
        for attempt in count(1):
            try:
                return self._step()
            except HeadraceError as error:
                if not error.culprits or (attempt >= TRIES and not self.exclude(error)):
                    raise
        raise AssertionError("a loop without an end")

    def exclude(self, fault: HeadraceError) -> bool:
        return exclude(self.intake.deployments, fault, self.clock.now())

    def _step(self) -> bool:
        self.turn.refreshing.refresh()
        end = self.planned or self.intake.latest(self.offset, self.clock.now())
        if end == self.offset or self.ended:
            return False
        stores = {number: dict(store.values) for number, store in self.stores.items()}
        self.planned = end
        try:
            self._run(end)
        except BaseException:
            self._undo(stores)
            raise
        self.planned = None
        return True

    def _run(self, end: Offset) -> None:
        """Run the micro-batch up to an offset."""
        began = time.perf_counter_ns()
        end = msgspec.json.decode(msgspec.json.encode(end), type=Offset)  # an offset must survive as text
        deployed = self.intake.deployments.at(end.commands)
        numbers = end.buckets or self.buckets
        ingest = deployed.ingest(numbers, self.page)
        sent: dict[int, list[Row]] = {number: [] for number in numbers}
        for task in self.intake.tasks(self.offset, end):
            for row in ingest.run(task):
                sent[row.bucket].append(row)
        out: list[Row] = []
        for number, rows in sent.items():
            store = self.stores.setdefault(number, MemoryStore())
            bucket = self.kept.get(number)
            if bucket is None or self.forgetful or not bucket.can_run(store, rows):
                if bucket is not None:
                    bucket.close()
                bucket = self.kept[number] = Bucket.restore(number, store, self.cache, rows)
            out += bucket.run(rows, self.batch, store, Moves(self.directory))
        took = (time.perf_counter_ns() - began) / 1e6
        self.ended = self.delivery.deliver(self.batch, out, deployed.running, took)
        remaining = deployed.running.all_buckets(self.buckets)
        self.turn.follow_up(deployed, remaining, now=self.clock.now(), cores=self.cores, ended=self.ended)
        self.intake.keeps(end)  # sources remember what they may let go; nothing of it is needed after a crash
        self.intake.forget(end)
        self.offset = end
        self.batch += 1
        for number in {*self.stores} - {*remaining}:
            del self.stores[number]
            self.kept.pop(number).close()

    def _undo(self, stores: dict[int, dict[str, bytes]]) -> None:
        """Forget what a micro-batch that failed has done to the buckets; it is repeated as a whole."""
        for bucket in self.kept.values():
            bucket.close()
        self.kept.clear()
        self.stores = {number: MemoryStore() for number in stores}
        for number, values in stores.items():
            self.stores[number].values = values

    def failure(self) -> HeadraceError | None:
        return self._failure

    def settle(self, commands: int, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while self.delivery.commands < commands and time.monotonic() < deadline:
            self._step_or_pause()
        return self.delivery.commands >= commands

    def wait(self, timeout: float | None = None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.ended:
            idle = not self._step_or_pause()
            if deadline is not None and time.monotonic() >= deadline:
                return self.ended
            if idle and not self.ended:
                time.sleep(_PAUSE)
        return True

    def _step_or_pause(self) -> bool:
        """Run a micro-batch, unless the background thread does; raise if that one has failed."""
        if self._thread is None:
            return self.step()
        if self._failure is not None and not self._thread.is_alive():
            raise self._failure
        time.sleep(_PAUSE)
        return True

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self.batch or self.planned is not None:
            stores: dict[int, tuple[int | None, dict[str, bytes]]] = {
                number: (None, store.values) for number, store in self.stores.items()
            }
            saved = Saved(batch=self.batch, offset=self.offset, stores=stores, planned=self.planned)
            sealed.replace(self._saved, msgspec.msgpack.encode(saved))
        self.delivery.close()

    @property
    def _saved(self) -> Path:
        return self.directory / "local.msgpack"

    def _continue(self) -> None:
        """Continue where the last local deployment on this checkpoint stopped."""
        saved = read_saved(self._saved)
        if saved is None:
            if files.read_if_exists(self.directory / "progress.json") is not None:
                raise HostFault(
                    f"the local host cannot continue the checkpoint {self.directory}: it did not stop, or was on Spark",
                    hint="use --host spark, which continues after a crash too, or a new checkpoint",
                )
            return
        self.batch, self.offset, self.planned = saved.batch, saved.offset, saved.planned
        self.stores = {number: MemoryStore() for number in saved.stores}
        for number, (version, values) in saved.stores.items():
            self.stores[number].values = values if version is None else {VERSION: version.to_bytes(8), **values}
        self.buckets = self.intake.buckets = list(self.stores)
        files.remove(self._saved)  # from now on it is out of date
