"""Figures of streams, queries, promises and operators, and the beat that holds them."""

from __future__ import annotations

from headrace.server.views.view import Measure, State, View


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
    """A promise beside what is observed: microseconds, bytes, results per second or a ratio; slack from 0 to 1."""

    query: str
    measure: Measure
    strictness: str
    promised: float
    observed: float | None
    kept: bool | None
    slack: float | None


class VertexFigures(View, frozen=True):
    """The figures of an operator; `wait_ms` is an estimate by Little's law."""

    id: str
    rate_in: float
    rate_out: float
    busy: float  # share of all cores, 0 to 1
    service_us: float | None
    selectivity: float | None
    queued: int
    peak: int  # the most that waited at once
    wait_ms: float | None
    idle: float | None  # share of the time in which it waited for a bound, 0 to 1
    held: int
    state_bytes: int
    saved: int
    shed: int
    late: int


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
