"""Patterns of bids for both systems, chosen so that both mean the same."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Pattern:
    """`event` and `columns` for Headrace, over `EVENTS`; `match` (MATCH_RECOGNIZE) and `shape` (types) for Flink.

    Without an event, both run the same text.
    """

    name: str
    event: str
    columns: str
    match: str
    shape: str
    target: float | None

    def ours(self) -> str:
        """Return our statements, up to the query that gives the results."""
        if not self.event:
            return f"CREATE QUERY q AS {self.flink()}"
        return f"{EVENTS};\nCREATE EVENT found AS {self.event};\nCREATE QUERY q AS SELECT {self.columns} FROM found"

    @property
    def names(self) -> list[str]:
        return [column.partition(" ")[0] for column in self.shape.split(", ")]

    def flink(self) -> str:
        """Return Flink's whole query. It filters bids of other channels first, as ours does."""
        bids = "(SELECT `at`, auction, price, channel FROM bids WHERE channel IN ('apple', 'google', 'facebook'))"
        return f"SELECT * FROM {bids} MATCH_RECOGNIZE (PARTITION BY auction ORDER BY `at` {self.match})"


#: A primitive event for each channel that matters.
EVENTS = "; ".join(
    f"CREATE EVENT {name} AS SELECT at, auction, price FROM bids WHERE channel = '{channel}'"
    for name, channel in (("a", "apple"), ("b", "google"), ("c", "facebook"))
)
_KEY = "a.auction = b.auction AND b.auction = c.auction"

_EVENTS = (
    Pattern(
        "A, B, C rising within 10 s",
        "a SEQUENCE b SEQUENCE c WITHIN 10 SECONDS "
        f"WHERE {_KEY} AND b.price > a.price AND c.price > b.price CONTEXT CONTINUOUS",
        "auction, price AS p1, price_1 AS p2, price_2 AS p3, at AS t1, at_1 AS t2, at_2 AS t3",
        """
        MEASURES A.price AS p1, B.price AS p2, C.price AS p3, A.`at` AS t1, B.`at` AS t2, C.`at` AS t3
        ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW
        PATTERN (A X* B Y* C) WITHIN INTERVAL '10.001' SECOND
        DEFINE A AS A.channel = 'apple',
               B AS B.channel = 'google' AND B.price > A.price, X AS NOT (X.channel = 'google' AND X.price > A.price),
               C AS C.channel = 'facebook' AND C.price > B.price,
               Y AS NOT (Y.channel = 'facebook' AND Y.price > B.price)
        """,
        "auction BIGINT, p1 DOUBLE, p2 DOUBLE, p3 DOUBLE, t1 TIMESTAMP(3), t2 TIMESTAMP(3), t3 TIMESTAMP(3)",
        3.0,
    ),
    Pattern(
        "A, then C without B within 10 s",
        f"NOT (b) [a, c] WITHIN 10 SECONDS WHERE {_KEY} CONTEXT CONTINUOUS",
        "auction, price AS p1, price_1 AS p3, at AS t1, at_1 AS t3",
        """
        MEASURES A.price AS p1, C.price AS p3, A.`at` AS t1, C.`at` AS t3
        ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW
        PATTERN (A X* C) WITHIN INTERVAL '10.001' SECOND
        DEFINE A AS A.channel = 'apple', C AS C.channel = 'facebook', X AS X.channel = 'apple'
        """,
        "auction BIGINT, p1 DOUBLE, p3 DOUBLE, t1 TIMESTAMP(3), t3 TIMESTAMP(3)",
        None,
    ),
    Pattern(
        "A, one or more B, then C within 10 s",
        f"a SEQUENCE b+ SEQUENCE c WITHIN 10 SECONDS WHERE {_KEY} CONTEXT RECENT",
        "auction, price AS p1, b_count AS n, price_2 AS p3, at AS t1, at_2 AS t3",
        """
        MEASURES A.price AS p1, COUNT(B.price) AS n, C.price AS p3, A.`at` AS t1, C.`at` AS t3
        ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
        PATTERN (A B+ C) WITHIN INTERVAL '10.001' SECOND
        DEFINE A AS A.channel = 'apple', B AS B.channel = 'google', C AS C.channel = 'facebook'
        """,
        "auction BIGINT, p1 DOUBLE, n BIGINT, p3 DOUBLE, t1 TIMESTAMP(3), t3 TIMESTAMP(3)",
        3.0,
    ),
)
_RISING, _, _REPEATED = _EVENTS
PATTERNS = (
    *_EVENTS,
    replace(_RISING, name="MATCH_RECOGNIZE (A X* B Y* C), any row first", event="", columns=""),
    replace(_REPEATED, name="MATCH_RECOGNIZE (A B+ C), behind the last match", event="", columns=""),
)
