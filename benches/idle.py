"""Delay and completeness of counts per second when one of two united streams is almost silent.

Headrace, plain Spark and, if installed, Flink read the same files at the same time. Flink runs twice: with defaults,
and with the idle-timeout that is usually recommended. Afterwards the bench measures the cost of an idle deployment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benches.parts import flink, resting
from benches.parts.resting import Rest

from headrace.experiments.timestamps.silent_stream import Seen, Watched, distant, late, late_alone, punctual, watch

CASES = (punctual(20.0), late(5.0, 3), late_alone(5.0, 3), distant(20.0, 1))


def main(quick: bool = False) -> dict[str, Any]:
    """Run each case for two minutes (one if quick), then measure each idle deployment for 20 s (10 s if quick)."""
    figures: dict[str, Any] = {
        "bench": "idle",
        "title": "Delay of a window's count after its end, and what idleness costs",
        "cases": {},
        "rows": [],
        "notes": [],
    }
    has_flink = flink.find_python() is not None
    start: Callable[..., Any] | None = flink.start if has_flink else None
    watch(punctual(2.0), 20.0)  # counts for nothing: the JVM compiles what ours and Spark's run; Flink has its own
    for case in CASES:
        _add(watch(case, 60.0 if quick else 120.0, start), figures)
    _add_rests(10.0 if quick else 20.0, figures)
    figures["notes"].append(
        "delays: a window that never came counts as late as the run is long; ratio: to the best peer that lost no tuple"
    )
    if not has_flink:
        figures["notes"].append(flink.HINT)
    return figures


def _add(watched: Watched, figures: dict[str, Any]) -> None:
    name, target = watched.case.name, watched.case.age + 2 * watched.batch
    systems = {"ours": watched.ours, "spark": watched.spark, **watched.beside}
    seen = {who: _figures(watched, what) for who, what in systems.items()}
    mine, peers = seen["ours"]["median"], {who: each["median"] for who, each in seen.items() if who != "ours"}
    whole = [peers[who] for who in peers if not seen[who]["lost"]]
    measured = {
        "ours": mine,
        "peers": peers,
        "unit": "s",
        "ratio": min(whole) / mine if whole and mine else None,
        "target": None,
    }
    figures["cases"][name] = {**measured, "limit": target, "batch": watched.batch, "systems": seen}
    figures["rows"].append(
        {"case": name, **measured, "verdict": "met" if mine <= target and not seen["ours"]["lost"] else "missed"}
    )
    figures["notes"] += [_note(name, who, measures) for who, measures in seen.items()]
    figures["notes"].append(
        f"{name}: the target is a median of at most {target:.2f} s: the delay of slow tuples and two of our "
        f"micro-batches of {watched.batch:.3f} s"
    )


def _figures(watched: Watched, seen: Seen) -> dict[str, Any]:
    counted, due = watched.counted(seen)
    windows, missing = len(watched.delays(seen)), watched.missing(seen)
    return {
        "median": watched.median(seen),
        "p95": watched.p95(seen),
        "windows": windows,
        "missing": missing,
        "due": due,
        "lost": max(0, due - counted),
    }


def _note(name: str, who: str, seen: dict[str, Any]) -> str:
    delays = f"{name}, {who}: median {seen['median']:.2f} s, p95 {seen['p95']:.2f} s"
    windows = f"{seen['windows']} windows delivered, {seen['missing']} missing"
    return f"{delays}, {windows}, {seen['lost']} of {seen['due']} tuples lost in those that were delivered"


def _add_rests(seconds: float, figures: dict[str, Any]) -> None:
    peers = {"spark": resting.spark(None, seconds), "spark, 50 ms trigger": resting.spark("50 milliseconds", seconds)}
    alone = resting.nothing(seconds)
    figures["notes"].append(_rest_note("idle CPU, a JVM without a query", alone))
    figures["notes"] += [_rest_note(f"idle CPU, {who}", rest) for who, rest in peers.items()]
    for name, window in (("idle CPU, nothing waits", "1 SECOND"), ("idle CPU, a window waits for the clock", "1 DAY")):
        mine = resting.ours(window, seconds)
        best = min(rest.share for rest in peers.values())
        shares = {who: rest.share for who, rest in peers.items()}
        measured = {
            "ours": mine.share,
            "peers": shares,
            "unit": "CPU s/s",
            "ratio": best / mine.share if mine.share else None,
            "target": None,
        }
        systems = {
            who: {**rest.shares, "batches": rest.batches}
            for who, rest in {"ours": mine, **peers, "no query": alone}.items()
        }
        figures["cases"][name] = {**measured, "seconds": seconds, "systems": systems}
        figures["rows"].append({"case": name, **measured})
        figures["notes"].append(_rest_note(f"{name}, ours", mine))


def _rest_note(name: str, rest: Rest) -> str:
    parts = ", ".join(f"{part} {100 * share:.1f} %" for part, share in rest.shares.items())
    return f"{name}: {100 * rest.share:.1f} % of a core ({parts}), {rest.batches} micro-batches in {rest.seconds:.0f} s"
