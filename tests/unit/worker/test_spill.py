"""State larger than memory: what a worker holds of its own does not grow with the state, and results stay right."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[3] / "src"
JOIN = "SELECT a.k, a.v, b.v AS w FROM a [UNBOUNDED] JOIN b [UNBOUNDED] ON a.k = b.k"
COUNT = "SELECT k, count(*) AS n, sum(v) AS v FROM a [RANGE 1 HOUR] GROUP BY k"
#: Drives one bucket, restored in every micro-batch, from files; prints state and own memory as it goes, and sums over
#: the results.
DRIVER = """
import gc, json, sys, tempfile
from pathlib import Path
import numpy as np, polars as pl
from headrace.model.page import Page
from headrace.commands.command import AddQuery, encode_command
from headrace.commands.running import Running
from headrace.commands.running_graph import placement_of
from headrace.worker.bucket import Bucket
from headrace.worker.chunk_cache import ChunkCache
from headrace.worker.moving import Moves
from headrace.engine.engine import Engine
from headrace.worker.wire import Control, Kind, Row, decode_report, encode
from headrace.session import Session

class Files:
    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
    def path(self, name):
        return self.folder / name.replace("/", "+")
    def get(self, name):
        return self.path(name).read_bytes() if self.path(name).exists() else None
    def save(self, changed, removed):
        for name, data in changed:
            self.path(name).write_bytes(data)
        for name in removed:
            self.path(name).unlink()

def own_megabytes():
    return next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith("RssAnon"))

def streams(text):
    return f"CREATE STREAM {text} (at TIMESTAMP, k BIGINT, v BIGINT, t STRING) TIMESTAMP BY at FROM MEMORY;"

query, upto = sys.argv[1], float(sys.argv[2])
sent = []
with Session(host="local") as session:
    session.deployment.send = sent.append
    session.execute(streams("a") + streams("b") + f"CREATE QUERY q AS {query} INTO MEMORY")
(add,) = (command for command in sent if isinstance(command, AddQuery))
placement = placement_of(Running().after(add))
ingest = Engine(placement.ingest, taps=[vertex.id for vertex in placement.ingest])
sources = {vertex.spec.stream: vertex.id for vertex in placement.ingest if not vertex.inputs}
chance, ts, state, series, number = np.random.default_rng(1), 0, 0.0, [], 0
with tempfile.TemporaryDirectory() as folder:
    def keep(name, frame):
        global number
        number += 1
        frame.write_ipc(Path(folder) / f"{name}-{number}.arrow")
    def kept(name):
        return pl.concat([pl.read_ipc(path) for path in Path(folder).glob(f"{name}-*.arrow")])
    store, cache, batch = Files(Path(folder) / "store"), Path(folder) / "cache", 0
    while True:
        ended = state >= upto
        for name, source in sources.items() if not ended else ():
            columns = {"k": chance.integers(0, 3_000_000, 50_000), "v": chance.integers(0, 1000, 50_000)}
            keep(name, pl.DataFrame(columns))
            frame = pl.DataFrame(columns).with_columns(pl.lit(None, pl.Datetime("us", "UTC")).alias("at"),
              pl.lit("a text of some length").alias("t"))
            for page in frame.with_columns(pl.int_range(ts, ts + 50_000).alias("__ts"),
              pl.int_range(50_000).alias("__seq")).iter_slices(8192):
                ingest.push(source, Page(page))
        ingest.run()
        ts += 50_000
        pages = ingest.take_results()
        given = ((route.id, page) for route in placement.routes() for page in pages.get(route.spec.origin, ()))
        rows = [Row(0, Kind.PAGE, name, i, 0, page.encode()) for i, (name, page) in enumerate(given)]
        control = Control(time=ts, bounds=dict.fromkeys(sources, 2**62 if ended else ts),
          commands=[encode_command(add)] if not batch else [])
        bucket = Bucket.restore(0, store, ChunkCache(cache))
        out = bucket.run([*rows, Row(0, Kind.CONTROL, "", 0, 0, encode(control))], batch, store, Moves(Path(folder)))
        for row in out:
            if row.kind is Kind.RESULT:
                keep("found", Page.decode(row.payload).rows)
        state, batch = decode_report(out[-1].payload).state_bytes / 1e6, batch + 1
        series.append((state, own_megabytes()))
        bucket.close()
        gc.collect()
        if ended:
            break
    found, tables = kept("found"), {name: kept(name) for name in sources}
if "JOIN" in query:
    wanted = tables["a"].join(tables["b"].rename({"v": "w"}), on="k")
else:
    wanted = tables["a"].group_by("k").agg(pl.len().cast(pl.Int64).alias("n"), pl.col("v").sum())
columns = wanted.columns
print(json.dumps({"series": series, "right": found.select(columns).sort(columns).equals(wanted.sort(columns))}))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("query", "megabytes"), [(JOIN, 90), (COUNT, 110)], ids=["join", "count"])
def test_a_workers_own_memory_does_not_grow_with_the_state(query: str, megabytes: int) -> None:
    environment = {**os.environ, "PYTHONPATH": str(SRC), "POLARS_MAX_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, query, str(megabytes)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    series = report["series"][:-1]  # the last one closes the streams
    first, last = (
        min(own for state, own in series if low <= state <= high)  # between two merges, which take some for a while
        for low, high in ((15, 40), (0.7 * megabytes, megabytes + 10))
    )
    grown = series[-1][0] - 25
    assert grown > 30
    assert last - first < 0.6 * grown, series
    assert report["right"]
