"""A rule acts on what the oracle detects in its context and its condition, however tuples are cut."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.definitions import Query
from headrace.model.time import SECOND
from headrace.session import Session
from headrace.session.compile import plan_query
from headrace.testing.oracle.oracle import Row, answer

EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC).replace(tzinfo=None)
EVENTS = (
    "a SEQUENCE b WITHIN 9 SECONDS WHERE a.k = b.k",
    "a SEQUENCE b SEQUENCE c WITHIN 20 SECONDS WHERE a.v < c.v",
    "a AND b WITHIN 6 SECONDS",
    "NOT (c) [a, b] WITHIN 10 SECONDS WHERE a.k = b.k",
    "APERIODIC (a, b, c) WITHIN 10 SECONDS",
    "a SEQUENCE (b PLUS '2 s') WITHIN 8 SECONDS",
)
CONTEXTS = (
    "UNRESTRICTED", "RECENT", "CHRONICLE", "CONTINUOUS", "CUMULATIVE", "PROXIMAL",
    "RECENT (a BY k)", "RECENT (a BY k KEEP 2)", "UNRESTRICTED (a KEEP 3)", "CHRONICLE (a FOR 4 SECONDS)",
    "CONTINUOUS POINT",
)  # fmt: skip
#: As a rule says it, and in Python over the columns of the detection: those of a are k and v, those of b k_1 and v_1.
CONDITIONS = (
    ("a.v > 1", lambda row: row["v"] > 1),
    ("a.v <= b.v AND b.k = 1", lambda row: row["v"] <= row["v_1"] and row["k_1"] == 1),
    ("a.k <> b.k", lambda row: None not in (row["k"], row["k_1"]) and row["k"] != row["k_1"]),
    ("found.v + v_1 > 3", lambda row: row["v"] + row["v_1"] > 3),
    (None, lambda row: True),
)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from(EVENTS),
    st.sampled_from(CONTEXTS),
    st.sampled_from(CONDITIONS),
    st.integers(0, 99),
    st.sampled_from([(1, 50), (3, 9)]),
)
def test_a_rule_fires_for_what_the_oracle_detects_and_its_condition_lets_through(
    event, context, condition, seed, cut
) -> None:
    rng = random.Random(seed)
    rows = {name: sorted(_tuples(rng), key=lambda row: row[0] + rng.choice((0, 0, 2))) for name in "abc"}
    text, holds = condition
    called: list[tuple[dict[str, Any], str]] = []
    with Session(host="local", buckets=cut[0], limit=cut[1], page=4) as session:
        for name in "abc":
            session.execute(
                f"CREATE STREAM {name} (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at SKEW 5 SECONDS FROM MEMORY"
            )
        session.register("note", lambda found, key: called.append((found, key)))
        when = "" if text is None else f"WHEN {text}"
        session.execute(f"""
            CREATE EVENT found AS {event};
            CREATE EVENT reference AS {event} CONTEXT {context};
            CREATE RULE rule ON found CONTEXT {context} {when} DO INSERT INTO MEMORY, CALL note;
        """)
        for name in "abc":
            session.push(
                name, [{"at": EPOCH + datetime.timedelta(seconds=at), "k": k, "v": v} for at, k, v in rows[name]]
            )
        reference = session.catalog.find("reference")
        assert isinstance(reference, Query)
        plan = plan_query(reference, session.catalog)
        session.drain(60)
        inserted = session.results("rule")
    streams = {
        name: [Row(at * SECOND, {"at": at * SECOND, "k": k, "v": v}) for at, k, v in rows[name]] for name in "abc"
    }
    expected = Counter(_identity(row.values) for row in answer(plan, streams) if holds(row.values))
    assert Counter(map(_identity, inserted)) == expected
    assert Counter(_identity(found) for found, _ in called) == expected
    assert len({key for _, key in called}) == len(called)


def _tuples(rng: random.Random) -> list[tuple[int, int | None, int]]:
    return [(rng.randrange(40), rng.choice((0, 1, 2, None)), rng.randrange(4)) for _ in range(20)]


def _identity(row: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, _micros(value)) for name, value in row.items())


def _micros(value: Any) -> Any:
    return (value - EPOCH) // datetime.timedelta(microseconds=1) if isinstance(value, datetime.datetime) else value
