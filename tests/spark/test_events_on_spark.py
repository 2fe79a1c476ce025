"""Random events, many in one deployment on Spark, are what the oracle says."""

import datetime
import random
from itertools import pairwise

import pytest

from headrace.catalog.definitions import Query
from headrace.model.time import SECOND
from headrace.session import Session
from headrace.session.compile import plan_query
from headrace.testing.oracle.oracle import Row, answer, as_multiset, rows_of

EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC).replace(tzinfo=None)
MODES = ("UNRESTRICTED", "RECENT", "CHRONICLE", "CONTINUOUS", "CUMULATIVE", "PROXIMAL")
SHAPES = (
    "a SEQUENCE b",
    "a SEQUENCE b SEQUENCE c",
    "a AND b",
    "(a AND b) SEQUENCE c",
    "NOT (b) [a, c]",
    "NOT (b) [a, '3 s']",
    "ANY (2, a, b, c)",
    "APERIODIC (a, b, c)",
    "APERIODIC* (a, b, c)",
    "PERIODIC* (a, '2 s', c)",
    "TIMES (2, a)",
    "a PLUS '4 s'",
)


def event(rng: random.Random) -> str:
    """An event of any operator and mode, with a key or without, perhaps with a condition."""
    shape = rng.choice(SHAPES)
    names = [name for name in "abc" if name in shape.replace("AND", "").replace("ANY", "")]
    terms = [f"{one}.k = {other}.k" for one, other in pairwise(names)] if rng.random() < 0.7 else []
    if shape.startswith(("a SEQUENCE", "a AND")) and rng.random() < 0.5:
        terms.append("a.v <= b.v")
    where = f" WHERE {' AND '.join(terms)}" if terms else ""
    return f"({shape}) WITHIN {rng.randint(3, 15)} SECONDS{where} CONTEXT {rng.choice(MODES)}"


@pytest.mark.parametrize(("buckets", "page", "number"), [(4, 3, 21)])
def test_events_on_spark_agree_with_the_oracle(spark, buckets, page, number, tmp_path):
    rng = random.Random(number)
    texts = [event(rng) for _ in range(14)]
    texts += [
        "c SEQUENCE pair WITHIN 20 SECONDS WHERE c.k = pair.k",
        "pair SEQUENCE c WITHIN 20 SECONDS CONTEXT CHRONICLE",
    ]
    tuples = {
        name: [(rng.randrange(60), rng.choice((0, 1, 2, None)), rng.randrange(4)) for _ in range(40)] for name in "abc"
    }
    rows = {name: sorted(each, key=lambda row: row[0] + rng.choice((0, 0, 2))) for name, each in tuples.items()}
    found = {}
    with Session(tmp_path, buckets=buckets, page=page) as session:
        streams = [
            f"CREATE STREAM {name} (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at SKEW 5 SECONDS FROM MEMORY"
            for name in "abc"
        ]
        streams.append("CREATE EVENT pair AS a SEQUENCE b WITHIN 9 SECONDS WHERE a.k = b.k CONTEXT CONTINUOUS")
        events = [
            f"CREATE EVENT e{i} AS {text}; CREATE QUERY q{i} AS SELECT * FROM e{i} INTO MEMORY"
            for i, text in enumerate(texts)
        ]
        session.execute(";\n".join([*streams, *events]))
        plans = {}
        for i in range(len(texts)):
            taken = found[i] = []

            def take(_, pages, taken=taken):
                return taken.extend(row for p in pages for row in rows_of(p.rows.iter_rows(named=True)))

            session.deployment.delivery.subscribers[f"q{i}"] = [take]
            query = session.catalog.find(f"e{i}")
            assert isinstance(query, Query)
            plans[i] = plan_query(query, session.catalog)
        for start in range(0, 40, 13):
            for name in "abc":
                part = rows[name][start : start + 13]
                session.push(
                    name, [{"at": EPOCH + datetime.timedelta(seconds=at), "k": k, "v": v} for at, k, v in part]
                )
        session.drain(timeout=200)
    history = {
        name: [Row(at * SECOND, {"at": at * SECOND, "k": k, "v": v}) for at, k, v in each]
        for name, each in rows.items()
    }
    nonempty = 0
    for i, text in enumerate(texts):
        expected = as_multiset(answer(plans[i], history))
        nonempty += bool(expected)
        assert as_multiset(found[i]) == expected, (
            f"seed {number}, event {text}: missing {expected - as_multiset(found[i])}"
        )
    assert nonempty >= len(texts) // 2
