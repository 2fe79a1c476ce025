"""Simulated crashes of a deployment: how many a second, and whether any changes a result.

`python -m benches.crashes --count 1000000 --seed 0` tries as many as wanted, on all cores; a violation is shrunk to a
short history, and printed with the command that repeats it. Many crashes of one history leave the same disk; they are
counted, and run once. `--every-step` tries all steps of each history instead of some.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from headrace.testing.deployment.campaign import Outcome, shrink, try_seed


def main(quick: bool = False) -> dict[str, Any]:
    """Try 10,000 crashes (2,000 if quick) of random histories."""
    outcome = campaign(2_000 if quick else 10_000, seed=0)
    return {
        "bench": "crashes",
        "title": "Simulated crashes: kills, power cuts, full disks and flipped bits",
        "rows": [
            {
                "case": "crashes",
                "ours": outcome["crashes"] / outcome["seconds"],
                "unit": "1/s",
                "verdict": "met" if not outcome["violations"] else "missed",
            }
        ],
        "notes": [
            f"{outcome['crashes']} crashes, {outcome['runs']} of them with a disk of their own, "
            f"{len(outcome['violations'])} violations",
            *outcome["violations"],
        ],
    }


def campaign(
    count: int, seed: int, *, processes: int | None = None, every_step: bool = False, minutes: float = math.inf
) -> dict[str, Any]:
    """Try at least `count` crashes of the random histories from a seed on, unless the time is over before."""
    began, crashes, runs, histories = time.monotonic(), 0, 0, 0
    violations: list[str] = []
    attempt = partial(_try, every_step=every_step)
    with ProcessPoolExecutor(processes or os.cpu_count()) as pool:
        while crashes < count and time.monotonic() - began < minutes * 60:
            for outcome in pool.map(attempt, range(seed + histories, seed + histories + 8)):
                crashes += outcome.crashes
                runs += outcome.runs
                violations += outcome.violations
                for violation in outcome.violations:
                    print(f"\n{violation}", file=sys.stderr)
            histories += 8
            said = f"{crashes:,} crashes ({runs:,} disks) of {histories} histories, {len(violations)} violations"
            print(f"\r{said}", end="", file=sys.stderr)
    print(file=sys.stderr)
    seconds = time.monotonic() - began
    return {
        "crashes": crashes,
        "runs": runs,
        "histories": histories,
        "seconds": seconds,
        "violations": violations,
    }


def _try(seed: int, *, every_step: bool) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="headrace-crashes-") as directory:
        return try_seed(seed, Path(directory), every_step=every_step)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="crashes to try at least")
    parser.add_argument("--seed", type=int, default=0, help="the first history")
    parser.add_argument("--only", action="store_true", help="only the history of the seed, shrunk if it fails")
    parser.add_argument("--every-step", action="store_true", help="crash after each step of a history")
    parser.add_argument("--processes", type=int, help="how many at once; by default one for each core")
    parser.add_argument("--minutes", type=float, default=math.inf, help="end after so long")
    options = parser.parse_args()
    if options.only:
        with tempfile.TemporaryDirectory(prefix="headrace-crashes-") as directory:
            print(shrink(options.seed, Path(directory), every_step=options.every_step))
    else:
        found = campaign(
            options.count,
            options.seed,
            processes=options.processes,
            every_step=options.every_step,
            minutes=options.minutes,
        )
        rate = f"{found['crashes'] / found['seconds']:.0f} crashes/s"
        print("\n".join(found["violations"]) or "no violation", rate, sep="\n")
