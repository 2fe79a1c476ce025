"""The queries of the crash tests, their data, and what the oracle says of them."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from headrace.catalog.catalog import Catalog
from headrace.catalog.define import (
    define_event,
    define_fed_table,
    define_query,
    define_stream,
    define_table,
    define_view,
)
from headrace.catalog.definitions import Stream
from headrace.language.parser import parse
from headrace.language.syntax.statements import (
    CreateEvent,
    CreateQuery,
    CreateStream,
    CreateTable,
    CreateView,
    Detection,
)
from headrace.model.schema import Schema
from headrace.plan.binding.binder import bind
from headrace.session.compile import plan_event
from headrace.storage import files
from headrace.testing.oracle.oracle import Row, answer
from headrace.testing.oracle.rows import rounded
from headrace.testing.oracle.values import plain

SCRIPT = """
CREATE STREAM bids (at TIMESTAMP, auction INT, price DOUBLE) TIMESTAMP BY at SKEW 1 SECOND
  FROM FILES (path '{data}/bids', format 'parquet');
CREATE STREAM asks (at TIMESTAMP, auction INT, ask DOUBLE) TIMESTAMP BY at
  FROM FILES (path '{data}/asks', format 'parquet');
CREATE QUERY counts AS SELECT auction, count(*) AS n, sum(price) AS total, max(price) AS top, window_end
  FROM bids [RANGE 20 SECONDS SLIDE 5 SECONDS] GROUP BY auction INTO FILES (path '{out}/counts', format 'parquet');
CREATE QUERY pairs AS SELECT b.auction, b.price, a.ask FROM bids [RANGE 4 SECONDS] AS b
  LEFT JOIN asks [RANGE 4 SECONDS] AS a
  ON b.auction = a.auction AND a.ask < b.price INTO FILES (path '{out}/pairs', format 'json');
CREATE QUERY dear AS SELECT auction, price * 2 AS double_price FROM bids WHERE price > 90
  INTO FILES (path '{out}/dear', format 'csv');
CREATE QUERY spells START '2026-01-01 00:00:10' STOP '2026-01-01 00:00:35' EVERY 1 MINUTE
  AS SELECT auction, count(*) AS n, max(price) AS top, window_end FROM bids [RANGE 20 SECONDS] GROUP BY auction
  INTO FILES (path '{out}/spells', format 'parquet');
CREATE QUERY changes AS SELECT auction, OLD(price) AS before, RDIFF(price PSEUDO 0.01) OVER (PARTITION BY auction) AS
  change
  FROM bids
  INTO FILES (path '{out}/changes', format 'parquet');
CREATE QUERY repeats AS SELECT auction, OLD(price) AS before, price FROM bids [RANGE 2 SECONDS] GROUP BY auction
  HAVING RSUPPRESS(3)
  INTO FILES (path '{out}/repeats', format 'parquet');
CREATE QUERY standing AS SELECT auction, ask, OLD(ask) AS began FROM asks [RANGE 30 SECONDS] GROUP BY auction
  HAVING TSUPPRESS(7 SECONDS, CASE WHEN ask > 80 THEN 'clean' WHEN ask > 60 THEN 'update' ELSE 'new' END)
  INTO FILES (path '{out}/standing', format 'parquet');
CREATE QUERY early AS SELECT auction, price FROM bids LIMIT 700 INTO FILES (path '{out}/early', format 'parquet');
CREATE TABLE listed (auction INT) FROM FILES (path '{data}/listed.csv') REFRESH '1 s';
CREATE QUERY known AS SELECT auction, price FROM bids WHERE auction NOT IN (SELECT auction FROM listed) AND price > 80
  INTO FILES (path '{out}/known', format 'json');
CREATE QUERY totals AS SELECT auction, count(*) AS n, max(price) AS top FROM bids GROUP BY auction HAVING count(*) <> 5
  EMIT CHANGES STATE TTL '2 s' INTO FILES (path '{out}/totals', format 'parquet');
CREATE TABLE last_asks (auction INT, ask DOUBLE, PRIMARY KEY (auction)) FROM asks;
CREATE QUERY valued AS SELECT b.auction, b.price, a.ask
  FROM bids AS b LEFT JOIN last_asks FOR SYSTEM_TIME AS OF b.at AS a ON b.auction = a.auction
  INTO FILES (path '{out}/valued', format 'parquet');
CREATE VIEW boxes AS
  SELECT array(auction, auction % 3) AS box, named_struct('third', auction % 3) AS part, map('price', price) AS m
  FROM bids;
CREATE QUERY packed AS SELECT box[0] AS auction, part.third AS third, count(*) AS n, max(m['price']) AS top, window_end
  FROM boxes [RANGE 20 SECONDS] GROUP BY box, part INTO FILES (path '{out}/packed', format 'parquet');
CREATE QUERY matched AS SELECT x.box[0] AS auction, x.m['price'] AS price, y.ask
  FROM boxes [RANGE 1 SECOND] AS x
  JOIN (SELECT array(auction, auction % 3) AS box, ask FROM asks) [RANGE 1 SECOND] AS y ON x.box = y.box
  INTO FILES (path '{out}/matched', format 'json');
CREATE QUERY busiest AS SELECT max(n) AS most, window_end FROM counts [RANGE 20 SECONDS]
  INTO FILES (path '{out}/busiest', format 'parquet');
"""

#: Some of the queries, with sinks of all formats, an exchange and a table, for tests whose files are far away.
FEW = ("counts", "pairs", "dear", "known", "busiest")


def script_with(queries: Sequence[str]) -> str:
    """Return the script with these queries only."""
    kept = []
    for statement in SCRIPT.strip().split(";\n"):
        words = statement.split()
        if words[:2] != ["CREATE", "QUERY"] or words[2] in queries:
            kept.append(statement)
    return ";\n".join(kept)


def write_data(directory: Path, number: int, *, parts: int = 20) -> dict[str, pl.DataFrame]:
    """Two streams in small files, the first with some disorder within its skew and in `parts` files, an even number."""
    rng = np.random.default_rng(number)
    made = {}
    for name, value, count, its_parts in (("bids", "price", 2000, parts), ("asks", "ask", 200, parts // 2)):
        ts = np.sort(rng.integers(0, 120_000_000, count))
        if name == "bids":
            ts = ts - rng.integers(0, 450_000, count)
        frame = pl.DataFrame(
            {
                "at": pl.Series(ts + 1_767_225_600_000_000).cast(pl.Datetime("us")),
                "auction": pl.Series(rng.integers(0, 12, count), dtype=pl.Int32),
                value: np.round(rng.uniform(0, 100, count), 2),
            }
        )
        (directory / name).mkdir(parents=True)
        size = -(-count // its_parts)
        for i in range(its_parts):
            frame[i * size : (i + 1) * size].write_parquet(directory / name / f"{i:03d}.parquet")
        made[name] = frame
    made["listed"] = pl.DataFrame({"auction": [1, 4, 7]}, schema={"auction": pl.Int32})
    made["listed"].write_csv(directory / "listed.csv")
    return made


def expected(script: str, frames: dict[str, pl.DataFrame]) -> dict[str, list]:
    catalog = Catalog()
    histories = {}
    tables = {}
    answers = {}
    for statement in parse(script):
        if isinstance(statement, CreateStream):
            stream = define_stream(statement, statement.columns or Schema(()))
            catalog.add(stream)
            rows = plain(frames[stream.name].to_dicts())
            histories[stream.name] = [Row(row["at"], row) for row in rows]
        elif isinstance(statement, CreateTable) and statement.key:
            origin = catalog.find(str(statement.connector.options["stream"]))
            assert isinstance(origin, Stream)
            catalog.add(define_fed_table(statement, origin))
        elif isinstance(statement, CreateTable):
            catalog.add(define_table(statement, statement.columns or Schema(())))
            tables[statement.name.text] = plain(frames[statement.name.text].to_dicts())
        elif isinstance(statement, CreateView):
            plan = bind(statement.select, statement.text, catalog)
            catalog.add(define_view(statement, plan.schema))
        elif isinstance(statement, CreateEvent):
            body = statement.body
            plan = (
                plan_event(body, catalog)
                if isinstance(body, Detection)
                else bind(body.select, body.select_text, catalog)
            )
            catalog.add(define_event(statement, plan.schema))
        elif isinstance(statement, CreateQuery):
            plan = bind(statement.select, statement.text, catalog)
            catalog.add(define_query(statement, plan.schema))
            stints = [histories] if statement.stint is None else stints_of(histories)
            answers[statement.name.text] = multiset(
                [row.values for stint in stints for row in answer(plan, stint, tables)]
            )
    return answers


def stints_of(histories: dict[str, list[Row]]) -> list[dict[str, list[Row]]]:
    """What each stint of `spells` sees."""
    start = 1_767_225_600_000_000
    spans = [(start + begin * 1_000_000, start + (begin + 25) * 1_000_000) for begin in (10, 70)]
    return [
        {name: [row for row in rows if begin <= row.ts < end] for name, rows in histories.items()}
        for begin, end in spans
    ]


def multiset(rows) -> list:
    return sorted(tuple((name, repr(rounded(value))) for name, value in row.items()) for row in rows)


def written(out: Path, answers: dict[str, list]) -> dict[str, list]:
    readers = {".parquet": pl.read_parquet, ".csv": pl.read_csv, ".json": pl.read_ndjson, ".jsonl": pl.read_ndjson}
    found = {}
    for name in answers:
        rows = []
        for path in (out / name / file for file in files.names(out / name)):
            if path.suffix in readers:
                rows += plain(readers[path.suffix](files.read(path)).to_dicts())
        found[name] = multiset(rows)
    return found


def wait_for_batches(
    checkpoint: Path, more: int, *, is_over: Callable[[], object] = lambda: False, seconds: float = 120
) -> None:
    """Wait until `more` further micro-batches are committed, or the run is over."""
    before, deadline = newest_batch(checkpoint), time.monotonic() + seconds
    while not is_over() and time.monotonic() < deadline and newest_batch(checkpoint) < before + more:
        time.sleep(0.02)


def newest_batch(checkpoint: Path) -> int:
    """Return the newest micro-batch that Spark has committed, or -1."""
    return max((int(name) for name in files.names(checkpoint / "spark" / "commits") if name.isdigit()), default=-1)
