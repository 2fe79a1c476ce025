"""A change of plan under steady load, with 10, 100 and 400 MB of state: how long are micro-batches, and what is lost?

A join of three streams has windows that keep everything. When its state has the size, a file of each stream comes at
regular times, so that the deployment is busy for about half of the time. Then the plan changes, at once or stepwise.
The longest micro-batch counts of those in which the change is under way and of three more, which use the new states for
the first time; the longest of all others is noted beside it. Results of each run are compared with DuckDB's, as
multisets.

Plain Spark cannot change a running query. What it leaves is to stop, and to start another query that replays the
window: no results come meanwhile. The time is that of its joins over the same files.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np
import polars as pl
from benches.parts import peers
from benches.parts.bids import BASE_US
from benches.parts.chained import chained
from benches.parts.comparison import compare
from benches.parts.query import Query

from headrace.driver.moment import Moment
from headrace.experiments.experiment import Panel, Series
from headrace.hosts.local import LocalDeployment
from headrace.hosts.spark.starting.context import session_for
from headrace.session import Session

STREAMS = "abc"
COLUMNS = "at TIMESTAMP, k BIGINT, v BIGINT, note STRING"
#: Bytes of text that a tuple carries, and those of a stored row in all.
TEXT, ROW = 100, 140
#: Tuples of a stream that come at a time, and in a micro-batch that fills the windows.
PER_TICK, PER_FILL = 2000, 40_000
#: Ticks before the change, and after it.
BEFORE, AFTER = 15, 25
#: Micro-batches after a change that belong to it: they use the new states for the first time.
FIRST_USES = 3
#: How much longer a micro-batch may last for a portion, and the largest ratio to the median beside that.
PORTION_MS, TARGET = 50.0, 1.5
Host = Literal["spark", "local"]


@dataclass(frozen=True, slots=True)
class Run:
    """Milliseconds of micro-batches before the change, from it on, and what the list of changes says.

    `longest_ms` is the longest micro-batch of the change, `calm_ms` the longest of all others.
    """

    before: tuple[float, ...]
    after: tuple[float, ...]
    state_mb: float
    batches: int
    longest_ms: float
    calm_ms: float
    built: int
    missing: int
    excess: int

    @property
    def median(self) -> float:
        return statistics.median(self.before)


def main(quick: bool, host: Host = "spark") -> dict[str, Any]:
    """Measure each size with each way."""
    figures: dict[str, Any] = {
        "bench": "migrate",
        "title": "A change of plan under load, " + ("quick" if quick else "full"),
        "cases": {},
        "rows": [],
        "notes": [],
        "panels": [],
    }
    for size in (10, 40) if quick else (10, 100, 400):
        with tempfile.TemporaryDirectory(prefix="migrate-") as folder:
            _measure(size, Path(folder), figures, host, with_spark=host == "spark" and size <= 100)
    figures["notes"].append("load of the machine at the end: " + ", ".join(f"{mean:.1f}" for mean in os.getloadavg()))
    return figures


def _measure(size: int, folder: Path, figures: dict[str, Any], host: Host, *, with_spark: bool) -> None:
    files = _write(folder / "files", size * 1_000_000 // ROW // len(STREAMS))
    runs: dict[str, Run] = {}
    for how in ("MOVING STATE", "STEPWISE"):
        runs[how] = run(folder / how.replace(" ", "-"), files, how, host)
    for how, each in runs.items():
        limit = TARGET * each.median + PORTION_MS
        is_judged = how == "STEPWISE"
        row: dict[str, Any] = {
            "case": f"{size} MB, {how.lower()}: longest micro-batch",
            "ours": each.longest_ms,
            "peers": {"median": each.median},
            "unit": "ms",
            "ratio": each.longest_ms / each.median,
        }
        if is_judged:
            row |= {"target": limit, "verdict": "met" if each.longest_ms <= limit else "missed"}
        figures["rows"].append(row)
        lost = {"case": f"{size} MB, {how.lower()}: missing and too many", "ours": each.missing + each.excess}
        figures["rows"].append(
            {**lost, "unit": "rows", "target": 0, "verdict": "met" if not lost["ours"] else "missed"}
        )
        figures["notes"].append(
            f"{size} MB, {how.lower()}: {each.state_mb:.0f} MB of input rows held, {each.built:,} rows built in "
            f"{each.batches} micro-batches; longest micro-batch without a change {each.calm_ms:.0f} ms"
        )
        figures["cases"][f"{size} MB, {how.lower()}"] = {name: getattr(each, name) for name in Run.__slots__}
    if with_spark:
        seconds = _replay(files)
        longest = runs["STEPWISE"].longest_ms
        figures["rows"].append(
            {
                "case": f"{size} MB: time without results",
                "ours": longest,
                "peers": {"Spark, replayed": 1e3 * seconds},
                "unit": "ms",
                "ratio": 1e3 * seconds / longest,
            }
        )
    figures["panels"].append(_panel(size, runs))


def run(folder: Path, files: Mapping[str, Sequence[Path]], how: str, host: Host) -> Run:
    """Fill the windows, load the deployment steadily, and change the plan."""
    for name in STREAMS:
        (folder / "in" / name).mkdir(parents=True)
    ticks = BEFORE + AFTER
    fill = {name: paths[:-ticks] for name, paths in files.items()}
    _put(folder / "in", fill)
    moments: list[Moment] = []
    with Session(folder / "checkpoint", host=host, limit=PER_FILL) as session:
        session.deployment.delivery.watchers.append(moments.append)
        session.execute(_script(folder))
        filled = sum(map(len, fill.values())) * PER_TICK
        _wait(session, filled)
        _wait_until(session, lambda: bool(moments))  # a micro-batch is watched after its tuples are counted
        pause = 2 * PER_TICK / PER_FILL * statistics.median(_ms(moment) for moment in moments[-3:]) / 1e3
        for tick in range(ticks):
            if tick == BEFORE:
                changed = len(moments)
                session.execute(f"ALTER QUERY met MIGRATE TO '(a (b c))' USING {how}")
            _put(folder / "in", {name: [paths[tick - ticks]] for name, paths in files.items()})
            if host == "spark":
                time.sleep(pause)
            _wait(session, filled + (tick + 1) * len(STREAMS) * PER_TICK)
        _wait_until(session, lambda: all(each.ended is not None for each in _migrations(session)))
        last = len(moments)
        session.drain()
        migrated = _migrations(session)[-1]
    times = [_ms(moment) for moment in moments]
    held = max(sum(port.bytes for box in each.observation.boxes.values() for port in box.ports) for each in moments)
    difference = _check(folder)
    ended = min(last, changed + migrated.batches + FIRST_USES)
    return Run(
        tuple(times[changed - BEFORE : changed]),
        tuple(times[changed:last]),
        held / 1e6,
        migrated.batches,
        max(times[changed:ended]),
        max(times[changed - BEFORE : changed] + times[ended:last]),
        migrated.built,
        difference[0],
        difference[1],
    )


def _script(folder: Path) -> str:
    streams = [
        f"CREATE STREAM {name} ({COLUMNS}) TIMESTAMP BY at FROM FILES (path '{folder}/in/{name}', format 'parquet')"
        for name in STREAMS
    ]
    window = "[RANGE 1 DAY]"
    columns = ", ".join(f"{name}.v AS v{name}, {name}.note AS n{name}" for name in STREAMS)
    joins = f"a {window} JOIN b {window} ON a.k = b.k JOIN c {window} ON b.k = c.k"
    query = f"CREATE QUERY met AS SELECT a.k AS k, {columns} FROM {joins} INTO FILES (path '{folder}/out')"
    return ";\n".join([*streams, query, "ALTER QUERY met SET plan = '((a b) c)'"])


def _migrations(session: Session) -> list[Any]:
    return session.deployment.control.migrations.all()


def _ms(moment: Moment) -> float:
    return moment.statistics.batch_ms or 0.0


def _tuples(session: Session) -> int:
    return sum(stream.tuples for stream in session.statistics().streams.values())


def _wait(session: Session, tuples: int) -> None:
    """Wait until so many tuples have been read."""
    _wait_until(session, lambda: _tuples(session) >= tuples)


def _wait_until(session: Session, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 900
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after 15 minutes {_tuples(session)} tuples were read")
        if isinstance(session.deployment, LocalDeployment):
            session.deployment.step()
        else:
            time.sleep(0.02)


def _put(folder: Path, files: Mapping[str, Sequence[Path]]) -> None:
    """Let files appear in the folders of the streams, each at once."""
    for name, paths in files.items():
        for path in paths:
            os.link(path, folder / name / path.name)


def _write(folder: Path, rows: int) -> dict[str, list[Path]]:
    """Write files of PER_TICK tuples; a tuple has one partner in each other stream, on average."""
    chance = np.random.default_rng(5)
    count = max(1, rows // PER_TICK) + BEFORE + AFTER
    files: dict[str, list[Path]] = {}
    for name in STREAMS:
        (folder / name).mkdir(parents=True)
        files[name] = []
        for number in range(count):
            letters = chance.integers(97, 123, (PER_TICK, TEXT), dtype=np.uint8).view(f"S{TEXT}").ravel()
            at = BASE_US + number * 1_000_000 + np.sort(chance.integers(0, 1_000_000, PER_TICK))
            frame = pl.DataFrame(
                {
                    "at": pl.Series(at).cast(pl.Datetime("us", "UTC")),
                    "k": chance.integers(0, count * PER_TICK, PER_TICK),
                    "v": number * PER_TICK + np.arange(PER_TICK),
                    "note": pl.Series(letters.tolist()).cast(pl.String),
                }
            )
            path = folder / name / f"{number:05d}.parquet"
            frame.write_parquet(path)
            os.utime(path, (1_750_000_000 + number, 1_750_000_000 + number))
            files[name].append(path)
    return files


def _check(folder: Path) -> tuple[int, int]:
    """Return how many results are missing, and how many are too many."""
    tables = " JOIN ".join(
        f"read_parquet('{folder}/in/{name}/*.parquet') AS {name}" + ("" if name == "a" else " USING (k)")
        for name in STREAMS
    )
    columns = ", ".join(f"{name}.v AS v{name}, {name}.note AS n{name}" for name in STREAMS)
    with duckdb.connect() as connection:
        found = compare(
            connection, f"SELECT k, {columns} FROM {tables}", sorted((folder / "out").glob("[!.]*.parquet"))
        )
    return found.lost, found.repeated + found.wrong


def _replay(files: Mapping[str, Sequence[Path]]) -> float:
    """Return the seconds until a new query of plain Spark has read the window again."""
    spark = session_for()
    sources = {
        name: spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 200).parquet(str(files[name][0].parent))
        for name in STREAMS
    }
    joined = chained(sources, "INTERVAL 1 DAY", ("v", "note"))
    query = Query("", lambda *frames: frames[0], "k", {"rows": "k * 0 + 1"})
    with tempfile.TemporaryDirectory(prefix="spark-migrate-") as folder:
        began = time.perf_counter()
        writer = peers.observed(joined, query).writeStream.option("checkpointLocation", folder)
        running = writer.trigger(availableNow=True).format("noop").start()
        running.awaitTermination()
        return time.perf_counter() - began


def _panel(size: int, runs: Mapping[str, Run]) -> Panel:
    series = tuple(
        Series(
            how.lower(),
            tuple((float(place - len(each.before)), ms) for place, ms in enumerate(each.before + each.after)),
        )
        for how, each in runs.items()
    )
    return Panel(f"{size} MB of state", "micro-batches since the change", "ms", series)
