"""A fast stream and an almost silent one, united and counted per second: how long after a window's end does its count come, and is it complete?

Both systems watch the same two directories of JSON files while a thread writes them in real time. Plain Spark waits for the slower watermark.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.hosts.spark.host import spark_session
from headrace.session import Session


@dataclass(frozen=True)
class Case:
    """`age` is how old the slow tuples are when they come, `every` how often they do; `stamps` is our TIMESTAMP clause."""

    name: str
    every: float
    age: float
    stamps: str
    delay: str  # Spark's watermark delay


CASES = (
    Case("slow stream every 20 s, punctual", 20.0, 0.0, "TIMESTAMP INTERNAL", "0 seconds"),
    Case("slow stream every 5 s, 3 s old", 5.0, 3.0, "TIMESTAMP BY at SKEW 3 SECONDS", "3 seconds"),
)


@dataclass
class Seen:
    """Counts by window end (seconds), and how long after it they came."""

    counts: dict[float, int] = field(default_factory=dict)
    delays: dict[float, float] = field(default_factory=dict)

    def take(self, end: float, count: int) -> None:
        self.counts[end] = self.counts.get(end, 0) + count
        self.delays.setdefault(end, time.time() - end)


def main(quick: bool = False) -> dict[str, Any]:
    """Run all cases for a minute and a half each (45 s if quick)."""
    figures: dict[str, Any] = {"bench": "idle", "title": "Delay of a window's count after its end", "cases": {}, "rows": [], "notes": []}
    for case in CASES:
        _measure(case, 45.0 if quick else 90.0, figures)
    return figures


def _measure(case: Case, seconds: float, figures: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory(prefix="idle-") as folder:
        root = Path(folder)
        for name in ("fast", "slow"):
            (root / name).mkdir()
        ours, spark = Seen(), Seen()
        session = _start_ours(case, root, ours)
        query = _start_spark(case, root, spark)
        _warm_up(root, session, query)
        written = _write(case, root, seconds)
        time.sleep(case.age + 3.0)
        session.stop()
        query.stop()
        batch = statistics.median(float(p.durationMs["triggerExecution"]) for p in session_progress(session)) / 1000
        figures["notes"] += [_note(case, "ours", ours, written), _note(case, "spark", spark, written), f"{case.name}: our micro-batch {batch:.3f} s"]
        target = case.age + 2 * batch
        mine, theirs = _median(ours, written), _median(spark, written)
        measured = {"ours": mine, "peers": {"spark": theirs}, "unit": "s", "ratio": theirs / mine if mine else None, "target": None}
        figures["cases"][case.name] = {**measured, "limit": target, "batch": batch}
        figures["rows"].append({"case": case.name, **measured, "verdict": "met" if mine <= target else "missed"})
        figures["notes"].append(f"{case.name}: median at most {target:.2f} s wanted (the age of slow tuples and two micro-batches)")


_PROGRESS: dict[int, list[Any]] = {}


def session_progress(session: Session) -> list[Any]:
    """What Spark noted of our micro-batches."""
    return _PROGRESS[id(session)]


def _start_ours(case: Case, root: Path, seen: Seen) -> Session:
    session = Session(root / "checkpoint")
    streams = "".join(
        f"CREATE STREAM {name} (at TIMESTAMP, n INT) {case.stamps} FROM FILES (path '{root / name}', format 'json');" for name in ("fast", "slow")
    )
    session.execute(
        streams + "CREATE QUERY counts AS SELECT count(*) AS n, window_end FROM fast [RANGE 1 SECOND] UNION slow [RANGE 1 SECOND] INTO MEMORY"
    )

    def take(batch: int, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            seen.take(row["window_end"].replace(tzinfo=dt.UTC).timestamp(), row["n"])
        query = session.deployment.query  # type: ignore[attr-defined]
        if query is not None:
            _PROGRESS[id(session)] = list(query.recentProgress)

    session.subscribe("counts", take)
    return session


def _start_spark(case: Case, root: Path, seen: Seen) -> Any:
    from pyspark.sql import functions as F

    spark = spark_session()
    frames = [spark.readStream.schema("at TIMESTAMP, n INT").json(str(root / name)).withWatermark("at", case.delay) for name in ("fast", "slow")]
    counts = frames[0].union(frames[1]).groupBy(F.window("at", "1 second")).count().selectExpr("unix_millis(window.end) AS ends", "`count` AS n")

    def take(frame: Any, batch: int) -> None:
        for row in frame.collect():
            seen.take(row.ends / 1000, row.n)

    return counts.writeStream.foreachBatch(take).option("checkpointLocation", str(root / "spark")).start()


def _warm_up(root: Path, session: Session, query: Any) -> None:
    """Wait until both have run a micro-batch; their first ones are slow."""
    for name in ("fast", "slow"):
        _put(root / name, "warm", time.time())
    _until(lambda: session.statistics().batch >= 1 and query.lastProgress is not None)


def _write(case: Case, root: Path, seconds: float) -> list[tuple[float, str]]:
    """Write tuples in real time; returns (timestamp, stream) of each."""
    written: list[tuple[float, str]] = []
    began = time.time()
    done = threading.Event()

    def slow() -> None:
        number = 0
        while not done.wait(case.every if number else 1.0):
            number += 1
            stamp = time.time() - case.age
            _put(root / "slow", str(number), stamp)
            written.append((stamp, "slow"))

    thread = threading.Thread(target=slow)
    thread.start()
    number = 0
    while time.time() - began < seconds:
        stamp = time.time()
        _put(root / "fast", str(number), stamp)
        written.append((stamp, "fast"))
        number += 1
        time.sleep(max(0.0, began + number * 0.2 - time.time()))
    done.set()
    thread.join()
    return written


def _put(folder: Path, name: str, stamp: float) -> None:
    text = json.dumps({"at": dt.datetime.fromtimestamp(stamp, dt.UTC).isoformat(timespec="microseconds").removesuffix("+00:00"), "n": 1})
    temporary = folder / f".{name}"
    temporary.write_text(text + "\n")
    os.replace(temporary, folder / f"{name}.json")


def _within(seen: Seen, written: list[tuple[float, str]]) -> dict[float, float]:
    """Delays of windows that lie well within the run."""
    first, last = written[0][0], written[-1][0]
    return {end: delay for end, delay in seen.delays.items() if first + 8 < end < last - 1}


def _median(seen: Seen, written: list[tuple[float, str]]) -> float:
    delays = _within(seen, written)
    # a window that never came is as late as the run is long
    missing = round(written[-1][0] - written[0][0] - 9) - len(delays)
    return statistics.median([*delays.values(), *[written[-1][0] - written[0][0]] * max(0, missing)])


def _note(case: Case, who: str, seen: Seen, written: list[tuple[float, str]]) -> str:
    delays = sorted(_within(seen, written).values()) or [float("nan")]
    p95 = delays[int(0.95 * (len(delays) - 1))]
    told = f"{case.name}, {who}: {len(delays)} windows, median {statistics.median(delays):.2f} s, p95 {p95:.2f} s"
    if not case.age and who == "ours":  # stamped when read: every tuple counts, and the two of the warm-up
        return f"{told}, {sum(seen.counts.values())} tuples counted of {len(written) + 2}"
    # whole windows only: from the first full second to the end of the last window that came out
    first, last = math.ceil(written[0][0]) + 1, max(seen.counts, default=0.0)
    due = sum(1 for stamp, _ in written if first <= stamp < last)
    return f"{told}, {sum(n for end, n in seen.counts.items() if end > first)} tuples counted of {due} in the windows that came out"


def _until(condition: Callable[[], bool], seconds: float = 90.0) -> None:
    deadline = time.time() + seconds
    while not condition():
        if time.time() > deadline:
            raise TimeoutError("the systems did not start in time")
        time.sleep(0.05)
