"""Seeded bids that came through channels, as CSV lines, the same for Headrace and Flink."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from benches.parts.bids import BASE_US

COLUMNS = "at TIMESTAMP, auction BIGINT, bidder BIGINT, price DOUBLE, channel STRING"
CHANNELS = ("apple", "google", "facebook", "baidu")
#: Event time between two bids, and auctions at a time: each has two bids a second.
_PER_MS, _AUCTIONS, _BIDDERS = 10, 5000, 100_000


@dataclass(frozen=True, slots=True)
class Bids:
    """The same bids twice, in order of time: `files` for Headrace, and `halves`, a file for each of Flink's readers."""

    files: Path
    halves: Path
    rows: int

    def stream(self, name: str) -> str:
        source = f"FILES (path '{self.files}', format 'csv', header false)"
        return f"CREATE STREAM {name} ({COLUMNS}) TIMESTAMP BY at FROM {source}"


def write_bids(folder: Path, rows: int, *, per_file: int, seed: int, readers: int) -> Bids:
    """Write about this many bids.

    A second bid of an auction in the same millisecond is omitted, because no system defines the order of ties.
    """
    files, halves = folder / "files", folder / "halves"
    files.mkdir(parents=True)
    halves.mkdir()
    chance = np.random.default_rng(seed)
    written = 0
    for number, begin in enumerate(range(0, rows, per_file)):
        part = _bids(chance, begin, min(per_file, rows - begin))
        path = files / f"{number:05d}.csv"
        _write(part, path, "wb")
        second = 1_750_000_000 + number  # file sources go by file times
        os.utime(path, (second, second))
        for reader in range(readers):
            _write(part.filter(pl.col("auction") % readers == reader), halves / f"{reader}.csv", "ab")
        written += part.height
    return Bids(files, halves, written)


def _bids(chance: np.random.Generator, begin: int, count: int) -> pl.DataFrame:
    """Draw bids; prices have two decimals, so that every way to write and read them gives the same number."""
    made = {
        "at": BASE_US + 1000 * (np.arange(begin, begin + count) // _PER_MS),
        "auction": chance.integers(0, _AUCTIONS, count),
        "bidder": chance.integers(0, _BIDDERS, count),
        "price": np.round(chance.exponential(100.0, count), 2),
        "channel": np.array(CHANNELS)[chance.integers(0, len(CHANNELS), count)],
    }
    bids = pl.DataFrame(made).unique(["at", "auction"], keep="first", maintain_order=True)
    return bids.with_columns(pl.col("at").cast(pl.Datetime("us")).dt.strftime("%Y-%m-%d %H:%M:%S%.3f"))


def _write(rows: pl.DataFrame, path: Path, mode: str) -> None:
    with path.open(mode) as file:
        rows.write_csv(file, include_header=False)
