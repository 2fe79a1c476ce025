"""Seeded bids as Parquet files, the same for Headrace and for every peer."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

BASE_US = 1_767_225_600_000_000  # 2026-01-01, a border of every window used here
GROUP_ROWS = 250_000
#: Single rows this long after the bids end every window. There are two of them, because Spark needs one micro-batch to
#: advance the watermark and another to emit.
TAIL_US = 120_000_000
TAIL_KEY = -1
#: Selects about 15 % of the bids.
DEAR = 190.0

COLUMNS = "at TIMESTAMP, auction BIGINT, bidder BIGINT, price DOUBLE"


@dataclass(frozen=True, slots=True)
class Bids:
    """Files of bids in `folder`: `rows` in all, `per_file` in each, in order of time; two files of one row end them."""

    folder: Path
    rows: int
    per_file: int
    tail: int

    def stream(self, name: str) -> str:
        return f"CREATE STREAM {name} ({COLUMNS}) TIMESTAMP BY at FROM FILES (path '{self.folder}', format 'parquet')"


def write_bids(
    folder: Path,
    rows: int,
    *,
    per_file: int,
    seed: int,
    per_second: int = 10_000,
    auctions: int = 1000,
    bidders: int = 100_000,
    tail: int = 2,
) -> Bids:
    """Write bids at `per_second` in event time; file times grow with the order, because file sources use them."""
    folder.mkdir(parents=True)
    chance = np.random.default_rng(seed)
    gap, at = 1_000_000 / per_second, float(BASE_US)
    number = 0
    for begin in range(0, rows, per_file):
        count = min(per_file, rows - begin)
        times = at + np.cumsum(chance.uniform(0, 2 * gap, count))
        at = float(times[-1])
        columns = (
            times.astype(np.int64),
            chance.integers(0, auctions, count),
            chance.integers(0, bidders, count),
            chance.exponential(100.0, count),
        )
        _write(folder, number, columns)
        number += 1
    for i in range(tail):
        key = np.array([TAIL_KEY], dtype=np.int64)
        _write(folder, number + i, (np.array([int(at) + (i + 1) * TAIL_US]), key, key, np.array([0.0])))
    return Bids(folder, rows, per_file, tail)


def _write(folder: Path, number: int, columns: tuple[np.ndarray, ...]) -> None:
    at, auction, bidder, price = columns
    table = pa.table(
        {"at": pa.array(at, pa.timestamp("us", "UTC")), "auction": auction, "bidder": bidder, "price": price}
    )
    path = folder / f"{number:05d}.parquet"
    pq.write_table(table, path, row_group_size=GROUP_ROWS)
    second = 1_750_000_000 + number
    os.utime(path, (second, second))
