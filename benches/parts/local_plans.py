"""The work of a join of three streams whose buckets have different kinds of keys: a tree for each, or one for all.

In each of three buckets another stream is rare, so that every join of two streams is the wrong beginning in one of
them. Parcels with keys of one kind lie in one bucket.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from benches.parts.bids import BASE_US

from headrace.commands.allotments import PARCELS_PER_BUCKET
from headrace.driver.moment import Moment
from headrace.operators.expressions.hashing import hash_columns
from headrace.operators.multijoin.seen import merged_boxes
from headrace.session import Session

Keys: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]
BUCKETS, KEYS = 3, 20
#: Tuples of a key in a file (two seconds) of a frequent stream, and the share of files in which a rare one has the key.
OFTEN, SELDOM = 30, 0.05
#: The trees of which each is wrong in one bucket, and the one that stores no joined rows.
TREES = ("((x y) z)", "((x z) y)", "((y z) x)", "(x y z)")
#: The tree of each bucket, whose rare stream is the first, second, third.
LOCAL = ("((x y) z)", "((y z) x)", "((x z) y)")
TARGET = 1.0


def measure(figures: dict[str, Any], *, quick: bool) -> None:
    """Compare the work of the join, as rows that search and are found, and add a row."""
    with tempfile.TemporaryDirectory(prefix="local-plans-") as directory:
        folder = Path(directory)
        _write(folder / "in", files=8 if quick else 30)
        plans: dict[str, str | tuple[str, ...]] = {"a tree for each bucket": LOCAL, **{tree: tree for tree in TREES}}
        runs = {name: _run(folder / f"run {number}", folder / "in", plan)
                for number, (name, plan) in enumerate(plans.items())}  # fmt: skip
    if len({count for _, count in runs.values()}) > 1:
        raise AssertionError(f"results differ: {runs}")
    work = {name: rows for name, (rows, _) in runs.items()}
    ours = work.pop("a tree for each bucket")
    ratio = min(work.values()) / ours
    figures["rows"].append({"case": "buckets with different keys: work of the join", "ours": ours, "peers": work,
                            "unit": "rows", "ratio": ratio, "target": TARGET,
                            "verdict": "met" if ratio >= TARGET else "missed"})  # fmt: skip
    figures["cases"]["local plans"] = {"ours": ours, "peers": work}


def _run(checkpoint: Path, data: Path, plan: str | tuple[str, ...]) -> tuple[int, int]:
    """Return how many rows searched a state or were found in one, and the number of results."""
    work: list[int] = []
    results: list[int] = []
    with Session(checkpoint, host="local", buckets=BUCKETS, limit=10**6) as session:

        def watch(moment: Moment) -> None:
            boxes = merged_boxes(report.boxes for report in session.deployment.delivery.reports).values()
            steps = [step for box in boxes for step in box.steps.values()]
            work.append(sum(step.searched + step.matched for step in steps))
            results.append(sum(box.out for box in boxes))

        session.deployment.delivery.watchers.append(watch)
        session.execute("ALTER SYSTEM SET optimizer = 'off'")
        session.execute(_script(data, checkpoint / "out"))
        for number, bucket in enumerate(session.deployment.buckets):
            tree, where = (plan, "") if isinstance(plan, str) else (plan[number], f" IN BUCKET {bucket}")
            session.execute(f"ALTER QUERY met SET plan = '{tree}'{where}")
        session.drain(timeout=600)
    return sum(work), sum(results)


def _script(data: Path, out: Path) -> str:
    streams = (
        f"CREATE STREAM {name} (at TIMESTAMP, k BIGINT, v BIGINT) TIMESTAMP BY at "
        f"FROM FILES (path '{data}/{name}', format 'parquet')"
        for name in "abc"
    )
    joined = "a [RANGE 6 SECONDS] AS x JOIN b [RANGE 6 SECONDS] AS y ON x.k = y.k JOIN c [RANGE 6 SECONDS] AS z"
    select = f"SELECT x.k, x.v AS a, y.v AS b, z.v AS c FROM {joined} ON y.k = z.k"
    return ";\n".join((*streams, f"CREATE QUERY met AS {select} INTO FILES (path '{out}')"))


def _kinds() -> Mapping[int, Keys]:
    """Return keys by the bucket to which their parcel belongs at first."""
    keys = pl.Series(range(100 * KEYS), dtype=pl.Int64)
    parcels = (hash_columns([keys]) % np.uint64(PARCELS_PER_BUCKET * BUCKETS)).astype(np.int64)
    return {kind: keys.to_numpy()[parcels % BUCKETS == kind][:KEYS] for kind in range(BUCKETS)}


def _write(folder: Path, files: int) -> None:
    chance, kinds = np.random.default_rng(5), _kinds()
    for port, name in enumerate("abc"):
        (folder / name).mkdir(parents=True)
        for number in range(files):
            parts = [keys[chance.random(KEYS) < SELDOM] if kind == port else np.repeat(keys, OFTEN)
                     for kind, keys in kinds.items()]  # fmt: skip
            drawn = np.concatenate(parts)
            at = BASE_US + number * 2_000_000 + np.sort(chance.integers(0, 2_000_000, len(drawn)))
            stamps = pl.Series(at).cast(pl.Datetime("us", "UTC"))
            frame = {"at": stamps, "k": chance.permutation(drawn), "v": chance.integers(0, 1000, len(drawn))}
            pl.DataFrame(frame).write_parquet(folder / name / f"{number:05d}.parquet")
