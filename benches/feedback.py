"""How much time does feedback save if a display shows one of nine segments, depending on how far it reaches?

Detectors report their speed every 20 s for 18 hours. The query has a quality filter, averages per detector and minute,
and a display that draws a bar for each average. F0: no feedback. F1: results are dropped before the display. F2:
feedback reaches the average. F3: feedback reaches the filter and the source. The visible segment changes every hour.
Times run from when the files appear, in a running deployment, until all results are displayed; each is the median of
several runs. Ratios are of these times; a note subtracts the time of a run without input.
"""

from __future__ import annotations

import datetime as dt
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from headrace.engine.statistics import StreamStatistics
from headrace.session import Session

HOURS, SEGMENTS, DETECTORS, EVERY_S = 18, 9, 40, 20
START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  streams have no zone
REACHES = {"F0 no feedback": None, "F1 results": "results", "F2 average": "operator", "F3 sources": "sources"}
TARGET = 2.5
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Run:
    """The time and the counters of one run."""

    seconds: float
    read: int
    skipped: int
    skipped_bytes: int
    filtered: int
    averaged: int
    displayed: int


def main(quick: bool) -> dict[str, Any]:
    """Run F0 to F3 in turn, after warm-up runs."""
    hours = 6 if quick else HOURS
    figures: dict[str, Any] = {
        "bench": "feedback",
        "title": f"Speed map, {hours} hours, one segment of nine visible",
        "cases": {},
        "rows": [],
        "notes": [],
    }
    with tempfile.TemporaryDirectory(prefix="speed-map-") as name:
        folder = Path(name)
        files, size = write_readings(folder / "all", hours)
        for reach in (None, "sources"):  # the JVM compiles, the workers import
            _run(folder / f"warm-{reach}", files, hours, reach)
        tries: dict[str, list[Run]] = {case: [] for case in REACHES}
        idle: list[Run] = []
        for turn in range(1 if quick else ROUNDS):
            for case, reach in REACHES.items():
                tries[case].append(_run(folder / f"{turn}-{case.replace(' ', '-')}", files, hours, reach))
            idle.append(_run(folder / f"{turn}-idle", [], hours, None))
        runs, empty = {case: _median(attempts) for case, attempts in tries.items()}, _median(idle).seconds
    none = runs["F0 no feedback"]
    for case, run in runs.items():
        ratio, target = none.seconds / run.seconds, TARGET if case.startswith("F3") else None
        measured = {"ours": run.seconds, "peers": {"F0": none.seconds}, "unit": "s", "ratio": ratio, "target": target}
        work = {"read": run.read, "filtered": run.filtered, "averaged": run.averaged, "displayed": run.displayed}
        figures["cases"][case] = {
            **measured,
            **work,
            "skipped": run.skipped,
            "skipped_bytes": run.skipped_bytes,
            "bytes": size,
        }
        verdict = {} if target is None else {"verdict": "met" if ratio >= target else "missed"}
        figures["rows"].append({"case": case, **measured, **verdict})
        figures["notes"].append(
            f"{case}: {run.seconds:.2f} s ({1 - run.seconds / none.seconds:+.0%} saved); "
            f"tuples read {run.read:,}, filtered {run.filtered:,}, "
            f"averaged {run.averaged:,}, rows displayed {run.displayed:,}; "
            f"not read {run.skipped:,} tuples, {run.skipped_bytes / max(size, 1):.0%} of the bytes"
        )
    work_seconds = {case: run.seconds - empty for case, run in runs.items()}
    figures["fixed_seconds"] = empty
    figures["notes"].append(
        f"a run without input takes {empty:.2f} s; without that: "
        + ", ".join(f"{case[:2]} {seconds:.2f} s" for case, seconds in work_seconds.items())
        + f" ({1 - work_seconds['F3 sources'] / work_seconds['F0 no feedback']:.0%} of the work saved)"
    )
    return figures


def write_readings(folder: Path, hours: int) -> tuple[list[Path], int]:
    """Write a Parquet file for each hour, sorted by segment, a row group for each; return files and column sizes."""
    folder.mkdir(parents=True)
    chance = np.random.default_rng(1)
    per_hour = 3600 // EVERY_S
    base = np.datetime64(START, "us")
    segment = np.repeat(np.arange(SEGMENTS, dtype=np.int32), per_hour * DETECTORS)
    detector = np.tile(np.tile(np.arange(DETECTORS, dtype=np.int32), per_hour), SEGMENTS)
    second = np.tile(np.repeat(np.arange(per_hour) * EVERY_S, DETECTORS), SEGMENTS)
    files = []
    for hour in range(hours):
        at = base + (hour * 3600 + second).astype("timedelta64[s]").astype("timedelta64[us]")
        speed = chance.normal(60.0, 15.0, len(segment))
        note = np.where(chance.random(len(segment)) < 0.98, "ok;lane=1;src=loop", "bad;lane=1;src=loop")
        rows = pl.DataFrame(
            {"at": at, "segment": segment, "detector": segment * DETECTORS + detector, "speed": speed, "note": note}
        )
        path = folder / f"{hour:02d}.parquet"
        rows.write_parquet(path, row_group_size=per_hour * DETECTORS, statistics=True)
        files.append(path)
    return files, sum(path.stat().st_size for path in files)


def _median(runs: list[Run]) -> Run:
    return sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]


def _run(folder: Path, files: Sequence[Path], hours: int, reach: str | None) -> Run:
    data = folder / "data"
    data.mkdir(parents=True)
    shown = _Display()
    with Session(folder / "checkpoint", limit=250_000) as session:
        session.execute(f"""
            CREATE STREAM detectors (at TIMESTAMP, segment INT, detector INT, speed DOUBLE, note STRING)
              TIMESTAMP BY at SKEW 1 HOUR
              FROM FILES (path '{data}', format 'parquet');
            CREATE QUERY speeds AS
              SELECT segment, detector, avg(speed) AS speed, window_end FROM detectors [RANGE 1 MINUTE]
              WHERE note RLIKE '^ok;.*lane=[0-9]' AND speed BETWEEN 0 AND 200 GROUP BY segment, detector INTO MEMORY""")
        session.subscribe("speeds", shown.take)
        if reach is not None:
            session.execute(f"ALTER SYSTEM SET feedback = '{reach}'")
            for hour in range(hours):
                begin, end = (START + dt.timedelta(hours=at) for at in (hour, hour + 1))
                times = f"window_end > TIMESTAMP '{begin}' AND window_end <= TIMESTAMP '{end}'"
                session.execute(f"ASSUME speeds WHERE segment <> {hour % SEGMENTS} AND {times}")
        while session.statistics().batch < 0 or session.deployment.delivery.commands < (
            1 if reach is None else hours + 2
        ):
            time.sleep(0.01)
        began = time.perf_counter()
        for path in files:
            (data / path.name).hardlink_to(path)
        session.drain()
        seconds = time.perf_counter() - began
        seen = session.statistics()
    work = {
        kind: sum(v.tuples_in for name, v in seen.vertices.items() if name.startswith(kind))
        for kind in ("filter", "partialaggregate")
    }
    stream = seen.streams.get("detectors", StreamStatistics())
    return Run(
        seconds,
        stream.tuples,
        stream.skipped,
        stream.skipped_bytes,
        work["filter"],
        work["partialaggregate"],
        shown.rows,
    )


class _Display:
    """Draws a line for each average, as a screen would."""

    def __init__(self) -> None:
        self.rows = 0
        self.lines: list[str] = []

    def take(self, batch: int, rows: list[dict[str, Any]]) -> None:
        self.lines = [
            f"{row['window_end']:%H:%M} {row['segment']:>2} {row['detector']:>4} "
            f"{'#' * int(max(row['speed'] or 0, 0) / 4)}"
            for row in rows
        ]
        self.rows += len(rows)
