"""Queries that are created, dropped, replaced, stopped, started and told things in any order deliver what they should.

A model says what each query must deliver: it sees the tuples that are read while it is on, from its first micro-batch
on, whatever runs beside it and whatever had its name before.
"""

from __future__ import annotations

import datetime as dt
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from headrace.errors import NotSupported
from headrace.session import Listing, Session
from headrace.testing.watching import local_host

EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "12"))
EPOCH = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
STREAM = "CREATE STREAM s (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM MEMORY"

Row: TypeAlias = tuple[Any, ...]
#: Tuples of the stream: second, k, v.
History: TypeAlias = Sequence[tuple[int, int, int]]


def plain(history: History) -> list[tuple[int, Row]]:
    return [(second, (k, v)) for second, k, v in history]


def large(history: History) -> list[tuple[int, Row]]:
    return [(second, (k, v)) for second, k, v in history if v > 1]


def counts(history: History) -> list[tuple[int, Row]]:
    groups = Counter((second // 10 * 10 + 10, k) for second, k, _ in history)
    return [(end, (k, n)) for (end, k), n in groups.items()]


def more_counts(history: History) -> list[tuple[int, Row]]:
    return [(end, (k, n + 100)) for end, (k, n) in counts(history)]


def counted_counts(history: History) -> list[tuple[int, Row]]:
    groups = Counter((end // 20 * 20 + 20, n) for end, (_, n) in counts(history))
    return [(end, (n, m)) for (end, n), m in groups.items()]


def both(history: History) -> list[tuple[int, Row]]:
    return plain(history) + large(history)


@dataclass(frozen=True)
class Shape:
    """A kind of query, and what it returns for tuples: timestamps and rows."""

    text: str
    answer: Callable[[History], list[tuple[int, Row]]]
    family: str  # of queries that keep the same state
    lag: int = 0  # seconds by which time must have passed a result

    def answers(self, history: History) -> Counter[tuple[int, Row]]:
        return Counter(self.answer(history))


_COUNTS = "SELECT k, count(*) AS n FROM s [RANGE 10 SECONDS] GROUP BY k"
SHAPES = {
    "plain": Shape("AS SELECT k, v AS n FROM s", plain, "none"),
    "large": Shape("AS SELECT k, v AS n FROM s WHERE v > 1", large, "none"),
    "counts": Shape(f"AS {_COUNTS}", counts, "counts"),
    "more_counts": Shape(f"AS {_COUNTS.replace('count(*)', 'count(*) + 100')}", more_counts, "counts"),
    "counted": Shape(
        f"AS SELECT n AS k, count(*) AS n FROM ({_COUNTS}) [RANGE 20 SECONDS] AS c GROUP BY n",
        counted_counts,
        "counted",
    ),
    "both": Shape(
        "WITH (ordered merge) AS SELECT k, v AS n FROM s UNION SELECT k, v AS n FROM s WHERE v > 1", both, "both", 1
    ),
}
CONDITIONS: dict[str, Callable[[Row], bool]] = {"k = 1": lambda row: row[0] == 1, "n >= 2": lambda row: row[1] >= 2}


@dataclass
class Query:
    """An incarnation of a query, as the model sees it."""

    shape: Shape
    stints: list[list[tuple[int, int, int]]] = field(default_factory=lambda: [[]])
    is_on: bool = True
    delivered: Counter[Row] = field(default_factory=Counter)
    before: Counter[tuple[int, Row]] = field(default_factory=Counter)  # what another one delivered in its place
    assumed: list[Callable[[Row], bool]] = field(default_factory=list)

    def due(self, upto: int | None) -> Counter[Row]:
        """Return what it must have delivered when time has come so far (None: its streams have ended)."""
        rows: Counter[Row] = Counter()
        for number, history in enumerate(self.stints):
            is_open = upto is not None and self.is_on and number == len(self.stints) - 1
            answers = self.shape.answers(history) - self.before
            for (second, row), count in answers.items():
                if not is_open or second + self.shape.lag <= (upto or 0):
                    rows[row] += count
        return rows

    def needed(self, rows: Counter[Row]) -> Counter[Row]:
        """Return the rows that no assumption lets it leave out."""
        return Counter({row: count for row, count in rows.items() if not any(is_met(row) for is_met in self.assumed)})

    def check(self, upto: int | None) -> None:
        all_rows = self.due(None)
        assert not self.delivered - all_rows, f"foreign: {self.delivered - all_rows}"
        missing = self.needed(self.due(upto)) - self.delivered
        assert not missing, f"missing: {missing}"


class Life:
    """A session, and the model of its queries by name."""

    def __init__(self, session: Session, *, restarts: bool) -> None:
        self.session, self.restarts = session, restarts
        self.queries: dict[str, Query] = {}
        self.waiting: list[tuple[int, int, int]] = []
        self.second = 0
        for name in "abc":
            session.subscribe(name, lambda batch, rows, name=name: self.take(name, rows))  # type: ignore[misc]

    def take(self, name: str, rows: list[dict[str, Any]]) -> None:
        if rows:
            assert name in self.queries, f"{name} was dropped"
            self.queries[name].delivered.update(tuple(row.values()) for row in rows)

    def settle(self) -> None:
        """Run micro-batches until nothing is left to do; a stream that no query has waits."""
        if self.queries:
            for query in self.queries.values():
                if query.is_on:
                    query.stints[-1].extend(self.waiting)
            self.waiting = []
        host = local_host(self.session)
        while host.step():
            if self.restarts:
                host.kept.clear()
        for query in self.queries.values():
            query.check(self.second)

    def push(self, count: int) -> None:
        rows = [(self.second + number, k, (self.second + number) % 3) for number in range(1, count + 1) for k in (1, 2)]
        self.second += count
        self.waiting += rows
        self.session.push("s", [{"at": EPOCH + dt.timedelta(seconds=at), "k": k, "v": v} for at, k, v in rows])
        self.settle()

    def create(self, name: str, shape: str, other: str) -> None:
        """Create one query, or two at once."""
        new = [free for free in dict.fromkeys((name, other)) if free not in self.queries]
        if new:
            self.session.execute("; ".join(f"CREATE QUERY {free} {SHAPES[shape].text} INTO MEMORY" for free in new))
        self.queries |= {free: Query(SHAPES[shape]) for free in new}

    def drop(self, name: str) -> None:
        if name in self.queries:
            self.session.execute(f"DROP QUERY {name}")
            self.queries.pop(name)

    def replace(self, name: str, shape: str) -> None:
        old, new = self.queries.get(name), Query(SHAPES[shape])
        families = {"counts", "none"}
        if old is None or not old.is_on or len(old.stints) > 1 or new.shape == old.shape:
            return
        if old.shape.family != new.shape.family or old.shape.family not in families:
            return
        self.session.execute(f"CREATE OR REPLACE QUERY {name} {new.shape.text} INTO MEMORY")
        if old.shape.family == "counts" and not old.assumed:
            new.stints = old.stints
            new.before = Counter(
                {key: count for key, count in new.shape.answers(old.stints[0]).items() if key[0] <= self.second}
            )
        self.queries[name] = new

    def stop(self, name: str) -> None:
        query = self.queries.get(name)
        if query is not None and query.is_on:
            try:
                self.session.execute(f"STOP QUERY {name}")
            except NotSupported:
                return  # it shares operators whose tuples are between buckets
            query.is_on = False

    def start(self, name: str) -> None:
        query = self.queries.get(name)
        if query is not None and not query.is_on:
            self.session.execute(f"START QUERY {name}")
            query.is_on = True
            query.stints.append([])

    def assume(self, name: str, condition: str) -> None:
        query = self.queries.get(name)
        if query is not None and query.is_on:
            try:
                self.session.execute(f"ASSUME {name} WHERE {condition} FOR 1 HOUR; DESIRE {name} WHERE k = 2")
            except NotSupported:
                return  # no tuple has come
            query.assumed.append(CONDITIONS[condition])

    def demand(self, name: str) -> None:
        query = self.queries.get(name)
        if query is None or not query.is_on or len(query.stints) > 1:
            return
        self.settle()
        try:
            (listing,) = self.session.execute(f"DEMAND {name} WHERE TRUE")
        except NotSupported:
            return  # its tuples change buckets
        assert isinstance(listing, Listing)
        shown = Counter(row[:-1] for row in listing.rows)
        pending = query.due(None) - query.delivered
        assert not shown - pending, f"foreign in {name}: {shown - pending}"
        assert not query.needed(pending) - shown, f"missing in {name}: {query.needed(pending) - shown}"


NAMES = st.sampled_from("abc")
STEPS = st.one_of(
    st.tuples(st.just("push"), st.integers(1, 12)),
    st.tuples(st.just("push"), st.integers(1, 12)),
    st.tuples(st.just("create"), NAMES, st.sampled_from(list(SHAPES)), NAMES),
    st.tuples(st.just("create"), NAMES, st.sampled_from(list(SHAPES)), NAMES),
    st.tuples(st.just("drop"), NAMES),
    st.tuples(st.just("replace"), NAMES, st.sampled_from(list(SHAPES))),
    st.tuples(st.just("stop"), NAMES),
    st.tuples(st.just("start"), NAMES),
    st.tuples(st.just("assume"), NAMES, st.sampled_from(list(CONDITIONS))),
    st.tuples(st.just("demand"), NAMES),
    st.tuples(st.just("settle")),
)


@pytest.mark.slow
@settings(
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.generate, Phase.shrink],
)
@given(st.lists(STEPS, min_size=6, max_size=16), st.sampled_from([1, 2]), st.booleans())
def test_each_query_delivers_what_came_while_it_was_on(
    steps: list[tuple[Any, ...]], buckets: int, restarts: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory, Session(directory, host="local", buckets=buckets) as session:
        session.execute(STREAM)
        life = Life(session, restarts=restarts)
        for step, *arguments in (("create", "a", "counts", "a"), ("push", 7), *steps, ("push", 3)):
            note(f"{step} {arguments} at {life.second}")
            getattr(life, step)(*arguments)
        life.settle()
        session.drain()
        for query in life.queries.values():
            query.check(None)
