"""How much work does a join save that tells its input which segments are not congested?

The motivating plan of feedback punctuation. Sensors in the road report at once, vehicles upload their readings later.
Both are averaged per segment and minute, the readings of vehicles after a check that takes time, and joined where the
sensors show congestion. A plain join averages all readings of vehicles. A THRIFTY join knows which segments were
congested before these readings come, and says that the others are not needed: they are dropped where they are read.
Times and tuples are those from when the readings of vehicles appear until all results are there, in a running
deployment. CPU is the time spent in operators.
"""

from __future__ import annotations

import datetime as dt
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from headrace.hosts.spark.host import SparkDeployment
from headrace.operators.specs import Scan
from headrace.session import Session

MINUTES, SEGMENTS, SENSORS, READINGS = 60, 100, 4, 200
#: So many segments of each ten minutes are congested.
CONGESTED = 5
START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  streams have no zone
TARGET = 3.0
ROUNDS = 3

SCRIPT = """
CREATE STREAM sensors (at TIMESTAMP, segment INT, speed DOUBLE) TIMESTAMP BY at
  FROM FILES (path '{data}/sensors', format 'parquet');
CREATE STREAM probes (at TIMESTAMP, segment INT, speed DOUBLE, note STRING) TIMESTAMP BY at SKEW 1 MINUTE
  FROM FILES (path '{data}/probes', format 'parquet');
CREATE VIEW congested AS
  SELECT segment, avg(speed) AS speed FROM sensors [RANGE 1 MINUTE] GROUP BY segment HAVING avg(speed) < 45;
CREATE VIEW probed AS
  SELECT segment, avg(speed) AS speed, count(*) AS n FROM probes [RANGE 1 MINUTE]
  WHERE note RLIKE '^ok;.*lane=[0-9]' AND speed BETWEEN 1 AND 130 GROUP BY segment;
CREATE QUERY travel AS
  SELECT c.segment, c.speed AS fixed, p.speed AS driven, p.n, rowtime AS at
  FROM congested [NOW] AS c {manner} JOIN probed [NOW] AS p ON c.segment = p.segment INTO MEMORY;
"""


@dataclass(frozen=True, slots=True)
class Run:
    """The time, the work and the results of one run."""

    seconds: float
    cpu: float
    checked: int
    averaged: int
    saved: int
    results: list[tuple[Any, ...]]


def main(quick: bool) -> dict[str, Any]:
    """Run both joins in turn, after warm-up runs."""
    minutes, readings = (20, READINGS) if quick else (MINUTES, 10 * READINGS)
    figures: dict[str, Any] = {
        "bench": "motivating",
        "title": f"Readings of vehicles on {SEGMENTS} segments, {CONGESTED} of them congested, {minutes} minutes",
        "cases": {},
        "rows": [],
        "notes": [],
    }
    with tempfile.TemporaryDirectory(prefix="motivating-") as name:
        folder = Path(name)
        write_data(folder / "all", minutes, readings)
        tries: dict[str, list[Run]] = {"": [], "THRIFTY": []}
        for turn in range(1 if quick else ROUNDS + 1):
            for manner, runs in tries.items():
                runs.append(_run(folder / f"{turn}{manner}", folder / "all", manner))
    kept = {manner: runs if quick else runs[1:] for manner, runs in tries.items()}  # the first ones warm up
    if any(run.results != tries[""][0].results for runs in tries.values() for run in runs):
        raise SystemExit("a THRIFTY join gave other results")
    plain, thrifty = (sorted(runs, key=lambda run: run.seconds)[len(runs) // 2] for runs in kept.values())
    for case, unit, (before, after) in (
        ("readings averaged", "tuples", (plain.averaged, thrifty.averaged)),
        ("CPU of operators", "s", (plain.cpu, thrifty.cpu)),
        ("time to all results", "s", (plain.seconds, thrifty.seconds)),
    ):
        ratio, target = before / max(after, 1e-9), TARGET if unit == "tuples" else None
        measured = {"ours": after, "peers": {"plain join": before}, "unit": unit, "ratio": ratio, "target": target}
        verdict = {} if target is None else {"verdict": "met" if ratio >= target else "missed"}
        figures["cases"][case] = measured
        figures["rows"].append({"case": case, **measured, **verdict})
    figures["notes"].append(
        f"{len(plain.results):,} results, the same with both; of {plain.checked:,} readings {thrifty.checked:,} were "
        f"checked and {thrifty.averaged:,} averaged; {thrifty.saved:,} were dropped on the way"
    )
    return figures


def write_data(folder: Path, minutes: int, readings: int) -> None:
    """Write a file of each stream for every ten minutes; the congested segments change with each."""
    for kind in ("sensors", "probes"):
        (folder / kind).mkdir(parents=True)
    chance, base = np.random.default_rng(3), np.datetime64(START, "us")
    for begin in range(0, minutes, 10):
        congested = np.arange(CONGESTED) * 7 + begin // 10
        for kind, each in (("sensors", SENSORS), ("probes", readings)):
            count = 10 * SEGMENTS * each
            second = np.sort(chance.integers(begin * 60, (begin + 10) * 60, count))
            segment = chance.integers(0, SEGMENTS, count).astype(np.int32)
            speed = np.where(np.isin(segment, congested), 30.0, 70.0) + chance.normal(0.0, 5.0, count)
            at = base + second.astype("timedelta64[s]").astype("timedelta64[us]")
            rows = pl.DataFrame({"at": at, "segment": segment, "speed": speed})
            if kind == "probes":
                rows = rows.with_columns(note=pl.lit("ok;lane=1;src=gps"))
            rows.write_parquet(folder / kind / f"{begin:03}.parquet")


def _run(folder: Path, files: Path, manner: str) -> Run:
    data = folder / "data"
    for kind in ("sensors", "probes"):
        (data / kind).mkdir(parents=True)
    with Session(folder / "checkpoint", limit=100_000) as session:
        assert isinstance(session.deployment, SparkDeployment)
        session.execute(SCRIPT.format(data=data, manner=manner))
        session.start()
        _give(files / "sensors", data / "sensors")
        whole = sum(pl.scan_parquet(files / "sensors" / "*.parquet").select(pl.len()).collect().to_series())
        while (seen := session.statistics().streams.get("sensors")) is None or seen.tuples < whole:
            time.sleep(0.05)
        batch = session.statistics().batch
        while manner and not session.deployment.deployments.newest().relays and session.statistics().batch < batch + 20:
            time.sleep(0.05)  # what the join says is on its way to where readings are read
        before = sum(vertex.busy_ns for vertex in session.statistics().vertices.values())
        began = time.perf_counter()
        _give(files / "probes", data / "probes")
        session.drain(300)
        seconds = time.perf_counter() - began
        seen_all = session.statistics()
        results = sorted(tuple(row.values()) for row in session.results("travel"))
        probes = _behind_probes(session)
    work = {
        kind: sum(v.tuples_in for name, v in seen_all.vertices.items() if name in probes and name.startswith(kind))
        for kind in ("filter", "partialaggregate")
    }
    return Run(
        seconds,
        (sum(vertex.busy_ns for vertex in seen_all.vertices.values()) - before) / 1e9,
        work["filter"],
        work["partialaggregate"],
        sum(guard.saved for guard in seen_all.guards.values()),
        results,
    )


def _behind_probes(session: Session) -> set[str]:
    """Return the operators that readings of vehicles pass before they meet anything else."""
    assert isinstance(session.deployment, SparkDeployment)
    graph = session.deployment.deployments.newest().queries[0].graph
    readers, vertices = graph.readers(), graph.by_id()
    name = next(vertex.id for vertex in graph if isinstance(vertex.spec, Scan) and vertex.spec.stream == "probes")
    chain: set[str] = set()
    while len(readers[name]) == 1 and len(vertices[readers[name][0][0]].inputs) == 1:
        name = readers[name][0][0]
        chain.add(name)
    return chain


def _give(origin: Path, target: Path) -> None:
    for path in sorted(origin.iterdir()):
        (target / path.name).hardlink_to(path)
