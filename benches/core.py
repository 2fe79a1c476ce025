"""Throughput of Headrace and plain Spark Structured Streaming: same data, same session, same settings, one run.

A rate is that of the steady run: the rows of a micro-batch divided by the median time of the micro-batches between the
first and the last ones; with several queries at once, of all their micro-batches. The JVM is warm: a case with many
small micro-batches of both runs first. Notes give the time to start. Both read the same files per micro-batch. Headrace
writes its results to Parquet files; so does Spark in the first case, elsewhere Spark uses its noop sink, which favors
it. Both must give the same results.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benches.parts import ours, peers
from benches.parts.bids import DEAR, Bids, write_bids
from benches.parts.outcome import Outcome, check_equal
from benches.parts.query import Query, dear, hopping, joined, tumbling

from headrace.hosts.spark.starting.context import session_for


@dataclass(frozen=True, slots=True)
class Case:
    """Queries over some of the prepared streams, and the target ratio."""

    name: str
    streams: tuple[tuple[str, str], ...]  # (name in the query, name of the prepared bids)
    queries: Mapping[str, Query]
    target: float
    sink: Literal["parquet", "noop"] = "noop"
    unit: Literal["tuples/s", "ms"] = "tuples/s"


def mixed() -> dict[str, Query]:
    """Return twenty different queries on one stream."""
    filters = [dear(DEAR + 30 * i) for i in range(7)]
    counts = [
        tumbling(seconds, above)
        for seconds, above in ((5, 0.0), (10, 0.0), (15, 0.0), (20, 0.0), (10, 50.0), (10, 100.0), (20, 100.0))
    ]
    hops = [
        hopping(size, slide, above)
        for size, slide, above in (
            (10, 2, 0.0),
            (10, 5, 0.0),
            (20, 5, 0.0),
            (20, 10, 0.0),
            (10, 2, 100.0),
            (20, 4, 50.0),
        )
    ]
    return {f"q{i}": query for i, query in enumerate([*filters, *counts, *hops])}


CASES = (
    # first, so that the JVM has compiled the code that all others use: a deployment runs for days
    Case("micro-batch of 1000", (("bids", "drops"),), {"counts": tumbling(10)}, 0.67, unit="ms"),
    Case("filter + project", (("bids", "bids"),), {"dear": dear(DEAR)}, 1.0, sink="parquet"),
    Case("tumbling count 10 s", (("bids", "bids"),), {"counts": tumbling(10)}, 1.2),
    Case("hopping count 10 s / 2 s", (("bids", "bids"),), {"hops": hopping(10, 2)}, 5.0),
    Case("window join 10 s", (("bids", "left"), ("asks", "right")), {"pairs": joined(10)}, 10.0),
    Case("20 queries", (("bids", "few"),), mixed(), 10.0),
)
#: Micro-batches that do not count in a case about their time.
_SETTLING = 60
#: Nor these in a case about rates: the JVM is still compiling.
_WARM = 2


def main(quick: bool, only: str = "", keep: Callable[[dict[str, Any]], None] = lambda _: None) -> dict[str, Any]:
    """Measure all cases (those whose name contains `only`); `keep` gets the figures so far after each."""
    spark = session_for()
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    figures: dict[str, Any] = {
        "bench": "core",
        "title": "Headrace and plain Spark, " + ("quick" if quick else "full"),
        "cases": {},
        "rows": [],
        "notes": [],
    }
    with tempfile.TemporaryDirectory(prefix="bids-") as folder:
        for case in CASES:
            if only in case.name:
                prepared = {
                    name: _prepare(Path(folder) / case.name / name, source, quick) for name, source in case.streams
                }
                _report(case, *_measure(case, prepared), prepared, figures)
                keep(figures)
                shutil.rmtree(Path(folder) / case.name)
    return figures


@dataclass(frozen=True, slots=True)
class Data:
    """The same kind of bids twice: for one micro-batch of `files` files, and for several."""

    short: Bids
    long: Bids
    files: int


def _prepare(folder: Path, source: str, quick: bool) -> Data:
    seed = {"bids": 1, "few": 2, "left": 3, "right": 4, "drops": 5}[source]
    if source == "drops":
        long = write_bids(folder / "long", 120_000, per_file=1000, seed=seed, per_second=1000)
        return Data(write_bids(folder / "short", 5000, per_file=1000, seed=seed, per_second=1000), long, 1)
    part, files, batches = {
        "bids": (1_000_000, 4, 8),
        "few": (500_000, 1, 8),
        "left": (100_000, 1, 4),
        "right": (100_000, 1, 4),
    }[source]
    if quick:
        part, batches = part // 2 if source == "bids" else part, 3
    tail = files + 1  # two micro-batches of them
    short = write_bids(folder / "short", part * files, per_file=part, seed=seed, tail=tail)
    return Data(short, write_bids(folder / "long", part * files * batches, per_file=part, seed=seed, tail=tail), files)


def _measure(case: Case, prepared: Mapping[str, Data]) -> tuple[Outcome, Outcome]:
    """Measure Headrace and Spark, after a short warm-up run of both."""
    _run(case, prepared, "short")
    return _run(case, prepared, "long")


def _run(case: Case, prepared: Mapping[str, Data], length: Literal["short", "long"]) -> tuple[Outcome, Outcome]:
    streams = {name: data.short if length == "short" else data.long for name, data in prepared.items()}
    files = next(iter(prepared.values())).files
    gc.collect()
    mine = ours.run(
        [bids.stream(name) for name, bids in streams.items()],
        case.queries,
        limit=files * next(iter(streams.values())).per_file,
    )
    theirs = peers.run(streams, case.queries, sink=case.sink, files=files)
    check_equal(f"{case.name}, {length}", mine, theirs)
    return mine, theirs


def _report(case: Case, mine: Outcome, theirs: Outcome, prepared: Mapping[str, Data], figures: dict[str, Any]) -> None:
    part = sum(data.files * data.long.per_file for data in prepared.values())
    rows = sum(data.long.rows for data in prepared.values())
    skip = _SETTLING if case.unit == "ms" else _WARM
    ms, peer_ms = mine.median_ms(skip), theirs.median_ms(skip)
    figure, peer = (ms, peer_ms) if case.unit == "ms" else (1000 * part / ms, 1000 * part / peer_ms)
    ratio = peer_ms / ms
    measured = {"ours": figure, "peers": {"spark": peer}, "unit": case.unit, "ratio": ratio, "target": case.target}
    seconds = {"ours": mine.seconds, "spark": theirs.seconds}
    figures["cases"][case.name] = {
        **measured,
        "rows": rows,
        "seconds": seconds,
        "batch_ms": {"ours": mine.batch_ms, "spark": theirs.batch_ms},
    }
    figures["rows"].append({"case": case.name, **measured, "verdict": "met" if ratio >= case.target else "missed"})
    figures["notes"].append(
        f"{case.name}: micro-batches of {part:,} tuples, median {ms:.0f} ms and {peer_ms:.0f} ms ({case.sink} sink); "
        f"{rows:,} tuples with the start of the query: ours {mine.seconds:.1f} s, Spark {theirs.seconds:.1f} s"
    )
