"""A deployment on Spark whose checkpoint, sources and sinks are in an object store, killed and continued: exact."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from tests.objects.imitation import PLACE, Proxy, is_ours, key_of, s3_environment

from headrace.hosts.checkup import check_up
from headrace.session import Session
from headrace.storage import files

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE STREAM bids (at TIMESTAMP, auction INT, price INT) TIMESTAMP BY at SKEW 1 SECOND
  FROM FILES (path '{data}/bids', format 'parquet');
CREATE QUERY counts AS SELECT auction, count(*) AS n, sum(price) AS total, window_end
  FROM bids [RANGE 20 SECONDS SLIDE 5 SECONDS] GROUP BY auction INTO FILES (path '{out}/counts');
CREATE QUERY busiest AS SELECT max(n) AS most, window_end FROM counts [RANGE 20 SECONDS]
  INTO FILES (path '{out}/busiest');
CREATE QUERY large AS SELECT auction, price FROM bids WHERE price > 90 INTO FILES (path '{out}/large');
"""
QUERIES = ("counts", "busiest", "large")
#: Requests of ours for a micro-batch beside those that write or read a part of results or of an exchange: the progress,
#: looks at the owner, and the deletion of parts that were read.
MOST_REQUESTS = 3


def write_data(directory: Path) -> None:
    for number in range(12):
        times = [1_767_225_600_000_000 + (number * 200 + i) * 50_000 for i in range(200)]
        frame = pl.DataFrame(
            {
                "at": pl.Series(times).cast(pl.Datetime("us")),
                "auction": pl.Series([(number + i * i) % 7 for i in range(200)], dtype=pl.Int32),
                "price": pl.Series([(number * 31 + i * 17) % 100 for i in range(200)], dtype=pl.Int32),
            }
        )
        files.replace_by(directory / "bids" / f"{number:03d}.parquet", frame.write_parquet)


def delivered(directory: Path) -> dict[str, Counter[tuple[object, ...]]]:
    results = {}
    for query in QUERIES:
        names = [name for name in files.names(directory / query) if name.endswith(".parquet")]
        frames = [pl.read_parquet(files.read(directory / query / name)) for name in names]
        results[query] = Counter(row for frame in frames for row in frame.rows())
    return results


def test_killed_and_continued_it_delivers_exactly_once_and_writes_nowhere_else(
    proxy: Proxy, place: Path, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")
    if not (PLACE / "stamp").exists():
        pytest.skip("no jars of Hadoop's client of S3 here: run tests/objects/setup")
    write_data(place)
    write_data(tmp_path / "data")
    with Session(host="local", limit=400) as session:
        session.execute(SCRIPT.format(data=tmp_path / "data", out=tmp_path / "out"))
        session.drain(60)
    expected = delivered(tmp_path / "out")
    assert all(expected.values())

    script = tmp_path / "script.sql"
    script.write_text(SCRIPT.format(data=place, out=place / "out"))
    environ = watched(proxy, tmp_path)
    command = [sys.executable, str(Path(__file__).parent / "child.py"), f"{place}/state", str(script)]
    progress = f"PUT {place.parts[2]}/state/progress.json"
    proxy.lose_request_every, proxy.refuse_every = 101, 67
    for is_last in (False, True):
        with (tmp_path / "output.txt").open("ab") as output:
            child = subprocess.Popen(
                command, env=environ, cwd=tmp_path / "cwd", stdout=output, stderr=output, start_new_session=True
            )
            delivered_before = proxy.counts()[progress]
            while child.poll() is None and (is_last or proxy.counts()[progress] < delivered_before + 3):
                time.sleep(0.05)
            if not is_last:
                os.killpg(child.pid, signal.SIGKILL)
            child.wait(200)
        if is_last:
            assert child.returncode == 0, (tmp_path / "output.txt").read_text()[-3000:]
    proxy.heal()
    assert delivered(place / "out") == expected
    assert (tmp_path / "notes.txt").read_text() == ""
    assert list((tmp_path / "cwd").iterdir()) == []
    assert not [name for query in QUERIES for name in files.names(place / "out" / query / "_staging")]
    checkup = check_up(place / "state")
    assert checkup.problems == ()
    assert checkup.ended
    assert max(others_by_batch(proxy, f"{place.parts[2]}/")) <= MOST_REQUESTS


def others_by_batch(proxy: Proxy, root: str) -> list[int]:
    """Return how many different requests each micro-batch made beside parts; the first ones of a process open things.

    Those that were lost or refused are made again, and a slow micro-batch looks at its owner again.
    """
    batches: list[list[str]] = [[]]
    for method, path, agent in proxy.requests:
        request = f"{method} {key_of(path)}"
        if is_ours(agent) and f"{root}bids" not in request:  # reading the source is not counted
            batches[-1].append(request)
            if request == f"PUT {root}state/progress.json":
                batches.append([])
    others = [[request for request in batch if not request.endswith((".parquet", ".arrow"))] for batch in batches]
    return [len(set(batch)) for batch in others if not any("/offsets" in request for request in batch)][-4:-1]


def watched(proxy: Proxy, tmp_path: Path) -> dict[str, str]:
    """Return the environment of processes whose writing is noted."""
    for name in ("tmp", "cwd"):
        (tmp_path / name).mkdir()
    source = Path(__file__).parents[2] / "src"
    jars = ",".join(sorted(map(str, (PLACE / "jars").glob("*.jar"))))
    # its upload of local files does not agree with the imitation
    copying = "spark.hadoop.fs.s3a.optimized.copy.from.local.enabled=false"
    return {
        **os.environ,
        **s3_environment(proxy),
        "TMPDIR": str(tmp_path / "tmp"),
        "HEADRACE_TEST_NOTES": str(tmp_path / "notes.txt"),
        "PYTHONPATH": os.pathsep.join(
            filter(None, (str(Path(__file__).parent / "watching"), str(source), os.environ.get("PYTHONPATH", "")))
        ),
        "PYSPARK_SUBMIT_ARGS": f"--jars {jars} --conf {copying} pyspark-shell",
        "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1",
    }
