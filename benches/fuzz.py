"""Fuzzing: random statements, damaged bytes and random queries that run: does anything but an error of ours come out?

`python -m benches.fuzz --count 100000 --seed 0` tries as many as wanted, on all cores, and prints what is wrong with
the seeds that repeat it. `python -m benches.fuzz --spark --count 60` runs queries in one deployment on Spark, and
compares them with the local host.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from headrace.testing import byte_fuzz, fuzz, run_fuzz

#: Seeds that a process tries at once.
_PORTION = 500
#: Queries that run in one deployment.
_TOGETHER = 25
_GOLDEN = Path(__file__).parents[1] / "tests" / "golden"


def main(quick: bool = False) -> dict[str, Any]:
    """Try 20,000 texts, as many damaged files and as many queries (500 of each if quick)."""
    count = 500 if quick else 20_000
    rows, notes = [], []
    for case, try_ in KINDS.items():
        tried, seconds, wrong = campaign(try_, count, 0)
        rows.append({"case": case, "ours": tried / seconds, "unit": "1/s", "verdict": "missed" if wrong else "met"})
        notes += wrong
    return {"bench": "fuzz", "title": "Random statements and damaged bytes", "rows": rows, "notes": notes}


def campaign(
    try_: Callable[[int, int], list[str]], count: int, seed: int, *, processes: int | None = None
) -> tuple[int, float, list[str]]:
    """Try `count` seeds; return how many, the seconds, and what is wrong."""
    began, wrong = time.monotonic(), list[str]()
    portions = [(first, min(_PORTION, seed + count - first)) for first in range(seed, seed + count, _PORTION)]
    # a fork of a process with threads of its libraries may wait for ever
    with ProcessPoolExecutor(processes or os.cpu_count(), mp_context=get_context("spawn")) as pool:
        tries = [(portion, pool.submit(try_, *portion)) for portion in portions]
        for number, ((first, size), tried) in enumerate(tries, 1):
            try:
                wrong += tried.result()
            except BrokenProcessPool:
                wrong.append(f"a process died: seeds {first} to {first + size}, or others that ran at the same time")
                break
            print(f"\r{number * _PORTION:,} tried, {len(wrong)} wrong", end="", file=sys.stderr)
    print(file=sys.stderr)
    return count, time.monotonic() - began, wrong


def try_statements(first: int, count: int) -> list[str]:
    """Let a session check random texts."""
    definitions, statements = fuzz.corpus(_GOLDEN)
    with fuzz.prepare(definitions) as session:
        wrong = fuzz.failures(session, statements, range(first, first + count))
    return [f"statement, seed {seed}: {reason}\n  {text}" for seed, text, reason in wrong]


def try_bytes(first: int, count: int) -> list[str]:
    """Read damaged bytes of all kinds, one after the other."""
    with tempfile.TemporaryDirectory(prefix="headrace-fuzz-") as folder:
        targets = byte_fuzz.targets(Path(folder))
        tried = (byte_fuzz.check(targets[seed % len(targets)], seed) for seed in range(first, first + count))
        return [f"{wrong.target}, seed {wrong.seed}: {wrong.reason}" for wrong in tried if wrong is not None]


def try_runs(first: int, count: int) -> list[str]:
    """Run random queries, events and rules that are accepted, a few dozen in one deployment."""
    wrong = list[str]()
    for begin in range(first, first + count, _TOGETHER):
        outcome = run_fuzz.check(range(begin, min(begin + _TOGETHER, first + count)))
        wrong += [f"run, seed {error.seed}: {error.reason}\n  {error.text}" for error in outcome.wrong]
    return wrong


KINDS = {"statements": try_statements, "bytes": try_bytes, "runs": try_runs}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS, default=None)
    parser.add_argument("--processes", type=int, default=None)
    parser.add_argument("--spark", action="store_true", help="run COUNT random queries in one deployment on Spark")
    chosen = parser.parse_args()
    if chosen.spark:
        outcome = run_fuzz.check_on_spark(range(chosen.seed, chosen.seed + chosen.count))
        print(f"on Spark: {outcome.accepted} accepted, {outcome.refused} refused, {len(outcome.wrong)} wrong")
        print(*outcome.wrong, sep="\n")
        sys.exit(int(bool(outcome.wrong)))
    failed = False
    for name, try_ in KINDS.items():
        if chosen.kind in (None, name):
            tried, seconds, wrong = campaign(try_, chosen.count, chosen.seed, processes=chosen.processes)
            print(f"{name}: {tried:,} in {seconds:.0f} s, {len(wrong)} wrong", *wrong[:50], sep="\n")
            failed |= bool(wrong)
    sys.exit(int(failed))
