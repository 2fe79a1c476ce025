"""The definitions of a session as plain values: streams, tables, queries, aggregates, rules and sinks."""

from __future__ import annotations

import hashlib
from enum import Enum
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headrace.language.syntax.names import FED
from headrace.model.action import RaiseEvent, Reaction, SwitchQuery
from headrace.model.expressions.expression import Column, Expr
from headrace.model.option import Option
from headrace.model.python_function import Style
from headrace.model.qos import Qos, qos_of
from headrace.model.schema import Field, Schema
from headrace.model.streams import SYSTEM_PREFIX
from headrace.model.time import HOUR
from headrace.model.types import DataType, Type

#: Options of a query that say when it is on: times, and what is watched.
SCHEDULE, START_ON, STOP_ON = "schedule", "start on", "stop on"
#: Option of a query that runs on demand: how many tuples may wait in each bucket.
ON_DEMAND = "on demand"
#: Option of a query or rule that is on while the queries that feed it are.
LATE_BINDING = "late_binding"
#: The option of a query whose joins demand results before they are final, and the column that tells these apart.
EARLY, PARTIAL = "early", "partial"


class Connector(Struct, frozen=True):
    """A source or sink by kind (FILES, GENERATOR, SOCKET, MEMORY, SPARK, CONSOLE, ...) with its options."""

    kind: str
    options: dict[str, Option]


#: The time at which a record is read, in expressions of computed columns.
READ_AT = Column("__read", Type.TIMESTAMP)
#: A record whose timestamp is further ahead of the clock is a bad one, if its stream does not say otherwise.
AHEAD = HOUR


class Timing(Enum):
    """Where timestamps come from."""

    EXTERNAL = "EXTERNAL"  # a column, with a skew bound
    INTERNAL = "INTERNAL"  # set when the tuple is read
    CAUSED = "CAUSED"  # of an event that rules raise: that of the detection
    LATENT = "LATENT"  # in older checkpoints only; the same as INTERNAL


class Stream(Struct, frozen=True, tag="stream"):
    """A registered stream. `skew` bounds disorder: a tuple more than `skew` behind the newest one is late.

    `ahead` bounds how far a timestamp may be ahead of the clock: None is AHEAD, unless the stream leads the clock from
    its beginning; END is no bound.

    One that is `behind` runs as fast as the clock, at a distance: its tuples come within `skew` of each other's delay.

    A record whose column `mark` is TRUE, or a time, is no tuple: it says that no more comes before its time, or before
    that time, of the values that it has in the columns `delimited`.

    Pushed rows and raised events are in numbered files. Those with a number below `begin` are of an earlier stream of
    the same name, which was dropped.

    The columns of `computed` are not in the records: they are computed of the others when a record has been read.
    """

    name: str
    schema: Schema
    connector: Connector
    timing: Timing
    time_column: str | None = None
    skew: int = 0
    ahead: int | None = None
    begin: int = 0
    mark: str | None = None
    delimited: tuple[str, ...] = ()
    behind: bool = False
    computed: tuple[tuple[str, Expr], ...] = ()

    @property
    def arrivals(self) -> frozenset[str]:
        """Return the columns that have the time at which a record is read."""
        return frozenset(name for name, expr in self.computed if expr == READ_AT)

    @property
    def times(self) -> frozenset[str]:
        """Return the columns that are the timestamp of their tuple."""
        if self.timing is Timing.INTERNAL:
            return self.arrivals
        return frozenset() if self.time_column is None else frozenset((self.time_column,))

    @property
    def recorded(self) -> Stream:
        """Return the stream as its source sees it: with the columns that are in the records."""
        if not self.computed:
            return self
        names = {name for name, _ in self.computed}
        schema = Schema(tuple(field for field in self.schema if field.name not in names))
        if self.time_column not in names:
            return replace(self, schema=schema, computed=())
        return replace(self, schema=schema, computed=(), timing=Timing.INTERNAL, time_column=None)

    @property
    def source(self) -> str:
        """Return a digest of where its records come from: offsets of another source mean nothing to this one."""
        origin = (self.connector, self.begin) if self.begin else self.connector
        return hashlib.blake2b(msgspec.json.encode(origin, order="sorted"), digest_size=8).hexdigest()


class Table(Struct, frozen=True, tag="table"):
    """A stored relation, read when a query that uses it starts, and again every `refresh` microseconds (0: never)."""

    name: str
    schema: Schema
    connector: Connector
    refresh: int = 0
    key: tuple[str, ...] = ()  # of one that a stream feeds: its newest tuple of each key is the row

    @property
    def origin(self) -> str | None:
        """Return the stream or query that feeds the table; None if it is stored."""
        return str(self.connector.options["stream"]) if self.connector.kind == FED else None


class Query(Struct, frozen=True, tag="query"):
    """A continuous query: its SELECT as text, what it returns, where results go, and options of its WITH clause.

    Without sinks it is a view. `basis` are the texts of queries that it replaced and of whose plans it runs parts,
    since it has kept their state; the newest first.
    """

    name: str
    text: str
    schema: Schema
    sinks: tuple[Connector, ...]
    options: dict[str, Option] = {}
    basis: tuple[str, ...] = ()

    @property
    def is_view(self) -> bool:
        return not self.sinks

    @property
    def is_event(self) -> bool:
        """Return whether it was created as an event; its text is a SELECT or begins with DETECT."""
        return bool(self.options.get("event"))

    @property
    def watched(self) -> tuple[str, ...]:
        """Return the streams whose first tuple starts or stops it."""
        return tuple(str(self.options[name]) for name in (START_ON, STOP_ON) if name in self.options)

    @property
    def qos(self) -> Qos:
        """Return the promises it was created with."""
        return qos_of(self.options)


class Aggregate(Struct, frozen=True, omit_defaults=True, tag="aggregate"):
    """A user-defined aggregate, in Python or in SQL.

    `target` is 'module:Class' with zero, add, merge and finish, which take an `arg`. One in SQL has named arguments,
    and a `body` in braces.
    """

    name: str
    arg: DataType
    result: DataType
    target: str = ""
    params: tuple[Field, ...] = ()
    body: str = ""

    @property
    def arguments(self) -> str:
        """Return the arguments as they are written."""
        return ", ".join(f"{param.name} {param.type.value}" for param in self.params) or self.arg.value


class Function(Struct, frozen=True, tag="function"):
    """A user-defined scalar function in Python: `target` is 'module:name'."""

    name: str
    args: tuple[DataType, ...]
    result: DataType
    target: str
    style: Style


class Sink(Struct, frozen=True, tag="sink"):
    """A place for results by name: each rule and query that inserts into it has a part of its own there.

    One that has a `schema` was written as a table of Flink: a query that inserts into it has the place for itself.
    """

    name: str
    connector: Connector
    schema: Schema | None = None


class Rule(Struct, frozen=True, tag="rule"):
    """The actions to run when an event is detected.

    `text` is the statement, `columns` the columns of a detection, `warnings` the state that grows without a limit.
    """

    name: str
    event: str
    text: str
    columns: Schema
    sinks: tuple[Connector, ...]
    reaction: Reaction
    context: str = ""
    condition: str = ""
    warnings: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()  # named sinks
    options: dict[str, Option] = {}  # how late its detections may be, and whether it binds late

    @property
    def turns(self) -> tuple[str, ...]:
        """Return the queries that it starts or stops."""
        return tuple(action.query for action in self.reaction.actions if isinstance(action, SwitchQuery))

    @property
    def raises(self) -> tuple[str, ...]:
        """Return the events that it raises."""
        return tuple(action.event for action in self.reaction.actions if isinstance(action, RaiseEvent))


Definition: TypeAlias = Stream | Table | Query | Aggregate | Function | Sink | Rule

#: Columns of <rule>.failed: calls that were given up, with the detection as JSON and the key that another try should
#: carry.
FAILED = Schema.of(
    key=Type.STRING,
    action=Type.STRING,
    reason=Type.STRING,
    tries=Type.INT,
    detected=Type.TIMESTAMP,
    detection=Type.STRING,
)
#: Kinds of streams that no statement names: events that rules raise, what rules failed to do, and times of the clock.
RAISED, FAILURES, CLOCK = "RAISED", "FAILURES", "CLOCK"

#: Columns of the side streams that every stream has: <stream>.bad and <stream>.late (the latter: the stream's own
#: columns).
BAD = Schema.of(record=Type.STRING, reason=Type.STRING, origin=Type.STRING)

#: What was shed: for each query and arc with a shedder, in each micro-batch in which tuples came there.
SHED = Stream(
    f"{SYSTEM_PREFIX}shed",
    Schema.of(
        at=Type.TIMESTAMP,
        query=Type.STRING,
        arc=Type.STRING,
        kind=Type.STRING,
        share=Type.DOUBLE,
        seen=Type.BIGINT,
        dropped=Type.BIGINT,
        error=Type.DOUBLE,
    ),
    Connector("SYSTEM", {}),
    Timing.INTERNAL,
)
