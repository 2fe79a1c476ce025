"""A query of a benchmark for Headrace, for DuckDB, which gives the expected results, and for plain Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Query:
    """A query in three dialects, and the streams that it reads.

    `duckdb` is None if it is the same text as `ours`. `spark` is None if plain Spark does not run the query; `refusal`
    then says why. `differs` says how the query is not the original.
    """

    ours: str
    duckdb: str | None = None
    spark: str | None = None
    refusal: str = ""
    differs: str = ""
    streams: tuple[str, ...] = ("bid",)
    kind: Literal["stateless", "stateful"] = "stateful"
    tails: int = 2  # micro-batches after the last one in which Spark's results become complete

    @property
    def reference(self) -> str:
        return self.duckdb or self.ours
