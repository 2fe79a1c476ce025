"""Headrace against plain Spark Structured Streaming: same data, same session, same settings, one run.

Every time includes the start of the streaming query. Both read one file of `per_file` rows of each stream in a micro-batch. Headrace writes its
results to Parquet files; so does Spark in the first case, elsewhere Spark's results go to its noop sink, which is kinder to it. Both must give the
same results.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benches.parts import ours, peers
from benches.parts.bids import DEAR, Bids, write_bids
from benches.parts.outcome import Outcome, check_equal
from benches.parts.query import Query, dear, hopping, joined, tumbling

from headrace.hosts.spark.host import spark_session


@dataclass(frozen=True, slots=True)
class Case:
    """Queries over some of the prepared streams, and the ratio that we want."""

    name: str
    streams: tuple[tuple[str, str], ...]  # (name in the query, name of the prepared bids)
    queries: Mapping[str, Query]
    target: float
    sink: Literal["parquet", "noop"] = "noop"
    unit: Literal["tuples/s", "ms"] = "tuples/s"


def mixed() -> dict[str, Query]:
    """Twenty different queries on one stream."""
    filters = [dear(DEAR + 30 * i) for i in range(7)]
    counts = [tumbling(seconds, above) for seconds, above in ((5, 0.0), (10, 0.0), (15, 0.0), (20, 0.0), (10, 50.0), (10, 100.0), (20, 100.0))]
    hops = [
        hopping(size, slide, above) for size, slide, above in ((10, 2, 0.0), (10, 5, 0.0), (20, 5, 0.0), (20, 10, 0.0), (10, 2, 100.0), (20, 4, 50.0))
    ]
    return {f"q{i}": query for i, query in enumerate([*filters, *counts, *hops])}


CASES = (
    Case("filter + project", (("bids", "bids"),), {"dear": dear(DEAR)}, 1.0, sink="parquet"),
    Case("tumbling count 10 s", (("bids", "bids"),), {"counts": tumbling(10)}, 1.2),
    Case("hopping count 10 s / 2 s", (("bids", "bids"),), {"hops": hopping(10, 2)}, 5.0),
    Case("window join 10 s", (("bids", "left"), ("asks", "right")), {"pairs": joined(10)}, 10.0),
    Case("20 queries", (("bids", "few"),), mixed(), 10.0),
    Case("micro-batch of 1000", (("bids", "drops"),), {"counts": tumbling(10)}, 0.67, unit="ms"),
)
#: Micro-batches that do not count in a case about their time.
_SETTLING = 8


def main(quick: bool, only: str = "") -> dict[str, Any]:
    """Measure all cases (those whose name contains `only`)."""
    spark = spark_session()
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    figures: dict[str, Any] = {
        "bench": "core",
        "title": "Headrace and plain Spark, " + ("quick" if quick else "full"),
        "cases": {},
        "rows": [],
        "notes": [],
    }
    with tempfile.TemporaryDirectory(prefix="bids-") as folder:
        small = _prepare(Path(folder) / "small", 1 / 100)
        large = _prepare(Path(folder) / "large", 1 / 5 if quick else 1.0)
        for case in CASES:
            if only in case.name:
                _measure(case, small, warm_up=True)
                _report(case, *_measure(case, large, warm_up=False), large, figures)
    return figures


def _prepare(folder: Path, scale: float) -> dict[str, Bids]:
    rows, part = round(10_000_000 * scale), round(1_000_000 * min(1.0, 10 * scale))
    pairs = round(1_000_000 * scale)
    return {
        "bids": write_bids(folder / "bids", rows, per_file=part, seed=1),
        "few": write_bids(folder / "few", max(part, rows // 4), per_file=part, seed=2),
        "left": write_bids(folder / "left", pairs, per_file=min(pairs, 250_000), seed=3),
        "right": write_bids(folder / "right", pairs, per_file=min(pairs, 250_000), seed=4),
        "drops": write_bids(folder / "drops", 48_000 if scale >= 0.1 else 5000, per_file=1000, seed=5, per_second=1000),
    }


def _measure(case: Case, prepared: Mapping[str, Bids], *, warm_up: bool) -> tuple[Outcome, Outcome]:
    streams = {name: prepared[source] for name, source in case.streams}
    limit = next(iter(streams.values())).per_file
    gc.collect()
    mine = ours.run([bids.stream(name) for name, bids in streams.items()], case.queries, limit=limit)
    theirs = peers.run(streams, case.queries, sink=case.sink)
    check_equal(f"{case.name}{' (warm-up)' if warm_up else ''}", mine, theirs)
    return mine, theirs


def _report(case: Case, mine: Outcome, theirs: Outcome, prepared: Mapping[str, Bids], figures: dict[str, Any]) -> None:
    streams = [prepared[source] for _, source in case.streams]
    rows, part = sum(bids.rows for bids in streams), sum(bids.per_file for bids in streams)
    if case.unit == "ms":
        figure, peer = mine.median_ms(_SETTLING), theirs.median_ms(_SETTLING)
        ratio = peer / figure
    else:
        figure, peer = rows / mine.seconds, rows / theirs.seconds
        ratio = figure / peer
    # after the first micro-batch, which has the start in it; with many queries the micro-batches of one say little
    alone = len(case.queries) == 1
    steady = {"ours": 1000 * part / mine.median_ms(1), "spark": 1000 * part / theirs.median_ms(1)} if alone else None
    measured = {"ours": figure, "peers": {"spark": peer}, "unit": case.unit, "ratio": ratio, "target": case.target}
    seconds = {"ours": mine.seconds, "spark": theirs.seconds}
    figures["cases"][case.name] = {**measured, "rows": rows, "seconds": seconds, "steady": steady, "batch_ms": list(mine.batch_ms)}
    figures["rows"].append({"case": case.name, **measured, "verdict": "met" if ratio >= case.target else "missed"})
    told = f"; steady {steady['ours']:,.0f} and {steady['spark']:,.0f} tuples/s" if steady else ""
    times = f"ours {mine.seconds:.1f} s, Spark {theirs.seconds:.1f} s ({case.sink} sink)"
    figures["notes"].append(f"{case.name}: {rows:,} tuples, {times}{told}")
