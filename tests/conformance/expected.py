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
                found = db.execute(re.sub(r"\bat\b", '"at"', sql.replace(f" {WINDOW}", ""))).fetchall()
            except duckdb.BinderException:
                yield None
            else:
                yield shown(found, kinds)
