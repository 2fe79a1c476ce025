"""Queries as users of Spark and Flink write them give what DuckDB gives over the same rows."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from typing import Any

import duckdb
import polars as pl
import pytest

from headrace.session import Session

EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC).replace(tzinfo=None)
_BUCKET = """time_bucket(INTERVAL 10 SECOND, "at", TIMESTAMP '1970-01-01')"""
#: The query here, and in DuckDB if it is written otherwise there.
QUERIES = [
    (
        "SELECT a.k, a.v AS x, b.v AS y FROM a JOIN b ON a.k = b.k "
        "AND a.at BETWEEN b.at - INTERVAL '4' SECOND AND b.at + INTERVAL '7' SECOND",
        None,
    ),
    ("SELECT a.v AS x, b.v AS y FROM a, b WHERE a.at < b.at AND b.at < a.at + INTERVAL 3 SECOND AND a.k = b.k", None),
    (
        "SELECT a.v AS x, b.v AS y FROM a, b WHERE b.at BETWEEN a.at + INTERVAL 2 SECOND AND a.at + INTERVAL 5 SECOND",
        None,
    ),
    (
        "SELECT a.v AS x, b.v AS y FROM a LEFT JOIN b ON a.k = b.k "
        "AND b.at >= a.at - INTERVAL 2 SECOND AND b.at <= a.at + INTERVAL 1 SECOND AND b.v > 3",
        None,
    ),
    ("SELECT a.v AS x, b.v AS y FROM a FULL JOIN b ON a.k = b.k AND a.at = b.at", None),
    *(
        (f"SELECT a.v AS x, b.v AS y, c.v AS z FROM a {first} JOIN b ON a.k = b.k AND {near} {then}", None)
        for first, near, then in (
            (
                "LEFT",
                "b.at BETWEEN a.at AND a.at + INTERVAL 3 SECOND",
                "LEFT JOIN c ON c.k = a.k AND c.at BETWEEN a.at - INTERVAL 1 SECOND AND a.at + INTERVAL 5 SECOND",
            ),
            (
                "LEFT",
                "b.at BETWEEN a.at - INTERVAL 5 SECOND AND a.at AND b.v > 2",
                "LEFT JOIN c ON c.k = b.k AND c.at BETWEEN b.at AND b.at + INTERVAL 2 SECOND",
            ),
            (
                "INNER",
                "a.at BETWEEN b.at - INTERVAL 4 SECOND AND b.at + INTERVAL 1 SECOND",
                "LEFT JOIN c ON c.v = b.v AND c.at BETWEEN a.at AND a.at + INTERVAL 2 SECOND",
            ),
            (
                "LEFT",
                "b.at BETWEEN a.at AND a.at + INTERVAL 2 SECOND",
                "JOIN c ON c.k = b.k AND c.at - b.at BETWEEN INTERVAL '-3' SECOND AND INTERVAL 1 SECOND "
                "LEFT JOIN b AS d ON d.v = c.v AND d.at BETWEEN a.at - INTERVAL 2 SECOND AND a.at",
            ),
        )
    ),
    *(
        (f"SELECT k, v FROM a WHERE {negated}EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND {bounds})", None)
        for negated, bounds in (
            ("", "b.at BETWEEN a.at - INTERVAL 4 SECOND AND a.at"),
            ("", "b.v > a.v AND b.at < a.at AND b.at > a.at - INTERVAL 9 SECOND"),
            ("NOT ", "b.at BETWEEN a.at - INTERVAL 4 SECOND AND a.at"),
            ("NOT ", "b.v < a.v AND b.at BETWEEN a.at - INTERVAL 2 SECOND AND a.at + INTERVAL 3 SECOND"),
        )
    ),
    *(
        (
            f"SELECT k, v FROM a WHERE {ours}",
            f"SELECT k, v FROM a WHERE {theirs} AND b.at BETWEEN a.at - INTERVAL 3 SECOND AND a.at)",
        )
        for ours, theirs in (
            ("v IN (SELECT v FROM b [RANGE 3 SECONDS])", "v IN (SELECT v FROM b WHERE TRUE"),
            (
                "v < 6 AND (k, v) IN (SELECT k, v + 1 FROM b [RANGE 3 SECONDS] WHERE b.v > 2)",
                "v < 6 AND EXISTS (SELECT * FROM b WHERE a.k = b.k AND a.v = b.v + 1 AND b.v > 2",
            ),
            (
                "NOT EXISTS (SELECT * FROM b [RANGE 3 SECONDS] WHERE b.k = a.k)",
                "NOT EXISTS (SELECT * FROM b WHERE b.k = a.k",
            ),
            (
                "EXISTS (SELECT * FROM c [RANGE 9 SECONDS] WHERE c.k = a.k AND c.v = a.v) AND v IN "
                "(SELECT v FROM b [RANGE 3 SECONDS])",
                "EXISTS (SELECT * FROM c WHERE c.k = a.k AND c.v = a.v AND c.at BETWEEN a.at - INTERVAL 9 SECOND AND "
                "a.at) AND v IN (SELECT v FROM b WHERE TRUE",
            ),
        )
    ),
    (
        "SELECT a.k, a.v FROM a LEFT SEMI JOIN b ON a.k = b.k AND b.at BETWEEN a.at - INTERVAL 4 SECOND AND a.at "
        "LEFT ANTI JOIN c ON a.k = c.k AND c.at BETWEEN a.at AND a.at + INTERVAL 1 SECOND",
        "SELECT a.k, a.v FROM a SEMI JOIN b ON a.k = b.k AND b.at BETWEEN a.at - INTERVAL 4 SECOND AND a.at "
        "ANTI JOIN c ON a.k = c.k AND c.at BETWEEN a.at AND a.at + INTERVAL 1 SECOND",
    ),
    (
        "SELECT k, count(*) AS n FROM a WHERE v IN (SELECT v FROM b [RANGE 5 SECONDS]) GROUP BY k, TUMBLE(at, "
        "INTERVAL '10' SECOND)",
        f"SELECT k, n FROM (SELECT k, count(*) AS n, {_BUCKET} AS w FROM a WHERE v IN (SELECT v FROM b WHERE b.at "
        "BETWEEN a.at - INTERVAL 5 SECOND AND a.at) GROUP BY k, w)",
    ),
    (
        "SELECT a.v AS x, b.v AS y, c.v AS z FROM a JOIN b ON a.k = b.k AND a.at BETWEEN b.at - INTERVAL 3 SECOND "
        "AND b.at JOIN c ON b.k = c.k AND b.at - c.at BETWEEN INTERVAL '-4' SECOND AND INTERVAL 2 SECOND",
        None,
    ),
    (
        "SELECT k, count(*) AS n, sum(v) AS total, window_start, window_end "
        "FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k",
        f"SELECT k, count(*) AS n, sum(v)::BIGINT AS total, {_BUCKET} AS window_start, "
        f"{_BUCKET} + INTERVAL 10 SECOND AS window_end FROM a GROUP BY ALL",
    ),
    *(
        (
            f"SELECT k, {call} AS r, window_end FROM a [RANGE 10 SECONDS] GROUP BY k",
            f"SELECT k, {theirs or call} AS r, {_BUCKET} + INTERVAL 10 SECOND AS window_end FROM a GROUP BY ALL",
        )
        for call, theirs in (
            ("median(v)", None),
            ("percentile(v, 0.3)", "quantile_cont(v, 0.3)"),
            ("percentile_cont(0.9) WITHIN GROUP (ORDER BY v)", "quantile_cont(v, 0.9)"),
            ("percentile_cont(0.2) WITHIN GROUP (ORDER BY v DESC)", "quantile_cont(v, 0.8)"),
            ("approx_percentile(v, 0.4)", "quantile_disc(v, 0.4)"),
            ("approx_count_distinct(v)", "count(DISTINCT v)"),
            ("sum(DISTINCT v)", "sum(DISTINCT v)::BIGINT"),
            ("avg(DISTINCT v)", None),
            ("max_by(v, v * 10 - second(at))", """max_by(v, v * 10 - second("at"))"""),
            ("max(v) FILTER (WHERE v < 5)", None),
            ("median(v) FILTER (WHERE v > 2)", None),
            ("count_if(v > 3)", "coalesce(count_if(v > 3), 0)::BIGINT"),
            ("bool_and(v > 1)", None),
            ("bool_or(v > 7)", None),
            ("every(v < 8)", "bool_and(v < 8)"),
            ("round(var_pop(v), 9)", None),
            ("round(stddev_pop(v), 9)", None),
            ("round(covar_pop(v, second(at)), 9)", """round(covar_pop(v, second("at")), 9)"""),
            ("round(stddev(DISTINCT v), 9)", None),
            ("median(DISTINCT v)", None),
            ("round(var_pop(DISTINCT v) FILTER (WHERE v > 2), 9)", None),
            ("count(DISTINCT v, second(at))", """count(DISTINCT (v, second("at"))) FILTER (WHERE v IS NOT NULL)"""),
            (
                "round(covar_pop(DISTINCT v, v % 3), 9)",
                "round((SELECT covar_pop(x, x % 3) FROM unnest(list(DISTINCT v)) AS u(x)), 9)",
            ),
            ("last(v) FILTER (WHERE v > 4)", """arg_max_null(v, "at") FILTER (WHERE v > 4)"""),
            ("bit_and(v)", None),
            ("bit_or(v)", None),
            ("bit_xor(v)", None),
            ("product(v + 0.5)", None),
            ("round(kurtosis(v), 6)", "CASE WHEN var_pop(v) > 0 THEN round(kurtosis_pop(v), 6) END"),
            ("size(histogram(v))", "cardinality(histogram(v))"),
            ("histogram(v)[3]", "histogram(v)[3]::BIGINT"),
            ("regr_count(v, second(at))", """regr_count(v, second("at"))::BIGINT"""),
            ("round(regr_slope(v, second(at)), 9)", """round(nullif(regr_slope(v, second("at")), 'nan'), 9)"""),
            (
                "round(regr_intercept(v, second(at)), 9)",
                """round(nullif(regr_intercept(v, second("at")), 'nan'), 9)""",
            ),
            ("round(covar_samp(v, second(at)), 9)", """round(covar_samp(v, second("at")), 9)"""),
        )
    ),
    *(
        (
            "SELECT k, v, place FROM (SELECT *, "
            f"{rank}() OVER (PARTITION BY window_start, window_end, k ORDER BY v{order}) AS place "
            "FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(at), INTERVAL '10' SECOND))) WHERE place <= 3",
            f"SELECT k, v, {rank}() OVER (PARTITION BY {_BUCKET}, k ORDER BY v{nulls}) AS place FROM a "
            "QUALIFY place <= 3",
        )
        for rank in ("row_number", "rank", "dense_rank")
        for order, nulls in (("", " NULLS FIRST"), (" DESC", " DESC NULLS LAST"), (" NULLS LAST", " NULLS LAST"))
    ),
    (
        "SELECT count(*) AS n, window_end FROM a [RANGE 10 SECONDS] GROUP BY k "
        "QUALIFY row_number() OVER (PARTITION BY window_end ORDER BY n DESC) = 1",
        f"SELECT max(n) AS n, w + INTERVAL 10 SECOND AS window_end FROM (SELECT count(*) AS n, {_BUCKET} AS w FROM a "
        "GROUP BY k, w) GROUP BY w",
    ),
    *(
        (
            f"SELECT k, v FROM a [RANGE 10 SECONDS] ORDER BY v{order}, k, at LIMIT 3",
            f"SELECT k, v FROM a QUALIFY row_number() OVER (PARTITION BY {_BUCKET} ORDER BY v{nulls}, "
            'k NULLS FIRST, "at") <= 3',
        )
        for order, nulls in (("", " NULLS FIRST"), (" DESC", " DESC NULLS LAST"))
    ),
    (
        "SELECT k, count(*) AS n FROM a [RANGE 10 SECONDS] GROUP BY k ORDER BY n DESC, k LIMIT 1",
        f"SELECT k, n FROM (SELECT k, count(*) AS n, {_BUCKET} AS w FROM a GROUP BY k, w) "
        "QUALIFY row_number() OVER (PARTITION BY w ORDER BY n DESC, k NULLS FIRST) = 1",
    ),
    *(
        (
            f"SELECT DISTINCT ON (k) k, at FROM a [RANGE 3 SECONDS] ORDER BY at{order}",
            'SELECT k, "at" FROM (SELECT DISTINCT k, "at" FROM a) QUALIFY coalesce('
            f"""abs(epoch("at") - epoch({function}("at") OVER (PARTITION BY k ORDER BY "at"))) > 3, TRUE)""",
        )
        for order, function in (("", "lag"), (" DESC", "lead"))
    ),
    (
        "SELECT k, at FROM a QUALIFY row_number() OVER (PARTITION BY k ORDER BY at) = 1",
        'SELECT k, min("at") AS "at" FROM a GROUP BY k',
    ),
    *(
        (
            f"SELECT k, at, {call} OVER (PARTITION BY k ORDER BY at{frame}) AS x FROM a",
            f"""SELECT k, "at", CAST({call} OVER (PARTITION BY k ORDER BY "at"{frame}) AS {type_}) AS x FROM a""",
        )
        for call, type_ in (
            ("count(*)", "BIGINT"),
            ("sum(v)", "BIGINT"),
            ("max(v)", "INT"),
            ("count(v) FILTER (WHERE v > 3)", "BIGINT"),
            ("median(v)", "DOUBLE"),
        )
        for frame in (
            " RANGE BETWEEN INTERVAL 5 SECOND PRECEDING AND CURRENT ROW",
            " RANGE BETWEEN CURRENT ROW AND CURRENT ROW",
            "",
        )
        if frame or call != "median(v)"
    ),
    *(
        (
            f"SELECT k, v, n, {call} OVER (PARTITION BY k ORDER BY window_end{frame}) AS x "
            "FROM (SELECT k, max(v) AS v, count(*) AS n, window_end FROM a [RANGE 2 SECONDS] GROUP BY k)",
            f"SELECT k, v, n, {call} OVER (PARTITION BY k ORDER BY w{frame}) AS x FROM (SELECT k, max(v) AS v, "
            "count(*) AS n, time_bucket(INTERVAL 2 SECOND, \"at\", TIMESTAMP '1970-01-01') AS w FROM a GROUP BY k, w)",
        )
        for call, frame in (
            ("lag(v)", ""),
            ("lag(v, 3, -1)", ""),
            ("first_value(n)", " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"),
            ("min(n)", " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"),
            ("count(v)", " ROWS UNBOUNDED PRECEDING"),
        )
    ),
    (
        "SELECT count(*) AS n, window.end AS until FROM a GROUP BY window(at, '10 seconds', '4 seconds')",
        "SELECT count(*) AS n, w + INTERVAL 10 SECOND AS until FROM a, "
        "range(TIMESTAMP '1969-12-31 23:59:00', TIMESTAMP '1970-01-01 00:03:00', INTERVAL 4 SECOND) AS r(w) "
        'WHERE w <= "at" AND "at" < w + INTERVAL 10 SECOND GROUP BY w',
    ),
    (
        "SELECT k, count(*) AS n, max(v) AS best, window_start, window_end FROM TABLE("
        "CUMULATE(TABLE a, DESCRIPTOR(at), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) "
        "GROUP BY window_start, window_end, k",
        "SELECT k, count(*) AS n, max(v) AS best, s AS window_start, s + i * INTERVAL 5 SECOND AS window_end "
        """FROM (SELECT *, time_bucket(INTERVAL 20 SECOND, "at", TIMESTAMP '1970-01-01') AS s FROM a), range(1, 5) """
        'AS r(i) WHERE "at" < s + i * INTERVAL 5 SECOND GROUP BY ALL',
    ),
    (
        "SELECT k, count(*) AS n, session_window.start AS since, session_window.end AS until "
        "FROM a GROUP BY session_window(at, '3 seconds'), k",
        'SELECT k, count(*) AS n, min("at") AS since, max("at") + INTERVAL 3 SECOND AS until FROM ('
        'SELECT *, sum(fresh) OVER (PARTITION BY k ORDER BY "at", v) AS s FROM (SELECT *, CASE WHEN "at" - lag("at") '
        'OVER (PARTITION BY k ORDER BY "at", v) <= INTERVAL 3 SECOND THEN 0 ELSE 1 END AS fresh FROM a)) GROUP BY k, s',
    ),
    (
        "SELECT x.v AS x, y.v AS y, x.window_end "
        "FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(at), INTERVAL '10' SECOND)) AS x "
        "LEFT JOIN TABLE(TUMBLE(TABLE b, DESCRIPTOR(at), INTERVAL '10' SECOND)) AS y "
        "ON x.k = y.k AND x.window_start = y.window_start AND x.window_end = y.window_end",
        "SELECT x.v AS x, y.v AS y, x.w + INTERVAL 10 SECOND AS window_end "
        f"FROM (SELECT *, {_BUCKET} AS w FROM a) AS x "
        f"LEFT JOIN (SELECT *, {_BUCKET} AS w FROM b) AS y ON x.k = y.k AND x.w = y.w",
    ),
]


def rows(rng: random.Random) -> list[dict[str, Any]]:
    """Return rows whose timestamps are out of order by two seconds."""
    drawn = [
        {
            "at": EPOCH + datetime.timedelta(seconds=rng.randrange(60)),
            "k": rng.choice((1, 2, None)),
            "v": rng.choice((*range(9), None)),
        }
        for _ in range(rng.choice((0, 20, 45)))
    ]
    return sorted(drawn, key=lambda row: row["at"] + datetime.timedelta(seconds=rng.randrange(3)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_queries_give_what_duckdb_gives(seed: int) -> None:
    rng = random.Random(seed)
    streams = {name: rows(rng) for name in "abc"}
    with Session(host="local", buckets=3, limit=17, page=5) as session:
        for name in streams:
            session.execute(
                f"CREATE STREAM {name} (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at SKEW 5 SECONDS FROM MEMORY"
            )
        session.execute(";".join(f"CREATE QUERY q{i} AS {ours} INTO MEMORY" for i, (ours, _) in enumerate(QUERIES)))
        for name, pushed in streams.items():
            session.push(name, pushed)
        session.drain(120)
        results = [session.results(f"q{i}") for i in range(len(QUERIES))]
    with duckdb.connect() as db:
        for name, pushed in streams.items():
            schema = {"at": pl.Datetime("us"), "k": pl.Int32(), "v": pl.Int32()}
            db.register(name, pl.DataFrame(pushed, schema=schema, orient="row"))
        for (ours, theirs), found in zip(QUERIES, results, strict=True):
            relation = db.sql(theirs or ours)
            expected = [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]
            assert multiset(found) == multiset(expected), ours


def multiset(found: list[dict[str, Any]]) -> Counter[tuple[tuple[str, Any], ...]]:
    return Counter(tuple(sorted(row.items())) for row in found)
