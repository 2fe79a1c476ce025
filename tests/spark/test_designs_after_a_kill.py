"""Late binding, views of experts, the smart home and others: one kill, and results are the same.

One deployment runs all of them over files, the plan that spares readings and a stream behind the clock, too. It is
killed in the middle and goes on in another process. What it delivers is what the local host delivers without a kill,
and what was planted.
"""

import contextlib
import datetime as dt
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from tests.spark.crash_case import wait_for_batches

from headrace.applications.nfmi import views
from headrace.applications.nfmi.container import Container
from headrace.applications.smart_home.application import SmartHome
from headrace.session import Session
from headrace.testing.watching import delivered, until

pytestmark = pytest.mark.spark
START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
HOME = SmartHome(homes=2, days=2)
#: Minutes that are there from the beginning, those that come after the kill, and segments of the road.
FILES, LATER, SEGMENTS = 14, 3, 12
SCRIPT = """
CREATE STREAM a (at TIMESTAMP, k INT) TIMESTAMP BY at FROM FILES (path 'more/a', format 'parquet');
CREATE STREAM b (at TIMESTAMP, k INT) TIMESTAMP BY at FROM FILES (path 'more/b', format 'parquet');
CREATE QUERY lows AS SELECT at, k FROM a WHERE k < 100 INTO FILES (path 'out/lows', format 'parquet');
CREATE STREAM go (at TIMESTAMP) TIMESTAMP BY at FROM MEMORY;
CREATE QUERY highs START ON go AS SELECT at, k FROM b WHERE k < 100 INTO FILES (path 'out/highs', format 'parquet');
CREATE EVENT pair AS lows SEQUENCE highs WITHIN 1 HOUR CONTEXT CHRONICLE;
CREATE QUERY found WITH (late_binding) AS SELECT k, k_1 FROM pair INTO FILES (path 'out/found', format 'parquet');
CREATE EVENT ride AS (a SEQUENCE b) AS ride SEQUENCE a AS bill WHERE a.k = b.k AND b.k > 100
  CONTEXT RECENT (a BY k, ride BY a.k KEEP 2 AGE '2 minutes');
CREATE QUERY billed AS SELECT k, k_1, k_2 FROM ride INTO FILES (path 'out/billed', format 'parquet');

CREATE STREAM remote (at TIMESTAMP, k INT) TIMESTAMP BY at SKEW 30 SECONDS BEHIND CLOCK
  FROM FILES (path 'more/remote', format 'parquet');
CREATE QUERY far AS SELECT k, count(*) AS n FROM remote [RANGE 1 SECOND] GROUP BY k
  INTO FILES (path 'out/far', format 'parquet');

CREATE STREAM sensors (at TIMESTAMP, segment INT, speed DOUBLE) TIMESTAMP BY at
  FROM FILES (path 'more/sensors', format 'parquet');
CREATE STREAM probes (at TIMESTAMP, segment INT, speed DOUBLE) TIMESTAMP BY at SKEW 1 MINUTE
  FROM FILES (path 'more/probes', format 'parquet');
CREATE VIEW congested AS
  SELECT segment, avg(speed) AS speed FROM sensors [RANGE 1 MINUTE] GROUP BY segment HAVING avg(speed) < 45;
CREATE VIEW probed AS SELECT segment, avg(speed) AS speed, count(*) AS n FROM probes [RANGE 1 MINUTE] GROUP BY segment;
CREATE QUERY travel AS SELECT c.segment, c.speed AS fixed, p.speed AS driven, p.n
  FROM congested [NOW] AS c THRIFTY JOIN probed [NOW] AS p ON c.segment = p.segment
  INTO FILES (path 'out/travel', format 'parquet');
"""
VIEW = "parent IS NULL AND status = 'OPEN'"
#: Runs everything until it is killed.
CHILD = """
import sys
from headrace.applications.nfmi import views
from headrace.applications.nfmi.container import Container
from headrace.session import Session
from tests.spark.test_designs_after_a_kill import VIEW, statements
with Session(sys.argv[1], limit=60, buckets=2) as session:
    session.execute(statements())
    feed = views.Feed(Container("alarms.db"), session)
    views.define_view(session, "center", VIEW)
    feed.push()
    session.start()
    session.wait(600)
"""


def statements() -> str:
    return HOME.script + SCRIPT


def prepare(folder: Path) -> None:
    """Write the data of the house, a file of each other stream for each minute, and some alarms."""
    HOME.prepare(folder, 1)
    for number in range(FILES):
        minute = START + dt.timedelta(minutes=number)
        write_pairs(folder, number)
        speeds = [30.0 if segment in (3, 3 + number // 5) else 70.0 for segment in range(SEGMENTS)]
        for name, each in (("sensors", 2), ("probes", 5)):
            times = [minute + dt.timedelta(seconds=5 * i) for i in range(each)]
            seen = [(at, s, speed + i) for s, speed in enumerate(speeds) for i, at in enumerate(times)]
            write(folder / "more" / name, number, seen, ["segment", "speed"])
    write(folder / "more" / "remote", 0, [(START + dt.timedelta(milliseconds=i), i % 3) for i in range(9)], ["k"])
    container = Container(folder / "alarms.db")
    for name in ("x", "y", "z"):
        container.open(name, at=START, domain="SDH", source=name, kind="LOST", severity="MINOR")
    container.clear("y", at=START)


def write_pairs(folder: Path, number: int) -> None:
    """Write a minute of a and b: each has a number of its own, and one of three that they share."""
    minute = START + dt.timedelta(minutes=number)
    for name, rows in {
        "a": [(1, 200 + number % 3), (2, number)],
        "b": [(3, 200 + number % 3), (4, 50 + number)],
    }.items():
        write(folder / "more" / name, number, [(minute + dt.timedelta(seconds=at), k) for at, k in rows], ["k"])


def write(folder: Path, number: int, rows: Sequence[tuple[object, ...]], columns: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    frame = pl.DataFrame(rows, schema=["at", *columns], orient="row").with_columns(pl.col(columns[0]).cast(pl.Int32))
    path = folder / f"{number:03}.parquet"
    frame.with_columns(pl.col("at").cast(pl.Datetime("us"))).sort("at").write_parquet(path)
    os.utime(path, (1000 + number, 1000 + number))


def outcome(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    """What queries and rules have delivered, in order of content."""
    found = {name: sorted(delivered(folder / "out" / name).rows()) for name in ("lows", "billed", "travel", "far")}
    for name in ("lights", "stoves", "burglaries"):
        rows = [line for path in (folder / "out" / name).glob("*.json") for line in path.read_text().splitlines()]
        found[name] = sorted((row,) for row in rows)
    return found


@pytest.mark.timeout(500)
def test_designs_of_the_papers_go_on_after_a_kill(spark, tmp_path):
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    for folder in (calm, killed):
        folder.mkdir()
        prepare(folder)
    for number in range(FILES, FILES + LATER):
        write_pairs(calm, number)
    with contextlib.chdir(calm), Session(host="local") as session:
        session.execute(statements())
        session.drain(60)
    with open(tmp_path / "child.log", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(killed / "checkpoint")],
            start_new_session=True,
            stdout=log,
            stderr=log,
            cwd=killed,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
    wait_for_batches(killed / "checkpoint", 6, is_over=lambda: process.poll() is not None, seconds=200)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    container = Container(killed / "alarms.db")
    container.update("x", at=START, severity="MAJOR")
    container.open("y2", at=START, domain="ATM", source="y2", kind="LOST", severity="MINOR")
    with contextlib.chdir(killed), Session(killed / "checkpoint") as session:
        views.Feed(container, session).push()  # from the first change on: each is pushed once
        session.start()
        until(lambda: delivered(killed / "out" / "lows").height == FILES, 250, session=session)
        assert "found" not in {query.query for query in session.running().queries}, "it waits for highs"
        session.execute("START QUERY highs")
        until(lambda: "found" in {query.query for query in session.running().queries}, 120, session=session)
        for number in range(FILES, FILES + LATER):
            write_pairs(killed, number)
        # nothing comes after these tuples: their window closes because the clock goes on, also after the kill
        until(lambda: delivered(killed / "out" / "far").height == 3, 120, session=session)
        session.drain(250)
        assert [row[0] for row in views.rows(session, "center")] == ["x", "y2", "z"]
        assert ("x", "MAJOR") in views.rows(session, "center", ("alarm", "severity"))
    assert outcome(killed) == outcome(calm)
    pairs = sorted(delivered(killed / "out" / "found").rows())
    assert pairs == [(number, 50 + number) for number in range(FILES, FILES + LATER)], "what came before does not wait"
    assert delivered(killed / "out" / "billed").height > FILES // 2
    assert delivered(killed / "out" / "travel").height >= FILES
