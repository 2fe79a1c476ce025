"""DuckDB's answers to statements over the rows of the corpus."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import duckdb
import pyarrow as pa
from tests.conformance.grammar import WINDOW
from tests.conformance.logic_test import shown, stream_rows, table_rows

SEED = 5


def answers(statements: Mapping[str, str]) -> Iterator[tuple[str, ...] | None]:
    """Yield the values of each statement, given with the kinds of its columns; None if DuckDB refuses it."""
    with duckdb.connect() as db:
        types = [
            ("at", pa.timestamp("us")), ("i", pa.int32()), ("j", pa.int64()), ("d", pa.float64()),
            ("m", pa.decimal128(8, 2)), ("t", pa.string()), ("w", pa.string()), ("b", pa.bool_()),
            ("xs", pa.list_(pa.int64())),
        ]  # fmt: skip
        db.register("given", pa.Table.from_pylist(stream_rows(SEED), schema=pa.schema(types)))
        db.execute("CREATE TABLE s AS FROM given")
        rows = pa.Table.from_pylist(table_rows(), schema=pa.schema([("k", pa.int64()), ("name", pa.string())]))
        db.register("stored", rows)
        db.execute("CREATE TABLE u AS FROM stored")
        db.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
        for sql, kinds in statements.items():
            try:
                found = db.execute(in_duckdb(sql)).fetchall()
            except duckdb.BinderException:
                yield None
            else:
                yield shown(found, kinds)


#: What Headrace and DuckDB call differently: a median of DECIMALs is a DOUBLE here, and small groups are exact.
_NAMES = (
    (r"\bmedian\(m\)", "median(CAST(m AS DOUBLE))"),
    (r"\bpercentile\(m, ([\d.]+)\)", r"quantile_cont(CAST(m AS DOUBLE), \1)"),
    (r"\b(?:percentile_approx|approx_percentile)\(", "quantile_disc("),
    (r"\bapprox_count_distinct\((\w+)\)", r"count(DISTINCT \1)"),
    (r"\bwindow_end AS until\b", "0 AS until"),  # all tuples are in one window
    (r"\bat\b", '"at"'),
)
_OFFSET = re.compile(r" \[RANGE (\d+) MINUTES OFFSET (\d+) MINUTES\]")


def in_duckdb(sql: str) -> str:
    """Return a statement of the corpus as DuckDB understands it."""
    if (window := _OFFSET.search(sql)) is not None:
        bucket = f"time_bucket(INTERVAL {window[1]} MINUTE, at, INTERVAL {window[2]} MINUTE)"
        sql = sql.replace(window[0], "").replace("window_start", bucket)
    sql = sql.replace(f" {WINDOW}", "")
    for ours, theirs in _NAMES:
        sql = re.sub(ours, theirs, sql)
    return sql
