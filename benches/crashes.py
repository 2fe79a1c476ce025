"""Simulated crashes of a deployment: how many a second, and whether any changes a result.

`python -m benches.crashes --count 1000000 --seed 0` tries as many as wanted, on all cores; a violation is shrunk to a
short history, and printed with the command that repeats it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
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
        "notes": [f"{outcome['crashes']} crashes, {len(outcome['violations'])} violations", *outcome["violations"]],
    }


def campaign(count: int, seed: int, *, processes: int | None = None) -> dict[str, Any]:
    """Try at least `count` crashes of the random histories from a seed on."""
    began, crashes, histories = time.monotonic(), 0, 0
    violations: list[str] = []
    with ProcessPoolExecutor(processes or os.cpu_count()) as pool:
        while crashes < count:
            for outcome in pool.map(_try, range(seed + histories, seed + histories + 8)):
                crashes += outcome.crashes
                violations += outcome.violations
                for violation in outcome.violations:
                    print(f"\n{violation}", file=sys.stderr)
            histories += 8
            said = f"{crashes:,} crashes of {histories} histories, {len(violations)} violations"
            print(f"\r{said}", end="", file=sys.stderr)
    print(file=sys.stderr)
    seconds = time.monotonic() - began
    return {"crashes": crashes, "histories": histories, "seconds": seconds, "violations": violations}


def _try(seed: int) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="headrace-crashes-") as directory:
        return try_seed(seed, Path(directory))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="crashes to try at least")
    parser.add_argument("--seed", type=int, default=0, help="the first history")
    parser.add_argument("--only", action="store_true", help="only the history of the seed, shrunk if it fails")
    options = parser.parse_args()
    if options.only:
        with tempfile.TemporaryDirectory(prefix="headrace-crashes-") as directory:
            print(shrink(options.seed, Path(directory)))
    else:
        found = campaign(options.count, options.seed)
        rate = f"{found['crashes'] / found['seconds']:.0f} crashes/s"
        print("\n".join(found["violations"]) or "no violation", rate, sep="\n")
