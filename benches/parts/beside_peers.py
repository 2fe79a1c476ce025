"""A query on Headrace, on plain Spark and on Flink, from the same rows in files or topics, checked against DuckDB.

The rate is that of the steady run, and means the same for all: the tuples of the second half of the input divided by
the time for them. For Headrace and Spark this is the time of the micro-batches that read them. For Flink it is the time
between the moments at which its sources had read half of the tuples and all of them, by Flink's own counters. The first
half warms up; the JVMs have run other queries before. What is computed when the input ends counts for none of them.

The input is made once for each size and kept (`.bench` in the checkout, about 70 bytes for an event).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from benches.parts import beside_flink, flink, plain_spark
from benches.parts.broker import Broker, missing
from benches.parts.comparison import compare
from benches.parts.dialects import Query
from benches.parts.outcome import Disagreement
from benches.parts.topics import fill
from pyspark.errors import PySparkException

from headrace.driver.offset import Offset
from headrace.errors import HostFault
from headrace.hosts.spark.starting.context import session_for
from headrace.hosts.spark.starting.launch import Launch
from headrace.session import Session

PARTITIONS = 2
#: The heap of each JVM, unless HEADRACE_DRIVER_MEMORY says otherwise.
MEMORY = "4g"
#: Where inputs are kept, and what a folder of them contains.
KEPT = flink.ROOT / ".bench"
_MANIFEST = "manifest.json"
#: The peers that can be chosen.
PEERS = ("spark", "flink")
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
    schemas: Mapping[str, str]
    tables: Mapping[str, pa.Table]
    parts: Mapping[str, int]
    batches: int
    broker: Broker | None = None

    def files(self, name: str) -> list[Path]:
        """Return the files of a stream, in the order of time."""
        return sorted((self.folder / name).glob("[0-9]*.parquet"))

    def streams(self, query: Query) -> list[str]:
        """Return the statements that create the streams of a query."""
        columns = self.schemas
        return [
            f"CREATE STREAM {name} ({columns[name]}) TIMESTAMP BY at AHEAD UNLIMITED FROM {self._from(name)}"
            for name in query.streams
        ] + [f"CREATE TABLE {name} FROM FILES (path '{self.folder / name}.parquet')" for name in self.tables]

    def script(self, query: Query, results: Path) -> list[str]:
        """Return the statements of a query whose results go into files, compressed as Spark does it."""
        sink = f"FILES (path '{results}', compression 'snappy')"
        return [*self.streams(query), f"CREATE QUERY watched AS {query.ours} INTO {sink}"]

    def rows(self, query: Query) -> int:
        """Return how many tuples the query reads in a micro-batch."""
        return sum(self.parts[name] for name in query.streams)

    def flink_sources(self, query: Query) -> list[str]:
        """Return the statements that create a query's streams and the tables in Flink."""
        columns, halves = self.schemas, self.folder / "halves"
        streams = [
            beside_flink.file_source(name, columns[name], halves)
            if self.broker is None
            else beside_flink.topic_source(name, columns[name], self.broker.address)
            for name in query.streams
        ]
        return streams + [beside_flink.file_source(name, _shape(table), halves) for name, table in self.tables.items()]

    def spark_job(self, query: Query, folder: Path) -> plain_spark.SparkJob:
        """Return a query for plain Spark, with the rows that close its windows."""
        assert query.spark is not None
        number = 0 if query.kind == "stateless" else query.tails
        tails = f",tail-[0-{number - 1}]" if number else ""
        streams = {name: (str(self.folder / name), self.schemas[name]) for name in query.streams}
        tables = [str(self.folder / f"{name}.parquet") for name in self.tables]
        topics = None if self.broker is None else self._spark_topics(self.broker, query, number)
        return plain_spark.SparkJob(query.spark, streams, f"{{[0-9]*{tails}}}.parquet", tables, str(folder), topics)

    def _spark_topics(self, broker: Broker, query: Query, tails: int) -> plain_spark.SparkTopics:
        """Return where Spark reads a query's streams, with new topics for the rows that close its windows."""
        ends = {
            name: (f"{name}-end-{uuid.uuid4().hex[:8]}", str(self.folder / name / "tail-0.parquet"))
            for name in query.streams
        }
        for topic, _ in ends.values():
            broker.make(topic, 1)
        limits = {name: self.parts[name] for name in query.streams}
        return plain_spark.SparkTopics(broker.address, limits, ends, tails)

    def _from(self, name: str) -> str:
        if self.broker is not None:
            options = f"topic '{name}', format 'json', max_rows {self.parts[name]}"
            return f"KAFKA (bootstrap '{self.broker.address}', {options})"
        path = self.folder / name / "[0-9]*.parquet"
        return f"FILES (path '{path}', format 'parquet', max_rows {self.parts[name]})"


@dataclass(frozen=True, slots=True)
class Run:
    """What a run took as a whole and in each of its micro-batches, and how many tuples it had read after each."""

    seconds: float
    batch_ms: tuple[float, ...]
    reached: tuple[int, ...]

    def rate(self) -> float | None:
        """Return the tuples per second of the second half; None if a single micro-batch read all that was left."""
        half = next(at for at, tuples in enumerate(self.reached) if tuples >= self.reached[-1] / 2)
        end = self.reached.index(self.reached[-1])
        tuples = self.reached[end] - self.reached[half]
        return 1000 * tuples / sum(self.batch_ms[half + 1 : end + 1]) if tuples else None


@dataclass(frozen=True, slots=True)
class Measured:
    """Rates in tuples per second and whole times in seconds, by system; `refusals` say why one has none."""

    rates: dict[str, float]
    seconds: dict[str, float]
    refusals: dict[str, str]
    batch_ms: dict[str, tuple[float, ...]]

    def add(self, system: str, rate: float | None, run: Run | beside_flink.FlinkRun) -> None:
        """Add the figures of a system; HostFault if it has no rate."""
        if rate is None:
            raise HostFault("it had read all before half of its tuples were counted")
        self.rates[system], self.seconds[system] = rate, run.seconds
        if isinstance(run, Run):
            self.batch_ms[system] = run.batch_ms


@dataclass(frozen=True, slots=True)
class Size:
    """How many micro-batches of how many events."""

    batches: int
    events: int

    def __str__(self) -> str:
        return f"{self.batches} micro-batches of {self.events:,} events"


#: The same sizes for all benches of peers.
QUICK, MEDIUM, LARGE, FULL = Size(6, 50_000), Size(8, 250_000), Size(4, 2_000_000), Size(20, 250_000)
#: Warms up the JVM of Headrace and Spark: what it does once for each micro-batch is compiled after hundreds of them.
WARMING = Size(100, 2_000)
#: The heap of Flink's JVM if its state, all of which is there, does not fit into as much as the others get.
FLINK_MEMORY = {LARGE: "10g"}


def size_of(quick: bool, medium: bool, large: bool = False) -> Size:
    """Return the size that the options ask for."""
    return QUICK if quick else MEDIUM if medium else LARGE if large else FULL


def peers_of(names: str) -> tuple[str, ...]:
    """Return the peers of a list such as 'spark, flink'; without one, all."""
    wanted = tuple(name.strip() for name in names.split(",") if name.strip())
    unknown = [name for name in wanted if name not in PEERS]
    if unknown:
        raise HostFault(f"there is no peer {unknown[0]!r}", hint="write spark, flink, or both with a comma")
    return wanted or PEERS


@dataclass(frozen=True, slots=True)
class Place:
    """The input of a run, the peers, and Flink if it is one and installed: all that a query needs."""

    given: Input
    flink: beside_flink.Flink | None
    peers: tuple[str, ...] = PEERS


@contextlib.contextmanager
def prepared(
    bench: str,
    events_of: Callable[[int], Events],
    warm_up: Sequence[Query],
    *,
    size: Size,
    input: str,
    made_by: Sequence[str],
    peers: tuple[str, ...] = PEERS,
) -> Iterator[Place]:
    """Give a place to measure queries, once `warm_up` has run with all systems; `input` is files or kafka.

    `made_by` are the sources of the program that makes the events: if they change, these are made anew.
    """
    if input not in ("files", "kafka"):  # before Spark starts
        raise HostFault(f"there is no input {input!r}", hint="write files or kafka")
    os.environ.setdefault("HEADRACE_DRIVER_MEMORY", MEMORY)
    launch = Launch(conf=plain_spark.jars() if input == "kafka" else {})
    session_for(launch).conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    with contextlib.ExitStack() as stack:
        folder = kept(bench, events_of, size, [__file__, *made_by])
        given = stack.enter_context(opened(folder, input))
        peer = None
        if "flink" in peers and flink.find_python() is not None:
            memory = FLINK_MEMORY.get(size, os.environ["HEADRACE_DRIVER_MEMORY"])
            peer = stack.enter_context(beside_flink.Flink(memory))
        place = Place(given, peer, peers)
        _warm_jvm(bench, events_of, warm_up, [__file__, *made_by], place)
        for query in warm_up:
            measure("warm-up", query, place)
        yield place


def _warm_jvm(
    bench: str, events_of: Callable[[int], Events], queries: Sequence[Query], sources: Sequence[str], place: Place
) -> None:
    """Run two queries in small micro-batches with Headrace and Spark, and each query once more with Flink."""
    folder = kept(bench, events_of, WARMING, sources)
    with opened(folder, "files") as given:
        for query in queries[:2]:
            measure("warm-up", query, Place(given, None, tuple(peer for peer in place.peers if peer != "flink")))
    if place.flink is not None:
        for query in queries:
            measure("warm-up", query, replace(place, peers=("flink",)))


def kept(bench: str, events_of: Callable[[int], Events], size: Size, sources: Sequence[str]) -> Path:
    """Return the folder of an input, which is made if there is none yet; one by other programs is deleted."""
    digest = hashlib.blake2b(b"".join(Path(source).read_bytes() for source in sources), digest_size=6).hexdigest()
    sort = f"{bench}-{size.batches}x{size.events}"
    folder = KEPT / f"{sort}-{digest}"
    if not folder.exists():
        KEPT.mkdir(exist_ok=True)
        for old in KEPT.glob(f"{sort}-*"):
            shutil.rmtree(old)
        part = KEPT / f"{sort}-part{os.getpid()}"
        write(events_of(size.batches * size.events), part, size.batches)
        part.rename(folder)
    return folder


def write(events: Events, folder: Path, batches: int) -> None:
    """Write events as files."""
    folder.mkdir(exist_ok=True)
    parts = {name: table.num_rows // batches for name, table in events.streams.items()}
    for name, table in events.streams.items():
        _write(folder / name, table, parts[name], events.tail)
    for name, table in events.tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
    streams = {name: table.cast(in_utc(table.schema)) for name, table in events.streams.items()}
    beside_flink.write_halves(folder / "halves", streams, events.tables)
    manifest = {"batches": batches, "parts": parts, "schemas": dict(events.schemas), "tables": list(events.tables)}
    (folder / _MANIFEST).write_text(json.dumps(manifest))


@contextlib.contextmanager
def opened(folder: Path, kind: str) -> Iterator[Input]:
    """Give the input of a folder; `kind` is files or kafka, whose topics are filled."""
    manifest = json.loads((folder / _MANIFEST).read_text())
    tables = {name: pq.read_table(folder / f"{name}.parquet") for name in manifest["tables"]}
    given = Input(folder, manifest["schemas"], tables, manifest["parts"], manifest["batches"])
    if kind == "files":
        yield given
        return
    lacking = missing()
    if lacking is not None:
        raise HostFault(lacking)
    with tempfile.TemporaryDirectory(prefix="broker-") as directory:
        broker = Broker(Path(directory) / "broker")
        broker.start()
        try:
            for name in given.schemas:
                broker.make(name, PARTITIONS)
                rows = pa.concat_tables(pq.read_table(file) for file in given.files(name))
                fill(broker.address, name, rows, PARTITIONS)
            yield replace(given, broker=broker)
        finally:
            broker.close()


def _write(folder: Path, table: pa.Table, part: int, texts: Mapping[str, str]) -> None:
    """Write files of so many rows, and the single rows that close Spark's windows; their times grow with the order."""
    folder.mkdir()
    utc = in_utc(table.schema)
    table = table.cast(utc)
    tail = {name: [-1 if pa.types.is_integer(utc.field(name).type) else texts.get(name)] for name in utc.names}
    last = table["at"].cast(pa.int64())[-1].as_py()
    ends = pa.table({**tail, "at": [last + _LATER_US]}, schema=utc)
    files = [(f"{i:05d}.parquet", table.slice(at, part)) for i, at in enumerate(range(0, table.num_rows, part))]
    for number, (name, rows) in enumerate([*files, *((f"tail-{i}.parquet", ends) for i in range(_TAILS))]):
        pq.write_table(rows, folder / name)
        os.utime(folder / name, (1_750_000_000 + number,) * 2)


def in_utc(schema: pa.Schema) -> pa.Schema:
    """Return a schema whose times are points in time."""
    return pa.schema(
        [pa.field(f.name, pa.timestamp("us", "UTC") if pa.types.is_timestamp(f.type) else f.type) for f in schema]
    )


def measure(name: str, query: Query, place: Place) -> Measured:
    """Run a query with Headrace, and with each peer that can.

    Disagreement if our result is wrong. A peer that fails or gives another result has no figures, and the reason.
    """
    given, measured = place.given, Measured({}, {}, {}, {})
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as directory, answers(given) as known:
        folder = Path(directory)
        ours = _run_ours(query, given, folder)
        check(f"{name} of Headrace", query.reference, known, sorted((folder / "ours").glob("*.parquet")))
        measured.add("ours", ours.rate(), ours)
        for peer, run in (("spark", _with_spark), ("flink", _with_flink)):
            if peer not in place.peers:
                continue
            try:
                run(name, query, place, known, folder, measured)
            except (HostFault, Disagreement, PySparkException) as error:
                measured.refusals[peer] = f"fails: {str(error).splitlines()[0]}"
    return measured


def _with_spark(
    name: str, query: Query, place: Place, known: duckdb.DuckDBPyConnection, folder: Path, measured: Measured
) -> None:
    given = place.given
    if query.spark is None:
        raise HostFault(query.refusal)
    if given.broker is not None and not plain_spark.jars():
        raise HostFault("its connector of Kafka is not installed: benches/spark/setup")
    run = _run_spark(query, given, folder)
    check(f"{name} of Spark", query.reference, known, sorted((folder / "spark").glob("*.parquet")))
    measured.add("spark", run.rate(), run)


def _with_flink(
    name: str, query: Query, place: Place, known: duckdb.DuckDBPyConnection, folder: Path, measured: Measured
) -> None:
    if place.flink is None or query.flink is None:
        raise HostFault("not installed" if place.flink is None else query.flink_refusal)
    run = place.flink.run(flink_job(query, place.given, known, folder))
    reference = query.flink.duckdb or query.reference
    check(f"{name} of Flink", reference, known, beside_flink.results(folder), query.flink.undefined)
    measured.add("flink", run.rate(place.given.rows(query) * place.given.batches), run)


def flink_job(query: Query, given: Input, known: duckdb.DuckDBPyConnection, folder: Path) -> dict[str, Any]:
    """Return a query for Flink, whose results go into a folder."""
    assert query.flink is not None
    reference = query.flink.duckdb or query.reference
    columns = {name: str(type_) for name, type_, *_ in known.execute(f"DESCRIBE {reference}").fetchall()}
    return beside_flink.job(query.flink, query.streams, given.flink_sources(query), columns, folder)


def _run_ours(query: Query, given: Input, folder: Path) -> Run:
    began = time.perf_counter()
    with Session(folder / "checkpoint", limit=max(given.parts.values())) as session:
        session.execute(";\n".join(given.script(query, folder / "ours")))
        running = session.deployment.query  # type: ignore[attr-defined]
        _wait_until_read(session, given.rows(query) * given.batches)
        session.drain()
        seconds = time.perf_counter() - began
    return _run_of(seconds, running.recentProgress, query, given, _of_ours)


def _wait_until_read(session: Session, tuples: int) -> None:
    """Wait until all tuples are read, so that no micro-batch with tuples has the end of the input to do, too."""
    while sum(stream.tuples for stream in session.statistics().streams.values()) < tuples:
        failure = session.deployment.failure()
        if failure is not None:
            raise failure
        time.sleep(0.02)


def _run_spark(query: Query, given: Input, folder: Path) -> Run:
    spark = session_for()
    began = time.perf_counter()
    running = plain_spark.run(spark, given.spark_job(query, folder))
    seconds = time.perf_counter() - began
    return _run_of(seconds, running.recentProgress, query, given, _of_spark)


def _run_of(
    seconds: float,
    progress: Sequence[Any],
    query: Query,
    given: Input,
    offsets: Callable[[Any], Iterator[tuple[str, int]]],
) -> Run:
    """Return a run by what Spark tells of its micro-batches; `offsets` gives how far one has read which stream."""
    if given.broker is None:  # a file of each stream, and then those that close windows
        reached = [given.rows(query) * min(done, given.batches) for done in range(1, len(progress) + 1)]
    else:
        # a stream that a query reads twice is a source twice, and both go as far
        furthest = [dict(sorted(offsets(each), key=itemgetter(1))) for each in progress]
        reached = [sum(each.get(name, 0) for name in query.streams) for each in furthest]
    assert reached[-1] == given.rows(query) * given.batches, "a rate needs all tuples"
    times = (float(each.durationMs["triggerExecution"]) for each in progress)
    return Run(seconds, tuple(times), tuple(reached))


def _of_ours(progress: Any) -> Iterator[tuple[str, int]]:
    """Give how many records of its topic a stream of ours has read."""
    for source in progress.sources:
        for name, stream in msgspec.json.decode(source.endOffset, type=Offset).streams.items():
            if stream.at is not None:
                yield name, sum(stream.at["at"]) - sum(stream.at["from"])


def _of_spark(progress: Any) -> Iterator[tuple[str, int]]:
    """Give how many records of a topic Spark has read; all begin with 0."""
    for source in progress.sources:
        for topic, partitions in json.loads(source.endOffset).items():
            yield topic, sum(partitions.values())


@contextlib.contextmanager
def answers(given: Input) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a DuckDB that has the streams and tables."""
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        for name, columns in given.schemas.items():
            times = [column.split()[0] for column in columns.split(", ") if column.endswith("TIMESTAMP")]
            casts = ", ".join(f'CAST("{time}" AS TIMESTAMP) AS "{time}"' for time in times)
            paths = ", ".join(f"'{file}'" for file in given.files(name))
            db.execute(f"CREATE VIEW {name} AS SELECT * REPLACE ({casts}) FROM read_parquet([{paths}])")
        for name, table in given.tables.items():
            db.register(name, table)
        yield db


def check(
    what: str, reference: str, known: duckdb.DuckDBPyConnection, files: Sequence[Path], undefined: float = 0.0
) -> None:
    """Raise Disagreement unless the files hold DuckDB's answer, but for a share of rows with undefined values."""
    difference = compare(known, reference, files)
    most = undefined * difference.expected
    is_near = difference.lost == difference.wrong + difference.repeated <= most
    if not is_near or not difference.expected:
        raise Disagreement(f"{what} differs from DuckDB's answer: {difference}")


def _shape(table: pa.Table) -> str:
    """Return the columns of a table as statements name them."""
    return ", ".join(f"{name} {'BIGINT' if pa.types.is_integer(type_) else 'STRING'}" for name, type_ in _types(table))


def _types(table: pa.Table) -> Iterator[tuple[str, pa.DataType]]:
    return ((column.name, column.type) for column in table.schema)
