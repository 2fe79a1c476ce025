"""A continuous query for both systems, and the sums that check its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_FILTER_SUMS = {"rows": "auction * 0 + 1", "keys": "auction", "price": "price"}
_COUNT_SUMS = {"rows": "n * 0 + 1", "n": "n", "keys": "auction * n", "ends": "(window_end % 1009000000) * n"}
_JOIN_SUMS = {"rows": "bidder * 0 + 1", "keys": "bidder", "left": "one % 1000003", "right": "two % 1000003"}


@dataclass(frozen=True, slots=True)
class Query:
    """A query in both languages.

    `frame` makes Spark's streaming frame from those of the streams. `sums` are SQL expressions for which both must give
    the same sum. Rows whose `key` is that of the last single rows do not count.
    """

    text: str
    frame: Callable[..., Any]
    key: str
    sums: Mapping[str, str]


def dear(threshold: float) -> Query:
    """Return bids above a price, in euros (Nexmark's queries 1 and 2 in one)."""

    def frame(bids: Any) -> Any:
        return bids.where(f"price > {threshold}D").selectExpr("auction", "price * 0.908D AS price")

    return Query(
        f"SELECT auction, price * 0.908 AS price FROM bids WHERE price > {threshold}", frame, "auction", _FILTER_SUMS
    )


def tumbling(seconds: int, above: float = 0.0) -> Query:
    """Return bids per auction and window."""
    return _count(f"RANGE {seconds} SECONDS", (f"{seconds} seconds",), above)


def hopping(seconds: int, slide: int, above: float = 0.0) -> Query:
    """Return bids per auction in overlapping windows (the inner query of Nexmark's query 5)."""
    return _count(f"RANGE {seconds} SECONDS SLIDE {slide} SECONDS", (f"{seconds} seconds", f"{slide} seconds"), above)


def joined(seconds: int) -> Query:
    """Return pairs of bids of one bidder in two streams, at most this many seconds apart."""

    def frame(bids: Any, asks: Any) -> Any:
        left = bids.withWatermark("at", "0 seconds").selectExpr("bidder", "at", "auction AS one")
        right = asks.withWatermark("at", "0 seconds").selectExpr("bidder AS other", "at AS then", "auction AS two")
        near = f"bidder = other AND then BETWEEN at - INTERVAL {seconds} SECONDS AND at + INTERVAL {seconds} SECONDS"
        from pyspark.sql.functions import expr

        return left.join(right, expr(near)).select("bidder", "one", "two")

    text = (
        f"SELECT b.bidder AS bidder, b.auction AS one, a.auction AS two "
        f"FROM bids [RANGE {seconds} SECONDS] AS b JOIN asks [RANGE {seconds} SECONDS] AS a ON b.bidder = a.bidder"
    )
    return Query(text, frame, "bidder", _JOIN_SUMS)


def _count(window: str, spans: tuple[str, ...], above: float) -> Query:
    def frame(bids: Any) -> Any:
        from pyspark.sql.functions import count, lit
        from pyspark.sql.functions import window as over

        rows = bids.withWatermark("at", "0 seconds")
        rows = rows.where(f"price > {above}D OR auction < 0") if above else rows
        counted = rows.groupBy(over("at", *spans), "auction").agg(count(lit(1)).alias("n"))
        return counted.selectExpr("auction", "n", "unix_micros(window.end) AS window_end")

    where = f" WHERE price > {above} OR auction < 0" if above else ""
    text = f"SELECT auction, count(*) AS n, window_end FROM bids [{window}]{where} GROUP BY auction"
    return Query(text, frame, "auction", _COUNT_SUMS)
