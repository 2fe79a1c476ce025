"""Whole times: a query as a command of each system, from the start of a process to its end, results in files."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benches.parts import beside_flink, flink, plain_spark
from benches.parts.beside_peers import PEERS, Input, answers, check, flink_job
from benches.parts.dialects import Query

from headrace.errors import HostFault

_RUN = (sys.executable, "-m", "headrace", "run")
_FIRST = (
    "CREATE STREAM s (n INT) FROM FILES (path '{folder}/rows.csv', format 'csv');\n"
    "CREATE QUERY q AS SELECT n FROM s INTO FILES (path '{folder}/out');\n"
)


def start_once() -> None:
    """Run a command that does not count: the first one on a machine lets Java write down Spark's classes as it ends."""
    with tempfile.TemporaryDirectory(prefix="first-command-") as directory:
        folder = Path(directory)
        (folder / "rows.csv").write_text("n\n1\n")
        (folder / "first.sql").write_text(_FIRST.format(folder=folder))
        _timed([*_RUN, str(folder / "first.sql"), "--once", "--checkpoint", str(folder / "checkpoint")])


def whole_times(name: str, query: Query, given: Input, peers: Sequence[str] = PEERS) -> dict[str, float]:
    """Return the seconds of each system, of those that can run the query; Disagreement if a result is wrong."""
    seconds = {}
    memory = os.environ["HEADRACE_DRIVER_MEMORY"]
    with tempfile.TemporaryDirectory(prefix=f"{name}-command-") as directory, answers(given) as known:
        folder = Path(directory)
        (folder / "query.sql").write_text(";\n".join(given.script(query, folder / "ours")) + ";\n")
        ours = [str(folder / "query.sql"), "--once", "--checkpoint", str(folder / "checkpoint")]
        seconds["ours"] = _timed([*_RUN, *ours])
        check(f"{name} of Headrace", query.reference, known, sorted((folder / "ours").glob("*.parquet")))
        if "spark" in peers and query.spark is not None and (given.broker is None or plain_spark.jars()):
            seconds["spark"] = _timed(given.spark_job(query, folder).command(), memory)
            check(f"{name} of Spark", query.reference, known, sorted((folder / "spark").glob("*.parquet")))
        if "flink" in peers and query.flink is not None and flink.find_python() is not None:
            job = flink_job(query, given, known, folder)
            began = time.perf_counter()
            with beside_flink.Flink(memory) as peer:
                peer.run(job)
            seconds["flink"] = time.perf_counter() - began
            reference = query.flink.duckdb or query.reference
            check(f"{name} of Flink", reference, known, beside_flink.results(folder), query.flink.undefined)
    return seconds


def _timed(command: Sequence[str], memory: str = "") -> float:
    """Run a command to its end, and return what it took; HostFault if it fails."""
    paths = [str(flink.ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    if memory:
        environment["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {memory} pyspark-shell"
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, env=environment, text=True, check=False)
    if done.returncode:
        raise HostFault(f"a command failed: {done.stderr.strip()[-2000:]}")
    return time.perf_counter() - began
