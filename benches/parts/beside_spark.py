"""A query on Headrace and on plain Spark, in the same Spark, from the same files or topics, checked against DuckDB."""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from benches.parts.broker import Broker, missing
from benches.parts.comparison import compare
from benches.parts.dialects import Query
from benches.parts.outcome import Disagreement
from benches.parts.topics import fill

from headrace.errors import HostFault
from headrace.hosts.spark.starting.context import session_for
from headrace.session import Session

#: Rates against Spark's. Without state, the way of the tuples to Python and back is most of the work.
TARGETS = {"stateless": 0.9, "stateful": 1.0}
PARTITIONS = 2
#: How much later the single rows are that close Spark's windows, and how many there are.
_LATER_US = 2 * 86_400_000_000
_TAILS = 4


@dataclass(frozen=True, slots=True)
class Events:
    """The streams of a benchmark, in the order of time, the columns of each, and the tables beside them.

    `tail` are texts of the single rows that close Spark's windows, where a condition would drop them too early.
    """

    streams: Mapping[str, pa.Table]
    schemas: Mapping[str, str]
    tables: Mapping[str, pa.Table]
    tail: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Input:
    """Events as files, one of each stream for a micro-batch; `parts` has the rows of such a file."""

    folder: Path
    events: Events
    parts: Mapping[str, int]
    batches: int
    broker: Broker | None = None

    def streams(self, query: Query) -> list[str]:
        """Return the statements that create the streams of a query."""
        columns = self.events.schemas
        return [
            f"CREATE STREAM {name} ({columns[name]}) TIMESTAMP BY at AHEAD UNLIMITED FROM {self._from(name)}"
            for name in query.streams
        ] + [f"CREATE TABLE {name} FROM FILES (path '{self.folder / name}.parquet')" for name in self.events.tables]

    def rows(self, query: Query) -> int:
        """Return how many tuples the query reads in a micro-batch."""
        return sum(self.parts[name] for name in query.streams)

    def _from(self, name: str) -> str:
        if self.broker is not None:
            return f"KAFKA (bootstrap '{self.broker.address}', topic '{name}', format 'json')"
        path = self.folder / name / "[0-9]*.parquet"
        return f"FILES (path '{path}', format 'parquet', max_rows {self.parts[name]})"


@dataclass(frozen=True, slots=True)
class Run:
    """What a run took as a whole, and each of its micro-batches."""

    seconds: float
    batch_ms: tuple[float, ...]

    def rate(self, rows: int, batches: int) -> float:
        """Return tuples per second of the steady run: of all micro-batches with tuples but the first and the last."""
        steady = self.batch_ms[1 : batches - 1] or self.batch_ms
        return 1000 * rows / statistics.median(steady)


def compared(
    bench: str,
    title: str,
    events_of: Callable[[int], Events],
    queries: Mapping[str, Query],
    first: Query,
    *,
    quick: bool,
    input: str,
) -> dict[str, Any]:
    """Measure queries one after the other, once `first` has warmed both up; `input` is files or kafka."""
    if input not in ("files", "kafka"):  # before Spark starts
        raise HostFault(f"there is no input {input!r}", hint="write files or kafka")
    batches, events = (6, 50_000) if quick else (10, 500_000)
    session_for().conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    figures: dict[str, Any] = {
        "bench": bench,
        "title": f"{title} from {input}, {batches} micro-batches of {events:,} events",
        "cases": {},
        "rows": [],
        "notes": [],
    }
    with (
        tempfile.TemporaryDirectory(prefix=f"{bench}-") as folder,
        written(events_of(batches * events), Path(folder), batches, input) as given,
    ):
        warm(first, given)
        for name, query in queries.items():
            report(figures, name, query, given, *measure(name, query, given))
    return figures


@contextlib.contextmanager
def written(events: Events, folder: Path, batches: int, kind: str) -> Iterator[Input]:
    """Write the events, into topics too if these are read: `kind` is files or kafka."""
    parts = {name: table.num_rows // batches for name, table in events.streams.items()}
    for name, table in events.streams.items():
        _write(folder / name, table, parts[name], events.tail)
    for name, table in events.tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
    if kind == "files":
        yield Input(folder, events, parts, batches)
        return
    lacking = missing()
    if lacking is not None:
        raise HostFault(lacking)
    broker = Broker(folder / "broker")
    broker.start()
    try:
        for name, table in events.streams.items():
            broker.make(name, PARTITIONS)
            fill(broker.address, name, table, PARTITIONS)
        yield Input(folder, events, parts, batches, broker)
    finally:
        broker.close()


def _write(folder: Path, table: pa.Table, part: int, texts: Mapping[str, str]) -> None:
    """Write files of so many rows, and the single rows that close Spark's windows; their times grow with the order."""
    folder.mkdir()
    utc = pa.schema(
        [pa.field(f.name, pa.timestamp("us", "UTC") if pa.types.is_timestamp(f.type) else f.type) for f in table.schema]
    )
    table = table.cast(utc)
    tail = {name: [-1 if pa.types.is_integer(utc.field(name).type) else texts.get(name)] for name in utc.names}
    last = table["at"].cast(pa.int64())[-1].as_py()
    ends = pa.table({**tail, "at": [last + _LATER_US]}, schema=utc)
    files = [(f"{i:05d}.parquet", table.slice(at, part)) for i, at in enumerate(range(0, table.num_rows, part))]
    for number, (name, rows) in enumerate([*files, *((f"tail-{i}.parquet", ends) for i in range(_TAILS))]):
        pq.write_table(rows, folder / name)
        os.utime(folder / name, (1_750_000_000 + number,) * 2)


def warm(query: Query, given: Input) -> None:
    """Run a query with both, so that the JVM has loaded and compiled what all queries use."""
    with tempfile.TemporaryDirectory(prefix="warm-") as folder:
        _run_ours(query, given, Path(folder))
        if given.broker is None:
            _run_spark(query, given, Path(folder))


def measure(name: str, query: Query, given: Input) -> tuple[Run, Run | None]:
    """Run a query with Headrace, and with plain Spark where it can; Disagreement if a result is wrong."""
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
        ours = _run_ours(query, given, Path(folder))
        check(f"{name} of Headrace", query, given, Path(folder) / "ours")
        if query.spark is None or given.broker is not None:
            return ours, None
        theirs = _run_spark(query, given, Path(folder))
        check(f"{name} of Spark", query, given, Path(folder) / "spark")
        return ours, theirs


def _run_ours(query: Query, given: Input, folder: Path) -> Run:
    sink = f"FILES (path '{folder / 'ours'}', compression 'snappy')"  # which is what Spark writes
    script = [*given.streams(query), f"CREATE QUERY watched AS {query.ours} INTO {sink}"]
    began = time.perf_counter()
    with Session(folder / "checkpoint", limit=max(given.parts.values())) as session:
        session.execute(";\n".join(script))
        running = session.deployment.query  # type: ignore[attr-defined]
        session.drain()
        seconds = time.perf_counter() - began
    return Run(seconds, tuple(float(each.durationMs["triggerExecution"]) for each in running.recentProgress))


def _run_spark(query: Query, given: Input, folder: Path) -> Run:
    assert query.spark is not None
    spark = session_for()
    began = time.perf_counter()
    for name in query.streams:
        files = spark.readStream.schema(given.events.schemas[name]).option("maxFilesPerTrigger", 1)
        tails = "" if query.kind == "stateless" else f",tail-[0-{query.tails - 1}]"
        files = files.option("pathGlobFilter", f"{{[0-9]*{tails}}}.parquet")
        files.parquet(str(given.folder / name)).withWatermark("at", "0 seconds").createOrReplaceTempView(name)
    for name in given.events.tables:
        spark.read.parquet(str(given.folder / f"{name}.parquet")).createOrReplaceTempView(name)
    running = (
        spark.sql(query.spark)
        .writeStream.option("checkpointLocation", str(folder / "spark-checkpoint"))
        .trigger(availableNow=True)
        .format("parquet")
        .start(str(folder / "spark"))
    )
    running.awaitTermination()
    seconds = time.perf_counter() - began
    return Run(seconds, tuple(float(each.durationMs["triggerExecution"]) for each in running.recentProgress))


def check(what: str, query: Query, given: Input, folder: Path) -> None:
    """Raise Disagreement unless the files hold DuckDB's answer."""
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        for name, table in {**given.events.streams, **given.events.tables}.items():
            db.register(name, table)
        difference = compare(db, query.reference, sorted(folder.glob("*.parquet")))
    if not difference.is_none or not difference.expected:
        raise Disagreement(f"{what} differs from DuckDB's answer: {difference}")


def report(figures: dict[str, Any], name: str, query: Query, given: Input, ours: Run, theirs: Run | None) -> None:
    """Add the figures of a query."""
    rows, target = given.rows(query), TARGETS[query.kind]
    rate, peer = ours.rate(rows, given.batches), None if theirs is None else theirs.rate(rows, given.batches)
    ratio = None if peer is None else rate / peer
    measured = {"ours": rate, "peers": {"spark": peer}, "unit": "tuples/s", "ratio": ratio, "target": target}
    verdict = "" if ratio is None else "met" if ratio >= target else "missed"
    figures["rows"].append({"case": f"{name}, {query.kind}", **measured, "verdict": verdict})
    figures["cases"][name] = {
        **measured,
        "seconds": {"ours": ours.seconds, "spark": None if theirs is None else theirs.seconds},
        "batch_ms": {"ours": ours.batch_ms, "spark": () if theirs is None else theirs.batch_ms},
    }
    beside = f"Spark {theirs.seconds:.1f} s" if theirs is not None else f"Spark {query.refusal}"
    if theirs is None and query.spark is not None:
        beside = "Spark has no Kafka source here"
    differs = f"; {query.differs}" if query.differs else ""
    figures["notes"].append(f"{name}: whole time ours {ours.seconds:.1f} s, {beside}{differs}")
