"""Flink as a peer of a query from files or topics: a process with one JVM that runs one query after the other.

Flink hands the files of a folder to its readers in no order, so that times of one file would make tuples of another
late. The rows are therefore written a second time, into one file for each reader, in turns of equal parts.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
from benches.parts import flink
from benches.parts.dialects import FlinkText

from headrace.errors import HostFault

READERS = 2
#: Parts of a stream that a file for one of the readers has.
_TURNS = 40
_JOBS = flink.ROOT / "benches" / "flink" / "queries.py"
_TYPES = {"VARCHAR": "STRING", "INTEGER": "INT", "TIMESTAMP": "TIMESTAMP(6)"}
_PARQUET = {
    "connector": "filesystem",
    "format": "parquet",
    "parquet.utc-timezone": "true",
    "parquet.write.int64.timestamp": "true",
    "parquet.timestamp.time.unit": "micros",
    "parquet.compression": "SNAPPY",
}


@dataclass(frozen=True, slots=True)
class FlinkRun:
    """What a run took as a whole, and how many tuples its sources had read after so many seconds."""

    seconds: float
    read: tuple[tuple[float, int], ...]

    def rate(self, tuples: int) -> float | None:
        """Return tuples per second of the second half of the input; None if no count tells when it began.

        A job may end before its last count can be asked for: then the input ended with the job.
        """
        half = tuples // 2
        counts = ((0.0, 0), *self.read)
        around = next((pair for pair in pairwise(counts) if pair[1][1] >= half), None)
        if around is None:
            return None
        (before, few), (after, more) = around
        middle = before + (after - before) * (half - few) / (more - few)
        end = next((at for at, count in self.read if count >= tuples), self.seconds)
        return (tuples - half) / (end - middle)


class Flink:
    """A process in Flink's environment, which takes jobs until it is closed."""

    def __init__(self, memory: str) -> None:
        python = flink.find_python()
        if python is None:
            raise HostFault(flink.HINT)
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  closed in `close`
        self._process = subprocess.Popen(
            [str(python), str(_JOBS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            env=environment(memory),
        )

    def __enter__(self) -> Flink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, job: Mapping[str, Any]) -> FlinkRun:
        """Run a job to its end; HostFault if Flink refuses it or fails."""
        stdin, stdout = _pipes(self._process)
        stdin.write(json.dumps(job) + "\n")
        stdin.flush()
        for line in stdout:
            report = flink.event(line)
            if report is not None:
                return told(report)
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").strip().splitlines() or ["it said nothing"]
        raise HostFault(f"Flink ended: {lines[-1]}", hint="benches/flink/setup installs it anew; it needs Java 17")

    def close(self) -> None:
        """Close the input, with which the process ends."""
        stdin, stdout = _pipes(self._process)
        stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        stdout.close()
        self._complaints.close()


def told(report: Mapping[str, Any]) -> FlinkRun:
    """Return the run of a report; HostFault with Flink's last reason if it failed."""
    if "error" in report:
        reasons = [line for line in report["error"].splitlines() if line.strip() and not line.startswith("\tat ")]
        causes = [line for line in reasons if line.startswith("Caused by: ")]
        raise HostFault(f"Flink fails: {(causes or reasons or ['it does not say why'])[-1]}")
    return FlinkRun(report["seconds"], tuple((at, count) for at, count in report["read"]))


def environment(memory: str) -> dict[str, str]:
    """Return the variables of a process whose JVM has so much memory."""
    return {**flink.environment(), "JVM_ARGS": f"-Xmx{memory}"}


def write_halves(folder: Path, streams: Mapping[str, pa.Table], tables: Mapping[str, pa.Table]) -> None:
    """Write each stream into a file for each reader, and each table into one file."""
    for name, table in streams.items():
        (folder / name).mkdir(parents=True)
        part = max(1, -(-table.num_rows // (_TURNS * READERS)))
        writers = [pq.ParquetWriter(folder / name / f"{reader}.parquet", table.schema) for reader in range(READERS)]
        for number, at in enumerate(range(0, table.num_rows, part)):
            writers[number % READERS].write_table(table.slice(at, part))
        for writer in writers:
            writer.close()
    for name, table in tables.items():
        (folder / name).mkdir(parents=True)
        pq.write_table(table, folder / name / "0.parquet")


def job(
    query: FlinkText, streams: Sequence[str], sources: Sequence[str], columns: Mapping[str, str], folder: Path
) -> dict[str, Any]:
    """Return the job of a query whose results, of columns with DuckDB's types, go into Parquet files."""
    shape = ", ".join(f"`{name}` {_TYPES.get(type_, type_)}" for name, type_ in columns.items())
    sink = f"CREATE TABLE results ({shape}) WITH ({_options(_files(folder / 'flink'))})"
    return {
        "tables": [*sources, *query.views, sink],
        "statement": f"INSERT INTO results {query.text}",
        "checkpoints": str(folder / "flink-checkpoints"),
        "parallelism": READERS,
        "streams": list(streams),
    }


def results(folder: Path) -> list[Path]:
    """Return the files of a run's results; those that are hidden are not finished."""
    return [
        path
        for path in sorted((folder / "flink").rglob("*"))
        if path.is_file() and not path.name.startswith((".", "_"))
    ]


def file_source(name: str, columns: str, folder: Path) -> str:
    """Return the statement that creates a stream of files, or a table, which is there before all times."""
    return f"CREATE TABLE {name} ({_columns(columns)}) WITH ({_options(_files(folder / name))})"


def topic_source(name: str, columns: str, address: str) -> str:
    """Return the statement that creates a stream of a topic, until what it holds now."""
    options = {
        "connector": "kafka",
        "topic": name,
        "properties.bootstrap.servers": address,
        "scan.startup.mode": "earliest-offset",
        "scan.bounded.mode": "latest-offset",
        "format": "json",
        "json.timestamp-format.standard": "SQL",
    }
    return f"CREATE TABLE {name} ({_columns(columns)}) WITH ({_options(options)})"


def _columns(columns: str) -> str:
    """Return columns in Flink's words.

    `ms` is the time of streams, and its watermark is right behind. A table has a key, its first column, and a first
    time, since files cannot be looked up: Flink joins it as a table whose versions have times.
    """
    pairs = [column.split() for column in columns.split(", ")]
    shape = ", ".join(f"`{name}` {_TYPES.get(type_, type_)}" for name, type_ in pairs)
    if not any(name == "at" for name, _ in pairs):
        begun = "begun AS TO_TIMESTAMP('1970-01-01 00:00:00'), WATERMARK FOR begun AS begun"
        return f"{shape}, {begun}, PRIMARY KEY (`{pairs[0][0]}`) NOT ENFORCED"
    return f"{shape}, ms AS CAST(`at` AS TIMESTAMP(3)), WATERMARK FOR ms AS ms - INTERVAL '0.001' SECOND"


def _files(folder: Path) -> dict[str, str]:
    return {"path": f"file://{folder}", **_PARQUET}


def _options(options: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in options.items())


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout
