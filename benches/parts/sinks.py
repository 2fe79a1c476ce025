"""Queries, events and a rule over the load, each with a sink, and what DuckDB says must be in it.

A reference is SQL over the tables bids, asks, signals, names and bad. It computes the results from the definition of
the query in docs/reference, over the whole input at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
from benches.parts import load
from benches.parts.broker import Broker
from benches.parts.comparison import Difference, compare

#: A sink whose files hold the results of several micro-batches.
ROLLING = "roll_interval '3 seconds'"
#: The form of results that are the records of a topic.
_TOPIC = "topic"
#: The file in which a function notes the calls of the rule.
NOTES = "notes.jsonl"


@dataclass(frozen=True, slots=True)
class Case:
    """A statement with the place of its sink, and its results; files of a form, or the records of a topic."""

    name: str
    text: str
    form: str
    reference: str
    is_rolling: bool = False

    def statement(self, out: Path, broker: str | None = None) -> str:
        """Return the statement with its sink."""
        if self.form == _TOPIC:
            return self.text.format(sink=f"INTO KAFKA (bootstrap '{broker}', topic '{self.name}')")
        rolling = f", {ROLLING}" if self.is_rolling else ""
        return self.text.format(sink=f"INTO FILES (path '{out / self.name}', format '{self.form}'{rolling})")


_SPAN = "make_timestamp((epoch_us(ts) // {size} + {next}) * {size})"
_COUNTS = f"""SELECT auction, count(*) AS n, sum(cents)::BIGINT AS total, max(cents) AS top,
  {_SPAN.format(size=5_000_000, next=1)} AS window_end FROM bids GROUP BY ALL"""
#: The newest down of the host before each up.
_OUTAGES = """SELECT d.host, d.n AS down_n, d.ts AS down_at, u.n AS up_n, u.ts AS up_at
  FROM (SELECT * FROM signals WHERE up) AS u ASOF JOIN (SELECT * FROM signals WHERE NOT up) AS d
  ON u.host = d.host AND u.ts > d.ts WHERE u.ts <= d.ts + INTERVAL 20 SECONDS"""

CASES = (
    Case(
        "dear",
        "CREATE QUERY dear AS SELECT ts, auction, bidder, cents * 2 AS twice FROM bids WHERE cents > 9000 {sink}",
        "csv",
        "SELECT ts, auction, bidder, cents * 2 AS twice FROM bids WHERE cents > 9000",
    ),
    Case(
        "counts",
        "CREATE QUERY counts AS SELECT auction, count(*) AS n, sum(cents) AS total, max(cents) AS top, window_end "
        "FROM bids [RANGE 5 SECONDS] GROUP BY auction {sink}",
        "parquet",
        _COUNTS,
    ),
    Case(
        "hops",
        "CREATE QUERY hops AS SELECT auction, count(*) AS n, min(cents) AS least, window_end "
        "FROM bids [RANGE 20 SECONDS SLIDE 5 SECONDS] GROUP BY auction {sink}",
        "parquet",
        f"""SELECT auction, count(*) AS n, min(cents) AS least,
          {_SPAN.format(size=5_000_000, next=1)} + INTERVAL 5 SECONDS * hop AS window_end
          FROM bids, range(4) AS hops(hop) GROUP BY ALL""",
        is_rolling=True,
    ),
    Case(
        "visits",
        "CREATE QUERY visits AS SELECT bidder, count(*) AS n, sum(cents) AS total, window_start, window_end "
        "FROM bids [SESSION 2 SECONDS] GROUP BY bidder {sink}",
        "json",
        """SELECT bidder, count(*) AS n, sum(cents)::BIGINT AS total, min(ts) AS window_start,
          max(ts) + INTERVAL 2 SECONDS AS window_end FROM (
            SELECT *, sum(is_first) OVER (PARTITION BY bidder ORDER BY ts) AS visit FROM (
              SELECT *, coalesce(ts - lag(ts) OVER (PARTITION BY bidder ORDER BY ts) >= INTERVAL 2 SECONDS, true)::INT
                AS is_first FROM bids)) GROUP BY bidder, visit""",
    ),
    Case(
        "pairs",
        "CREATE QUERY pairs AS SELECT b.ts AS bid_at, a.ts AS ask_at, b.auction, b.cents, a.ask "
        "FROM bids [RANGE 2 SECONDS] AS b JOIN asks [RANGE 2 SECONDS] AS a "
        "ON b.auction = a.auction AND a.ask < b.cents {sink}",
        "json",
        """SELECT b.ts AS bid_at, a.ts AS ask_at, b.auction, b.cents, a.ask FROM bids AS b JOIN asks AS a
          ON b.auction = a.auction AND a.ask < b.cents
          AND a.ts BETWEEN b.ts - INTERVAL 2 SECONDS AND b.ts + INTERVAL 2 SECONDS""",
    ),
    Case(
        "offers",
        "CREATE QUERY offers AS SELECT a.ts AS ask_at, a.auction, a.ask, b.ts AS bid_at, b.cents "
        "FROM asks [RANGE 1 SECOND] AS a LEFT JOIN bids [RANGE 1 SECOND] AS b "
        "ON b.auction = a.auction AND b.cents > a.ask {sink}",
        "parquet",
        """SELECT a.ts AS ask_at, a.auction, a.ask, b.ts AS bid_at, b.cents FROM asks AS a LEFT JOIN bids AS b
          ON b.auction = a.auction AND b.cents > a.ask
          AND b.ts BETWEEN a.ts - INTERVAL 1 SECOND AND a.ts + INTERVAL 1 SECOND""",
        is_rolling=True,
    ),
    Case(
        "top",
        "CREATE QUERY top AS SELECT a.window_end AS ends, a.auction, a.n, count(*) AS place "
        "FROM counts [NOW] AS a JOIN counts [NOW] AS b ON a.window_end = b.window_end "
        "WHERE b.n > a.n OR (b.n = a.n AND b.auction <= a.auction) "
        "GROUP BY a.window_end, a.auction, a.n HAVING count(*) <= 3 {sink}",
        "parquet",
        f"""SELECT window_end AS ends, auction, n, row_number() OVER (PARTITION BY window_end
          ORDER BY n DESC, auction) AS place FROM ({_COUNTS}) QUALIFY place <= 3""",
    ),
    Case(
        "fresh",
        "CREATE QUERY fresh AS SELECT DISTINCT auction, bidder FROM bids [RANGE 10 SECONDS] {sink}",
        "csv",
        """SELECT auction, bidder FROM bids QUALIFY coalesce(
          ts - lag(ts) OVER (PARTITION BY auction, bidder ORDER BY ts) > INTERVAL 10 SECONDS, true)""",
    ),
    Case(
        "early",
        "CREATE QUERY early AS SELECT ts, auction, cents FROM bids LIMIT 2000 {sink}",
        "parquet",
        "SELECT ts, auction, cents FROM bids ORDER BY ts LIMIT 2000",
    ),
    Case(
        "both",
        "CREATE QUERY both AS SELECT ts, auction, cents AS amount FROM bids WHERE cents > 8000 "
        "UNION ALL SELECT ts, auction, ask FROM asks {sink}",
        "json",
        "SELECT ts, auction, cents AS amount FROM bids WHERE cents > 8000 UNION ALL SELECT ts, auction, ask FROM asks",
        is_rolling=True,
    ),
    Case(
        "named",
        "CREATE QUERY named AS SELECT b.ts, n.name, b.cents FROM bids AS b JOIN names AS n ON b.auction = n.auction "
        "WHERE b.cents > 7000 {sink}",
        "csv",
        "SELECT b.ts, n.name, b.cents FROM bids AS b JOIN names AS n ON b.auction = n.auction WHERE b.cents > 7000",
    ),
    Case(
        "busiest",
        "CREATE QUERY busiest AS SELECT max(n) AS most, window_end FROM counts [RANGE 20 SECONDS] {sink}",
        "parquet",
        f"""SELECT max(n) AS most, make_timestamp((epoch_us(window_end) // 20000000 + 1) * 20000000) AS window_end
          FROM ({_COUNTS}) GROUP BY ALL""",
    ),
    Case(
        "silences",
        "CREATE QUERY silences AS SELECT host, ts AS down_at FROM silence {sink}",
        "csv",
        """SELECT host, ts AS down_at FROM signals AS d WHERE NOT up AND NOT EXISTS (SELECT 1 FROM signals AS u
          WHERE u.up AND u.host = d.host AND u.ts BETWEEN d.ts AND d.ts + INTERVAL 3 SECONDS)""",
    ),
    Case(
        "outages",
        "CREATE QUERY outages AS SELECT host, n AS down_n, ts AS down_at, n_1 AS up_n, ts_1 AS up_at "
        "FROM outage {sink}",
        "parquet",
        _OUTAGES,
    ),
    Case(
        "notify",
        "CREATE RULE notify ON outage WHEN down.n < up.n DO INSERT {sink}, "
        "CALL PYTHON 'notes:note' (down.host, up.ts), RAISE EVENT alarm(down.host, up.n)",
        "parquet",
        f"SELECT host, down_at AS ts, down_n AS n, up_at AS ts_1, up_n AS n_1 FROM ({_OUTAGES}) WHERE down_n < up_n",
        is_rolling=True,
    ),
    Case(
        "alarms",
        "CREATE QUERY alarms AS SELECT host, n FROM alarm {sink}",
        "csv",
        f"SELECT host, up_n AS n FROM ({_OUTAGES}) WHERE down_n < up_n",
    ),
    Case(
        "unread",
        "CREATE QUERY unread AS SELECT record FROM asks.bad {sink}",
        "json",
        "SELECT record FROM bad",
    ),
)
#: Cases that need a broker: from its topic, to a topic, and both.
BROKER_CASES = (
    Case(
        "clicked",
        "CREATE QUERY clicked AS SELECT ts, site, n FROM clicks WHERE n > 5000 {sink}",
        _TOPIC,
        "SELECT ts, site, n FROM clicks WHERE n > 5000",
    ),
    Case(
        "sites",
        "CREATE QUERY sites AS SELECT site, count(*) AS n, sum(n) AS total, window_end FROM clicks [RANGE 5 SECONDS] "
        "GROUP BY site {sink}",
        "parquet",
        f"""SELECT site, count(*) AS n, sum(n)::BIGINT AS total, {_SPAN.format(size=5_000_000, next=1)} AS window_end
          FROM clicks GROUP BY ALL""",
    ),
    Case(
        "asked",
        "CREATE QUERY asked AS SELECT ts, auction, ask FROM asks WHERE ask > 3000 {sink}",
        _TOPIC,
        "SELECT ts, auction, ask FROM asks WHERE ask > 3000",
    ),
    Case(
        "met",
        "CREATE QUERY met AS SELECT c.ts AS click_at, s.ts AS signal_at, c.site, c.n FROM clicks [RANGE 1 SECOND] AS c "
        "JOIN signals [RANGE 1 SECOND] AS s ON c.site = s.host {sink}",
        _TOPIC,
        """SELECT c.ts AS click_at, s.ts AS signal_at, c.site, c.n FROM clicks AS c JOIN signals AS s
          ON c.site = s.host AND s.ts BETWEEN c.ts - INTERVAL 1 SECOND AND c.ts + INTERVAL 1 SECOND""",
    ),
)
EVENTS = """
CREATE EVENT down AS SELECT ts, host, n FROM signals WHERE NOT up;
CREATE EVENT up AS SELECT ts, host, n FROM signals WHERE up;
CREATE EVENT outage AS down SEQUENCE up WITHIN 20 SECONDS WHERE down.host = up.host CONTEXT RECENT;
CREATE EVENT silence AS NOT (up) [down, '3 seconds'] WHERE down.host = up.host CONTEXT CONTINUOUS;
CREATE EVENT alarm (host INT, n BIGINT);
"""


def cases(broker: Broker | None) -> tuple[Case, ...]:
    """Return what runs with or without a broker."""
    return CASES if broker is None else (*CASES, *BROKER_CASES)


def make_topics(broker: Broker) -> None:
    """Make the topic of the load and those of the sinks."""
    for topic in (load.TOPIC, *(case.name for case in BROKER_CASES if case.form == _TOPIC)):
        broker.make(topic, load.PARTITIONS)


def script(data: Path, out: Path, broker: Broker | None = None) -> str:
    """Return the statements of a deployment with all sinks."""
    address = None if broker is None else broker.address
    statements = [f"{case.statement(out, address)};\n" for case in cases(broker)]
    return load.declarations(data, address) + EVENTS + "".join(statements)


def differences(data: Path, out: Path, seed: int, broker: Broker | None = None) -> dict[str, Difference]:
    """Compare each sink with DuckDB's answer over what was written and sent."""
    with duckdb.connect() as connection:
        _define_tables(connection, load.files_of(data), seed)
        return {case.name: compare(connection, case.reference, _results(case, out, broker)) for case in cases(broker)}


def _results(case: Case, out: Path, broker: Broker | None) -> list[Path]:
    """Return the files that hold the results of a case; those of a topic are copied to one."""
    if case.form != _TOPIC or broker is None:
        return sorted((out / case.name).glob(f"part-*.{case.form}"))
    copy = out / f"{case.name}.json"
    copy.write_bytes(b"".join(value + b"\n" for value in broker.values(case.name, load.PARTITIONS)))
    return [copy]


def call_difference(data: Path, notes: Path, seed: int) -> Difference:
    """Compare the calls of the rule with DuckDB's answer; a call may be repeated, but only with its own key."""
    keys: dict[str, set[tuple[int, str]]] = {}
    for key, host, at in _noted(notes):
        keys.setdefault(key, set()).add((host, at))
    called = [call for calls in keys.values() for call in calls]
    with duckdb.connect() as connection:
        _define_tables(connection, load.files_of(data), seed)
        rows = connection.execute(f"SELECT host, up_at FROM ({_OUTAGES}) WHERE down_n < up_n").fetchall()
    expected = {(host, at.isoformat(sep=" ")) for host, at in rows}
    made = set(called)
    return Difference(len(expected), len(expected - made), len(called) - len(made), len(made - expected))


def _noted(notes: Path) -> Iterator[tuple[str, int, str]]:
    for line in notes.read_text().splitlines() if notes.exists() else ():
        key, host, at = json.loads(line)
        yield key, host, at


def _define_tables(connection: duckdb.DuckDBPyConnection, files: Mapping[str, int], seed: int) -> None:
    for stream in load.ROWS:
        rows = load.all_rows(stream, files[stream], seed).to_arrow()
        connection.register("rows", rows)
        connection.execute(f"CREATE TABLE {stream} AS SELECT * FROM rows")
        connection.unregister("rows")
    connection.execute("CREATE TABLE bad (record VARCHAR)")
    if lines := load.bad_lines(files["asks"]):
        connection.executemany("INSERT INTO bad VALUES (?)", [[line] for line in lines])
    connection.execute("CREATE TABLE names (auction INT, name VARCHAR)")
    even = range(0, load.AUCTIONS, 2)
    connection.executemany("INSERT INTO names VALUES (?, ?)", [[auction, f"auction {auction}"] for auction in even])
