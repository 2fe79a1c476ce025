"""Schedulers under the same budget and the same bursts: memory and latency of each beside those of `none`.

`headrace.experiments.qos.budgeted_runs` says what runs. Every run must give the same results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from benches.parts.outcome import Disagreement

from headrace.cli.output import err
from headrace.engine.scheduling.schedulers import NONE, SCHEDULERS
from headrace.experiments.qos.budgeted_runs import BUCKETS, PRIORITIES, SELECTS, WARM, Run, budget_of, run
from headrace.experiments.qos.sliced_bursts import Bursts

#: Slices that count, if quick and in full.
QUICK, FULL = 9, 24
#: Differences below this share are not counted.
NOISE = 0.02
#: What each scheduler is designed for: a measure of which it should have less than `none`.
CLAIMS: Mapping[str, tuple[str, str]] = {
    "fifo": ("longest", "batches"),
    "weighted-round-robin": ("urgent", "batches"),
    "path-capacity": ("mean_tuples", "tuples"),
    "path-capacity-output": ("latency", "batches"),
    "chain": ("mean_bytes", "bytes"),
    "segment": ("mean_bytes", "bytes"),
    "memory-optimal": ("mean_bytes", "bytes"),
    "simplified": ("mean_bytes", "bytes"),
    "threshold": ("mean_bytes", "bytes"),
    "edf": ("overdue", "promises"),
}
#: Means over micro-batches or results; bytes and tuples are those in queues, `urgent` is the highest priority.
MEASURES = {
    "mean_bytes": "bytes",
    "mean_tuples": "tuples",
    "latency": "latency",
    "urgent": "urgent latency",
    "longest": "longest latency",
    "overdue": "beyond promise",
}
#: Published orders (QoS book, figures 6.8 to 6.15): the first has less than the second.
ORDERS = (
    ("latency", "path-capacity", "simplified"),
    ("latency", "simplified", "memory-optimal"),
    ("latency", "memory-optimal", "chain"),
    ("latency", "path-capacity", "chain"),
    ("mean_bytes", "memory-optimal", "chain"),
    ("mean_bytes", "chain", "segment"),
    ("mean_bytes", "segment", "simplified"),
    ("mean_bytes", "simplified", "path-capacity"),
    ("mean_bytes", "memory-optimal", "path-capacity"),
)


def main(quick: bool) -> dict[str, Any]:
    """Run each scheduler on Spark, after a run without a budget that says how much work there is."""
    return compare(Bursts.of(WARM, QUICK if quick else FULL), "spark")


def compare(bursts: Bursts, host: Literal["spark", "local"]) -> dict[str, Any]:
    """Run all schedulers over the same bursts."""
    free = run(NONE, "off", bursts, host)
    budget = budget_of(free, bursts)
    runs: dict[str, Run] = {}
    for name in (NONE, *SCHEDULERS):
        text = f"threshold {_threshold(runs)} B" if name == "threshold" else name
        runs[name] = run(text, budget, bursts, host, free.costs)
        err.print(_note(name, runs[name]), style="dim", markup=False, highlight=False)
        if runs[name].results != free.results:
            raise Disagreement(f"scheduler {name} gives other results than a run without a budget")
    return report(runs, free, budget)


def _threshold(runs: Mapping[str, Run]) -> int:
    """Return the memory limit of a bucket: half of what path capacity needs at most."""
    return round(runs["path-capacity"].peak_bytes / BUCKETS / 2)


def report(runs: Mapping[str, Run], free: Run, budget: str) -> dict[str, Any]:
    """Return the figures: each scheduler beside `none` in what it is for, and the published orders."""
    none = runs[NONE]
    rows = []
    for name, (measure, unit) in CLAIMS.items():
        ours, base = getattr(runs[name], measure), getattr(none, measure)
        rows.append(_row(f"{name}: {MEASURES[measure]}", ours, "none", base, unit))
    for measure, less, more in ORDERS:
        ours, other = getattr(runs[less], measure), getattr(runs[more], measure)
        unit = "bytes" if measure == "mean_bytes" else "batches"
        rows.append(_row(f"{less} <= {more}: {MEASURES[measure]}", ours, "other", other, unit))
    notes = [
        f"budget {budget} per bucket and micro-batch, {BUCKETS} buckets; queues after each micro-batch, latency in "
        "micro-batches after the one that reads the tuples",
        f"without a budget: {free.batches} micro-batches of {free.batch_seconds:.2f} s, at most "
        f"{free.peak_bytes / 1e6:.2f} MB between operators, nothing waits for the next micro-batch",
    ]
    notes += [_note(name, run_) for name, run_ in runs.items()]
    cases = {name: _figures(run_) for name, run_ in runs.items()}
    return {
        "bench": "schedulers",
        "title": "Schedulers under one budget, beside none",
        "cases": cases,
        "rows": rows,
        "notes": notes,
    }


def _row(case: str, ours: float, peer: str, base: float, unit: str) -> dict[str, Any]:
    ratio = ours / base if base else (1.0 if not ours else float("inf"))
    verdict = "met" if ratio <= 1.0 + NOISE else "missed"
    return {"case": case, "ours": ours, "peers": {peer: base}, "unit": unit, "ratio": ratio, "verdict": verdict}


def _figures(run_: Run) -> dict[str, Any]:
    return {
        "batches": run_.batches,
        "batch_seconds": run_.batch_seconds,
        "peak_bytes": run_.peak_bytes,
        **{measure: getattr(run_, measure) for measure in MEASURES},
        "latencies": {query: {"mean": run_.mean_delay(query), "p99": run_.p99(query)} for query in SELECTS},
    }


def _note(name: str, run_: Run) -> str:
    latencies = ", ".join(
        f"{query} ({PRIORITIES[query]}) {run_.mean_delay(query):.1f}/{run_.p99(query):.0f}" for query in SELECTS
    )
    return (
        f"{name}: {run_.mean_bytes / 1e6:.2f} MB and {run_.mean_tuples:,.0f} tuples wait on average, peak "
        f"{run_.peak_bytes / 1e6:.2f} MB; latency mean/p99 by query (priority) {latencies}; all done after "
        f"{run_.batches} micro-batches of {run_.batch_seconds:.2f} s"
    )
