"""Records that end keys, on Spark: results come before the frontier, and marks survive kills and other buckets.

So do demands for results that are not final, by statement across an exchange and by a join, desires with their
priorities, aggregates that are written in SQL, and joins that take each tuple once.
"""

import datetime as dt
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import polars as pl
from tests.spark.crash_case import wait_for_batches

from headrace.session import Session
from headrace.testing.watching import until

START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
SCRIPT = """
CREATE STREAM readings (at TIMESTAMP, segment INT, speed DOUBLE, done BOOLEAN) TIMESTAMP BY at SKEW 1 HOUR
  PUNCTUATED BY done ON (segment) FROM FILES (path '{data}', format 'parquet');
CREATE QUERY counts AS SELECT segment, count(*) AS n, window_end FROM readings [RANGE 10 SECONDS SLIDE 5 SECONDS]
  GROUP BY segment INTO FILES (path '{out}/counts', format 'parquet');
CREATE QUERY totals AS SELECT n, count(*) AS m FROM counts [RANGE 1 HOUR] GROUP BY n
  INTO FILES (path '{out}/totals', format 'parquet');
CREATE AGGREGATE product(x DOUBLE) RETURNS DOUBLE {{ TABLE state(p DOUBLE); INITIALIZE: INSERT INTO state VALUES (x);
  ITERATE: UPDATE state SET p = p * x; TERMINATE: INSERT INTO RETURN SELECT p FROM state; }};
CREATE QUERY products AS SELECT segment, product(speed + 1) AS p, window_end FROM readings [RANGE 10 SECONDS]
  GROUP BY segment INTO FILES (path '{out}/products', format 'parquet');
CREATE QUERY steps AS SELECT a.segment, a.at AS first, b.at AS second FROM readings [RANGE 2 SECONDS] AS a
  JOIN readings [RANGE 2 SECONDS] AS b ON a.segment = b.segment AND a.at < b.at CONSUMING
  INTO FILES (path '{out}/steps', format 'parquet');
CREATE STREAM plain (at TIMESTAMP, segment INT, speed DOUBLE, done BOOLEAN) TIMESTAMP BY at SKEW 1 HOUR
  FROM FILES (path '{data}', format 'parquet');
CREATE QUERY near WITH (early) AS SELECT a.segment, a.at, s.n FROM (SELECT at, segment FROM plain WHERE speed = 2)
  [RANGE 1 HOUR] AS a IMPATIENT JOIN (SELECT segment, count(*) AS n FROM plain [RANGE 1 HOUR] GROUP BY segment)
  [RANGE 1 HOUR] AS s ON a.segment = s.segment INTO FILES (path '{out}/near', format 'parquet');
CREATE QUERY late AS SELECT segment, speed FROM readings.late INTO FILES (path '{out}/late', format 'parquet');
DESIRE counts WHERE segment = 3 PRIORITY 2;
"""
FILES, SEGMENTS = 12, 20
#: Runs a script until it is killed, and demands results all the time.
CHILD = """
import sys
from headrace.session import Session
with Session(sys.argv[1], limit=220) as session:
    session.execute(open(sys.argv[2]).read())
    session.start()
    while True:
        session.execute("DEMAND totals WHERE n > 4")
"""


def write(folder: Path) -> None:
    """Write a file for every ten seconds: readings, the end of each segment but 0, and a reading that is too late."""
    folder.mkdir()
    for number in range(FILES):
        rows = [(10 * number + second, segment, 1.0, False) for second in range(10) for segment in range(SEGMENTS)]
        rows += [(10 * number + 10, segment, 0.0, True) for segment in range(1, SEGMENTS)]
        rows += [(10 * number + 9, number % SEGMENTS, 2.0, False)]
        frame = pl.DataFrame(rows, schema=["at", "segment", "speed", "done"], orient="row").with_columns(
            at=pl.lit(START) + pl.duration(seconds="at"), segment=pl.col("segment").cast(pl.Int32)
        )
        frame.write_parquet(folder / f"{number:03}.parquet")
        os.utime(folder / f"{number:03}.parquet", (1000 + number, 1000 + number))


def rows(folder: Path) -> list[tuple[object, ...]]:
    files = [path for path in folder.glob("*.parquet") if not path.name.startswith(".")]
    return sorted(row for path in files for row in pl.read_parquet(path).rows())


def expected_counts() -> list[tuple[object, ...]]:
    """All readings count, and of segment 0, which never ends, also the extra one."""
    found: list[tuple[object, ...]] = []
    last = 10 * FILES
    for segment in range(SEGMENTS):
        for end in range(5, last + 10, 5):
            inside = sum(end - 10 <= second < end for second in range(last))
            inside += sum(
                end - 10 <= 10 * number + 9 < end for number in range(FILES) if number % SEGMENTS == segment == 0
            )
            if inside:
                found.append((segment, inside, START + dt.timedelta(seconds=end)))
    return sorted(found)


def expected_products() -> list[tuple[object, ...]]:
    """Each reading doubles the product; the extra one of segment 0 makes it three times as large."""
    ends = [(number, START + dt.timedelta(seconds=10 * (number + 1))) for number in range(FILES)]
    return sorted(
        (segment, 1024.0 * (3 if segment == number == 0 else 1), end)
        for segment in range(SEGMENTS)
        for number, end in ends
    )


def expected_steps() -> list[tuple[object, ...]]:
    """A reading is taken by the next one; from the extra one of segment 0 on, by the one after that."""
    found = [(segment, second - 1, second) for segment in range(1, SEGMENTS) for second in range(1, 10 * FILES)]
    found += [(0, second - 1 if second < 11 else second - 2, second) for second in range(1, 10 * FILES)]
    return sorted((segment, *(START + dt.timedelta(seconds=second) for second in pair)) for segment, *pair in found)


def expected_near() -> list[tuple[object, ...]]:
    """An extra reading meets the number of all records of its segment in the hour, ends and itself included."""
    return [
        (number, START + dt.timedelta(seconds=10 * number + 9), 10 * FILES + (FILES if number else 0) + 1)
        for number in range(FILES)
    ]


def test_marks_close_windows_early_and_survive_kills_and_other_buckets(tmp_path):
    write(tmp_path / "data")
    script = tmp_path / "script.sql"
    script.write_text(SCRIPT.format(data=(tmp_path / "data").as_uri(), out=(tmp_path / "out").as_uri()))
    checkpoint = tmp_path / "checkpoint"
    with open(tmp_path / "child.log", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(checkpoint), str(script)],
            start_new_session=True,
            stdout=log,
            stderr=log,
        )
    wait_for_batches(checkpoint, 4, is_over=lambda: process.poll() is not None)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with Session(checkpoint) as session:
        session.start()
        assert [sent.feedback.priority for sent in session.running().feedback] == [2]
        session.execute("ALTER SYSTEM SET buckets = 2")
        ended = len(expected_counts()) - 200
        until(lambda: len(rows(tmp_path / "out" / "counts")) > ended, session=session)
        early = rows(tmp_path / "out" / "counts")
        assert {row[0] for row in early} == set(range(1, SEGMENTS)), "the frontier is an hour behind"
        totals = sorted(Counter(n for _, n, _ in expected_counts()).items())
        (listing,) = session.execute("DEMAND totals WHERE TRUE")
        assert sorted(row[:2] for row in listing.rows) == totals
        assert rows(tmp_path / "out" / "totals") == [], "the final results come later"
        session.drain(90)
    assert rows(tmp_path / "out" / "counts") == expected_counts()
    assert rows(tmp_path / "out" / "totals") == totals
    assert rows(tmp_path / "out" / "products") == expected_products()
    assert rows(tmp_path / "out" / "steps") == expected_steps()
    final = [row for *row, partial in rows(tmp_path / "out" / "near") if not partial]
    early = [tuple(row) for *row, partial in rows(tmp_path / "out" / "near") if partial]
    assert list(map(tuple, final)) == expected_near()
    assert len(set(early)) == len(early), "a micro-batch that is repeated gives no early result again"
    assert {row[:2] for row in early} == {row[:2] for row in expected_near()}, "each was asked for, before the kill too"
    late = [(number, 2.0) for number in range(1, FILES)]
    assert rows(tmp_path / "out" / "late") == late
