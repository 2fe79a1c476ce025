"""The statements of the language, as the parser reads them.

Positions (`Span`) count from the start of the statement's own `text`; `offset` says where that text starts in what was
given to `parse`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from sqlglot import exp

from headrace.errors import Span
from headrace.language.syntax.aggregates import AggregateBody
from headrace.language.syntax.names import ConnectorClause, Name
from headrace.language.syntax.parcels import MoveParcels
from headrace.language.syntax.rules import CreateRule, CreateSink, Decide, DeclareEvent, EnableRule, RaiseByHand
from headrace.language.syntax.stints import StintClause, TurnQuery
from headrace.model.events.event import Context, Event
from headrace.model.option import Option
from headrace.model.python_function import Style
from headrace.model.schema import Schema
from headrace.model.types import DataType

#: The lists that SHOW can print.
Shown: TypeAlias = Literal[
    "STREAMS",
    "TABLES",
    "QUERIES",
    "EVENTS",
    "RULES",
    "AGGREGATES",
    "FUNCTIONS",
    "STATISTICS",
    "FEEDBACK",
    "SHEDDING",
    "DECISIONS",
    "SETTINGS",
    "BUCKETS",
    "STORES",
    "PLANS",
    "MIGRATIONS",
    "PARCELS",
    "PROPOSALS",
]


@dataclass(frozen=True, slots=True)
class ComputedColumn:
    """A column `name [TYPE] AS expression`; `place` columns stand before it."""

    name: Name
    type: DataType | None
    expression: exp.Expr
    span: Span
    place: int


@dataclass(frozen=True, slots=True)
class CreateStream:
    """CREATE [OR REPLACE] STREAM [IF NOT EXISTS] name (columns) TIMESTAMP ... FROM KIND (options)."""

    text: str
    offset: int
    name: Name
    columns: Schema | None
    timing: Literal["EXTERNAL", "INTERNAL"]
    time_column: Name | None
    skew_us: int
    ahead_us: int | None  # END: unlimited; None: not said
    connector: ConnectorClause
    or_replace: bool
    if_not_exists: bool
    mark: Name | None = None  # of PUNCTUATED BY mark ON (delimited)
    delimited: tuple[Name, ...] = ()
    behind: bool = False  # BEHIND CLOCK
    computed: tuple[ComputedColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name [(columns)] FROM KIND (options) [REFRESH '1 minute'].

    Or CREATE TABLE name (columns, PRIMARY KEY (key)) FROM stream.
    """

    text: str
    offset: int
    name: Name
    columns: Schema | None
    connector: ConnectorClause
    or_replace: bool
    if_not_exists: bool
    refresh_us: int = 0
    key: tuple[Name, ...] = ()  # of a table that a stream feeds


@dataclass(frozen=True, slots=True)
class CreateAggregate:
    """CREATE [OR REPLACE] AGGREGATE name(x TYPE, ...) RETURNS TYPE FROM PYTHON 'module:Class', or { statements }."""

    text: str
    offset: int
    name: Name
    params: tuple[tuple[Name | None, DataType], ...]
    result: DataType
    target: str
    body: AggregateBody | None
    or_replace: bool
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class CreateFunction:
    """CREATE [OR REPLACE] FUNCTION name(TYPE, ...) RETURNS TYPE FROM PYTHON 'module:name' [VECTORIZED [style]]."""

    text: str
    offset: int
    name: Name
    args: tuple[DataType, ...]
    result: DataType
    target: str
    style: Style
    or_replace: bool
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class CreateQuery:
    """CREATE [OR REPLACE] QUERY [IF NOT EXISTS] name [START ... STOP ...] [WITH (options)] AS SELECT [INTO sinks]."""

    text: str
    offset: int
    name: Name
    options: dict[str, Option]
    select: exp.Expr
    select_span: Span
    sinks: tuple[ConnectorClause, ...]
    or_replace: bool
    if_not_exists: bool
    option_spans: dict[str, Span] = field(default_factory=dict)
    stint: StintClause | None = None
    on_demand: int | None = None  # how many tuples may wait in each bucket; None: it always runs

    @property
    def select_text(self) -> str:
        return self.text[self.select_span.start : self.select_span.end]


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE [OR REPLACE] VIEW [IF NOT EXISTS] name AS SELECT ...: a query that runs only where others read it."""

    text: str
    offset: int
    name: Name
    select: exp.Expr
    select_span: Span
    or_replace: bool
    if_not_exists: bool

    @property
    def select_text(self) -> str:
        return self.text[self.select_span.start : self.select_span.end]


@dataclass(frozen=True, slots=True)
class Split:
    """SPLIT stream INTO a WHEN condition, ..., rest ELSE: one view for each branch.

    The trees and names of the views have positions in this text, not in their own.
    """

    text: str
    offset: int
    views: tuple[CreateView, ...]


@dataclass(frozen=True, slots=True)
class EventPart:
    """A primitive event of an expression: what it reads, and what it is called there.

    A SELECT in parentheses may stand for a name; its text is the source then.
    """

    source: Name
    alias: Name
    select: exp.Expr | None = None


@dataclass(frozen=True, slots=True)
class Detection:
    """DETECT [SELECT items FROM] event [WHERE condition] [CONTEXT mode (...)].

    The port of a primitive event is its place in `parts`.
    """

    text: str
    offset: int
    event: Event
    parts: tuple[EventPart, ...]
    where: exp.Expr | None
    context: Context
    by: tuple[Name, ...]  # the qualified columns of the context, and where they stand
    span: Span
    items: tuple[exp.Expr, ...] = ()  # none: all columns

    @property
    def event_text(self) -> str:
        return "DETECT " + self.text[self.span.start : self.span.end]


@dataclass(frozen=True, slots=True)
class CreateEvent:
    """CREATE [OR REPLACE] EVENT [IF NOT EXISTS] name AS SELECT ... | event [WHERE condition] [CONTEXT mode (...)]."""

    text: str
    offset: int
    name: Name
    body: Select | Detection
    or_replace: bool
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class Select:
    """SELECT ... [INTO sinks]: a query without a name."""

    text: str
    offset: int
    select: exp.Expr
    select_span: Span
    sinks: tuple[ConnectorClause, ...]

    @property
    def select_text(self) -> str:
        return self.text[self.select_span.start : self.select_span.end]


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT INTO sink [(columns)] SELECT ...: a query that runs on into a sink that has a name."""

    text: str
    offset: int
    sink: Name
    columns: tuple[Name, ...]  # of the sink, in the order of SELECT; none: all
    select: exp.Expr
    select_span: Span

    @property
    def select_text(self) -> str:
        return self.text[self.select_span.start : self.select_span.end]


@dataclass(frozen=True, slots=True)
class Drop:
    """DROP kind [IF EXISTS] name."""

    text: str
    offset: int
    kind: Literal["QUERY", "STREAM", "TABLE", "AGGREGATE", "FUNCTION", "RULE", "SINK"]
    name: Name
    if_exists: bool


@dataclass(frozen=True, slots=True)
class Alter:
    """ALTER SYSTEM SET name = value, ALTER QUERY query SET name = value [IN BUCKET n]; no query means the system."""

    text: str
    offset: int
    query: Name | None
    setting: Name
    value: Name
    buckets: tuple[tuple[int, Span], ...] = ()  # in which a plan is set; none: all


@dataclass(frozen=True, slots=True)
class ResetFrontier:
    """ALTER STREAM stream RESET FRONTIER [TO TIMESTAMP '...']; without TO the stream goes on at the clock."""

    text: str
    offset: int
    stream: Name
    to: int | None
    to_span: Span


@dataclass(frozen=True, slots=True)
class SteerStream:
    """ALTER STREAM stream SET rate = 500 | PAUSE | RESUME: how fast a generator makes tuples; None: as before."""

    text: str
    offset: int
    stream: Name
    rate: float | None
    paused: bool | None


@dataclass(frozen=True, slots=True)
class RefreshTable:
    """REFRESH TABLE name: read it again now, and not when its time comes."""

    text: str
    offset: int
    name: Name


@dataclass(frozen=True, slots=True)
class Migrate:
    """ALTER QUERY query MIGRATE TO 'plan' [USING MOVING STATE | STEPWISE [WITHIN 'time'] | PARALLEL TRACK].

    IN BUCKET n may follow; no buckets: all.
    """

    text: str
    offset: int
    query: Name
    plan: Name
    how: Literal["moving", "stepwise", "parallel"] | None
    within: int | None  # microseconds
    buckets: tuple[tuple[int, Span], ...] = ()


@dataclass(frozen=True, slots=True)
class AlterPromises:
    """ALTER QUERY query SET (latency '200 ms' MUST, ...): changes these promises; the value NONE removes one."""

    text: str
    offset: int
    query: Name
    options: dict[str, Option]
    option_spans: dict[str, Span]


@dataclass(frozen=True, slots=True)
class Tell:
    """ASSUME | DESIRE | DEMAND query WHERE condition [FOR duration] [PRIORITY n]: feedback of a query's readers."""

    text: str
    offset: int
    intent: Literal["ASSUME", "DESIRE", "DEMAND"]
    query: Name
    condition: exp.Expr
    span: Span  # of the condition
    duration: int | None
    priority: int = 0  # of a desire


@dataclass(frozen=True, slots=True)
class Ask:
    """DEMAND query: let a query that runs on demand compute its results."""

    text: str
    offset: int
    query: Name


@dataclass(frozen=True, slots=True)
class Show:
    """SHOW what."""

    text: str
    offset: int
    what: Shown


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE name."""

    text: str
    offset: int
    name: Name


@dataclass(frozen=True, slots=True)
class ShowCreate:
    """SHOW CREATE [kind] name: the statement that defined something."""

    text: str
    offset: int
    name: Name
    kind: str  # as it is written; empty if it is not


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN [ANALYZE | CAPACITY | PLANS] [JSON] query name or SELECT."""

    text: str
    offset: int
    target: Name | exp.Expr
    form: Literal["text", "json"]
    analyze: bool
    capacity: bool = False
    plans: bool = False


@dataclass(frozen=True, slots=True)
class ExplainReplace:
    """EXPLAIN REPLACE QUERY name AS SELECT ...: what the new query would keep of the state of the running one."""

    text: str
    offset: int
    query: CreateQuery


Statement: TypeAlias = (
    CreateStream
    | CreateTable
    | CreateAggregate
    | CreateFunction
    | CreateQuery
    | CreateView
    | CreateEvent
    | DeclareEvent
    | CreateRule
    | EnableRule
    | RaiseByHand
    | Decide
    | CreateSink
    | Detection
    | Split
    | Select
    | Insert
    | TurnQuery
    | Drop
    | Alter
    | AlterPromises
    | Migrate
    | MoveParcels
    | ResetFrontier
    | SteerStream
    | RefreshTable
    | Tell
    | Ask
    | Show
    | ShowCreate
    | Describe
    | Explain
    | ExplainReplace
)
