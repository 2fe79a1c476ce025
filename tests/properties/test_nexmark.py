"""The queries of Nexmark give what DuckDB gives over the same events."""

from __future__ import annotations

from collections import Counter

import duckdb
import pytest
from benches.parts.nexmark import EVENTS, MISSING, QUERIES, SCHEMAS, generate

from headrace.session import Session


def test_the_proportions_are_those_that_were_published() -> None:
    streams = generate(100 * EVENTS, seed=1)
    assert {name: table.num_rows for name, table in streams.items()} == {"person": 100, "auction": 300, "bid": 4600}


def test_every_query_is_there_or_has_a_reason() -> None:
    assert {*QUERIES, *MISSING} == {f"q{i}" for i in range(23)}


@pytest.mark.slow
def test_queries_give_what_duckdb_gives() -> None:
    streams = generate(4000, seed=2, per_second=100)
    with Session(host="local", buckets=3) as session:
        for name, columns in SCHEMAS.items():
            session.execute(f"CREATE STREAM {name} ({columns}) TIMESTAMP BY at AHEAD UNLIMITED FROM MEMORY")
        session.execute(";".join(f"CREATE QUERY {name} AS {query.ours} INTO MEMORY" for name, query in QUERIES.items()))
        for name, table in streams.items():
            session.push(name, table.to_pylist())
        session.drain(300)
        results = {name: session.results(name) for name in QUERIES}
    with duckdb.connect() as db:
        for name, table in streams.items():
            db.register(name, table)
        for name, query in QUERIES.items():
            relation = db.sql(query.duckdb or query.ours)
            expected = Counter(relation.fetchall())
            found = Counter(tuple(row[column] for column in relation.columns) for row in results[name])
            assert found, f"{name} has no results"
            assert found == expected, (
                f"{name}: {list((found - expected).items())[:3]} {list((expected - found).items())[:3]}"
            )
