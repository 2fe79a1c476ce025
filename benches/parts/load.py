"""An endless load: three streams of files and a topic, computed from numbers, written by a process of its own.

The rows of a file depend on the seed and its number alone, so whoever compares results computes the input again instead
of reading it. Times are in the past and advance one second a file, in some disorder: no result depends on the clock.
"""

from __future__ import annotations

import csv
import importlib
import io
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl

#: 2026-01-01, in microseconds.
BEGIN = 1_767_225_600_000_000
SECOND = 1_000_000
AUCTIONS, BIDDERS, HOSTS, SITES = 12, 60, 9, 9
#: Every so many files of asks have a line that is no JSON.
BAD_EVERY = 3
STREAMS = ("bids", "asks", "signals")
#: The topic, if there is a broker.
TOPIC, PARTITIONS = "clicks", 2
#: Rows a file, or as many records of the topic; each row has a time of its own.
ROWS = {"bids": 40, "asks": 10, "signals": 12, TOPIC: 12}
_SEEDS = {stream: number for number, stream in enumerate(ROWS)}
#: Whoever writes this file ends the load.
STOP = "stop"

Rows: TypeAlias = Mapping[str, Sequence[Any]]


def declarations(data: Path, broker: str | None = None) -> str:
    """Return the statements that declare the streams and the table, and the topic of a broker."""
    topic = f"""
CREATE STREAM clicks (ts TIMESTAMP, site INT, n BIGINT) TIMESTAMP BY ts SKEW 3 SECONDS
  FROM KAFKA (bootstrap '{broker}', topic '{TOPIC}', format 'json');
"""
    files = f"""
CREATE STREAM bids (ts TIMESTAMP, auction INT, bidder INT, cents BIGINT) TIMESTAMP BY ts SKEW 3 SECONDS
  FROM FILES (path '{data / "bids"}', format 'parquet');
CREATE STREAM asks (ts TIMESTAMP, auction INT, ask BIGINT) TIMESTAMP BY ts SKEW 3 SECONDS
  FROM FILES (path '{data / "asks"}', format 'json');
CREATE STREAM signals (ts TIMESTAMP, host INT, up BOOLEAN, n BIGINT) TIMESTAMP BY ts SKEW 3 SECONDS
  FROM FILES (path '{data / "signals"}', format 'csv');
CREATE TABLE names (auction INT, name STRING) FROM FILES (path '{data / "names.csv"}', format 'csv');
"""
    return files if broker is None else files + topic


def rows_of(stream: str, number: int, seed: int) -> pl.DataFrame:
    """Return the rows of a file in the order in which they are written: most of its second, some of the one before."""
    now, before = (_second(stream, second, seed) for second in (number, number - 1))
    rows = pl.concat([now.filter(~pl.col("delayed")), before.filter(pl.col("delayed"))])
    order = np.random.default_rng((seed, _SEEDS[stream], number, 1)).permutation(rows.height)
    return rows.drop("delayed")[order]


def all_rows(stream: str, files: int, seed: int) -> pl.DataFrame:
    """Return the rows of the first files."""
    return pl.concat([_second(stream, -1, seed).drop("delayed"), *(rows_of(stream, n, seed) for n in range(files))])


def bad_lines(files: int) -> list[str]:
    """Return the lines of the first files of asks that are no JSON."""
    return [line for number in range(files) for line in _bad(number)]


def files_of(data: Path) -> dict[str, int]:
    """Return how many files each stream has, and how many were sent to the topic once the load has ended."""
    counts = {stream: sum(not path.name.startswith(".") for path in (data / stream).iterdir()) for stream in STREAMS}
    sent = data / TOPIC
    return {**counts, TOPIC: int(sent.read_text()) if sent.exists() else 0}


def prepare(data: Path) -> None:
    """Make the folders of the streams, and the table."""
    for stream in STREAMS:
        (data / stream).mkdir(parents=True)
    names = [f"{auction},auction {auction}" for auction in range(0, AUCTIONS, 2)]
    (data / "names.csv").write_text("\n".join(["auction,name", *names]) + "\n")


def write(data: Path, number: int, seed: int) -> None:
    """Create a file of each stream atomically."""
    for stream in STREAMS:
        name, content = _name(stream, number), _ENCODERS[stream](rows_of(stream, number, seed), number)
        hidden = data / stream / f".{name}"
        hidden.write_bytes(content)
        hidden.rename(data / stream / name)


def feed(data: Path, seed: int, interval: float, keep: int = 0, broker: str | None = None) -> subprocess.Popen[bytes]:
    """Start a process that writes a file of each stream every `interval` seconds, until `stop` is called.

    With `keep`, only so many files of each stream stay; older ones are deleted, as an operator does. The topic of a
    broker gets as many records; what is sent while the broker is down arrives later, once.
    """
    arguments = [str(data), str(seed), str(interval), str(keep), broker or ""]
    return subprocess.Popen([sys.executable, __file__, *arguments], start_new_session=True)


def stop(data: Path, feeder: subprocess.Popen[bytes]) -> None:
    """End the load between two files."""
    (data / STOP).touch()
    feeder.wait(120)


def _name(stream: str, number: int) -> str:
    return f"{number:07d}.{_SUFFIX[stream]}"


def _second(stream: str, second: int, seed: int) -> pl.DataFrame:
    """Return the rows of a second in order of time, and whether each is written with the next file."""
    count = ROWS[stream] if second >= 0 else 0
    chance = np.random.default_rng((seed, _SEEDS[stream], max(second, 0)))
    # streams differ in the last digits, so that no two rows of the load have the same time
    at = BEGIN + second * SECOND + np.arange(count) * (SECOND // max(count, 1)) + 1 + _SEEDS[stream]
    columns: dict[str, Any] = {"ts": pl.Series(at, dtype=pl.Int64).cast(pl.Datetime("us"))}
    amounts = pl.Series(chance.integers(0, 10_000, count), dtype=pl.Int64)
    match stream:
        case "bids":
            columns["auction"] = pl.Series(chance.integers(0, AUCTIONS, count), dtype=pl.Int32)
            columns["bidder"] = pl.Series(chance.integers(0, BIDDERS, count), dtype=pl.Int32)
            columns["cents"] = amounts.set(pl.Series(chance.random(count) < 0.02), None)
        case "asks":
            columns["auction"] = pl.Series(chance.integers(0, AUCTIONS, count), dtype=pl.Int32)
            columns["ask"] = amounts
        case "clicks":
            columns["site"] = pl.Series(chance.integers(0, SITES, count), dtype=pl.Int32)
            columns["n"] = amounts
        case _:
            columns["host"] = pl.Series(chance.integers(0, HOSTS, count), dtype=pl.Int32)
            columns["up"] = pl.Series(chance.random(count) < 0.6, dtype=pl.Boolean)
            columns["n"] = amounts
    return pl.DataFrame(columns).with_columns(delayed=pl.Series(chance.random(count) < 0.05, dtype=pl.Boolean))


def _bad(number: int) -> Iterator[str]:
    if number % BAD_EVERY == 0:
        yield f"record {number} is no JSON"


def _parquet(rows: pl.DataFrame, number: int) -> bytes:
    file = io.BytesIO()
    rows.write_parquet(file, compression="uncompressed")
    return file.getvalue()


def _json(rows: pl.DataFrame, number: int) -> bytes:
    return "".join(f"{line}\n" for line in [*_objects(rows), *_bad(number)]).encode()


def _objects(rows: pl.DataFrame) -> list[str]:
    return [json.dumps({**row, "ts": row["ts"].isoformat()}) for row in rows.to_dicts()]


def _csv(rows: pl.DataFrame, number: int) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows.columns)
    for at, *rest in rows.iter_rows():
        writer.writerow([at.isoformat(), *(str(value).lower() for value in rest)])
    return text.getvalue().encode()


_SUFFIX = {"bids": "parquet", "asks": "json", "signals": "csv"}
_ENCODERS: Mapping[str, Callable[[pl.DataFrame, int], bytes]] = {"bids": _parquet, "asks": _json, "signals": _csv}


class _Sender:
    """Sends records to the topic, each once, also while the broker is killed and started again."""

    def __init__(self, broker: str) -> None:
        # 0: a record waits for the broker as long as it takes
        settings: dict[str, Any] = {"enable.idempotence": True, "message.timeout.ms": 0, "linger.ms": 5}
        self._producer: Any = importlib.import_module("confluent_kafka").Producer(
            {"bootstrap.servers": broker, **settings}
        )

    def send(self, number: int, seed: int) -> None:
        rows = rows_of(TOPIC, number, seed)
        for site, line in zip(rows["site"], _objects(rows), strict=True):
            self._producer.produce(TOPIC, line.encode(), partition=site % PARTITIONS)
        self._producer.poll(0)

    def finish(self) -> None:
        if self._producer.flush(90):
            sys.exit("the broker does not take what was sent")


def _main() -> None:
    data, seed, interval, keep = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    sender = _Sender(sys.argv[5]) if sys.argv[5] else None
    number, began = max(files_of(data).values()), time.monotonic()
    first = number
    while not (data / STOP).exists():
        write(data, number, seed)
        if sender is not None:
            sender.send(number, seed)
        for stream in STREAMS if keep else ():
            (data / stream / _name(stream, number - keep)).unlink(missing_ok=True)
        number += 1
        time.sleep(max(0.0, began + (number - first) * interval - time.monotonic()))
    if sender is not None:
        sender.finish()
        (data / TOPIC).write_text(str(number))


if __name__ == "__main__":
    _main()
