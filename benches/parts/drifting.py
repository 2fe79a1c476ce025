"""Streams with a common key whose best join order changes: in each phase two of them rarely have a key in common.

Keys are like order numbers: at any time `keys` of them are in use, and the range moves on with event time. Of the two
streams of a phase one has the even keys and the other the odd ones, but for a small share; all other streams have both.
So joining these two first leaves little to do, and any other beginning makes many pairs. Tuples of different phases
have different keys.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benches.parts.bids import BASE_US
from benches.parts.chained import chained
from benches.parts.comparison import Difference, compare

COLUMNS = "at TIMESTAMP, k BIGINT, v BIGINT"
#: Event time of a file, of the windows, and of the life of a key.
FILE_S, WINDOW_S, LIFE_S = 1, 5, 20
#: Functions of the user that are conditions, one that takes long and one that does not, and the same in SQL.
SLOW, FAST = "headrace.testing.conditions:is_even", "headrace.testing.conditions:is_round"
CONDITIONS = {SLOW: "% 2 = 0", FAST: "% 10 = 0"}


@dataclass(frozen=True, slots=True)
class Drifting:
    """Streams in files of one second each, in folders by their names: `files` for each phase.

    A phase names the two streams that rarely have a key in common; if it names none, all often do. `condition`
    names one of CONDITIONS by which the query tests tuples of the first stream, if any.
    """

    folder: Path
    streams: str
    phases: Sequence[str]
    files: int
    per_file: int
    condition: str = ""

    @property
    def columns(self) -> str:
        return COLUMNS

    @property
    def rows(self) -> int:
        return len(self.streams) * len(self.phases) * self.files * self.per_file

    def phase_at(self, file: int) -> int:
        """Return the number of the phase of a file."""
        return min(file // self.files, len(self.phases) - 1)

    def script(self, out: Path) -> str:
        """Return the streams and the query, in the order of the streams' names."""
        streams = [
            f"CREATE STREAM {name} ({COLUMNS}) TIMESTAMP BY at "
            f"FROM FILES (path '{self.folder / name}', format 'parquet')"
            for name in self.streams
        ]
        window = f"[RANGE {WINDOW_S} SECONDS]"
        first = self.streams[0]
        joins = [f"JOIN {name} {window} ON {first}.k = {name}.k" for name in self.streams[1:]]
        columns = ", ".join(f"{name}.v AS v{name}" for name in self.streams)
        query = f"CREATE QUERY met AS SELECT {first}.k AS k, {columns} FROM {first} {window} {' '.join(joins)}"
        if self.condition:
            streams.append(f"CREATE FUNCTION kept(BIGINT) RETURNS BOOLEAN FROM PYTHON '{self.condition}'")
            query += f" WHERE kept({first}.v)"
        return ";\n".join([*streams, f"{query} INTO FILES (path '{out}')"])

    def sums(self) -> dict[str, str]:
        """Return SQL expressions over a result whose sums two systems must agree on."""
        return {"rows": "k * 0 + 1", "k": "k", **{f"v{name}": f"v{name} % 1000003" for name in self.streams}}

    def frame(self, sources: Sequence[Any]) -> Any:
        """Return the same query as Spark's stream-stream joins, one after the other."""
        return chained(dict(zip(self.streams, sources, strict=True)), f"INTERVAL {WINDOW_S} SECONDS")

    def check(self, results: Path) -> Difference:
        """Compare the files of our results with DuckDB's join of the same files."""
        first = self.streams[0]
        tables = " JOIN ".join(
            f"read_parquet('{self.folder / name}/*.parquet') AS {name}" + ("" if name == first else " USING (k)")
            for name in self.streams
        )
        times = ", ".join(f"{name}.at" for name in self.streams)
        columns = ", ".join(f"{name}.v AS v{name}" for name in self.streams)
        near = f"greatest({times}) - least({times}) <= INTERVAL {WINDOW_S} SECONDS"
        near += f" AND {first}.v {CONDITIONS[self.condition]}" if self.condition else ""
        with duckdb.connect() as connection:
            reference = f"SELECT k, {columns} FROM {tables} WHERE {near}"
            return compare(connection, reference, sorted(results.glob("[!.]*.parquet")))


def write_drifting(
    folder: Path,
    *,
    streams: str,
    phases: Sequence[str],
    files: int,
    per_file: int,
    matches: int,
    share: float,
    seed: int = 1,
) -> Drifting:
    """Write files; a tuple has about `matches` partners in the window of another stream.

    Of the two streams of a phase, only a `share` of the tuples of the second may have a key of the first.
    """
    chance = np.random.default_rng(seed)
    keys = WINDOW_S * per_file // FILE_S // matches
    for name in streams:
        (folder / name).mkdir(parents=True)
        for number in range(files * len(phases)):
            begin = number * FILE_S * 1_000_000
            at = begin + np.sort(chance.integers(0, FILE_S * 1_000_000, per_file))
            phase = number // files
            key = (phase << 32) + at * keys // (LIFE_S * 1_000_000) + chance.integers(0, keys, per_file)
            if name in phases[phase]:
                is_odd = name == phases[phase][1]
                key = key // 2 * 2 + (is_odd & (chance.random(per_file) >= share))
            value = number * per_file + np.arange(per_file)
            table = pa.table({"at": pa.array(at + BASE_US, pa.timestamp("us", "UTC")), "k": key, "v": value})
            path = folder / name / f"{number:05d}.parquet"
            pq.write_table(table, path)
            os.utime(path, (1_750_000_000 + number, 1_750_000_000 + number))
    return Drifting(folder, streams, phases, files, per_file)
