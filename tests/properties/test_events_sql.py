"""Events from SQL, in several buckets and small micro-batches, give what the oracle gives."""

from __future__ import annotations

import datetime
import random
from typing import Any

import pytest

from headrace.catalog.definitions import Query
from headrace.model.events.event import Mode
from headrace.model.time import SECOND
from headrace.session import Session
from headrace.session.compile import plan_query
from headrace.testing.oracle.oracle import Row, answer, as_multiset

EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC).replace(tzinfo=None)

EVENTS = [
    "a SEQUENCE b WITHIN 9 SECONDS WHERE a.k = b.k CONTEXT UNRESTRICTED",
    "a SEQUENCE b SEQUENCE c WITHIN 20 SECONDS WHERE a.k = b.k AND b.k = c.k CONTEXT CHRONICLE",
    "a SEQUENCE b SEQUENCE c WITHIN 20 SECONDS WHERE a.k = b.k AND b.k = c.k AND a.v < c.v CONTEXT RECENT",
    "a AND b WHERE a.v <= b.v AND b.v > 1 CONTEXT PROXIMAL (a BY k)",
    "NOT (b) [a, c] WHERE a.k = b.k AND a.k = c.k CONTEXT CONTINUOUS",
    "NOT (b) [a, '3 s'] WHERE a.k = b.k",
    "APERIODIC* (a, b, c) WHERE a.k = b.k AND b.k = c.k CONTEXT CUMULATIVE",
    "APERIODIC (a, b, c) WHERE a.k = c.k AND b.k = c.k",
    "ANY (2, a, b, c) WITHIN 5 SECONDS WHERE a.k = b.k AND a.k = c.k CONTEXT CHRONICLE",
    "(TIMES (2, a) OR b PLUS '2 s') SEQUENCE c WITHIN 12 SECONDS CONTEXT CONTINUOUS",
    "PERIODIC* (a, '2 s', c) WHERE a.k = c.k CONTEXT CHRONICLE (a KEEP 50)",
    "PERIODIC (a, '2 s', c) WITHIN 5 SECONDS WHERE a.k = c.k CONTEXT CHRONICLE",
]


@pytest.mark.parametrize("text", EVENTS)
def test_an_event_in_buckets_is_what_the_oracle_says(text: str) -> None:
    rng = random.Random(text)
    rows = {name: sorted(_tuples(rng), key=lambda row: row[0] + rng.choice((0, 0, 2))) for name in "abc"}
    with Session(host="local", buckets=3, limit=13, page=4) as session:
        for name in "abc":
            session.execute(
                f"CREATE STREAM {name} (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at SKEW 5 SECONDS FROM MEMORY"
            )
        session.execute(f"CREATE EVENT found AS {text}; CREATE QUERY q AS SELECT * FROM found INTO MEMORY")
        for name in "abc":
            session.push(
                name, [{"at": EPOCH + datetime.timedelta(seconds=at), "k": k, "v": v} for at, k, v in rows[name]]
            )
        found = session.catalog.find("found")
        assert isinstance(found, Query)
        plan = plan_query(found, session.catalog)
        session.drain(60)
        results = [{name: _micros(value) for name, value in row.items()} for row in session.results("q")]
    streams = {
        name: [Row(at * SECOND, {"at": at * SECOND, "k": k, "v": v}) for at, k, v in rows[name]] for name in "abc"
    }
    expected = answer(plan, streams)
    assert expected
    assert as_multiset(Row(0, row) for row in results) == as_multiset(Row(0, row.values) for row in expected)


#: A complex event that gets a name, one that uses the name, the same written out, and columns that tell its
#: constituents.
NAMED = [
    (
        "a SEQUENCE b WITHIN 30 SECONDS WHERE a.k = b.k",
        "{n} SEQUENCE c WITHIN 60 SECONDS WHERE {n}.k = c.k",
        "(a SEQUENCE b WITHIN 30 SECONDS) SEQUENCE c WITHIN 60 SECONDS WHERE a.k = b.k AND a.k = c.k",
        "av, bv, cv",
    ),
    (
        "b SEQUENCE c WITHIN 30 SECONDS WHERE b.k = c.k",
        "a SEQUENCE {n} WITHIN 60 SECONDS WHERE a.k = {n}.k",
        "a SEQUENCE (b SEQUENCE c WITHIN 30 SECONDS) WITHIN 60 SECONDS WHERE b.k = c.k AND a.k = b.k",
        "av, bv, cv",
    ),
    (
        "a AND b WITHIN 30 SECONDS WHERE a.k = b.k",
        "{n} AND c WITHIN 60 SECONDS WHERE {n}.k = c.k",
        "(a AND b WITHIN 30 SECONDS) AND c WITHIN 60 SECONDS WHERE a.k = b.k AND a.k = c.k",
        "av, bv, cv",
    ),
    (
        "a SEQUENCE b WITHIN 30 SECONDS WHERE a.k = b.k",
        "NOT ({n}) [c AS x, c AS y] WITHIN 60 SECONDS WHERE {n}.k = x.k AND x.k = y.k",
        "NOT (a SEQUENCE b WITHIN 30 SECONDS) [c AS x, c AS y] WITHIN 60 SECONDS "
        "WHERE a.k = b.k AND a.k = x.k AND x.k = y.k",
        "cv, cv_1",
    ),
]


@pytest.mark.parametrize("mode", [mode.value for mode in Mode])
def test_a_named_event_within_another_is_what_it_is_written_out_and_what_the_oracle_says(mode: str) -> None:
    rng = random.Random(mode)
    # one tuple an instant: where several occurrences of a named event end at once, their content says which is the
    # first
    instants = rng.sample(range(150), 90)
    rows = {
        name: [(at, rng.choice((0, 0, 1, None)), at) for at in instants[place::3]] for place, name in enumerate("abc")
    }
    with Session(host="local", buckets=3, limit=31, page=5) as session:
        for name in "abc":
            session.execute(
                f"CREATE STREAM {name} (at TIMESTAMP, k INT, {name}v INT) TIMESTAMP BY at SKEW 200 SECONDS FROM MEMORY"
            )
        for i, (inner, outer, whole, shown) in enumerate(NAMED):
            session.execute(
                f"CREATE EVENT n{i} AS {inner} CONTEXT {mode}; CREATE EVENT whole{i} AS {whole} CONTEXT {mode}"
            )
            session.execute(f"CREATE EVENT outer{i} AS {outer.format(n=f'n{i}')} CONTEXT {mode}")
            # of several tuples the newest are shown, of several named events those of the newest
            kept = "event_start, rowtime" if mode == "CUMULATIVE" else f"{shown}, event_start, rowtime"
            session.execute(f"CREATE QUERY named{i} AS SELECT {kept} FROM outer{i} INTO MEMORY")
            session.execute(f"CREATE QUERY written{i} AS SELECT {kept} FROM whole{i} INTO MEMORY")
        for name in "abc":
            session.push(
                name, [{"at": EPOCH + datetime.timedelta(seconds=at), "k": k, f"{name}v": v} for at, k, v in rows[name]]
            )
        queries = [found for i in range(len(NAMED)) if isinstance(found := session.catalog.find(f"named{i}"), Query)]
        plans = [plan_query(query, session.catalog) for query in queries]
        session.drain(60)
        named, written = ([session.results(f"{kind}{i}") for i in range(len(NAMED))] for kind in ("named", "written"))
    streams = {
        name: [Row(at * SECOND, {"at": at * SECOND, "k": k, f"{name}v": v}) for at, k, v in rows[name]]
        for name in "abc"
    }
    for plan, delivered, same in zip(plans, named, written, strict=True):
        actual = as_multiset(Row(0, {name: _micros(value) for name, value in row.items()}) for row in delivered)
        assert actual
        assert actual == as_multiset(Row(0, {name: _micros(value) for name, value in row.items()}) for row in same)
        assert actual == as_multiset(Row(0, row.values) for row in answer(plan, streams))


def _tuples(rng: random.Random) -> list[tuple[int, int | None, int]]:
    return [(rng.randrange(60), rng.choice((0, 1, 2, None)), rng.randrange(4)) for _ in range(40)]


def _micros(value: Any) -> Any:
    return (value - EPOCH) // datetime.timedelta(microseconds=1) if isinstance(value, datetime.datetime) else value
