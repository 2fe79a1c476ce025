"""A join of several streams as plain Spark makes it: stream-stream joins, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def chained(sources: Mapping[str, Any], near: str, columns: tuple[str, ...] = ("v",)) -> Any:
    """Return the frame of all combinations with the same `k` that are no further apart than an interval.

    The columns of a source have its name behind theirs.
    """
    from pyspark.sql.functions import expr

    joined: Any = None
    before: list[str] = []
    for name, source in sources.items():
        rows = source.withWatermark("at", "0 seconds").selectExpr(
            *(f"{column} AS {column}{name}" for column in ("at", "k", *columns))
        )
        if joined is None:
            joined = rows
        else:
            within = [f"at{name} BETWEEN at{other} - {near} AND at{other} + {near}" for other in before]
            joined = joined.join(rows, expr(" AND ".join([f"k{before[0]} = k{name}", *within])))
            # Spark allows one event time column: the others become plain timestamps
            joined = joined.withColumn(f"at{name}", expr(f"at{name} + INTERVAL 0 SECONDS"))
        before.append(name)
    kept = [f"{column}{name}" for name in sources for column in columns]
    return joined.selectExpr(f"k{before[0]} AS k", *kept)
