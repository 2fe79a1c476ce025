"""Bursts of pairs of streams, a slice for each micro-batch: the same overload for every scheduler.

A slice covers one second of event time. Releasing a slice when the one before has been read gives every deployment the
same input per micro-batch, whatever the speed of the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

#: The columns of each stream; all but `ticks` have the number of their slice.
COLUMNS: Mapping[str, str] = {
    "clicks": "at TIMESTAMP, id BIGINT, slice INT",
    "views": "at TIMESTAMP, id BIGINT",
    "articles": "at TIMESTAMP, id BIGINT, body STRING, slice INT",
    "edits": "at TIMESTAMP, id BIGINT, body STRING",
    "orders": "at TIMESTAMP, id BIGINT, amount DOUBLE, slice INT",
    "payments": "at TIMESTAMP, id BIGINT, paid DOUBLE",
    "probes": "at TIMESTAMP, id BIGINT, zone INT, x DOUBLE, slice INT",
    "ticks": "at TIMESTAMP, slice INT",
}
#: Tuples of a slice at the mean load. Two streams that are joined have the same ids.
TUPLES: Mapping[str, int] = {
    "clicks": 24_000,
    "views": 24_000,
    "articles": 5_000,
    "edits": 5_000,
    "orders": 12_000,
    "payments": 12_000,
    "probes": 3_000,
}
#: Groups within which probes are compared, and characters of an article.
ZONES, BODY = 300, 600
#: The first instant of the first slice (microseconds).
BEGIN_US = 1_767_225_600_000_000
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Bursts:
    """Slices, each with a multiple of the mean load; the values of tuples are drawn from the seed."""

    loads: tuple[float, ...]
    seed: int = 17

    @staticmethod
    def of(
        steady: int, slices: int, *, high: float = 1.75, low: float = 0.25, length: int = 3, seed: int = 17
    ) -> Bursts:
        """Return some steady slices, then bursts of `length` slices, each followed by as many with little load."""
        loads = (1.0,) * steady + tuple(low if number // length % 2 else high for number in range(slices))
        return Bursts(loads, seed)

    @property
    def tuples(self) -> int:
        """The number of tuples in all slices."""
        return sum(round(count * load) for load in self.loads for count in TUPLES.values())

    def release(self, folder: Path, number: int) -> None:
        """Write a slice, a file for each stream; they appear together, so that one micro-batch reads all of them."""
        for name, rows in slice_of(number, self.loads[number], self.seed).items():
            rows.write_parquet(folder / name / f".{number:06d}.parquet", compression="uncompressed")
        for name in COLUMNS:
            (folder / name / f".{number:06d}.parquet").rename(folder / name / f"{number:06d}.parquet")


def create_streams(folder: Path) -> str:
    """Make a folder for each stream; return the statements that create the streams over them."""
    for name in COLUMNS:
        (folder / name).mkdir(parents=True)
    return "\n".join(
        f"CREATE STREAM {name} ({columns}) TIMESTAMP BY at FROM FILES (path '{folder / name}', format 'parquet');"
        for name, columns in COLUMNS.items()
    )


def slice_of(number: int, load: float, seed: int = 17) -> dict[str, pl.DataFrame]:
    """Return the tuples of a slice by stream, computed from its number."""
    chance = np.random.default_rng((seed, number))
    bodies = pl.Series([chr(97 + letter) * BODY for letter in range(26)])
    frames: dict[str, pl.DataFrame] = {}
    for name in COLUMNS:
        count = round(TUPLES[name] * load) if name in TUPLES else 1
        times = BEGIN_US + number * _SECOND + np.sort(chance.integers(0, _SECOND, count))
        values: dict[str, Any] = {
            "at": pl.Series(times).cast(pl.Datetime("us", "UTC")),
            "id": number * 1_000_000 + chance.permutation(count),
            "slice": np.full(count, number, np.int32),
            "body": bodies.gather(chance.integers(0, 26, count)),
            "amount": chance.uniform(0, 100, count),
            "paid": chance.uniform(0, 400, count),
            "zone": chance.integers(0, ZONES, count).astype(np.int32),
            "x": chance.uniform(0, 1, count),
        }
        columns = [column.split()[0] for column in COLUMNS[name].split(", ")]
        frames[name] = pl.DataFrame({column: values[column] for column in columns})
    return frames
