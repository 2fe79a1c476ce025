"""A query of a benchmark for Headrace, for DuckDB, which gives the expected results, for plain Spark and for Flink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class FlinkText:
    """A query for Flink SQL, and the views that it reads.

    `duckdb` gives the expected results if they are not those of the query for the others; `differs` then says how.
    `undefined` is the share of rows that may differ, because Flink does not define them.
    """

    text: str
    views: tuple[str, ...] = ()
    duckdb: str | None = None
    differs: str = ""
    undefined: float = 0.0


@dataclass(frozen=True, slots=True)
class Query:
    """A query in four dialects, and the streams that it reads.

    `duckdb` is None if it is the same text as `ours`. `spark` is None if plain Spark does not run the query; `refusal`
    then says why, and `flink_refusal` if `flink` is None. `differs` says how the query is not the original.
    """

    ours: str
    duckdb: str | None = None
    spark: str | None = None
    refusal: str = ""
    differs: str = ""
    flink: FlinkText | None = None
    flink_refusal: str = ""
    streams: tuple[str, ...] = ("bid",)
    kind: Literal["stateless", "stateful"] = "stateful"
    tails: int = 2  # micro-batches after the last one in which Spark's results become complete

    @property
    def reference(self) -> str:
        return self.duckdb or self.ours
