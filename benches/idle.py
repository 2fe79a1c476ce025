"""A fast stream and an almost silent one, united and counted per second: how long after a window's end does its count come, and is it complete?"""

from __future__ import annotations

import statistics
from typing import Any

from headrace.experiments.silent_stream import Seen, Watched, late, punctual, watch

CASES = (punctual(20.0), late(5.0, 3))


def main(quick: bool = False) -> dict[str, Any]:
    """Run all cases for a minute and a half each (45 s if quick)."""
    figures: dict[str, Any] = {"bench": "idle", "title": "Delay of a window's count after its end", "cases": {}, "rows": [], "notes": []}
    for case in CASES:
        _add(watch(case, 45.0 if quick else 90.0), figures)
    return figures


def _add(found: Watched, figures: dict[str, Any]) -> None:
    name, target = found.case.name, found.case.age + 2 * found.batch
    mine, theirs = found.median(found.ours), found.median(found.spark)
    measured = {"ours": mine, "peers": {"spark": theirs}, "unit": "s", "ratio": theirs / mine if mine else None, "target": None}
    figures["cases"][name] = {**measured, "limit": target, "batch": found.batch}
    figures["rows"].append({"case": name, **measured, "verdict": "met" if mine <= target else "missed"})
    figures["notes"] += [_note(found, "ours", found.ours), _note(found, "spark", found.spark)]
    figures["notes"].append(f"{name}: our micro-batch {found.batch:.3f} s")
    figures["notes"].append(f"{name}: median at most {target:.2f} s wanted (the age of slow tuples and two micro-batches)")


def _note(found: Watched, who: str, seen: Seen) -> str:
    delays = sorted(found.delays(seen).values()) or [float("nan")]
    p95 = delays[int(0.95 * (len(delays) - 1))]
    counted, due = found.counted(seen)
    told = f"{found.case.name}, {who}: {len(delays)} windows, median {statistics.median(delays):.2f} s, p95 {p95:.2f} s"
    return f"{told}, {counted} tuples counted of {due} in the windows that came out"
