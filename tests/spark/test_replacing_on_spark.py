"""Queries that are replaced while windows are open, while they run and after kill -9: the windows are whole."""

import os
import random
import signal
import time
from collections import Counter

from tests.spark.crash_case import expected, wait_for_batches, write_data, written
from tests.spark.test_crashes import ended, finish, start

from headrace.testing.oracle.rows import rounded

STREAMS = """
CREATE STREAM bids (at TIMESTAMP, auction INT, price DOUBLE) TIMESTAMP BY at SKEW 1 SECOND
  FROM FILES (path '{data}/bids', format 'parquet');
CREATE STREAM asks (at TIMESTAMP, auction INT, ask DOUBLE) TIMESTAMP BY at
  FROM FILES (path '{data}/asks', format 'parquet');
CREATE QUERY counts AS SELECT auction, count(*) AS n, max(price) AS top, window_end
  FROM bids [RANGE 20 SECONDS SLIDE 5 SECONDS] GROUP BY auction INTO FILES (path '{out}/counts', format 'parquet');
CREATE QUERY hour AS SELECT auction, count(*) AS n, sum(price) AS total, max(price) AS top
  FROM bids [RANGE 1 HOUR] GROUP BY auction INTO FILES (path '{out}/hour', format 'parquet');
CREATE QUERY pairs AS SELECT b.auction, b.price, a.ask FROM bids [RANGE 1 HOUR] AS b
  JOIN asks [RANGE 1 HOUR] AS a ON b.auction = a.auction INTO FILES (path '{out}/pairs', format 'parquet');
"""
#: What the queries become, one after the other: other columns, then HAVING and a condition on the groups.
HOURS = (
    "SELECT sum(price) AS total, max(price) AS top FROM bids [RANGE 1 HOUR] GROUP BY auction",
    "SELECT auction + 1 AS next, sum(price) AS total FROM bids [RANGE 1 HOUR] WHERE auction > 2 GROUP BY auction"
    " HAVING count(*) > 160",
)
PAIRS = ("SELECT b.price, a.ask FROM {}", "SELECT a.ask, b.price, a.ask - b.price AS spread FROM {}")
JOINED = "bids [RANGE 1 HOUR] AS b JOIN asks [RANGE 1 HOUR] AS a ON b.auction = a.auction"


def test_windows_of_an_hour_are_whole_though_queries_change_within_them_and_the_driver_is_killed(tmp_path):
    frames = write_data(tmp_path / "data", 7)
    places = {"data": tmp_path / "data", "out": tmp_path / "out"}
    first = STREAMS.format(**places)
    texts = [first]
    for hour, pairs in zip(HOURS, PAIRS, strict=True):
        changed = f"""
            CREATE OR REPLACE QUERY hour AS {hour} INTO FILES (path '{tmp_path}/out/hour', format 'parquet');
            CREATE OR REPLACE QUERY pairs AS {pairs.format(JOINED)}
              INTO FILES (path '{tmp_path}/out/pairs', format 'parquet');"""
        texts.append(first.partition("CREATE QUERY hour")[0] + changed)
    scripts = [tmp_path / f"{number}.sql" for number in range(len(texts))]
    for script, text in zip(scripts, texts, strict=True):
        script.write_text(text)
    checkpoint, chance = tmp_path / "checkpoint", random.Random(3)
    process = start(checkpoint, scripts[0], f"then={scripts[1]}", "waiting")
    while not scripts[1].with_suffix(".done").exists() and process.poll() is None:
        time.sleep(0.02)
    wait_for_batches(checkpoint, chance.randint(2, 4), is_over=ended(process))
    time.sleep(chance.random() * 0.3)  # somewhere within a micro-batch
    assert process.poll() is None, (tmp_path / "child.log").read_text()[-3000:]
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    finish(start(checkpoint, scripts[2]), tmp_path)

    check(tmp_path / "out", texts[2], frames)


def check(out, last, frames):
    """Compare the files with what the last text means."""
    answers = expected(last.replace("CREATE OR REPLACE", "CREATE").partition("CREATE QUERY pairs")[0], frames)
    found = written(out, {**answers, "pairs": []})
    assert found["hour"] == answers["hour"], "the window of an hour is delivered by the last text, and whole"
    assert found["counts"] == answers["counts"], "windows that nobody touched lose nothing"
    met = frames["bids"].join(frames["asks"], on="auction")  # all within the hour
    pairs = Counter((repr(rounded(price)), repr(rounded(ask))) for price, ask in met.select("price", "ask").iter_rows())
    assert _prices(found["pairs"]) == pairs, "each pair comes once, by whichever text"
    assert len({tuple(name for name, _ in row) for row in found["pairs"]}) > 2, "each text delivered pairs"


def _prices(rows):
    return Counter((dict(row)["price"], dict(row)["ask"]) for row in rows)
