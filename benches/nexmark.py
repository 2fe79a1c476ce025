"""Nexmark's queries q0 to q22 beside plain Spark, from Parquet files or Kafka, each compared with DuckDB's answer.

One query runs at a time, in the same Spark, first ours and then Spark's, from the same files; both write Parquet files.
The rate is that of the steady run: the tuples of a micro-batch divided by the median time of the micro-batches between
the first and the last ones. The notes give the whole time from the first statement to the last result, with the start
of the query, in a JVM that runs already. Spark closes no window at the end of its input: queries with state get two
more micro-batches of one row that is far ahead, without which Spark would not give all results.
"""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from benches.parts.broker import Broker, missing
from benches.parts.comparison import compare
from benches.parts.nexmark import BASE_US, EVENTS, SCHEMAS, generate, side_input
from benches.parts.nexmark_queries import QUERIES, Query
from benches.parts.outcome import Disagreement
from benches.parts.topics import fill

from headrace.errors import HostFault
from headrace.hosts.spark.starting.context import session_for
from headrace.session import Session

#: Rates against Spark's. Without state, the way of the tuples to Python and back is most of the work.
TARGETS = {"stateless": 0.9, "stateful": 1.0}
SEED = 11
PARTITIONS = 2
#: Single rows two days later close Spark's windows.
_TAIL_US = BASE_US + 2 * 86_400_000_000
_TAILS = 4


@dataclass(frozen=True, slots=True)
class Input:
    """Events as files, one of each stream for a micro-batch; `parts` has the rows of such a file."""

    folder: Path
    tables: Mapping[str, pa.Table]
    parts: Mapping[str, int]
    batches: int
    broker: Broker | None = None

    def streams(self, query: Query) -> list[str]:
        """Return the statements that create the streams of a query."""
        return [
            f"CREATE STREAM {name} ({SCHEMAS[name]}) TIMESTAMP BY at AHEAD UNLIMITED FROM {self._from(name)}"
            for name in query.streams
        ] + [f"CREATE TABLE side FROM FILES (path '{self.folder / 'side.parquet'}')"]

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


def main(quick: bool, queries: str = "", input: str = "files") -> dict[str, Any]:
    """Measure the named queries (all, if none is named); `input` is files or kafka."""
    chosen = _chosen(queries)
    if input not in ("files", "kafka"):
        raise HostFault(f"there is no input {input!r}", hint="write files or kafka")
    batches, events = (6, 50_000) if quick else (10, 500_000)
    spark = session_for()
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    figures: dict[str, Any] = {
        "bench": "nexmark",
        "title": f"Nexmark from {input}, {batches} micro-batches of {events:,} events",
        "cases": {},
        "rows": [],
        "notes": [],
    }
    with (
        tempfile.TemporaryDirectory(prefix="nexmark-") as folder,
        _input(Path(folder), batches, events, input) as given,
    ):
        _warm(given)
        for name, query in chosen.items():
            _report(figures, name, query, given, *_measure(name, query, given))
    _summary(figures)
    return figures


def _chosen(names: str) -> dict[str, Query]:
    """Return the queries of a list such as 'q0, q5'."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in QUERIES]
    if unknown:
        raise HostFault(f"Nexmark has no query {unknown[0]!r}", hint="its queries are q0 to q22, such as q0,q5")
    return {name: query for name, query in QUERIES.items() if not wanted or name in wanted}


@contextlib.contextmanager
def _input(folder: Path, batches: int, events: int, kind: str) -> Iterator[Input]:
    """Write the events, into topics too if these are read."""
    tables = generate(batches * events, seed=SEED)
    parts = {name: table.num_rows // batches for name, table in tables.items()}
    assert events % EVENTS == 0
    for name, table in tables.items():
        _write(folder / name, table, parts[name])
    pq.write_table(side_input(), folder / "side.parquet")
    if kind == "files":
        yield Input(folder, tables, parts, batches)
        return
    lacking = missing()
    if lacking is not None:
        raise HostFault(lacking)
    broker = Broker(folder / "broker")
    broker.start()
    try:
        for name, table in tables.items():
            broker.make(name, PARTITIONS)
            fill(broker.address, name, table, PARTITIONS)
        yield Input(folder, tables, parts, batches, broker)
    finally:
        broker.close()


def _write(folder: Path, table: pa.Table, part: int) -> None:
    """Write files of so many rows, and the single rows that close Spark's windows; their times grow with the order."""
    folder.mkdir()
    utc = pa.schema(
        [pa.field(f.name, pa.timestamp("us", "UTC") if pa.types.is_timestamp(f.type) else f.type) for f in table.schema]
    )
    table = table.cast(utc)
    tail = {field.name: [-1 if pa.types.is_integer(field.type) else None] for field in utc}
    ends = pa.table({**tail, "at": [_TAIL_US]}, schema=utc)
    files = [(f"{i:05d}.parquet", table.slice(at, part)) for i, at in enumerate(range(0, table.num_rows, part))]
    for number, (name, rows) in enumerate([*files, *((f"tail-{i}.parquet", ends) for i in range(_TAILS))]):
        pq.write_table(rows, folder / name)
        os.utime(folder / name, (1_750_000_000 + number,) * 2)


def _warm(given: Input) -> None:
    """Run a query with both, so that the JVM has loaded and compiled what all queries use."""
    with tempfile.TemporaryDirectory(prefix="warm-") as folder:
        _run_ours(QUERIES["q12"], given, Path(folder))
        if given.broker is None:
            _run_spark(QUERIES["q12"], given, Path(folder))


def _measure(name: str, query: Query, given: Input) -> tuple[Run, Run | None]:
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
        ours = _run_ours(query, given, Path(folder))
        _check(f"{name} of Headrace", query, given, Path(folder) / "ours")
        if query.spark is None or given.broker is not None:
            return ours, None
        theirs = _run_spark(query, given, Path(folder))
        _check(f"{name} of Spark", query, given, Path(folder) / "spark")
        return ours, theirs


def _run_ours(query: Query, given: Input, folder: Path) -> Run:
    script = [*given.streams(query), f"CREATE QUERY watched AS {query.ours} INTO FILES (path '{folder / 'ours'}')"]
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
        files = spark.readStream.schema(SCHEMAS[name]).option("maxFilesPerTrigger", 1)
        tails = "" if query.kind == "stateless" else f",tail-[0-{query.tails - 1}]"
        files = files.option("pathGlobFilter", f"{{[0-9]*{tails}}}.parquet")
        files.parquet(str(given.folder / name)).withWatermark("at", "0 seconds").createOrReplaceTempView(name)
    spark.read.parquet(str(given.folder / "side.parquet")).createOrReplaceTempView("side")
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


def _check(what: str, query: Query, given: Input, folder: Path) -> None:
    """Raise Disagreement unless the files hold DuckDB's answer."""
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        for name, table in {**given.tables, "side": side_input()}.items():
            db.register(name, table)
        difference = compare(db, query.reference, sorted(folder.glob("*.parquet")))
    if not difference.is_none or not difference.expected:
        raise Disagreement(f"{what} differs from DuckDB's answer: {difference}")


def _report(figures: dict[str, Any], name: str, query: Query, given: Input, ours: Run, theirs: Run | None) -> None:
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


def _summary(figures: dict[str, Any]) -> None:
    """Add the geometric means, of all queries that both could run."""
    both = [case for case in figures["cases"].values() if case["ratio"] is not None]
    if not both:
        return
    rates = math.exp(statistics.fmean(math.log(case["ratio"]) for case in both))
    whole = math.exp(statistics.fmean(math.log(case["seconds"]["spark"] / case["seconds"]["ours"]) for case in both))
    figures["geometric_mean"] = {"rate": rates, "whole": whole}
    figures["notes"].append(
        f"geometric mean of {len(both)} queries: {rates:.2f} times Spark's rate, {whole:.2f} times as fast as a whole"
    )
