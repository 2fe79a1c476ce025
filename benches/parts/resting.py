"""The cost of an idle deployment on Spark: two silent streams, united and counted."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benches.parts import processes
from benches.parts.processes import Part

from headrace.experiments.timestamps.silent_stream import put, until
from headrace.hosts.spark.starting.context import session_for
from headrace.session import Session

#: Seconds between the last thing that happens and the measurement.
SETTLING = 6.0
_STREAMS = ("fast", "slow")


@dataclass(frozen=True, slots=True)
class Rest:
    """Processor seconds per second by part, and the micro-batches that ran meanwhile."""

    shares: dict[Part, float]
    batches: int
    seconds: float

    @property
    def share(self) -> float:
        return sum(self.shares.values())


def ours(window: str, seconds: float) -> Rest:
    """Measure Headrace at the default trigger; with a long window, an open window waits for the clock."""
    with _folder() as root, Session(root / "checkpoint") as session:
        streams = (
            f"CREATE STREAM {name} (at TIMESTAMP, n INT) FROM FILES (path '{root / name}', format 'json');"
            for name in _STREAMS
        )
        union = " UNION ".join(f"{name} [RANGE {window}]" for name in _STREAMS)
        session.execute(
            "".join(streams) + f"CREATE QUERY counts AS SELECT count(*) AS n, window_end FROM {union} INTO MEMORY"
        )
        return _measure(root, lambda: session.statistics().batch + 1, seconds)


def spark(interval: str | None, seconds: float) -> Rest:
    """Measure plain Spark with a trigger of this interval, or its default."""
    with _folder() as root:
        ran: list[int] = []
        frames = [
            session_for()
            .readStream.schema("at TIMESTAMP, n INT")
            .json(str(root / name))
            .withWatermark("at", "0 seconds")
            for name in _STREAMS
        ]
        counting = "SELECT window.end AS ends, count(*) AS n FROM {both} GROUP BY window(at, '1 second')"
        counts = session_for().sql(counting, both=frames[0].union(frames[1]))

        def take(frame: Any, batch: int) -> None:
            ran.append(len(frame.collect()))

        writer = counts.writeStream.foreachBatch(take).option("checkpointLocation", str(root / "checkpoint"))
        query = (writer if interval is None else writer.trigger(processingTime=interval)).start()
        try:
            return _measure(root, lambda: len(ran), seconds)
        finally:
            query.stop()


def nothing(seconds: float) -> Rest:
    """Measure Spark's JVM with no query at all."""
    session_for()
    return _watch(lambda: 0, seconds)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rest-", ignore_cleanup_errors=True) as folder:
        for name in _STREAMS:
            (Path(folder) / name).mkdir()
        yield Path(folder)


def _is_past(batches: Callable[[], int], before: int) -> bool:
    return batches() > before


def _measure(root: Path, batches: Callable[[], int], seconds: float) -> Rest:
    """Process some tuples, so that everything has started, then measure without input."""
    for number in range(3):
        before = batches()
        for name in _STREAMS:
            put(root / name, str(number), time.time())
        until(partial(_is_past, batches, before))
    return _watch(batches, seconds)


def _watch(batches: Callable[[], int], seconds: float) -> Rest:
    time.sleep(SETTLING)
    ran, before, began = batches(), processes.all_processes(), time.monotonic()
    time.sleep(seconds)
    after, taken = processes.all_processes(), time.monotonic() - began
    return Rest(
        processes.shares(processes.spent(os.getpid(), before, after), taken, processes.RATE), batches() - ran, taken
    )
