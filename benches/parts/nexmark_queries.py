"""The queries of Nexmark: for Headrace, for DuckDB, which gives the expected results, for plain Spark and for Flink.

Results of Headrace are final. A query whose results are corrected in the original (q4, q15 to q19) therefore gives one
result for each window: the one at which the corrections arrive.
"""

from __future__ import annotations

import re
from dataclasses import replace

from benches.parts.dialects import Query
from benches.parts.nexmark_flink import FLINK


def _stateless(text: str, duckdb: str | None = None, differs: str = "") -> Query:
    return Query(text, duckdb, text, differs=differs, kind="stateless")


_W = "time_bucket(INTERVAL 10 SECOND, \"at\", TIMESTAMP '2026-01-01')"
_KINDS = """count(*) AS total, count(*) FILTER (WHERE price < 10000) AS low,
  count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS middle,
  count(*) FILTER (WHERE price >= 1000000) AS high, count(DISTINCT bidder) AS bidders,
  count(DISTINCT auction) AS auctions"""
_DAY = "date_format(at, 'yyyy-MM-dd')"
_DAYS = """strftime("at", '%Y-%m-%d')"""
_CORRECTED = "one result of each day instead of one that is corrected"
#: Spark has no count(DISTINCT ...) of a stream, but sets.
_KINDS_IN_SPARK = re.sub(r"count\(DISTINCT (\w+)\)", r"CAST(size(collect_set(\1)) AS BIGINT)", _KINDS)
_NO_RESULT = "it gives no result of groups over a join, four micro-batches after the end"
#: The bids of an auction while it is open. None is open for longer than 20 s, so a session of that gap holds them all.
_OPEN = """(SELECT a.id, a.seller, a.category, b.price, b.bidder
  FROM auction [RANGE 20 SECONDS] AS a JOIN bid [NOW] AS b ON a.id = b.auction AND b.at <= a.expires)
  [SESSION 20 SECONDS INCLUSIVE]"""
_OPEN_IN_DUCKDB = """(SELECT a.id, a.seller, a.category, b.price, b.bidder, b."at"
  FROM auction AS a JOIN bid AS b ON a.id = b.auction AND b."at" BETWEEN a."at" AND a.expires)"""
_CHANNEL = "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
_ON_DEMAND = "the result comes when no bid can follow, 20 s after the last one"
_BUYERS = """SELECT p.name, p.city, p.state, a.id FROM auction AS a JOIN person AS p ON a.seller = p.id
  WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')"""
_EXPANDED = """SELECT b.auction, b.bidder, b.price, a.item, a.category FROM bid AS b
  JOIN auction AS a ON b.auction = a.id WHERE a.category = 10"""
_HOURS = """CASE WHEN hour({at}) >= 8 AND hour({at}) <= 18 THEN 'dayTime'
  WHEN hour({at}) <= 6 OR hour({at}) >= 20 THEN 'nightTime' ELSE 'otherTime' END"""
_MIDDLE = "WHERE 0.908e0 * price > 1000000 AND 0.908e0 * price < 50000000"

_QUERIES: dict[str, Query] = {
    "q0": _stateless("SELECT auction, bidder, price, at FROM bid", 'SELECT auction, bidder, price, "at" FROM bid'),
    "q1": _stateless("SELECT auction, bidder, 0.908e0 * price AS price FROM bid"),
    "q2": _stateless("SELECT auction, price FROM bid WHERE auction % 123 = 0"),
    "q3": Query(
        _BUYERS.replace("auction AS", "auction [UNBOUNDED] AS").replace("person AS", "person [UNBOUNDED] AS"),
        _BUYERS,
        _BUYERS,
        streams=("person", "auction"),
    ),
    "q4": Query(
        f"""SELECT category, avg(final) AS mean
          FROM (SELECT id, category, max(price) AS final FROM {_OPEN} GROUP BY id, category) [RANGE 1 DAY]
          GROUP BY category""",
        f"""SELECT category, avg(final) AS mean
          FROM (SELECT id, category, max(price) AS final FROM {_OPEN_IN_DUCKDB} GROUP BY ALL) GROUP BY category""",
        refusal=_NO_RESULT,
        differs=_CORRECTED,
        streams=("auction", "bid"),
    ),
    "q5": Query(
        """SELECT auction, count(*) AS n, window_end FROM bid [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY auction
          QUALIFY rank() OVER (PARTITION BY window_end ORDER BY n DESC) = 1""",
        """SELECT auction, count(*) AS n, w + INTERVAL 10 SECOND AS window_end FROM (SELECT auction, unnest(range(
            time_bucket(INTERVAL 2 SECOND, "at") - INTERVAL 8 SECOND, "at" + INTERVAL 1 MICROSECOND, INTERVAL 2 SECOND
          )) AS w FROM bid) GROUP BY auction, w
          QUALIFY rank() OVER (PARTITION BY w ORDER BY count(*) DESC) = 1""",
        """SELECT e.auction, e.n, window_end FROM (SELECT window_end, explode(filter(c, x -> x.n = most)) AS e FROM (
          SELECT window.end AS window_end, max(n) AS most, collect_list(struct(auction, n)) AS c FROM (
            SELECT auction, count(*) AS n, window AS w FROM bid GROUP BY auction, window(at, '10 seconds', '2 seconds'))
          GROUP BY window(window_time(w), '2 seconds')))""",
    ),
    "q6": Query(
        f"""SELECT seller, avg(final) OVER (PARTITION BY seller ORDER BY window_end
          ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS mean
          FROM (SELECT id, seller, max(price) AS final, window_end FROM {_OPEN} GROUP BY id, seller)""",
        f"""SELECT seller, avg(final) OVER (PARTITION BY seller ORDER BY last
          ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS mean
          FROM (SELECT id, seller, max(price) AS final, max("at") AS last FROM {_OPEN_IN_DUCKDB} GROUP BY ALL)""",
        refusal="it has no OVER (... ROWS ...) of a stream",
        differs="auctions in the order of their last bid",
        streams=("auction", "bid"),
    ),
    "q7": Query(
        """SELECT auction, price, bidder, at FROM bid [RANGE 10 SECONDS]
          QUALIFY rank() OVER (PARTITION BY 1 ORDER BY price DESC) = 1""",
        f'SELECT auction, price, bidder, "at" FROM bid QUALIFY rank() OVER (PARTITION BY {_W} ORDER BY price DESC) = 1',
        """SELECT e.* FROM (SELECT explode(filter(c, x -> x.price = most)) AS e FROM (
          SELECT max(price) AS most, collect_list(struct(auction, price, bidder, at)) AS c FROM bid
          GROUP BY window(at, '10 seconds')))""",
    ),
    "q8": Query(
        """SELECT p.id, p.name, p.window_start AS starttime FROM (SELECT id, name, window_start, window_end FROM
          TABLE(TUMBLE(TABLE person, DESCRIPTOR(at), INTERVAL '10' SECOND))
          GROUP BY id, name, window_start, window_end) [NOW] AS p JOIN (SELECT seller, window_start, window_end FROM
          TABLE(TUMBLE(TABLE auction, DESCRIPTOR(at), INTERVAL '10' SECOND))
          GROUP BY seller, window_start, window_end) [NOW] AS a
          ON p.id = a.seller AND p.window_start = a.window_start""",
        f"""SELECT DISTINCT p.id, p.name, p.w AS starttime FROM (SELECT *, {_W} AS w FROM person) AS p
          JOIN (SELECT *, {_W} AS w FROM auction) AS a ON p.id = a.seller AND p.w = a.w""",
        """SELECT p.id, p.name, p.w.start AS starttime FROM (
            SELECT id, name, window AS w FROM person GROUP BY id, name, window(at, '10 seconds')) AS p JOIN (
            SELECT seller, window AS v FROM auction GROUP BY seller, window(at, '10 seconds')) AS a
          ON p.id = a.seller AND p.w = a.v""",
        streams=("person", "auction"),
    ),
    "q9": Query(
        f"""SELECT id, seller, category, max(price) AS price, max_by(bidder, price) AS bidder FROM {_OPEN}
          GROUP BY id, seller, category""",
        f"""SELECT id, seller, category, price, bidder FROM {_OPEN_IN_DUCKDB}
          QUALIFY row_number() OVER (PARTITION BY id ORDER BY price DESC, bidder) = 1""",
        refusal=_NO_RESULT,
        differs=_ON_DEMAND,
        streams=("auction", "bid"),
    ),
    "q10": _stateless(
        "SELECT auction, bidder, price, date_format(at, 'yyyy-MM-dd') AS dt, date_format(at, 'HH:mm') AS hm FROM bid",
        """SELECT auction, bidder, price, strftime("at", '%Y-%m-%d') AS dt, strftime("at", '%H:%M') AS hm FROM bid""",
    ),
    "q11": Query(
        "SELECT bidder, count(*) AS n FROM bid [SESSION 10 SECONDS INCLUSIVE] GROUP BY bidder",
        """SELECT bidder, count(*) AS n FROM (SELECT *, sum(fresh) OVER (PARTITION BY bidder ORDER BY "at") AS s FROM (
          SELECT *, CASE WHEN "at" - lag("at") OVER (PARTITION BY bidder ORDER BY "at") <= INTERVAL 10 SECOND THEN 0
          ELSE 1 END AS fresh FROM bid)) GROUP BY bidder, s""",
        "SELECT bidder, count(*) AS n FROM bid GROUP BY bidder, session_window(at, '10 seconds')",
    ),
    "q12": Query(
        "SELECT bidder, count(*) AS n, window_end FROM bid [RANGE 10 SECONDS] GROUP BY bidder",
        f"SELECT bidder, count(*) AS n, {_W} + INTERVAL 10 SECOND AS window_end FROM bid GROUP BY ALL",
        "SELECT bidder, count(*) AS n, window.end AS window_end FROM bid GROUP BY bidder, window(at, '10 seconds')",
        differs="windows of event time instead of processing time, which cannot be checked",
    ),
    "q13": Query(
        "SELECT b.auction, b.bidder, b.price, s.value FROM bid AS b JOIN side AS s ON b.auction % 10000 = s.key",
        spark="SELECT b.auction, b.bidder, b.price, s.value FROM bid AS b JOIN side AS s ON b.auction % 10000 = s.key",
        kind="stateless",
    ),
    "q14": _stateless(
        f"""SELECT auction, bidder, 0.908e0 * price AS price, {_HOURS.format(at="at")} AS bid_time,
          length(url) - length(replace(url, 'c', '')) AS c_counts FROM bid {_MIDDLE}""",
        f"""SELECT auction, bidder, 0.908e0 * price AS price, {_HOURS.format(at='"at"')} AS bid_time,
          (length(url) - length(replace(url, 'c', '')))::INT AS c_counts FROM bid {_MIDDLE}""",
        differs="built-in functions count the letters instead of one of the user's",
    ),
    "q15": Query(
        f"SELECT {_DAY} AS day, {_KINDS} FROM bid [RANGE 1 DAY] GROUP BY {_DAY}",
        f"SELECT {_DAYS} AS day, {_KINDS} FROM bid GROUP BY ALL",
        f"""SELECT date_format(window.start, 'yyyy-MM-dd') AS day, {_KINDS_IN_SPARK}
          FROM bid GROUP BY window(at, '1 day')""",
        differs=_CORRECTED,
    ),
    "q16": Query(
        f"SELECT channel, {_DAY} AS day, {_KINDS} FROM bid [RANGE 1 DAY] GROUP BY channel, {_DAY}",
        f"SELECT channel, {_DAYS} AS day, {_KINDS} FROM bid GROUP BY ALL",
        f"""SELECT channel, date_format(window.start, 'yyyy-MM-dd') AS day, {_KINDS_IN_SPARK}
          FROM bid GROUP BY channel, window(at, '1 day')""",
        differs=_CORRECTED,
    ),
    "q17": Query(
        f"""SELECT auction, {_DAY} AS day, count(*) AS n, min(price) AS low, max(price) AS high,
          round(avg(price), 3) AS mean, sum(price) AS total FROM bid [RANGE 1 DAY] GROUP BY auction, {_DAY}""",
        f"""SELECT auction, {_DAYS} AS day, count(*) AS n, min(price) AS low, max(price) AS high,
          round(avg(price), 3) AS mean, sum(price)::BIGINT AS total FROM bid GROUP BY ALL""",
        """SELECT auction, date_format(window.start, 'yyyy-MM-dd') AS day, count(*) AS n, min(price) AS low,
          max(price) AS high, round(avg(price), 3) AS mean, sum(price) AS total
          FROM bid GROUP BY auction, window(at, '1 day')""",
        differs=_CORRECTED,
    ),
    "q18": Query(
        "SELECT DISTINCT ON (bidder, auction) auction, bidder, price, at FROM bid [RANGE 1 HOUR] ORDER BY rowtime DESC",
        """SELECT auction, bidder, price, "at" FROM bid
          QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY "at" DESC) = 1""",
        """SELECT s.* FROM (SELECT max_by(struct(auction, bidder, price, at), at) AS s
          FROM bid GROUP BY bidder, auction, window(at, '1 day'))""",
        differs="the last bid when none has followed for an hour, instead of each that is the last for now",
    ),
    "q19": Query(
        """SELECT auction, bidder, price, at FROM bid [RANGE 10 SECONDS]
          QUALIFY rank() OVER (PARTITION BY auction ORDER BY price DESC) <= 10""",
        f"""SELECT auction, bidder, price, "at" FROM bid
          QUALIFY rank() OVER (PARTITION BY {_W}, auction ORDER BY price DESC) <= 10""",
        """SELECT e.* FROM (SELECT explode(filter(c, x -> tenth IS NULL OR x.price >= tenth)) AS e FROM (
          SELECT c, get(sort_array(transform(c, x -> x.price), false), 9) AS tenth FROM (
            SELECT collect_list(struct(auction, bidder, price, at)) AS c FROM bid
            GROUP BY auction, window(at, '10 seconds'))))""",
        differs="the top 10 of each ten seconds instead of all time, which is corrected",
    ),
    "q20": Query(
        _EXPANDED.replace("bid AS", "bid [UNBOUNDED] AS").replace("auction AS", "auction [UNBOUNDED] AS"),
        _EXPANDED,
        _EXPANDED,
        streams=("auction", "bid"),
    ),
    "q21": _stateless(
        f"""SELECT auction, bidder, price, channel, CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1'
          WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' ELSE {_CHANNEL} END AS channel_id FROM bid
          WHERE {_CHANNEL} <> '' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    ),
    "q22": _stateless(
        "SELECT auction, bidder, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2, "
        "split_part(url, '/', 6) AS dir3 FROM bid"
    ),
}

QUERIES = {name: replace(query, flink=FLINK[name]) for name, query in _QUERIES.items()}
