"""A join of streams with different keys: in a grid, where tuples are copied, beside an exchange of joined rows.

`a` and `b` agree in x, `b` and `c` in y. With an exchange, pairs of a and b go through files to the buckets of y, and
results come a micro-batch later. In a grid, tuples that lack a key are copied. Cases differ in how many pairs there are
for each tuple, and in how busy the streams are. On the local host, the processor time of one process is compared, for
several numbers of buckets; on Spark, how long micro-batches take that read a file of each stream. These results are
compared with DuckDB's. Streams of a steady rate then show how much later than its last tuple a result is delivered.
"""

from __future__ import annotations

import gc
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benches.parts.bids import BASE_US
from benches.parts.comparison import compare

from headrace.driver.moment import Moment
from headrace.hosts.local import LocalDeployment
from headrace.model.page import Page
from headrace.model.schema import TS
from headrace.session import Session

#: Event time of a file, and of the windows.
FILE_S, WINDOW_S = 1, 5
#: Micro-batches that do not count.
_WARM = 3
COLUMNS = {"a": ("x", "v"), "b": ("x", "y", "v"), "c": ("y", "v")}
Mode = Literal["on", "off"]


@dataclass(frozen=True, slots=True)
class Case:
    """Tuples in a file of each stream; the pairs of a tuple of the busier of a and b, and the triples of a pair."""

    name: str
    per_file: Mapping[str, int]
    pairs: float
    triples: float


CASES = (
    Case("a partner for each tuple", {"a": 60_000, "b": 60_000, "c": 60_000}, 1.0, 0.1),
    Case("four partners", {"a": 60_000, "b": 60_000, "c": 60_000}, 4.0, 0.02),
    Case("few partners", {"a": 60_000, "b": 60_000, "c": 60_000}, 0.05, 1.0),
    Case("a stream of few tuples", {"a": 60_000, "b": 60_000, "c": 600}, 1.0, 0.1),
)
#: Tuples per second of each stream, and seconds, of the run that measures delays.
RATE, SECONDS = 500, 20


@dataclass(frozen=True, slots=True)
class Run:
    """Processor seconds of this process, and of each micro-batch that read something the seconds since the last."""

    processor: float
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds[_WARM:])


def main(quick: bool, host: Literal["spark", "local"] = "spark") -> dict[str, Any]:
    """Measure all cases on a host (quick: the first, with few files)."""
    figures: dict[str, Any] = {"bench": "grid", "title": "A join by two keys, in a grid and with an exchange"}
    figures |= {"cases": {}, "rows": [], "notes": []}
    if host == "spark":
        with tempfile.TemporaryDirectory(prefix="grid-warm-") as name:
            write(CASES[0], Path(name), 4)
            run(CASES[0], Path(name), host, None, "on")
    for case in CASES[:1] if quick else CASES:
        with tempfile.TemporaryDirectory(prefix="grid-") as name:
            folder = Path(name)
            write(case, folder, 8 if quick else 14)
            if host == "local":
                measured = {count: _both(case, folder, host, count, 1) for count in ((2,) if quick else (2, 4, 8))}
                for count, (grid, exchange) in measured.items():
                    _add(
                        figures, case.name, f"{count} buckets, processor time", grid.processor, exchange.processor, "s"
                    )
            else:
                grid, exchange = _both(case, folder, host, None, 1 if quick else 2)
                _add(figures, case.name, "a micro-batch", 1e3 * grid.median, 1e3 * exchange.median, "ms")
    if host == "spark":
        delays = [delay_ms(mode) for mode in ("on", "off", "on", "off")[: 2 if quick else 4]]
        what = f"{RATE} tuples/s of each stream"
        _add(figures, what, "delay of a result, median", min(delays[::2]), min(delays[1::2]), "ms")
    figures["notes"].append(f"load of the machine at the end: {', '.join(f'{mean:.1f}' for mean in os.getloadavg())}")
    return figures


def _both(case: Case, folder: Path, host: str, buckets: int | None, rounds: int) -> tuple[Run, Run]:
    """Return the better of some runs in a grid and with an exchange."""
    runs: dict[Mode, list[Run]] = {"on": [], "off": []}
    for turn in range(rounds):
        order: list[Mode] = ["on", "off"] if turn % 2 else ["off", "on"]
        for mode in order:
            runs[mode].append(run(case, folder, host, buckets, mode))
    best = {mode: min(some, key=lambda each: each.median) for mode, some in runs.items()}
    return best["on"], best["off"]


def write(case: Case, folder: Path, files: int, seed: int = 1) -> None:
    """Write the files of all streams."""
    chance = np.random.default_rng(seed)
    window = {name: count * WINDOW_S / FILE_S for name, count in case.per_file.items()}
    keys = {"x": int(window["a"] / case.pairs), "y": max(1, int(window["c"] / case.triples))}
    for name, columns in COLUMNS.items():
        (folder / name).mkdir(parents=True)
        count = case.per_file[name]
        for number in range(files):
            at = number * FILE_S * 1_000_000 + np.sort(chance.integers(0, FILE_S * 1_000_000, count)) + BASE_US
            drawn = {key: chance.integers(0, keys[key], count) for key in columns if key in keys}
            value = number * count + np.arange(count)
            table = pa.table({"at": pa.array(at, pa.timestamp("us", "UTC")), **drawn, "v": value})
            path = folder / name / f"{number:05d}.parquet"
            pq.write_table(table, path)
            os.utime(path, (1_750_000_000 + number, 1_750_000_000 + number))


def script(folder: Path, out: Path, mode: str) -> str:
    """Return the statements of the query."""
    streams = [
        f"CREATE STREAM {name} (at TIMESTAMP, {', '.join(f'{column} BIGINT' for column in columns)}) TIMESTAMP BY at "
        f"FROM FILES (path '{folder / name}', format 'parquet')"
        for name, columns in COLUMNS.items()
    ]
    window = f"[RANGE {WINDOW_S} SECONDS]"
    query = (
        f"CREATE QUERY met AS SELECT b.x AS x, b.y AS y, a.v AS va, b.v AS vb, c.v AS vc FROM a {window} AS a "
        f"JOIN b {window} AS b ON a.x = b.x JOIN c {window} AS c ON b.y = c.y INTO FILES (path '{out}')"
    )
    return ";\n".join([*streams, f"ALTER SYSTEM SET grid = '{mode}'", query])


def run(case: Case, folder: Path, host: str, buckets: int | None, mode: str) -> Run:
    """Run the query over all files, and compare its results with DuckDB's."""
    gc.collect()
    moments: list[Moment] = []
    files, limit = len(list((folder / "a").iterdir())), max(case.per_file.values())
    rows = files * sum(case.per_file.values())
    with tempfile.TemporaryDirectory(prefix="grid-run-") as name:
        out = Path(name) / "out"
        with Session(Path(name) / "checkpoint", host=host, buckets=buckets, limit=limit) as session:  # type: ignore[arg-type]
            session.deployment.delivery.watchers.append(moments.append)
            session.execute(script(folder, out, mode))
            began = time.process_time()
            while sum(stream.tuples for stream in session.statistics().streams.values()) < rows:
                if isinstance(session.deployment, LocalDeployment):
                    session.deployment.step()
                else:
                    time.sleep(0.02)
            session.drain()
            processor = time.process_time() - began
        _check(folder, out)
    return Run(processor, tuple(_seconds(moments)))


def delay_ms(mode: str, host: Literal["spark", "local"] = "spark") -> float:
    """Return how much later than its last tuple a result is delivered, as the median of all results."""
    window, value = f"[RANGE {WINDOW_S} SECONDS]", f"'uniform(1, {RATE * WINDOW_S})'"
    columns = {"a": ("x",), "b": ("x", "y"), "c": ("y",)}
    streams = [
        f"CREATE STREAM {name} (at TIMESTAMP, {', '.join(f'{key} INT' for key in own)}) TIMESTAMP BY at "
        f"FROM GENERATOR (rate {RATE}, seed {seed}, {', '.join(f'col.{key} {value}' for key in own)})"
        for seed, (name, own) in enumerate(columns.items())
    ]
    query = (
        f"CREATE QUERY met AS SELECT b.x AS x, b.y AS y FROM a {window} AS a JOIN b {window} AS b ON a.x = b.x "
        f"JOIN c {window} AS c ON b.y = c.y INTO MEMORY"
    )
    delays: list[float] = []
    with (
        tempfile.TemporaryDirectory(prefix="grid-delay-") as name,
        Session(Path(name) / "checkpoint", host=host) as session,
    ):
        deployment, began = session.deployment, time.monotonic()

        def take(batch: int, pages: Sequence[Page]) -> None:
            if time.monotonic() - began > SECONDS / 2:
                now = deployment.now()
                delays.extend((now - stamp) / 1e3 for page in pages for stamp in page.rows[TS].to_list())

        deployment.delivery.subscribers.setdefault("met", []).append(take)
        session.execute(";\n".join([*streams, f"ALTER SYSTEM SET grid = '{mode}'", query]))
        began = time.monotonic()
        while time.monotonic() - began < SECONDS:
            time.sleep(0.1)
            if isinstance(deployment, LocalDeployment):
                deployment.step()
    return statistics.median(delays)


def _seconds(moments: Iterable[Moment]) -> Iterable[float]:
    read = 0
    for before, moment in itertools.pairwise(moments):
        total = sum(stream.tuples for stream in moment.statistics.streams.values())
        if total > read:
            yield (moment.now - before.now) / 1e6
        read = total


def _check(folder: Path, out: Path) -> None:
    tables = {name: f"read_parquet('{folder / name}/*.parquet') AS {name}" for name in COLUMNS}
    times = "a.at, b.at, c.at"
    reference = (
        f"SELECT b.x AS x, b.y AS y, a.v AS va, b.v AS vb, c.v AS vc FROM {tables['a']} JOIN {tables['b']} "
        f"ON a.x = b.x JOIN {tables['c']} ON b.y = c.y "
        f"WHERE greatest({times}) - least({times}) <= INTERVAL {WINDOW_S} SECONDS"
    )
    with duckdb.connect() as connection:
        difference = compare(connection, reference, sorted(out.glob("[!.]*.parquet")))
    if not difference.is_none:
        raise AssertionError(f"not DuckDB's results: {difference}")


def _add(figures: dict[str, Any], case: str, what: str, grid: float, exchange: float, unit: str) -> None:
    row = {"case": f"{case}: {what}", "ours": grid, "peers": {"exchange": exchange}, "unit": unit}
    row["ratio"] = grid / exchange
    figures["rows"].append(row)
    figures["cases"].setdefault(case, {})[what] = row
