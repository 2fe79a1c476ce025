"""The benchmark of schedulers: input that repeats, results that agree, and verdicts that can come out bad."""

import importlib
import sys
from pathlib import Path

import pytest

from headrace.experiments.qos import sliced_bursts

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def bench(monkeypatch):
    """Import the benchmark as `headrace bench` does, with a hundredth of its input."""
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    monkeypatch.setattr(sliced_bursts, "TUPLES", {name: count // 100 for name, count in sliced_bursts.TUPLES.items()})
    monkeypatch.setattr(sliced_bursts, "ZONES", 2)
    return importlib.import_module("benches.schedulers")


def test_a_slice_is_the_same_each_time_and_pairs_have_the_same_ids(bench):
    first, second = sliced_bursts.slice_of(3, 1.5), sliced_bursts.slice_of(3, 1.5)
    assert all(first[name].equals(second[name]) for name in sliced_bursts.COLUMNS)
    assert sorted(first["orders"]["id"]) == sorted(first["payments"]["id"])
    assert first["orders"]["at"].is_sorted()


def test_a_run_notes_queues_and_delays_and_gives_the_results_of_any_other(bench):
    bursts = bench.Bursts.of(bench.WARM, 3)
    free = bench.run("none", "off", bursts, "local")
    tight = bench.run("chain", "20 ms", bursts, "local", free.costs)
    assert tight.costs == free.costs
    assert tight.results == free.results
    assert all(free.results[query] for query in bench.SELECTS)
    assert free.mean_bytes == 0
    assert free.longest <= 1  # DISTINCT may keep the last tuple for the next bound
    assert tight.batches >= free.batches == 3


def run_of(bench, size: int, delay: int):
    return bench.Run({0: size}, {0: size}, size, {query: [delay] for query in bench.SELECTS}, seconds=10.0)


def test_a_scheduler_that_is_worse_than_none_misses_and_the_verdict_says_so(bench):
    runs = {name: run_of(bench, 100, 10) for name in ("none", *bench.SCHEDULERS)}
    runs["chain"], runs["edf"] = run_of(bench, 200, 10), run_of(bench, 100, 2)
    rows = {row["case"]: row["verdict"] for row in bench.report(runs, run_of(bench, 0, 0), "9 ms")["rows"]}
    assert rows["chain: bytes"] == "missed"
    assert rows["memory-optimal <= chain: bytes"] == "met"
    assert rows["edf: beyond promise"] == "met"
    assert bench.CLAIMS.keys() < bench.SCHEDULERS.keys()
