"""Keys that are not equally frequent: how even is the work of the tasks, with a fixed hash and with parcels that move?

A join of two streams and a count behind it read files; keys are drawn by Zipf's law with exponents 0 to 1.2, and once
one key has 30 % of all tuples. With `balancing = 'auto'` parcels move while it runs, and the heavy one is split, since
there are eight tasks then: 30 % is more than the share of a task. Results of all runs are compared, also with those of
plain Spark. Five things have a target:

- evenness: the tuples of the join in the busiest task to the mean (no load of the machine changes it), after ten looks;
- throughput to the ideal, in which all tasks of a micro-batch take the mean of their times;
- the longest micro-batch while 16 MB of state move, to the median;
- what balancing costs if nothing is skewed: processor time of one process with it and without, in turns.

`--only move` measures the move alone, and with it what it costs each of both buckets in processor time and bytes.

Beside it, the work of a join whose buckets need different trees, with a plan for each bucket and with one for all. If
the bench is interrupted (SIGINT, SIGTERM), it returns what it has.
"""

from __future__ import annotations

import math
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import polars as pl
from benches.parts import local_plans, move_cost, peers
from benches.parts.bids import BASE_US
from benches.parts.chained import chained
from benches.parts.cut import until_cut
from benches.parts.query import Query

from headrace.commands.allotments import PARCELS_PER_BUCKET
from headrace.control.decisions import MoveParcels, SplitParcel
from headrace.control.policies import heavy_keys, rebalance
from headrace.control.policies.heavy_keys import HEAVY
from headrace.control.policies.rebalance import BUSY
from headrace.driver.moment import Moment
from headrace.errors import HostFault
from headrace.experiments.experiment import Panel, Series
from headrace.hosts.spark.starting.context import session_for
from headrace.operators.expressions.hashing import hash_columns
from headrace.session import Session

#: Tuples of the skewed stream in a file, and of the other one; a micro-batch reads a file of each.
SKEWED, OTHER, KEYS = 30_000, 5_000, 20_000
#: Seconds of event time in a file.
SPAN = 2
#: The limits: busiest task to mean, without and with one heavy key; cost without skew.
EVEN, EVEN_HEAVY, COST = 1.15, 1.3, 1.02
#: Throughput to that of even keys, and the longest micro-batch with a move to the median.
THROUGHPUT, LONGEST = 0.85, 1.5
#: The exponent with which plain Spark reads the same files; it takes longer than both runs of ours.
BESIDE_SPARK = 1.2
#: Tasks if one key is heavy; else as many as there are cores. On the local host as many buckets, whatever the keys.
TASKS = 8
#: Balancing looks once a second.
LOOKS = 10
Host = Literal["spark", "local"]
T = TypeVar("T")
#: A fixed hash, parcels that move, and parcels that are split, too: at once by a statement, or as the load demands.
#: The last moves much state at once.
Mode = Literal["off", "moves", "split", "auto", "large"]
#: Seconds of its window, so that a third of its state is about 16 MB.
LONG = 60
#: The micro-batches before it, and before it goes back in portions, as balancing would let it.
MOVED_AT, PORTIONS_AT, PORTIONS = 36, 42, 4


@dataclass(frozen=True, slots=True)
class Run:
    """What one run took; evenness is that of the micro-batches after ten looks, at least of the last third."""

    seconds: float
    cpu: float  # seconds of this process, which does everything on the local host
    busy: float  # seconds of all tasks of buckets
    over: Sequence[float]  # when each micro-batch was over, in seconds
    tasks: Sequence[tuple[float, float]]  # the mean time of its tasks, and the longest
    tuples: Sequence[float]  # the busiest task to the mean, by micro-batch, in tuples
    times: Sequence[float]  # the same in time
    milliseconds: Sequence[float]
    moves: int
    parcels: int
    bytes: int  # of the parcels that moved
    splits: int
    moved_ms: float  # the longest micro-batch in which parcels left a bucket, or arrived in one
    portion_ms: float  # the same for a move in portions
    pairs: int  # results of the join
    results: pl.DataFrame

    def settled(self, values: Sequence[T]) -> Sequence[T]:
        """Return the values of micro-batches after ten looks, or of the last third if these are too few."""
        late = [value for value, at in zip(values, self.over, strict=True) if at >= self.over[0] + LOOKS]
        return late if len(late) >= 5 else values[-len(values) // 3 :]

    def evenness(self, ratios: Sequence[float]) -> float:
        return statistics.median(self.settled(ratios))

    def throughput(self) -> float:
        """Return the time of the ideal, in which tasks of a micro-batch take equally long, to that which it took."""
        means, longest = zip(*self.settled(self.tasks), strict=True)
        return sum(means) / sum(longest)


def main(quick: bool, host: Host = "spark", only: str | None = None) -> dict[str, Any]:
    """Measure each distribution of keys with a fixed hash and with balancing; `only` the large move."""
    if only not in (None, "move"):
        raise HostFault(f"skew has no part {only!r}", hint="there is: move")
    figures: dict[str, Any] = {
        "bench": "skew",
        "title": "Skewed keys, " + ("quick" if quick else "full"),
        "cases": {},
        "rows": [],
        "notes": [],
        "panels": [],
    }
    with until_cut(figures), tempfile.TemporaryDirectory(prefix="skew-") as directory:
        folder = Path(directory)
        if only == "move":
            _measure_move_cost(folder / "cost of moves", figures, spans=(72,) if quick else (72, 92))
            if not quick:
                _measure_move(folder / "move", figures, host)
            return figures
        _measure_cost(folder / "cost", figures, files=8 if quick else 30, turns=2 if quick else 5)
        if quick:
            _measure("Zipf 1.2", 1.2, folder / "Zipf 1.2", figures, "local", files=30)
            _measure_heavy(folder / "heavy", figures, "local", files=30, quick=True)
            local_plans.measure(figures, quick=True)
        else:
            _measure_all(folder, figures, host)
    figures["notes"].append("load of the machine at the end: " + ", ".join(f"{mean:.1f}" for mean in os.getloadavg()))
    return figures


def _measure_all(folder: Path, figures: dict[str, Any], host: Host) -> None:
    """Measure what has a target first."""
    _measure("Zipf 1.2", 1.2, folder / "Zipf 1.2", figures, host, files=80)
    _measure_move(folder / "move", figures, host)
    _measure_heavy(folder / "heavy", figures, host, files=60, quick=False)
    if host == "spark":
        session_for().stop()
        _measure_spark("Zipf 1.2", folder, figures)
    for exponent in (0.0, 0.8, 1.0):
        _measure(f"Zipf {exponent:g}", exponent, folder / f"Zipf {exponent:g}", figures, host, files=80)
    local_plans.measure(figures, quick=False)
    _measure("Zipf 1.2", 1.2, folder / "local", figures, "local", files=120)


def _measure_cost(folder: Path, figures: dict[str, Any], files: int, turns: int) -> None:
    """Measure what balancing costs if keys are equally frequent, by processor time, in turns."""
    _write(folder / "in", 0.0, files)
    costs: dict[str, list[float]] = {"off": [], "auto": []}
    run(folder, "auto", "local", files * (SKEWED + OTHER))  # the first one imports and compiles
    for _ in range(turns):
        for mode, spent in costs.items():
            spent.append(run(folder, mode, "local", files * (SKEWED + OTHER)).cpu)  # type: ignore[arg-type]
    cost = sum(costs["auto"]) / sum(costs["off"])
    pairs = sorted(auto / off for off, auto in zip(costs["off"], costs["auto"], strict=True))
    figures["rows"].append({"case": f"Zipf 0: processor time of {turns} runs in turns", "ours": sum(costs["auto"]),
                            "peers": {"fixed hash": sum(costs["off"])}, "unit": "s", "ratio": 1 / cost,
                            "target": COST, "verdict": "met" if cost <= COST else "missed"})  # fmt: skip
    figures["notes"].append(
        f"cost where nothing is skewed: {cost - 1:+.1%}; pairs of runs from {pairs[0] - 1:+.1%} to {pairs[-1] - 1:+.1%}"
    )
    figures["cases"]["cost"] = costs


def _measure(name: str, exponent: float | None, folder: Path, figures: dict[str, Any], host: Host, files: int) -> None:
    _write(folder / "in", exponent, files)
    tuples = files * (SKEWED + OTHER)
    tasks = TASKS if host == "local" else None
    fixed = run(folder, "off", host, tuples, tasks=tasks)
    auto = run(folder, "auto", host, tuples, tasks=tasks)
    if not fixed.results.equals(auto.results):
        raise AssertionError(f"{name}: results differ")
    if tasks:
        name = f"{name}, {tasks} buckets"
    rows = [
        _evenness(name, auto, {"fixed hash": fixed}, EVEN_HEAVY if auto.splits else EVEN),
        _times(name, auto, {"fixed hash": fixed}),
        _duration(name, auto, {"fixed hash": fixed}),
    ]
    if exponent == BESIDE_SPARK and host == "spark":
        reached = auto.throughput()
        rows.append({"case": f"{name}: throughput to the ideal", "ours": reached,
                     "peers": {"fixed hash": fixed.throughput()}, "unit": "", "ratio": reached / fixed.throughput(),
                     "target": THROUGHPUT, "verdict": "met" if reached >= THROUGHPUT else "missed"})  # fmt: skip
    if auto.moves:
        median = statistics.median(auto.milliseconds)
        rows.append({"case": f"{name}: longest micro-batch with a move", "ours": auto.moved_ms,
                     "peers": {"median": median}, "unit": "ms", "ratio": auto.moved_ms / median, "target": LONGEST,
                     "verdict": "met" if auto.moved_ms <= LONGEST * median else "missed"})  # fmt: skip
    figures["rows"] += rows
    moved = f"{auto.moves} moves of {auto.parcels} parcels, {auto.splits} splits, {auto.bytes / 1e6:.1f} MB"
    figures["notes"].append(f"{name}: {moved}; {fixed.results.height} results")
    figures["cases"][name] = {"fixed": _plain(fixed), "auto": _plain(auto)}
    figures["panels"].append(
        Panel(
            title=name,
            x="micro-batch",
            y="busiest task to mean (tuples)",
            series=(Series("fixed hash", _line(fixed.tuples)), Series("balancing", _line(auto.tuples))),
        )
    )


def _evenness(name: str, ours: Run, others: Mapping[str, Run], limit: float) -> dict[str, Any]:
    even = ours.evenness(ours.tuples)
    beside = {label: other.evenness(other.tuples) for label, other in others.items()}
    return {
        "case": f"{name}: busiest task to mean, tuples",
        "ours": even,
        "peers": beside,
        "unit": "",
        "ratio": next(iter(beside.values())) / even,
        "target": limit,
        "verdict": "met" if even <= limit else "missed",
    }


def _times(name: str, ours: Run, others: Mapping[str, Run]) -> dict[str, Any]:
    even = ours.evenness(ours.times)
    beside = {label: other.evenness(other.times) for label, other in others.items()}
    ratio = next(iter(beside.values())) / even
    return {"case": f"{name}: busiest task to mean, time", "ours": even, "peers": beside, "unit": "", "ratio": ratio}


def _duration(name: str, ours: Run, others: Mapping[str, Run]) -> dict[str, Any]:
    beside = {label: other.seconds for label, other in others.items()}
    ratio = next(iter(beside.values())) / ours.seconds
    return {"case": f"{name}: time for all input", "ours": ours.seconds, "peers": beside, "unit": "s", "ratio": ratio}


def _measure_spark(name: str, folder: Path, figures: dict[str, Any]) -> None:
    """Join the files of a case with plain Spark, which does not count what it joins."""
    ours = figures["cases"][name]["auto"]
    seconds, pairs = plain(folder / name)
    if pairs != ours["pairs"]:
        raise AssertionError(f"{name}: plain Spark finds {pairs} pairs, we {ours['pairs']}")
    figures["rows"].append({"case": f"{name}: time for all input", "ours": ours["seconds"],
                            "peers": {"plain Spark, join alone": seconds}, "unit": "s",
                            "ratio": seconds / ours["seconds"]})  # fmt: skip


def _measure_move(folder: Path, figures: dict[str, Any], host: Host) -> None:
    """Measure the micro-batches in which 16 MB of state move."""
    files = 60
    _write(folder / "in", 0.0, files)
    large = run(folder, "large", host, files * (SKEWED + OTHER))
    median = statistics.median(large.milliseconds[MOVED_AT - 10 :])
    for case, longest in (("at once", large.moved_ms), (f"in {PORTIONS} portions", large.portion_ms)):
        figures["rows"].append({"case": f"longest micro-batch of a large move {case}", "ours": longest,
                                "peers": {"median": median}, "unit": "ms", "ratio": longest / median,
                                "target": LONGEST,
                                "verdict": "met" if longest <= LONGEST * median else "missed"})  # fmt: skip
    figures["notes"].append(f"large move: {large.bytes / 2e6:.1f} MB, and back")
    figures["cases"]["large move"] = _plain(large)


def _measure_move_cost(folder: Path, figures: dict[str, Any], spans: Sequence[int]) -> None:
    """Measure what moves of 12 and 17 MB cost both buckets in one process; a window of so many seconds has as much."""
    _write(folder / "in", 0.0, max(spans) // SPAN + 25)
    for span in spans:
        place = folder / str(span)
        script = _script(folder, place, span)
        move_cost.measure(
            figures, place / "checkpoint", script, limit=SKEWED, moved_at=span // SPAN + 6, portions=PORTIONS
        )


def _measure_heavy(folder: Path, figures: dict[str, Any], host: Host, files: int, *, quick: bool) -> None:
    """Measure one key with 30 % of the tuples: a fixed hash, moves alone, and a split of its parcel."""
    _write(folder / "in", None, files)
    if host == "spark":
        session_for().stop()  # the next one has more tasks
    name, tuples = f"one key 30 %, {TASKS} tasks", files * (SKEWED + OTHER)
    modes: Sequence[Mode] = ("off", "split") if quick else ("off", "auto")
    runs = {mode: run(folder, mode, host, tuples, tasks=TASKS) for mode in modes}
    fixed, split = runs["off"], runs[modes[-1]]
    if not fixed.results.equals(split.results):
        raise AssertionError(f"{name}: results differ")
    others = {LABELS[mode]: runs[mode] for mode in modes[:-1]}
    figures["rows"] += [
        _evenness(name, split, others, EVEN_HEAVY),
        _times(name, split, others),
        {
            "case": f"{name}: work of buckets",
            "ours": split.busy,
            "peers": {label: other.busy for label, other in others.items()},
            "unit": "s",
            "ratio": fixed.busy / split.busy,
        },
        _duration(name, split, others),
    ]
    figures["notes"].append(f"{name}: {split.splits} splits, {split.moves} moves; {fixed.results.height} results")
    figures["cases"][name] = {mode: _plain(other) for mode, other in runs.items()}
    series = tuple(Series(LABELS[mode], _line(other.tuples)) for mode, other in runs.items())
    figures["panels"].append(Panel(title=name, x="micro-batch", y="busiest task to mean (tuples)", series=series))


LABELS: Mapping[Mode, str] = {
    "off": "fixed hash",
    "moves": "moves alone",
    "split": "split",
    "auto": "balancing",
    "large": "one large move",
}


def run(folder: Path, mode: Mode, host: Host, tuples: int, tasks: int | None = None) -> Run:
    """Read all files, which have so many tuples, with a fixed hash or with balancing."""
    shutil.rmtree(place := folder / mode, ignore_errors=True)
    moments: list[tuple[float, list[tuple[int, int]], int]] = []
    over: list[float] = []
    pairs: list[int] = []
    buckets = tasks or (4 if host == "local" else None)
    master = f"local[{tasks}]" if tasks and host == "spark" else None
    heavy_keys.HEAVY = math.inf if mode == "moves" else HEAVY
    # buckets of the local host share one processor, so that each has a part of its time at most
    for policy in (rebalance, heavy_keys):
        vars(policy)["BUSY"] = BUSY / buckets if host == "local" and buckets else BUSY
    with Session(place / "checkpoint", host=host, limit=SKEWED, buckets=buckets, master=master) as session:

        def watch(moment: Moment) -> None:
            reports = session.deployment.delivery.reports
            work = [
                (
                    sum(counts.tuples_in for name, counts in report.vertices.items() if name.startswith("join-")),
                    report.busy_ns,
                )
                for report in reports
            ]
            sent = sum(file.bytes for report in reports for file in report.moved)
            moments.append((moment.statistics.batch_ms or 0.0, work, sent))
            over.append(time.monotonic())
            joins = (counts for report in reports for name, counts in report.vertices.items() if "join-" in name[:5])
            pairs.append(sum(counts.tuples_out for counts in joins))

        session.deployment.delivery.watchers.append(watch)
        session.execute(_script(folder, place, LONG if mode == "large" else 30))
        session.execute(f"ALTER SYSTEM SET balancing = '{'auto' if mode in ('auto', 'moves') else 'off'}'")
        began, spent = time.monotonic(), time.process_time()
        if mode == "split":
            session.execute(f"MOVE PARCELS {_parcel(_heaviest(folder), buckets or 2)} OF counts TO ALL BUCKETS")
        # a deployment that drains is not balanced, so all is read before
        statements = _large_moves(session) if mode == "large" else {}
        while sum(count for _, work, _ in moments for count, _ in work) < tuples and time.monotonic() < began + 1200:
            for due in [number for number in statements if number <= len(moments)]:
                session.execute(statements.pop(due))
            session.wait(0.05)
        seconds, spent = time.monotonic() - began, time.process_time() - spent
        session.drain(timeout=1200)
        decisions = [each.decision for each in session.deployment.control.decisions.all()]
    moves = [decision for decision in decisions if isinstance(decision, MoveParcels)]
    splits = sum(isinstance(decision, SplitParcel) for decision in decisions) + (mode == "split")
    is_full = [sum(tuples for tuples, _ in work) > SKEWED // 2 for _, work, _ in moments]
    full = [each for each, has_tuples in zip(moments, is_full, strict=True) if has_tuples]
    parts = sorted((place / "out").glob("[!.]*.parquet"))
    results = pl.concat(pl.read_parquet(part) for part in parts)
    return Run(
        seconds,
        spent,
        sum(busy for _, work, _ in moments for _, busy in work) / 1e9,
        [at for at, has_tuples in zip(over, is_full, strict=True) if has_tuples],
        [(statistics.mean(busy for _, busy in work), max(busy for _, busy in work)) for _, work, _ in full],
        [_ratio([tuples for tuples, _ in work]) for _, work, _ in full],
        [_ratio([busy for _, busy in work]) for _, work, _ in full],
        [ms for ms, _, _ in full],
        len(moves),
        sum(move.parcels for move in moves),
        sum(sent for _, _, sent in moments),
        splits,
        _longest(moments[:PORTIONS_AT]) if mode == "large" else _longest(moments),
        _longest(moments[PORTIONS_AT:]) if mode == "large" else 0.0,
        sum(pairs),
        results.sort(results.columns),
    )


def _longest(moments: Sequence[tuple[float, list[tuple[int, int]], int]]) -> float:
    """Return the milliseconds of the longest micro-batch in which parcels left a bucket, or arrived in one."""
    pairs = (moments[at : at + 2] for at, (*_, sent) in enumerate(moments) if sent)
    return max((ms for pair in pairs for ms, *_ in pair), default=0.0)


def _large_moves(session: Session) -> dict[int, str]:
    """Return statements, by when they are due: two thirds of a bucket's state go to the first, and back in portions."""
    while not session.deployment.buckets:
        session.wait(0.05)
    first, second = session.deployment.buckets[:2]
    count = len(session.deployment.buckets)
    parcels = list(range(1, PARCELS_PER_BUCKET * count, count))
    part = parcels[: len(parcels) * 2 // 3]
    moves = {MOVED_AT: (part, first)}
    moves |= {PORTIONS_AT + 2 * number: (part[number::PORTIONS], second) for number in range(PORTIONS)}
    return {
        due: f"MOVE PARCELS {', '.join(map(str, some))} OF counts TO BUCKET {bucket}"
        for due, (some, bucket) in moves.items()
    }


def plain(folder: Path) -> tuple[float, int]:
    """Join the same files with plain Spark; return the seconds, and the number of results."""
    with tempfile.TemporaryDirectory(prefix="spark-skew-") as checkpoint:
        spark = session_for()
        sources = {
            name: spark.readStream.schema("at timestamp, k bigint, v bigint")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(folder / "in" / name))
            for name in "ab"
        }
        query = Query("", lambda *frames: frames[0], "k", {"pairs": "1"})
        frame = peers.observed(chained(sources, "INTERVAL 30 SECONDS"), query)
        began = time.monotonic()
        writer = frame.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        running = writer.format("noop").start()
        running.awaitTermination()
        seconds = time.monotonic() - began
        count = int(peers.observed_sums(running.recentProgress, query)["pairs"])
        spark.stop()
    return seconds, count


def _heaviest(folder: Path) -> int:
    """Return the most frequent key of the skewed stream."""
    first = pl.read_parquet(folder / "in" / "a" / "00000.parquet")
    return int(first["k"].mode().first())  # type: ignore[arg-type]


def _parcel(key: int, buckets: int) -> int:
    """Return the parcel of a key."""
    return int(hash_columns([pl.Series([key], dtype=pl.Int64)])[0] % np.uint64(PARCELS_PER_BUCKET * buckets))


def _ratio(work: Sequence[int]) -> float:
    return max(work) * len(work) / max(1, sum(work))


def _plain(run: Run) -> dict[str, Any]:
    return {name: getattr(run, name) for name in Run.__slots__ if name != "results"}


def _line(ratios: Sequence[float]) -> tuple[tuple[float, float], ...]:
    return tuple((float(number), ratio) for number, ratio in enumerate(ratios))


def _script(folder: Path, place: Path, window: int) -> str:
    streams = [
        f"CREATE STREAM {name} (at TIMESTAMP, k BIGINT, v BIGINT) TIMESTAMP BY at "
        f"FROM FILES (path '{folder}/in/{name}', format 'parquet')"
        for name in "ab"
    ]
    joined = f"a [RANGE {window} SECONDS] JOIN b [RANGE {window} SECONDS] ON a.k = b.k"
    view = f"CREATE VIEW met AS SELECT a.k AS k, a.v AS v, b.v AS w FROM {joined}"
    query = (
        "CREATE QUERY counts AS SELECT k, count(*) AS n, sum(v) AS v, sum(w) AS w, window_end FROM met "
        f"[RANGE 20 SECONDS] GROUP BY k HAVING count(*) > 20 INTO FILES (path '{place}/out')"
    )
    return ";\n".join([*streams, view, query])


def _write(folder: Path, exponent: float | None, files: int) -> None:
    chance = np.random.default_rng(11)
    shares = np.arange(1, KEYS + 1, dtype=np.float64) ** -(exponent or 0.0)
    if exponent is None:
        shares[0] = 3 / 7 * shares[1:].sum()
    keys = chance.permutation(KEYS)
    for name, count, skewed in (("a", SKEWED, True), ("b", OTHER, False)):
        (folder / name).mkdir(parents=True)
        for number in range(files):
            drawn = chance.choice(KEYS, count, p=shares / shares.sum()) if skewed else chance.integers(0, KEYS, count)
            at = BASE_US + number * SPAN * 1_000_000 + np.sort(chance.integers(0, SPAN * 1_000_000, count))
            frame = pl.DataFrame(
                {
                    "at": pl.Series(at).cast(pl.Datetime("us", "UTC")),
                    "k": keys[drawn],
                    "v": chance.integers(0, 1000, count),
                }
            )
            path = folder / name / f"{number:05d}.parquet"
            frame.write_parquet(path)
            os.utime(path, (1_750_000_000 + number, 1_750_000_000 + number))


if __name__ == "__main__":
    figures = main(quick=True)
    for row in figures["rows"]:
        print(row)
    print(figures["notes"])
