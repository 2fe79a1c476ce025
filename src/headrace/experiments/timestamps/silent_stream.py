"""A fast stream and an almost silent one, united and counted per second, in real time, on several systems.

A thread writes both streams as JSON files while Headrace, plain Spark and possibly others read the same two
directories. Plain Spark waits for the slower watermark.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from headrace.errors import HostFault
from headrace.session import Session

#: Seconds between fast tuples, and how long after the start of writing windows are not looked at.
FAST, WARM = 0.2, 8.0


@dataclass(frozen=True, slots=True)
class Case:
    """The setting of one run.

    `age` is the delay of slow tuples, `every` the time between them; `skews` is what each stream declares, None if
    Headrace assigns the timestamps. The clock of both streams is `distance` seconds behind ours, which they declare.
    """

    name: str
    every: float
    age: float
    skews: Mapping[str, int] | None
    distance: float = 0.0

    def stamps(self, stream: str) -> str:
        """Return our TIMESTAMP clause."""
        if self.skews is None:
            return "TIMESTAMP INTERNAL"
        return f"TIMESTAMP BY at SKEW {self.skews[stream]} SECONDS{' BEHIND CLOCK' if self.distance else ''}"

    def behind(self, stream: str) -> int:
        """Return how many seconds a watermark stays behind the newest tuple."""
        return 0 if self.skews is None else self.skews[stream]

    @property
    def cold(self) -> float:
        """Return how many seconds before the end windows are ignored: a waiting system might close them later."""
        return self.every + self.age + max(self.behind("fast"), self.behind("slow")) + 2.0


def punctual(every: float) -> Case:
    """Return a case in which slow tuples arrive without delay."""
    return Case(f"slow stream every {every:g} s, punctual", every, 0.0, None)


def late(every: float, age: int) -> Case:
    """Return a case in which slow tuples arrive some whole seconds late; both streams declare that skew."""
    return Case(f"slow stream every {every:g} s, {age} s old", every, float(age), {"fast": age, "slow": age})


def late_alone(every: float, age: int) -> Case:
    """Return the same case, but each stream declares its own skew: the fast one a second."""
    return Case(
        f"slow stream every {every:g} s, {age} s old, fast within 1 s", every, float(age), {"fast": 1, "slow": age}
    )


def distant(every: float, hours: int) -> Case:
    """Return a case in which the clock of both streams is some hours behind; tuples arrive within a second."""
    name = f"slow stream every {every:g} s, both {hours} h behind the clock"
    return Case(name, every, 1.0, {"fast": 1, "slow": 1}, 3600.0 * hours)


@dataclass(slots=True)
class Seen:
    """Counts by window end (seconds), and how long after it they arrived."""

    counts: dict[float, int] = field(default_factory=dict)
    delays: dict[float, float] = field(default_factory=dict)

    def take(self, end: float, count: int, at: float | None = None) -> None:
        """Record a count that arrived at the time `at` or now."""
        self.counts[end] = self.counts.get(end, 0) + count
        self.delays.setdefault(end, (time.time() if at is None else at) - end)


class Beside(Protocol):
    """Other systems that run beside Headrace and Spark: their counts, by name."""

    seen: Mapping[str, Seen]

    def is_ready(self) -> bool: ...
    def end(self) -> None: ...


#: Starts others on the directories `fast` and `slow` in a folder.
Starter: TypeAlias = Callable[[Case, Path], Beside]


@dataclass(frozen=True, slots=True)
class Watched:
    """The counts of all systems.

    `written` are the timestamps in the order of writing, `batch` the median length of our micro-batches.
    """

    case: Case
    ours: Seen
    spark: Seen
    written: tuple[float, ...]
    batch: float
    beside: Mapping[str, Seen] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return self.written[-1] - self.written[0]

    @property
    def within(self) -> range:
        """Return the ends of windows that lie well within the run."""
        return range(math.floor(self.written[0] + WARM) + 1, math.ceil(self.written[-1] - self.case.cold))

    def delays(self, results: Seen) -> dict[float, float]:
        """Return the delays of windows that lie well within the run, by the seconds since its start."""
        delays = {end: results.delays[end] - self.case.distance for end in self.within if end in results.delays}
        return {end - self.written[0]: delay for end, delay in delays.items()}

    def median(self, results: Seen) -> float:
        """Return the median delay."""
        return statistics.median(self._all_delays(results))

    def p95(self, results: Seen) -> float:
        """Return the 95th percentile of the delays."""
        delays = sorted(self._all_delays(results))
        return delays[math.ceil(0.95 * len(delays)) - 1]

    def missing(self, results: Seen) -> int:
        """Return the windows that never arrived; ours may omit those without tuples."""
        delays = self.delays(results)
        counted, due = self.counted(results)
        is_whole = bool(delays) and results is self.ours and counted == due
        return 0 if is_whole else len(self.within) - len(delays)

    def _all_delays(self, results: Seen) -> list[float]:
        """Return all delays; that of a window that never arrived is the length of the run."""
        return [*self.delays(results).values(), *[self.seconds] * self.missing(results)] or [self.seconds]

    def counted(self, results: Seen) -> tuple[int, int]:
        """Return the number of counted tuples, and how many should have been counted."""
        if (
            not self.case.age and results is self.ours
        ):  # stamped when read: every tuple counts, and the two of the warm-up
            return sum(results.counts.values()), len(self.written) + 2
        # whole windows only: from the first full second to the end of the last window that came out
        first, last = math.ceil(self.written[0]) + 1, max(results.counts, default=0.0)
        return sum(n for end, n in results.counts.items() if end > first), sum(
            1 for stamp in self.written if first <= stamp < last
        )


def watch(case: Case, seconds: float, start_beside: Starter | None = None) -> Watched:
    """Let all systems count while the streams are written for this long."""
    # a maintenance thread of Spark may write to a checkpoint for a moment after its query has stopped
    with (
        tempfile.TemporaryDirectory(prefix="idle-", ignore_cleanup_errors=True) as folder,
        contextlib.ExitStack() as ends,
    ):
        root = Path(folder)
        for name in ("fast", "slow"):
            (root / name).mkdir()
        ours, spark, batches, others = Seen(), Seen(), dict[int, float](), dict[str, Seen]()
        if start_beside is not None:
            beside = start_beside(case, root)
            ends.callback(beside.end)
            until(
                beside.is_ready
            )  # before ours starts: Spark gives a Python process ten seconds, which is little on a busy machine
            others |= beside.seen
        session = _start_ours(case, root, ours, batches)
        ends.callback(session.stop)
        query = _start_spark(case, root, spark)
        ends.callback(query.stop)
        _warm_up(case, root, session, query)
        written = _write(case, root, seconds)
        _settle(case, ours, len(written) + 2)
    return Watched(case, ours, spark, tuple(written), statistics.median(batches.values()), others)


def _start_ours(case: Case, root: Path, results: Seen, batches: dict[int, float]) -> Session:
    session = Session(root / "checkpoint")
    streams = "".join(
        f"CREATE STREAM {name} (at TIMESTAMP, n INT) {case.stamps(name)} "
        f"FROM FILES (path '{root / name}', format 'json');"
        for name in ("fast", "slow")
    )
    session.execute(
        streams + "CREATE QUERY counts AS SELECT count(*) AS n, window_end "
        "FROM fast [RANGE 1 SECOND] UNION slow [RANGE 1 SECOND] INTO MEMORY"
    )

    def take(batch: int, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            results.take(row["window_end"].replace(tzinfo=dt.UTC).timestamp(), row["n"])
        query = session.deployment.query  # type: ignore[attr-defined]
        for progress in () if query is None else query.recentProgress:
            batches[progress.batchId] = float(progress.durationMs["triggerExecution"]) / 1000

    session.subscribe("counts", take)
    return session


def _start_spark(case: Case, root: Path, results: Seen) -> Any:
    from headrace.hosts.spark.starting.context import session_for  # all experiments are listed without Spark

    spark = session_for()
    sources = {name: spark.readStream.schema("at TIMESTAMP, n INT").json(str(root / name)) for name in ("fast", "slow")}
    frames = [source.withWatermark("at", f"{case.behind(name)} seconds") for name, source in sources.items()]
    counting = "SELECT unix_millis(window.end) AS ends, count(*) AS n FROM {both} GROUP BY window(at, '1 second')"
    counts = spark.sql(counting, both=frames[0].union(frames[1]))

    def take(frame: Any, batch: int) -> None:
        for row in frame.collect():
            results.take(row.ends / 1000, row.n)

    return counts.writeStream.foreachBatch(take).option("checkpointLocation", str(root / "spark")).start()


def _warm_up(case: Case, root: Path, session: Session, query: Any) -> None:
    """Wait until Headrace and Spark have run a micro-batch; their first ones are slow."""
    for name in ("fast", "slow"):
        put(root / name, "warm", time.time() - case.distance)
    # `wait` raises at once what made ours fail
    until(
        lambda: not session.deployment.wait(0.0) and session.statistics().batch >= 1 and query.lastProgress is not None
    )


def _write(case: Case, root: Path, seconds: float) -> list[float]:
    """Write tuples in real time; return the timestamp of each."""
    written: list[float] = []
    began = time.time()
    done = threading.Event()

    def slow() -> None:
        number = 0
        while not done.wait(case.every if number else 1.0):
            number += 1
            stamp = time.time() - case.age - case.distance
            put(root / "slow", str(number), stamp)
            written.append(stamp)

    thread = threading.Thread(target=slow)
    thread.start()
    number = 0
    while time.time() - began < seconds:
        stamp = time.time() - case.distance
        put(root / "fast", str(number), stamp)
        written.append(stamp)
        number += 1
        time.sleep(max(0.0, began + number * FAST - time.time()))
    done.set()
    thread.join()
    return written


def put(folder: Path, name: str, stamp: float) -> None:
    """Create a file with one tuple atomically."""
    text = json.dumps(
        {
            "at": dt.datetime.fromtimestamp(stamp, dt.UTC).isoformat(timespec="microseconds").removesuffix("+00:00"),
            "n": 1,
        }
    )
    temporary = folder / f".{name}"
    temporary.write_text(text + "\n")
    os.replace(temporary, folder / f"{name}.json")


def _settle(case: Case, ours: Seen, due: int) -> None:
    """Wait for the last windows: some seconds for all, longer for ours while tuples are missing on a slow machine."""
    time.sleep(case.age + 3.0)
    deadline = time.time() + 10.0
    while sum(ours.counts.values()) < due and time.time() < deadline:
        time.sleep(0.05)


def until(condition: Callable[[], bool], seconds: float = 90.0) -> None:
    """Wait for a condition at the start."""
    deadline = time.time() + seconds
    while not condition():
        if time.time() > deadline:
            raise HostFault(f"the systems did not start within {seconds:.0f} s", hint="is the machine busy? try again")
        time.sleep(0.05)
