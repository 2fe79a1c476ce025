"""A micro-batch that is repeated in another process gives the same bytes: rows to buckets, state and results."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

#: Runs queries on fixed tuples; writes a digest of each row that the ingest sends, each value of state and each result.
CHILD = """
import datetime as dt, hashlib, json, sys
from headrace.hosts.local import LocalDeployment
from headrace.session import Session
from headrace.testing.clock import VirtualClock
from headrace.worker.bucket import Bucket
from headrace.worker.ingest import Ingest
from headrace.worker.wire import Kind

def tell(what, data):
    lines.append(f"{what} {hashlib.sha256(data).hexdigest()[:16]}")

ingest, bucket = Ingest.run, Bucket.run

def run_ingest(self, task, stage=None):
    for row in ingest(self, task, stage):
        tell(f"ingest {task.number} {row.bucket} {row.kind.name} {row.name} {row.part}", row.payload)
        yield row

def run_bucket(self, rows, version, store, stage=None):
    out = bucket(self, rows, version, store, stage)
    for name, value in sorted(store.values.items()):
        tell(f"state {self.number} {name}", value)
    for row in out:
        if row.kind is not Kind.REPORT:
            tell(f"result {self.number} {row.name} {row.part}", row.payload)
    return out

Ingest.run, Bucket.run = run_ingest, run_bucket
BEGIN = dt.datetime(2026, 1, 1)
told = {}
for name, text in json.load(sys.stdin).items():
    lines = told[name] = []
    with Session(host="local", buckets=2) as session:
        session.deployment.clock = VirtualClock(0)
        session.execute(text)
        session.deployment.intake.parallel = 2
        for step in range(3):
            for stream in ("a", "b"):
                for part in range(2):
                    numbers = range(60 * step + 30 * part, 60 * step + 30 * part + 30)
                    session.push(stream, [
                        {"at": BEGIN + dt.timedelta(seconds=n - n * 7 % 5), "k": f"key {n * 31 % 11}",
                         "v": n * 17 % 23, "x": n / 7} for n in numbers])
            session.deployment.step()
        session.drain(60)
json.dump(told, sys.stdout)
"""
STREAMS = "".join(
    f"CREATE STREAM {name} (at TIMESTAMP, k STRING, v INT, x DOUBLE) TIMESTAMP BY at SKEW 3 SECONDS FROM MEMORY;\n"
    for name in ("a", "b")
)
QUERIES = {
    "aggregates": """
        SELECT k, count(*) AS n, count(DISTINCT v) AS d, sum(x) AS s, avg(x) AS m, stddev(x) AS e, min(k) AS l
            FROM a [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k;
        SELECT k, count(*) AS n FROM a [LANDMARK FROM '2026-01-01' SLIDE 10 SECONDS] GROUP BY k;
    """,
    "other windows": """
        SELECT k, sum(x) AS s FROM a [PARTITION BY k ROWS 5] GROUP BY k;
        SELECT k, sum(x) AS s FROM a [SESSION 2 SECONDS] GROUP BY k;
        SELECT k, sum(x) AS s FROM a [PARTITION BY k WHILE v > 3] GROUP BY k;
        SELECT k, sum(x) AS s FROM a [RANGE 5 SECONDS SLIDE TUPLE] GROUP BY k;
        SELECT k, DIFF(x) OVER (PARTITION BY k) AS d FROM a;
    """,
    "joins": """
        SELECT a.k, a.x, b.v FROM a [RANGE 5 SECONDS] JOIN b [RANGE 5 SECONDS] ON a.k = b.k;
        SELECT a.k, a.x, b.v FROM a [RANGE 2 SECONDS] LEFT JOIN b [RANGE 2 SECONDS] ON a.k = b.k AND a.v = b.v;
        SELECT a.k, a.x, b.v FROM a [ROWS 3] JOIN b [ROWS 3] ON a.k = b.k;
    """,
    "repeats": """
        SELECT DISTINCT k, v FROM a [RANGE 10 SECONDS];
        SELECT k, v FROM a WHERE v > 4 UNION SELECT k, v FROM b WHERE k LIKE '%1%';
        SELECT k, v FROM a.late;
    """,
}


def digests(seed: int) -> dict[str, list[str]]:
    """Return the digests of each group of queries in a new process."""
    texts = {
        name: STREAMS
        + ";\n".join(
            f"CREATE QUERY q{number} AS {query} INTO MEMORY"
            for number, query in enumerate(filter(None, map(str.strip, queries.split(";"))))
        )
        for name, queries in QUERIES.items()
    }
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "POLARS_MAX_THREADS": str(seed)}
    child = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=json.dumps(texts),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout)


@pytest.mark.slow
def test_a_micro_batch_gives_the_same_bytes_in_every_process() -> None:
    first, second = (digests(seed) for seed in (1, 2))
    assert first.keys() == QUERIES.keys()
    for name, lines in first.items():
        assert len(lines) > 50, name
        assert lines == second[name], name
