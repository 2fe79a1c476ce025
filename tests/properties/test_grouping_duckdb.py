"""Grouping sets, collected values and nested functions give what DuckDB gives over the same rows."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from headrace.session import Session

BASE = 1_767_225_600_000_000
#: Ours and DuckDB's; the windows are of ten seconds, `w` is their end.
CASES = {
    "rollup": (
        "SELECT a, b, sum(n) AS n, count(*) AS c, grouping_id() AS g, window_end AS w FROM s [RANGE 10 SECONDS] "
        "GROUP BY ROLLUP(a, b)",
        "SELECT a, b, sum(n)::BIGINT AS n, count(*) AS c, grouping(a, b) AS g, w FROM t GROUP BY w, ROLLUP(a, b)",
    ),
    "cube": (
        "SELECT a, n % 2 AS odd, max(n) AS m, window_end AS w FROM s [RANGE 10 SECONDS] GROUP BY CUBE(a, n % 2)",
        "SELECT a, (n % 2)::BIGINT AS odd, max(n) AS m, w FROM t GROUP BY w, CUBE(a, n % 2)",
    ),
    "sets": (
        "SELECT a, b, count(n) AS c, window_end AS w FROM s [RANGE 10 SECONDS] GROUP BY GROUPING SETS ((a), (b), ())",
        "SELECT a, b, count(n) AS c, w FROM t GROUP BY GROUPING SETS ((w, a), (w, b), (w))",
    ),
    "collected": (
        "SELECT b, collect_list(n) AS l, collect_set(a) AS s, string_agg(a, '-') AS t, window_end AS w "
        "FROM s [RANGE 10 SECONDS] GROUP BY b",
        'SELECT b, coalesce(list(n ORDER BY "at", n) FILTER (n IS NOT NULL), []) AS l, '
        "coalesce(list_sort(list(DISTINCT a) FILTER (a IS NOT NULL)), []) AS s, "
        "string_agg(a, '-' ORDER BY \"at\", a) AS t, w FROM t GROUP BY b, w",
    ),
    "unnested": (
        "SELECT b, x, count(*) AS c, window_end AS w FROM s [RANGE 10 SECONDS] CROSS JOIN UNNEST(xs) AS u(x) "
        "GROUP BY b, x",
        "SELECT b, x, count(*) AS c, w FROM (SELECT b, unnest(xs) AS x, w FROM t) GROUP BY b, x, w",
    ),
    "nested": (
        "SELECT n, size(xs) AS z, xs[1] AS second, element_at(xs, -1) AS newest, array_contains(xs, 2) AS two, "
        "array_distinct(xs) AS d, array_sort(xs) AS s, r.x AS x, r.y AS y, slice(xs, 1, 2) AS p FROM s",
        "SELECT n, len(xs) AS z, xs[2] AS second, xs[-1] AS newest, "
        "CASE WHEN list_contains(xs, 2) THEN true WHEN list_contains(list_transform(xs, v -> v IS NULL), true) "
        "THEN NULL ELSE list_contains(xs, 2) END AS two, "
        "CASE WHEN xs IS NOT NULL THEN list_reduce(list_transform(xs, v -> [v]), "
        "(l, v) -> CASE WHEN list_position(l, v[1]) IS NULL OR list_position(l, v[1]) = 0 THEN l || v ELSE l END, []) "
        "END AS d, list_sort(xs, 'ASC', 'NULLS LAST') AS s, r.x AS x, r.y AS y, xs[1:2] AS p FROM t",
    ),
}


def rows(seed: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.15 else value

    return [
        {
            "at": BASE + chance.randrange(0, 40) * 500_000,
            "a": maybe(chance.choice("xyz")),
            "b": maybe(chance.randrange(3)),
            "n": maybe(chance.randrange(9)),
            "xs": maybe([maybe(chance.randrange(4)) for _ in range(chance.randrange(4))]),
            "r": maybe({"x": maybe(chance.randrange(5)), "y": maybe("t")}),
        }
        for _ in range(80)
    ]


def frozen(value: Any) -> Any:
    return tuple(map(frozen, value)) if isinstance(value, list) else value


@pytest.mark.slow
def test_they_give_what_duckdb_gives() -> None:
    data = rows(7)
    columns = "at TIMESTAMP, a STRING, b BIGINT, n BIGINT, xs ARRAY<BIGINT>, r STRUCT<x: BIGINT, y: STRING>"
    with Session(host="local", buckets=2) as session:
        session.execute(f"CREATE STREAM s ({columns}) TIMESTAMP BY at SKEW 1 HOUR AHEAD UNLIMITED FROM MEMORY")
        session.execute(";".join(f"CREATE QUERY {name} AS {ours} INTO MEMORY" for name, (ours, _) in CASES.items()))
        session.push("s", data)
        session.drain(120)
        results = {name: session.results(name) for name in CASES}
    types = [("at", pa.timestamp("us")), ("a", pa.string()), ("b", pa.int64()), ("n", pa.int64())]
    types += [("xs", pa.list_(pa.int64())), ("r", pa.struct([("x", pa.int64()), ("y", pa.string())]))]
    with duckdb.connect() as db:
        db.execute("SET lambda_syntax = 'ENABLE_SINGLE_ARROW'")
        db.register("given", pa.Table.from_pylist(data, schema=pa.schema(types)))
        db.execute("""CREATE TABLE t AS SELECT *, time_bucket(INTERVAL 10 SECOND, "at", TIMESTAMP '2026-01-01')
            + INTERVAL 10 SECOND AS w FROM given""")
        for name, (_, theirs) in CASES.items():
            relation = db.sql(theirs)
            expected = Counter(tuple(map(frozen, row)) for row in relation.fetchall())
            found = Counter(tuple(frozen(row[column]) for column in relation.columns) for row in results[name])
            assert found == expected, f"{name}: {list(found - expected)[:3]} {list(expected - found)[:3]}"
