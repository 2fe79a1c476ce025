"""Streams, tables, queries, rules and operators, and who reads whom."""

from __future__ import annotations

from typing import Any, Literal

from headrace.server.views.figures import QueryFigures, StandingView, StreamFigures, VertexFigures
from headrace.server.views.problem import SpanView
from headrace.server.views.view import Column, Half, View


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
    """A table: stored, and read again every `refresh_ms` if that is not None; or fed by a stream, a row for each key.

    `problem` says why it could not be read again; queries go on with the rows that they had.
    """

    name: str
    source: str
    options: dict[str, str]
    columns: tuple[Column, ...]
    readers: tuple[str, ...]
    refresh_ms: float | None
    origin: str | None
    key: tuple[str, ...]
    problem: str | None


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


class CallView(View, frozen=True):
    """A call that waits: after how many tries of how many, and what the last answer was."""

    rule: str
    key: str
    action: str
    tries: int
    most: int
    reason: str | None


class FailureView(View, frozen=True):
    """A call that was given up."""

    rule: str
    key: str
    action: str
    reason: str
    tries: int
    at: int
    detection: str


class OutboxView(View, frozen=True):
    """Calls of rules that wait, by rule; the first of them, and the newest that were given up by this process."""

    waiting: int
    fault: str | None
    rules: tuple[tuple[str, int], ...]
    calls: tuple[CallView, ...] = ()
    failed: tuple[FailureView, ...] = ()
