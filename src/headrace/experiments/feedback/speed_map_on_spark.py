"""How much work does a display save on Spark that shows one of nine segments, depending on how far feedback reaches?

The second experiment of NiagaraST's feedback paper in a running deployment, with files for each hour. The visible
segment changes every twenty minutes. Counts of tuples are compared with those of the simulator in proportion; times
depend on what the filter, the average and the display cost, which the paper does not say.
"""

from __future__ import annotations

import datetime as dt
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl

from headrace.experiments.experiment import Finding, Outcome, Panel, Scale, Series, Trial
from headrace.experiments.feedback.speed_map import (
    DETECTORS,
    EVERY_S,
    HOURS,
    PAPER,
    REACHES,
    SEGMENTS,
    SIMULATOR,
    START,
    Name,
)
from headrace.experiments.judging import claim, near
from headrace.operators.feedback.reach import Reach
from headrace.session import Session

#: Hours of the 18 that are read.
SIZES: Mapping[Scale, int] = {"quick": 1, "normal": 6, "full": HOURS}
PERIOD_MINUTES = 20
STATEMENTS = """
CREATE STREAM detectors (at TIMESTAMP, segment INT, detector INT, speed DOUBLE, note STRING)
  TIMESTAMP BY at SKEW 1 HOUR FROM FILES (path '{data}', format 'parquet');
CREATE QUERY speeds AS
  SELECT segment, detector, avg(speed) AS speed, window_end FROM detectors [RANGE 1 MINUTE]
  WHERE note RLIKE '^ok;.*lane=[0-9]' GROUP BY segment, detector
  INTO MEMORY
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """The time and the work of a run: tuples filtered, tuples averaged, rows put out."""

    seconds: float
    work: tuple[int, int, int]


def run(trial: Trial) -> Outcome:
    """Start Spark and run each reach."""
    hours = SIZES[trial.scale]
    runs: dict[Name, Ran] = {}
    with tempfile.TemporaryDirectory(prefix="speed-map-") as name:
        folder = Path(name)
        files = write(folder / "all", hours, trial.seed)
        for done, (case, reach) in enumerate(REACHES.items()):
            trial.progress(f"{case}, {hours} hours", done, len(REACHES))
            runs[case] = _run(folder / case, files, hours, reach)
    return report(runs, hours)


def report(runs: Mapping[Name, Ran], hours: int) -> Outcome:
    """Judge the counts and times."""
    notes = (
        f"{hours} of 18 hours; the simulator's counts are in proportion",
        "the paper does not say what its filter, average and display cost, so its times cannot be compared: here a "
        "micro-batch of Spark takes most of the time",
    )
    whole = max(run.seconds for run in runs.values())
    bars = (Series("time", tuple((float(i), run.seconds / whole) for i, run in enumerate(runs.values())), "bars"),)
    panel = Panel("Time of each reach", "reach", "share of the longest", bars, ticks=tuple(runs))
    return Outcome(tuple(_findings(runs, hours)), (panel,), notes)


def _findings(runs: Mapping[Name, Ran], hours: int) -> Iterator[Finding]:
    for case, run in runs.items():
        for what, ours, simulated in zip(
            ("tuples filtered", "tuples averaged", "rows put out"), run.work, SIMULATOR[case], strict=True
        ):
            expected = simulated * hours / HOURS
            yield Finding(f"{case}: {what}", ours, near(ours, expected, 0.02), None, expected)
    work = [runs[case].work for case in runs]
    falls = all(sum(after) < sum(before) for before, after in pairwise(work))
    yield Finding("each further reach saves work", "yes" if falls else "no", claim(falls), "F1, F2 and F3 save more")
    none = runs["F0"].seconds
    for case, published in PAPER.items():
        saved = 100 * (1 - runs[case].seconds / none)
        yield Finding(f"{case}: time saved", saved, "not comparable", published, None, "%")


def write(folder: Path, hours: int, seed: int) -> Sequence[Path]:
    """Write a Parquet file for each hour, sorted by segment, with a row group for each."""
    folder.mkdir(parents=True)
    chance, per_hour = np.random.default_rng(seed), 3600 // EVERY_S
    segment = np.repeat(np.arange(SEGMENTS, dtype=np.int32), per_hour * DETECTORS)
    detector = np.tile(np.arange(DETECTORS, dtype=np.int32), per_hour * SEGMENTS)
    second = np.tile(np.repeat(np.arange(per_hour) * EVERY_S, DETECTORS), SEGMENTS)
    files = []
    for hour in range(hours):
        at = np.datetime64(START, "us") + (hour * 3600 + second).astype("timedelta64[s]").astype("timedelta64[us]")
        rows = pl.DataFrame(
            {
                "at": at,
                "segment": segment,
                "detector": segment * DETECTORS + detector,
                "speed": chance.normal(60.0, 15.0, len(segment)),
                "note": np.full(len(segment), "ok;lane=1;src=loop"),
            }
        )
        files.append(folder / f"{hour:02d}.parquet")
        rows.write_parquet(files[-1], row_group_size=per_hour * DETECTORS, statistics=True)
    return files


def _run(folder: Path, files: Sequence[Path], hours: int, reach: Reach | None) -> Ran:
    data = folder / "data"
    data.mkdir(parents=True)
    with Session(folder / "checkpoint", limit=250_000) as session:
        session.execute(STATEMENTS.format(data=data))
        if reach is not None:
            session.execute(f"ALTER SYSTEM SET feedback = '{reach}'")
            for number in range(hours * 60 // PERIOD_MINUTES):
                begin, end = (START + dt.timedelta(minutes=PERIOD_MINUTES * at) for at in (number, number + 1))
                times = f"window_end > TIMESTAMP '{begin}' AND window_end <= TIMESTAMP '{end}'"
                session.execute(f"ASSUME speeds WHERE segment <> {number % SEGMENTS} AND {times}")
        session.start()
        before = session.statistics().batch
        while session.statistics().batch <= before:  # what was assumed is in force
            time.sleep(0.02)
        began = time.perf_counter()
        for path in files:
            (data / path.name).hardlink_to(path)
        session.drain(600)
        seconds = time.perf_counter() - began
        counts, rows = session.statistics().vertices, len(session.results("speeds"))

    def taken(kind: str) -> int:
        return sum(seen.tuples_in for name, seen in counts.items() if name.startswith(kind))

    return Ran(seconds, (taken("filter"), taken("partialaggregate"), rows))
