"""Probes that report positions of vehicles, released file by file at a changing rate: the load of overload tests."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = "at TIMESTAMP, vehicle BIGINT, zone INT, x DOUBLE, y DOUBLE"
ZONES = 8
#: Seconds of time that one file holds.
FILE_S = 0.2


@dataclass(frozen=True, slots=True)
class Phase:
    """A number of probes per second, for a number of seconds."""

    rate: float
    seconds: float


def probes(phases: Sequence[Phase], number: int, begin_us: int) -> pl.DataFrame | None:
    """Return the probes of one file, computed from its number; None after the last."""
    at, rate = number * FILE_S, None
    for phase in phases:
        if at < phase.seconds - 1e-9:
            rate = phase.rate
            break
        at -= phase.seconds
    if rate is None:
        return None
    chance = np.random.default_rng((7, number))
    count = round(rate * FILE_S)
    times = begin_us + round(number * FILE_S * 1e6) + np.sort(chance.integers(0, round(FILE_S * 1e6), count))
    return pl.DataFrame(
        {
            "at": pl.Series(times).cast(pl.Datetime("us", "UTC")),
            "vehicle": chance.integers(0, 100_000, count),
            "zone": chance.integers(0, ZONES, count).astype(np.int32),
            "x": chance.uniform(0.0, 1.0, count),
            "y": chance.uniform(0.0, 1.0, count),
        }
    )


def write(folder: Path, number: int, rows: pl.DataFrame) -> None:
    """Create a file atomically."""
    hidden = folder / f".{number:06d}.parquet"
    pq.write_table(
        rows.to_arrow().cast(_SCHEMA), hidden, compression="none", use_dictionary=False, write_statistics=False
    )
    hidden.rename(folder / f"{number:06d}.parquet")


_SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("vehicle", pa.int64()),
        ("zone", pa.int32()),
        ("x", pa.float64()),
        ("y", pa.float64()),
    ]
)


def write_points(path: Path, per_zone: int) -> None:
    """Write the road points of each zone, with which probes are matched."""
    chance = np.random.default_rng(11)
    count = ZONES * per_zone
    points = {
        "area": np.repeat(np.arange(ZONES, dtype=np.int32), per_zone),
        "px": chance.uniform(0, 1, count),
        "py": chance.uniform(0, 1, count),
    }
    pl.DataFrame(points).write_parquet(path)


def release(folder: Path, phases: Sequence[Phase], begin_us: int) -> subprocess.Popen[bytes]:
    """Start a process that writes each file at its time, and ends after the last."""
    arguments = [f"{phase.rate}:{phase.seconds}" for phase in phases]
    return subprocess.Popen([sys.executable, __file__, str(folder), str(begin_us), *arguments])


def _main() -> None:
    folder, begin_us = Path(sys.argv[1]), int(sys.argv[2])
    phases = [Phase(*map(float, text.split(":"))) for text in sys.argv[3:]]
    number = 0
    while (rows := probes(phases, number, begin_us)) is not None:
        time.sleep(max(0.0, begin_us / 1e6 + (number + 1) * FILE_S - time.time()))
        write(folder, number, rows)
        number += 1


if __name__ == "__main__":
    _main()
