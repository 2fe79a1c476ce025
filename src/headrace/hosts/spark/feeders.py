"""The streaming queries that read foreign Spark sources: which of them run, what becomes of one that fails, the end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.catalog.definitions import Stream
from headrace.errors import HeadraceError, SourceFault
from headrace.hosts.spark.essence import essence
from headrace.hosts.spark.feeder import feed
from headrace.hosts.spark.starting.jvm import with_log
from headrace.hosts.spark.supervisor import FAILURES, pause_after

_LOG = logging.getLogger(__name__)


class Feeders:
    """The feeders of a deployment, by stream; `frames` are DataFrames of the program, by stream.

    A feeder that fails is started again, and goes on where it was. `give_up` gets the fault of one that fails again and
    again without having read anything in between.
    """

    def __init__(self, directory: Path, give_up: Callable[[HeadraceError], None]) -> None:
        self._directory = directory
        self._give_up = give_up
        self._feeders: dict[str, _Feeder] = {}
        self.frames: dict[str, DataFrame] = {}

    def follow(self, session: Callable[[], SparkSession], streams: Iterable[Stream]) -> None:
        """Read the sources of these streams, and no others: a stream that nobody reads waits where it is."""
        foreign = {stream.name: stream for stream in streams if stream.connector.kind == "SPARK"}
        for name, feeder in [*self._feeders.items()]:
            if name not in foreign or foreign[name].source != feeder.stream.source:
                feeder.stop()
                del self._feeders[name]
        self.begin(session, foreign.values())

    def begin(self, session: Callable[[], SparkSession], streams: Iterable[Stream]) -> None:
        """Read the sources of these streams as well; one that cannot be read raises its fault."""
        for stream in streams:
            if stream.connector.kind == "SPARK" and stream.name not in self._feeders:
                frame = self.frames.get(stream.name.lower())
                self._feeders[stream.name] = _Feeder(session(), stream, self._directory, frame)
                self._feeders[stream.name].follow(self._give_up)

    def read_to_the_end(self) -> None:
        """Read what the sources have now, and end. A source that cannot be read raises its fault."""
        for feeder in self._feeders.values():
            feeder.read_to_the_end()

    def stop(self) -> None:
        for feeder in self._feeders.values():
            feeder.stop()


class _Feeder:
    """One streaming query, started again if it fails."""

    def __init__(self, session: SparkSession, stream: Stream, directory: Path, frame: DataFrame | None) -> None:
        self.stream = stream
        self._session, self._directory, self._frame = session, directory, frame
        self._is_stopped = threading.Event()
        self._lock = threading.Lock()  # of `_query`
        self._query = self._start()

    def follow(self, give_up: Callable[[HeadraceError], None]) -> None:
        """Start it again whenever it fails, in a thread of its own."""
        name = f"feeder of {self.stream.name}"
        threading.Thread(target=self._follow, args=(give_up,), name=name, daemon=True).start()

    def read_to_the_end(self) -> None:
        """Read what the source has now, in as many micro-batches as it takes, and end."""
        self.stop()
        query = self._start(to_its_end=True)
        with suppress(Exception):  # its fault is asked for below
            query.awaitTermination()
        if (error := query.exception()) is not None:
            raise self._fault(error)

    def stop(self) -> None:
        """Stop reading; a micro-batch that is interrupted is repeated by the next feeder of the stream."""
        self._is_stopped.set()
        with self._lock:
            self._query.stop()

    def _start(self, *, to_its_end: bool = False) -> StreamingQuery:
        return feed(self._session, self.stream, self._directory, self._frame, to_its_end=to_its_end)

    def _follow(self, give_up: Callable[[HeadraceError], None]) -> None:
        failures = 0
        while True:
            with suppress(Exception):  # its fault is asked for below
                self._query.awaitTermination()
            if self._is_stopped.is_set():
                return
            try:
                if (error := self._query.exception()) is None:
                    return  # all is read
                failures = 1 if self._query.lastProgress is not None else failures + 1
            except Exception:  # the JVM has gone, which the deployment notices by itself
                return
            fault = self._fault(error)
            if failures < FAILURES:
                pause = pause_after(failures)
                _LOG.warning("%s; it is read again after %g s", fault.message, pause)
                if self._is_stopped.wait(pause):
                    return
                try:
                    with self._lock:
                        if self._is_stopped.is_set():
                            return
                        self._query = self._start()
                    continue
                except SourceFault as refused:
                    fault = refused
            give_up(fault)
            return

    def _fault(self, error: Exception) -> SourceFault:
        fault = SourceFault(
            f"stream {self.stream.name}: its Spark source failed: {essence(str(error))}",
            hint=with_log("start again, which goes on reading where it was"),
        )
        fault.__cause__ = error
        return fault
