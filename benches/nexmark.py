"""Nexmark's queries q0 to q22 beside plain Spark, from Parquet files or Kafka, each compared with DuckDB's answer.

One query runs at a time, in the same Spark, first ours and then Spark's, from the same files; both write Parquet files.
The rate is that of the steady run: the tuples of a micro-batch divided by the median time of the micro-batches between
the first and the last ones. The notes give the whole time from the first statement to the last result, with the start
of the query, in a JVM that runs already. Spark closes no window at the end of its input: queries with state get two
more micro-batches of one row that is far ahead, without which Spark would not give all results.
"""

from __future__ import annotations

import math
import statistics
from typing import Any

from benches.parts.beside_spark import Events, compared
from benches.parts.dialects import Query
from benches.parts.nexmark import EVENTS, SCHEMAS, generate, side_input
from benches.parts.nexmark_queries import QUERIES

from headrace.errors import HostFault

SEED = 11


def main(quick: bool, queries: str = "", input: str = "files") -> dict[str, Any]:
    """Measure the named queries (all, if none is named); `input` is files or kafka."""
    chosen = _chosen(queries)
    figures = compared("nexmark", "Nexmark", events_of, chosen, QUERIES["q12"], quick=quick, input=input)
    _summary(figures)
    return figures


def _chosen(names: str) -> dict[str, Query]:
    """Return the queries of a list such as 'q0, q5'."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in QUERIES]
    if unknown:
        raise HostFault(f"Nexmark has no query {unknown[0]!r}", hint="its queries are q0 to q22, such as q0,q5")
    return {name: query for name, query in QUERIES.items() if not wanted or name in wanted}


def events_of(count: int) -> Events:
    """Return the streams of so many events, and the table beside them."""
    assert count % EVENTS == 0
    return Events(generate(count, seed=SEED), SCHEMAS, {"side": side_input()})


def _summary(figures: dict[str, Any]) -> None:
    """Add the geometric means, of all queries that both could run."""
    both = [case for case in figures["cases"].values() if case["ratio"] is not None]
    if not both:
        return
    rates = math.exp(statistics.fmean(math.log(case["ratio"]) for case in both))
    whole = math.exp(statistics.fmean(math.log(case["seconds"]["spark"] / case["seconds"]["ours"]) for case in both))
    figures["geometric_mean"] = {"rate": rates, "whole": whole}
    figures["notes"].append(
        f"geometric mean of {len(both)} queries: {rates:.2f} times Spark's rate, {whole:.2f} times as fast as a whole"
    )
