"""Stints by time: the cut of micro-batches does not change their results."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.driver.intake import Intake
from headrace.hosts.local import LocalDeployment
from headrace.model.time import SECOND, format_instant, parse_instant
from headrace.session import Session
from headrace.testing.clock import VirtualClock

pytestmark = pytest.mark.slow

MIDNIGHT = parse_instant("2026-03-01 00:00:00")
SKEW, WINDOW = 3, 4
BEGIN, END, EVERY = 5, 15, 20
STREAMS = f"""
    CREATE STREAM s (at TIMESTAMP, k INT, n INT) TIMESTAMP BY at SKEW {SKEW} SECONDS FROM MEMORY;
    CREATE STREAM u (at TIMESTAMP, k INT, n INT) TIMESTAMP BY at SKEW {SKEW} SECONDS FROM MEMORY;
"""
SCHEDULE = f"START '2026-03-01 00:00:{BEGIN:02}' STOP '2026-03-01 00:00:{END}' EVERY {EVERY} SECONDS"
SUMS = f"SELECT window_start AS w, k, sum(n) AS n FROM s [RANGE {WINDOW} SECONDS] GROUP BY k"
QUERIES = {
    "plain": "SELECT n AS w, k, n FROM s",
    "sums": SUMS,
    "stages": f"SELECT window_start AS w, n AS k, count(*) AS n FROM ({SUMS}) [RANGE 8 SECONDS] GROUP BY n",
    "pairs": "SELECT s.n AS w, s.k AS k, u.n AS n FROM s [RANGE 6 SECONDS] JOIN u [RANGE 6 SECONDS] ON s.k = u.k",
}
TRIPLES = f"""
    CREATE STREAM v (at TIMESTAMP, k INT, n INT) TIMESTAMP BY at SKEW {SKEW} SECONDS FROM MEMORY;
    CREATE QUERY triples {SCHEDULE} AS SELECT s.n AS w, u.n AS k, v.n AS n
      FROM s [RANGE 6 SECONDS] JOIN u [RANGE 6 SECONDS] ON s.k = u.k JOIN v [RANGE 4 SECONDS] ON u.k = v.k INTO MEMORY
"""
#: Plans of that query, and ways to change it.
PLANS = ("((s u) v)", "(s (u v))", "mjoin", "((s v) u)")
USING = ("MOVING STATE", "STEPWISE WITHIN '1 us'", "PARALLEL TRACK")


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Draw times and keys; each time is at most the skew behind those before it."""
    newest, rows = 0, []
    for _ in range(draw(st.integers(1, 25))):
        newest += draw(st.sampled_from([0, 0, 1, 1, 2, 3, 5, 8, 21, 45]))
        rows.append((newest - draw(st.integers(0, min(SKEW, newest))), draw(st.integers(0, 1))))
    return rows


def results(
    history: list[tuple[int, int]], limit: int, *, pieces: int = 1, tasks: int = 1, buckets: int = 2
) -> dict[str, Counter[Any]]:
    """Return what each query gives if so many tuples are pushed at a time, and at most `limit` read."""
    with deployed(limit, tasks, buckets) as (session, deployment):
        queries = [f"CREATE QUERY {name} {SCHEDULE} AS {text} INTO MEMORY" for name, text in QUERIES.items()]
        session.execute(STREAMS + ";".join(queries))
        push(session, history, pieces)
        while deployment.step():
            pass
        session.drain(60)
        return {name: Counter(tuple(row.values()) for row in session.results(name)) for name in QUERIES}


@contextmanager
def deployed(limit: int, tasks: int = 1, buckets: int = 2) -> Iterator[tuple[Session, LocalDeployment]]:
    """Open a deployment long after the stints, whose buckets restart before each micro-batch."""
    with TemporaryDirectory() as directory, Session(directory, host="local", buckets=buckets) as session:
        deployment = session.deployment
        assert isinstance(deployment, LocalDeployment)
        deployment.clock, deployment.forgetful = VirtualClock(MIDNIGHT + 3600 * SECOND), True
        deployment.intake = Intake(Path(directory), parallel=tasks, limit=limit, buckets=range(buckets))
        yield session, deployment


def push(session: Session, history: list[tuple[int, int]], pieces: int, *more: str) -> None:
    """Push so many tuples at a time; those of u are every second of s, of v two of three."""
    for begin in range(0, len(history), pieces):
        part = list(enumerate(history))[begin : begin + pieces]
        rows = [{"at": format_instant(MIDNIGHT + at * SECOND), "k": k, "n": n} for n, (at, k) in part]
        session.push("s", rows)
        session.push("u", [row for row in rows if row["n"] % 2])
        for name in more:
            session.push(name, [row for row in rows if row["n"] % 3])


def test_every_stint_of_a_large_micro_batch_gives_its_results() -> None:
    history = [(second, 0) for second in range(0, 100, 2)]
    given_at_once = results(history, 1000, pieces=1000)
    inside = [n for n, (at, _) in enumerate(history) if BEGIN <= at % EVERY < END]
    assert sorted(n for _, _, n in given_at_once["plain"].elements()) == inside
    assert sum(n for _, _, n in given_at_once["sums"].elements()) == sum(inside)


@settings(max_examples=10, deadline=None)
@given(histories(), st.integers(1, 8), st.integers(1, 3))
def test_the_cut_of_micro_batches_changes_no_result_of_a_stint(
    history: list[tuple[int, int]], limit: int, tasks: int
) -> None:
    small = results(history, 1)
    inside = [n for n, (at, _) in enumerate(history) if BEGIN <= at % EVERY < END]
    assert sorted(n for _, _, n in small["plain"].elements()) == inside
    assert results(history, 1000, pieces=3, tasks=tasks) == small
    assert results(history, limit, pieces=2) == small


def triples(history: list[tuple[int, int]]) -> Counter[Any]:
    """Return the results of the query by its meaning: tuples of one stint that are in all windows together."""
    inside = [(n, at, k) for n, (at, k) in enumerate(history) if BEGIN <= at % EVERY < END]
    of_u, of_v = ([row for row in inside if row[0] % divisor] for divisor in (2, 3))
    return Counter(
        (s, u, v)
        for (s, at, k), (u, of_second, _), (v, of_third, _) in itertools.product(inside, of_u, of_v)
        if k == history[u][1] == history[v][1]
        and at // EVERY == of_second // EVERY == of_third // EVERY
        and max(at, of_second, of_third) <= min(at + 6, of_second + 6, of_third + 4)
    )


@settings(max_examples=10, deadline=None)
@given(
    histories(),
    st.integers(1, 8),
    st.lists(st.tuples(st.sampled_from(PLANS), st.sampled_from(USING)), min_size=1, max_size=4),
)
def test_a_plan_that_changes_within_and_between_stints_changes_no_result(
    history: list[tuple[int, int]], limit: int, changes: list[tuple[str, str]]
) -> None:
    with deployed(limit) as (session, deployment):
        session.execute(STREAMS + TRIPLES)
        push(session, history, 5, "v")
        for plan, using in itertools.islice(itertools.cycle(changes), 2 * len(history)):
            session.execute(f"ALTER QUERY triples MIGRATE TO '{plan}' USING {using}")
            deployment.step()
        session.drain(60)
        assert all(entry.ended is not None for entry in deployment.control.migrations.all())
        assert Counter(tuple(row.values()) for row in session.results("triples")) == triples(history)


@pytest.mark.parametrize("seconds", [3, 17, 40])
def test_a_stint_by_the_time_of_reading_has_all_that_is_read_in_it(seconds: int) -> None:
    with Session(host="local") as session:
        deployment = session.deployment
        assert isinstance(deployment, LocalDeployment)
        clock = deployment.clock = VirtualClock(MIDNIGHT)
        session.execute(f"""
            CREATE STREAM i (n INT) FROM MEMORY;
            CREATE QUERY q {SCHEDULE} AS SELECT n FROM i INTO MEMORY
        """)
        expected = []
        for number in range(20):
            clock.advance(seconds * SECOND)
            session.push("i", [{"n": number}])
            if BEGIN <= (number + 1) * seconds % EVERY < END:
                expected.append(number)
            assert deployment.step()  # once: other micro-batches would give the stints time to change
        session.drain(60)
        assert sorted(row["n"] for row in session.results("q")) == expected
