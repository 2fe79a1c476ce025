"""How elements travel between processes: as rows of six columns.

On Spark each is one row of the shuffle. A payload is a note as MessagePack, or a page as Arrow IPC, compressed on its
way to a bucket. This module alone knows the columns: as a value of ours, as Spark's schema, as an Arrow batch to Spark,
and as rows from and to Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

import msgspec
import pyarrow as pa
from msgspec import Struct

from headrace.commands.command import Relay, SendFeedback
from headrace.engine.shedding.shedders import ShedSeen
from headrace.engine.statistics import QueueStatistics, StreamCounts, VertexCounts
from headrace.errors import HostFault
from headrace.model.page import Page
from headrace.model.parcels import Moved
from headrace.model.stint import Stint
from headrace.operators.multijoin.seen import BoxSeen
from headrace.storage.requests import Requests
from headrace.worker.compression import decompress


class Kind(IntEnum):
    """What a row carries. The numbers are on the wire: a new kind gets a new one."""

    CONTROL = 0  # ingest -> bucket: bounds, time, commands
    PAGE = 1  # ingest -> bucket: tuples for the Receive vertex `name`
    RESULT = 2  # bucket -> driver: results of Output or Exchange vertex `name`
    REPORT = 3  # buckets of a task -> driver: their bounds, counts and times
    STAGED = 4  # ingest -> bucket -> driver: where the results of Output vertex `name` are
    PARTIAL = 5  # bucket -> driver: results that the demand of number `name` asked for before they are final
    BUNDLE = 6  # buckets of a task -> driver: rows of the kinds above (`worker.bundles`)
    DEMANDED = 7  # bucket -> driver: what a demand sends by an exchange, both in `name` (`worker.demands`)


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `part` orders rows of equal kind: the number of the task that made it, then its count."""

    bucket: int
    kind: Kind
    name: str
    part: int
    n: int  # tuples in the payload; of a report or bundle: commands in force
    payload: bytes


#: The columns of a row: name, type in Spark, type in Arrow.
_COLUMNS = (
    ("bucket", "INT", pa.int32()),
    ("kind", "INT", pa.int32()),
    ("name", "STRING", pa.string()),
    ("part", "BIGINT", pa.int64()),
    ("n", "INT", pa.int32()),
    ("payload", "BINARY", pa.binary()),
)
SPARK_SCHEMA = ", ".join(f"{name} {spark}" for name, spark, _ in _COLUMNS)
_ARROW_SCHEMA = pa.schema([(name, arrow) for name, _, arrow in _COLUMNS])


def to_arrow(rows: Sequence[Row]) -> pa.RecordBatch:
    """Return rows as Spark takes them from a source; there is at least one."""
    columns = zip(*map(_values, rows), strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _ARROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW_SCHEMA)


def to_spark(row: Row) -> dict[str, Any]:
    """Return the fields of a row for Spark."""
    return dict(zip(_ARROW_SCHEMA.names, _values(row), strict=True))


def from_spark(rows: Iterable[Any]) -> list[Row]:
    """Return rows that Spark hands over."""
    return [Row(row.bucket, Kind(row.kind), row.name, row.part, row.n, bytes(row.payload)) for row in rows]


def _values(row: Row) -> tuple[Any, ...]:
    return row.bucket, int(row.kind), row.name, row.part, row.n, row.payload


class Wait(Struct, frozen=True, array_like=True):
    """An operator could continue if all of these streams had reached a bound.

    With `anyhow`, a stream that never had a tuple has reached what the clock says.
    """

    bound: int
    streams: tuple[str, ...]
    anyhow: bool = False


class GuardSeen(Struct, frozen=True, array_like=True):
    """A guard as it is shown: where it drops what, until which bound, and how many tuples it has dropped."""

    reader: str
    pattern: str
    until: int | None
    saved: int
    ended: bool = False


class ParcelCounts(Struct, frozen=True, array_like=True):
    """How many tuples a task sent on a route, and how many of them for the parcels that had most."""

    total: int
    heaviest: list[tuple[int, int]]


class TaskCounts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an ingest task counted. It goes to one bucket, whose report passes it on to the driver.

    The driver adds the times: they differ whenever a task is run, and what tasks send to buckets must not.
    """

    task: int = 0  # its number
    streams: dict[str, StreamCounts] = {}
    vertices: dict[str, VertexCounts] = {}
    guards: list[GuardSeen] = []  # with what they dropped in this task
    shed: list[ShedSeen] = []  # to keep promises
    parcels: dict[str, ParcelCounts] = {}  # by route, now and then
    copies: dict[str, int] = {}  # by route: how often tuples of split parcels were sent beyond the first time
    busy_ns: int = 0


class Control(Struct, frozen=True, kw_only=True):
    """A note of an ingest task to a bucket, in every micro-batch; only that of the first task has time and commands.

    `bounds` follow from what was read; `clocks` are the bounds of silent streams by the clock, used on demand. A stream
    of several lanes is bounded by the least of theirs: the first task names all, the others those that they read.
    """

    time: int | None = None
    bounds: dict[str, int] = {}
    clocks: dict[str, int] = {}
    lanes: dict[str, dict[str, int]] = {}  # bounds by stream and lane
    commands: list[bytes] = []
    moved: list[Moved] = []  # files with parcels that are to be taken in
    dropped: list[str] = []  # queries that do not run in this micro-batch, although the bucket may know them
    begun: list[Stint] = []  # of queries that are on: later ones whose tuples have come
    budget: int | None = None  # nanoseconds of estimated service that a bucket may spend; None: no limit
    arrived: dict[str, int] = {}  # when the oldest tuple read of a stream may have arrived
    behind: dict[str, int] = {}  # of streams of which something is left unread: for how long at most it has been there
    unread: dict[str, int] = {}  # of these streams: how much that is, rows or bytes
    counts: TaskCounts | None = None  # None in the controls of all buckets but one
    buckets: list[int] = []  # all of this micro-batch; none: those with which the checkpoint began
    running: bytes = b""  # what was in force before the commands, for buckets that begin


class BucketNote(Struct, frozen=True, array_like=True):
    """What the driver must know of one bucket of a task, and not of all together."""

    bucket: int
    operators_ns: int = 0  # spent in operators
    relays: list[Relay] = []  # patterns that operators of this bucket do not need
    guards: list[GuardSeen] = []  # in force, with what they have dropped in this bucket
    ended: list[GuardSeen] = []  # in this micro-batch
    state_bytes: int = 0
    cached_bytes: int = 0  # of its state: in files that the workers of a machine map
    machine: str = ""  # where it ran; empty in the process of the driver
    restored: bool = False  # from the state store, because another worker, or none, had it before


class Report(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A note of the buckets of a task to the driver, at the end of a micro-batch; `worker.reports` merges them."""

    buckets: list[BucketNote]
    time: int
    arrived: dict[str, int] = {}  # when the oldest tuple read of a stream may have arrived
    behind: dict[str, int] = {}  # of streams of which something is left unread: for how long at most it has been there
    unread_input: dict[str, int] = {}  # of these streams: how much that is, rows or bytes
    bounds: dict[str, int] = {}  # of Output and Exchange vertices
    vertices: dict[str, VertexCounts] = {}
    tasks: list[TaskCounts] = []  # of the ingest tasks that sent their counts to this bucket
    waits: list[Wait] = []
    asked: int = 0  # bounds that streams were asked for
    purged: int = 0  # rows of state that feedback removed
    noticed: list[str] = []  # outputs of what is watched that had tuples
    begun: list[Stint] = []  # stints of queries that are on, later than those that commands started
    reached: dict[str, int] = {}  # bounds of streams, with those by the clock; only if a query may stop by itself
    state_bytes: int = 0
    chunks: int = 0
    restored: bool = False  # whether one of them was
    busy_ns: int = 0
    unread: int = 0  # tuples that the budget did not suffice for
    waiting: dict[str, int] = {}  # by Output and Exchange: when the oldest of what is unread before it arrived
    shed: list[ShedSeen] = []  # by these buckets in this micro-batch
    queues: QueueStatistics = QueueStatistics()
    stores: dict[str, Requests] = {}  # requests that the process has made since it reported last
    boxes: dict[str, BoxSeen] = {}  # what joins of several inputs did in this micro-batch, by vertex
    apart: dict[int, dict[str, BoxSeen]] = {}  # the same by bucket, if buckets may run different trees
    building: int = 0  # rows that these buckets still have to build for changes of plan
    moved: list[Moved] = []  # files with parcels that these buckets gave away
    demands: list[SendFeedback] = []  # that need another micro-batch

    def all_shed(self) -> list[ShedSeen]:
        """Return what these buckets shed, and what the ingest tasks that sent them their counts did."""
        return [*self.shed, *(shed for task in self.tasks for shed in task.shed)]


_control, _report = msgspec.msgpack.Decoder(Control), msgspec.msgpack.Decoder(Report)


def encode(note: Control | Report) -> bytes:
    """Return a note as MessagePack."""
    return msgspec.msgpack.encode(note)


def decode_control(data: bytes) -> Control:
    """Return the note of an ingest task."""
    with on_the_way("a note of an ingest task"):
        return _control.decode(data)


def decode_report(data: bytes) -> Report:
    """Return the note of a bucket."""
    with on_the_way("a note of a bucket"):
        return _report.decode(data)


def decode_page(row: Row) -> Page:
    """Return the page in a row."""
    with on_the_way(f"a page of {row.name!r}"):
        return Page.decode(decompress(row.payload))


@contextmanager
def on_the_way(what: str) -> Iterator[None]:
    """Let what cannot be decoded be a fault that says what it was."""
    try:
        yield
    except ValueError as error:  # DecodeError is one
        raise HostFault(
            f"{what} is damaged: {error}",
            hint="start again, which repeats the micro-batch; if it happens again, look for faults of memory or disk",
        ) from error


class Stage(Protocol):
    """Takes what came out of a vertex in a bucket, to write it where it was made.

    Returns notes of where it is, or nothing if they follow later; None: the pages are to be sent.
    """

    def __call__(self, bucket: int, vertex: str, pages: Sequence[Page], part: int = 0) -> Sequence[Row] | None: ...
