"""The queries of Nexmark give what DuckDB gives over the same events."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from benches.parts.nexmark import EVENTS, SCHEMAS, generate, side_input
from benches.parts.nexmark_queries import QUERIES

from headrace.session import Session


def test_the_proportions_are_those_that_were_published() -> None:
    streams = generate(100 * EVENTS, seed=1)
    assert {name: table.num_rows for name, table in streams.items()} == {"person": 100, "auction": 300, "bid": 4600}


def test_every_query_is_there() -> None:
    assert set(QUERIES) == {f"q{i}" for i in range(23)}


def test_a_query_names_the_streams_that_it_reads() -> None:
    for name, query in QUERIES.items():
        used = set(re.findall(r"\b(?:FROM|JOIN|TABLE) (person|auction|bid)\b", query.ours))
        assert used == set(query.streams), name


@pytest.mark.slow
def test_queries_give_what_duckdb_gives(tmp_path: Path) -> None:
    streams = generate(4000, seed=2, per_second=100)
    side = side_input()
    pq.write_table(side, tmp_path / "side.parquet")
    with Session(host="local", buckets=3) as session:
        for name, columns in SCHEMAS.items():
            session.execute(f"CREATE STREAM {name} ({columns}) TIMESTAMP BY at AHEAD UNLIMITED FROM MEMORY")
        session.execute(f"CREATE TABLE side FROM FILES (path '{tmp_path / 'side.parquet'}')")
        session.execute(";".join(f"CREATE QUERY {name} AS {query.ours} INTO MEMORY" for name, query in QUERIES.items()))
        for name, table in streams.items():
            session.push(name, table.to_pylist())
        session.drain(300)
        results = {name: session.results(name) for name in QUERIES}
    with duckdb.connect() as db:
        for name, table in {**streams, "side": side}.items():
            db.register(name, table)
        for name, query in QUERIES.items():
            relation = db.sql(query.reference)
            expected = Counter(relation.fetchall())
            found = Counter(tuple(row[column] for column in relation.columns) for row in results[name])
            assert found, f"{name} has no results"
            assert found == expected, (
                f"{name}: {list((found - expected).items())[:3]} {list((expected - found).items())[:3]}"
            )
