"""Everything that leaves the server, as frozen structs; nothing else goes out.

Instants are milliseconds since 1970 in UTC, unless a name says otherwise. Names end in their unit (`_ms`, `_us`,
`_bytes`); a `rate` is per second. None means that nothing is known.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct

Measure: TypeAlias = Literal["latency", "memory", "throughput"]
State: TypeAlias = Literal["starting", "idle", "running", "failed", "ended", "stopping"]
Role: TypeAlias = Literal["read", "write"]
Half: TypeAlias = Literal["ingest", "bucket"]


class View(Struct, frozen=True):
    """Something that leaves the server."""


# --- Errors ---


class SpanView(View, frozen=True):
    """A place in a text: half-open, in UTF-16 units, as browsers count; line and column begin at 1."""

    start: int
    end: int
    line: int
    column: int
    unit: Literal["utf-16"] = "utf-16"


class Fix(View, frozen=True):
    """A replacement that repairs a text: what to write between two positions (UTF-16 units)."""

    start: int
    end: int
    text: str


class Problem(View, frozen=True, omit_defaults=True):
    """An error, as application/problem+json (RFC 9457)."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    hint: str | None = None
    span: SpanView | None = None
    excerpt: str | None = None
    fix: Fix | None = None
    id: str | None = None  # of a fault of Headrace, as in the log
    stage: str | None = None  # what a start is doing
    first: int | None = None  # the first micro-batch that is left on a shelf


# --- The deployment ---


class Column(View, frozen=True):
    """A column of a stream, table or query."""

    name: str
    type: str


class StreamFigures(View, frozen=True):
    """The figures of a stream: totals since the process began, and rates of the last seconds."""

    name: str
    rate: float
    tuples: int
    late: int
    bad: int
    skipped: int
    frontier: int | None
    lag_ms: float | None  # of the frontier, behind the clock
    behind_ms: float  # for how long at most unread records have been there
    unread: int
    unread_unit: str


class QueryFigures(View, frozen=True):
    """The figures of a query or rule."""

    name: str
    state: str  # on, off, waits, suspended or failed, with details behind the word
    rate: float
    results: int
    failed: int
    latency_ms: float | None
    waiting: int
    state_bytes: int
    shed: int
    watchers: int


class StandingView(View, frozen=True):
    """A promise beside what is observed: microseconds, bytes or results per second; slack from 0 to 1."""

    query: str
    measure: Measure
    strictness: str
    promised: float
    observed: float | None
    kept: bool | None
    slack: float | None


class Beat(View, frozen=True):
    """What a page needs after a micro-batch. The counters `decisions` and `catalog` say when to fetch these again."""

    batch: int
    at: int
    took_ms: float | None
    state: State
    stage: str | None  # what a start is doing, or why it failed
    load: float | None  # share of the processor that is needed; above 1 there is congestion
    speed: float  # busy seconds in a second that the machine gave
    cores: int
    rate: float  # tuples read per second
    state_bytes: int
    queued: int
    streams: tuple[StreamFigures, ...]
    queries: tuple[QueryFigures, ...]
    promises: tuple[StandingView, ...]
    bottleneck: str | None  # vertex
    bottleneck_title: str | None
    decisions: int
    catalog: int


class DeploymentView(View, frozen=True):
    """The server, and its latest beat."""

    name: str
    version: str
    host: str
    checkpoint: str
    state: State
    stage: str | None
    problem: Problem | None
    since: int
    uptime_s: float
    cores: int
    role: Role
    read_only: bool
    logs: str
    beat: Beat


class Check(View, frozen=True):
    """One condition of readiness."""

    name: str
    ok: bool
    detail: str


class Health(View, frozen=True):
    """Whether the process answers, and whether it is ready; checks only with a token."""

    status: Literal["ok", "not ready"]
    checks: tuple[Check, ...] = ()


# --- Definitions ---


class RelationNode(View, frozen=True):
    """A stream, table, view, event, query, rule or sink in the graph of who reads whom."""

    id: str
    kind: Literal["stream", "table", "view", "event", "query", "rule", "sink"]
    name: str
    detail: str
    rate: float | None


class RelationArc(View, frozen=True):
    """A reads-from relation: tuples flow from `origin` to `reader`."""

    origin: str
    reader: str
    rate: float | None


class RelationGraph(View, frozen=True):
    """Streams, tables, views, queries, events, rules and sinks, and who reads whom."""

    nodes: tuple[RelationNode, ...]
    arcs: tuple[RelationArc, ...]


class Sample(View, frozen=True):
    """Some rows, as columns and values."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    total: int


class StreamView(View, frozen=True):
    """A stream: where it comes from, its columns, and its figures."""

    name: str
    source: str
    options: dict[str, str]
    columns: tuple[Column, ...]
    timing: str
    time_column: str | None
    skew_ms: float
    readers: tuple[str, ...]
    can_push: bool
    figures: StreamFigures
    bad: Sample | None = None
    late: Sample | None = None


class TableView(View, frozen=True):
    """A stored table."""

    name: str
    source: str
    options: dict[str, str]
    columns: tuple[Column, ...]
    readers: tuple[str, ...]


class ShelfView(View, frozen=True):
    """What is kept of the newest results of a query."""

    keep: str
    durable: bool
    rows: int
    bytes: int
    first: int | None  # micro-batch
    last: int | None
    dropped: int  # rows that gave way
    hidden: int  # rows that tasks wrote to files, and that were not shown


class QueryView(View, frozen=True):
    """A query, view or event."""

    name: str
    kind: Literal["query", "view", "event", "follow"]
    text: str
    columns: tuple[Column, ...]
    sinks: tuple[str, ...]
    reads: tuple[str, ...]
    readers: tuple[str, ...]
    options: dict[str, str]
    promises: tuple[StandingView, ...]
    scheduler: str | None
    shares_with: tuple[str, ...]
    stint: str | None
    figures: QueryFigures | None
    shelf: ShelfView | None


class VertexView(View, frozen=True):
    """An operator. It is fetched once for each graph; ids stay the same over plans."""

    id: str
    operator: str
    title: str
    detail: str
    half: Half
    inputs: tuple[str, ...]
    queries: tuple[str, ...]
    span: SpanView | None = None


class VertexFigures(View, frozen=True):
    """The figures of an operator; `wait_ms` is an estimate by Little's law."""

    id: str
    rate_in: float
    rate_out: float
    busy: float  # share of all cores, 0 to 1
    service_us: float | None
    selectivity: float | None
    queued: int
    wait_ms: float | None
    held: int
    state_bytes: int
    saved: int
    shed: int
    late: int


class GraphView(View, frozen=True):
    """The operators of a query, or of all, with their figures."""

    query: str | None
    vertices: tuple[VertexView, ...]
    figures: tuple[VertexFigures, ...]
    bottleneck: str | None


class RuleView(View, frozen=True):
    """A rule, and what became of its detections."""

    name: str
    event: str
    context: str
    condition: str
    text: str
    actions: tuple[str, ...]
    execution: str
    state: str
    detections: int
    ignored: int
    calls: int
    done: int
    waiting: int
    failed: int


class OutboxView(View, frozen=True):
    """Calls of rules that wait, by rule."""

    waiting: int
    fault: str | None
    rules: tuple[tuple[str, int], ...]


class DecisionView(View, frozen=True):
    """A decision of the controller, with its reason."""

    number: int
    at: int
    query: str | None
    kind: str
    action: str
    reason: str


class DecisionsView(View, frozen=True):
    """Decisions, oldest first; `newest` is the number to ask `after` next time."""

    decisions: tuple[DecisionView, ...]
    newest: int


class GuardView(View, frozen=True):
    """What feedback drops at one place, and what it saved."""

    place: str
    vertex: str | None
    unneeded: str
    until: int | None
    active: bool
    tuples: int
    bytes: int | None


class FeedbackView(View, frozen=True):
    """What feedback saved."""

    guards: tuple[GuardView, ...]
    purged: int


class ShedView(View, frozen=True):
    """What is dropped on one arc."""

    vertex: str
    place: str
    port: int
    queries: tuple[str, ...]
    kind: str
    share: float
    seen: int
    dropped: int
    active: bool


class ShedQueryView(View, frozen=True):
    """What one query lost by shedding, and what it may lose."""

    query: str
    mode: str
    arrived: int
    dropped: int
    error: float | None  # the share lost
    allowed: float | None


class SheddingView(View, frozen=True):
    """What is shed, by place and by query."""

    places: tuple[ShedView, ...]
    queries: tuple[ShedQueryView, ...]


class PartitionView(View, frozen=True):
    """A bucket, as it reported in the last micro-batch."""

    bucket: int
    machine: str
    state_bytes: int
    cached_bytes: int
    operators_us: int
    restored: bool


class SettingView(View, frozen=True):
    """A setting, its value, and what it means."""

    setting: str
    value: str
    scope: str


class TokenView(View, frozen=True):
    """A token by name; the token itself is known to its user only."""

    name: str
    role: Role


class ListingView(View, frozen=True):
    """Rows of a SHOW, DESCRIBE or DEMAND."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


# --- Statements ---


class MessageOutcome(View, frozen=True, tag_field="kind", tag="message"):
    """What a statement did, in a sentence."""

    text: str


class ListingOutcome(View, frozen=True, tag_field="kind", tag="listing"):
    """The rows of a SHOW, DESCRIBE or DEMAND."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


class StartedOutcome(View, frozen=True, tag_field="kind", tag="started"):
    """A query that now runs; `follow` if it lives only while somebody follows its results."""

    query: str
    follow: bool = False


OutcomeView: TypeAlias = MessageOutcome | ListingOutcome | StartedOutcome


class StatementsAnswer(View, frozen=True):
    """The outcomes of statements, in order; `commands` is the number after which they are in force."""

    outcomes: tuple[OutcomeView, ...]
    dry: bool
    commands: int


class Diagnosis(View, frozen=True):
    """What is wrong with a text; nothing if `problem` is None."""

    problem: Problem | None
    changes: bool  # whether the text does more than read


class ExplainAnswer(View, frozen=True):
    """How the statements' queries would run: text for people, and graphs for pictures."""

    text: str
    plans: tuple[Any, ...]  # EXPLAIN JSON of each query


class PushAnswer(View, frozen=True):
    """How many rows were appended; `repeated` if an earlier request with the same key had done so."""

    rows: int
    repeated: bool = False


class FunctionWord(View, frozen=True):
    """A function, for completion."""

    name: str
    signature: str
    aggregate: bool


class RelationWord(View, frozen=True):
    """A name that a query can read, with its columns."""

    name: str
    kind: str
    columns: tuple[Column, ...]


class WordsView(View, frozen=True):
    """What can be typed: keywords, functions, names, settings, promise options."""

    keywords: tuple[str, ...]
    functions: tuple[FunctionWord, ...]
    relations: tuple[RelationWord, ...]
    rules: tuple[str, ...]
    types: tuple[str, ...]
    options: tuple[str, ...]
    settings: tuple[tuple[str, tuple[str, ...]], ...]
    sources: tuple[str, ...]
    sinks: tuple[str, ...]


# --- Results and figures over time ---


class ResultBatch(View, frozen=True):
    """The results of a query in one micro-batch; `skipped` rows before them were not sent."""

    batch: int
    at: int
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    skipped: int = 0


class ResultsView(View, frozen=True):
    """What the shelf of a query holds, oldest first."""

    query: str
    columns: tuple[Column, ...]
    batches: tuple[ResultBatch, ...]
    next: int  # ask `after` this micro-batch next time
    shelf: ShelfView


class Series(View, frozen=True):
    """One figure over time; None where nothing is known."""

    name: str
    values: tuple[float | None, ...]


class HistoryView(View, frozen=True):
    """Figures over time: `times` are the same for all series."""

    step_s: float
    times: tuple[int, ...]
    series: tuple[Series, ...]


class LoginAnswer(View, frozen=True):
    """Who is logged in."""

    name: str
    role: Role


class Done(View, frozen=True):
    """Something was done."""

    done: str


# --- The live feed: messages of the server ---


class Hello(View, frozen=True, tag_field="t", tag="hello"):
    """The first message on a WebSocket."""

    version: str
    role: Role
    beat: Beat


class BeatMessage(View, frozen=True, tag_field="t", tag="beat"):
    """A beat."""

    beat: Beat


class GraphMessage(View, frozen=True, tag_field="t", tag="graph"):
    """Figures of the vertices of a query (None: of all), after a micro-batch."""

    query: str | None
    batch: int
    figures: tuple[VertexFigures, ...]
    bottleneck: str | None


class ResultsMessage(View, frozen=True, tag_field="t", tag="results"):
    """Results of a query."""

    query: str
    result: ResultBatch


class DecisionsMessage(View, frozen=True, tag_field="t", tag="decisions"):
    """New decisions."""

    decisions: tuple[DecisionView, ...]
    newest: int


class RulesMessage(View, frozen=True, tag_field="t", tag="rules"):
    """The rules, after a micro-batch in which one of their counters changed."""

    rules: tuple[RuleView, ...]
    outbox: OutboxView


class CatalogMessage(View, frozen=True, tag_field="t", tag="catalog"):
    """Definitions have changed: fetch them again."""

    catalog: int


class StateMessage(View, frozen=True, tag_field="t", tag="state"):
    """The state of the server has changed."""

    state: State
    stage: str | None
    problem: Problem | None


class LiveError(View, frozen=True, tag_field="t", tag="error"):
    """A message of the client could not be followed."""

    topic: str | None
    problem: Problem


LiveMessage: TypeAlias = (
    Hello
    | BeatMessage
    | GraphMessage
    | ResultsMessage
    | DecisionsMessage
    | RulesMessage
    | CatalogMessage
    | StateMessage
    | LiveError
)
