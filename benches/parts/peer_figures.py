"""The table, the summary and the figure of queries on Headrace and its peers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from benches.parts.beside_peers import Measured
from benches.parts.dialects import Query

from headrace.experiments.experiment import Panel, Series

PEERS = ("spark", "flink")
#: Seconds between two checkpoints of Flink, with which its files become visible (`benches/flink/queries.py`).
FLINK_CHECKPOINTS = 10
#: The names in the figure.
_NAMES = {"ours": "Headrace", "spark": "Spark", "flink": "Flink"}
#: Rates against Spark's. Without state, the way of the tuples to Python and back is most of the work.
TARGETS = {"stateless": 0.9, "stateful": 1.0}
#: Queries of which Headrace should be ahead of Flink, of 23, and its rate to that of the better peer on average.
AHEAD_OF_FLINK, QUERIES = 18, 23
TIMES_THE_BEST = 3.0
_BEST = "the better peer"


def case_of(query: Query, measured: Measured) -> dict[str, Any]:
    """Return the figures of a query, as they are kept."""
    refusals = {**measured.refusals}
    notes = [query.differs] if query.differs else []
    if query.flink is not None and query.flink.differs:
        notes.append(f"Flink: {query.flink.differs}")
    return {
        "kind": query.kind,
        "rates": dict(measured.rates),
        "seconds": dict(measured.seconds),
        "batch_ms": {system: list(each) for system, each in measured.batch_ms.items()},
        "refusals": refusals,
        "differs": notes,
    }


def row_of(name: str, case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a query: the ratio is that to the better peer."""
    rates = case["rates"]
    peers = {peer: rates.get(peer) for peer in PEERS}
    return {
        "case": f"{name}, {case['kind']}",
        "ours": rates["ours"],
        "peers": peers,
        "unit": "tuples/s",
        "ratio": _to_best(rates),
    }


def note_of(name: str, case: Mapping[str, Any]) -> str:
    """Return the note of a query: whole times in a JVM that runs, when results come, and what is special."""
    refusals = [f"{_NAMES[peer]} {reason}" for peer, reason in case["refusals"].items()]
    return f"{name}: " + "; ".join([seconds_of(case["seconds"]), *_published(case), *refusals, *case["differs"]])


def _published(case: Mapping[str, Any]) -> list[str]:
    """Return how often results become visible, exactly once: with micro-batches of the second half, or checkpoints."""
    seconds = {
        _NAMES[system]: f"{statistics.median(each[len(each) // 2 :]) / 1000:.2f} s"
        for system, each in case["batch_ms"].items()
    }
    if "flink" in case["rates"]:
        seconds[_NAMES["flink"]] = f"{FLINK_CHECKPOINTS} s"
    return ["results come every " + ", ".join(f"{each} ({system})" for system, each in seconds.items())] * bool(seconds)


def line_of(name: str, case: Mapping[str, Any]) -> str:
    """Return the rates and whole times of a query in a line."""
    rates = ", ".join(f"{_NAMES[system]} {rate:,.0f}" for system, rate in case["rates"].items())
    return f"{name}: {rates} tuples/s; {seconds_of(case['seconds'])}"


def seconds_of(seconds: Mapping[str, float]) -> str:
    """Return the times of systems as text."""
    return ", ".join(f"{_NAMES[system]} {each:.1f} s" for system, each in seconds.items())


def summary(figures: dict[str, Any]) -> None:
    """Fill in rows, notes and panels from the cases and the commands that are there."""
    cases: Mapping[str, Any] = figures["cases"]
    figures["rows"] = [row_of(name, case) for name, case in cases.items()]
    figures["notes"] = [note_of(name, case) for name, case in cases.items()]
    for kind, target in TARGETS.items():
        ratios = [ratio for case in cases.values() if case["kind"] == kind and (ratio := _to(case["rates"], "spark"))]
        if ratios:
            reached = sum(ratio >= target for ratio in ratios)
            what = f"at least {target:g} of Spark's rate, {kind} queries of {len(ratios)}"
            figures["rows"].append(_count(what, reached, len(ratios)))
    ratios = [ratio for case in cases.values() if (ratio := _to(case["rates"], "flink"))]
    if ratios:
        wanted = math.ceil(AHEAD_OF_FLINK * len(ratios) / QUERIES)
        figures["rows"].append(_count(f"ahead of Flink, queries of {len(ratios)}", sum(r > 1 for r in ratios), wanted))
    everyone = [case["rates"] for case in cases.values()]
    for what, means in (
        ("Spark", [_to(rates, "spark") for rates in everyone]),
        ("Flink", [_to(rates, "flink") for rates in everyone]),
        (_BEST, [_to_best(rates) for rates in everyone]),
    ):
        known = [ratio for ratio in means if ratio is not None]
        if known:
            mean = math.exp(statistics.fmean(map(math.log, known)))
            figures["rows"].append(_mean(f"geometric mean to {what}, {len(known)} queries", mean, what == _BEST))
    for name, times in figures["commands"].items():
        peers = {peer: times.get(peer) for peer in PEERS}
        best = min((seconds for peer, seconds in times.items() if peer in PEERS), default=None)
        figures["rows"].append(
            {
                "case": f"{name}, a command",
                "ours": times["ours"],
                "peers": peers,
                "unit": "s",
                "ratio": None if best is None else best / times["ours"],
            }
        )
    figures["panels"] = [*_rates(cases), *([_times(figures["commands"])] if figures["commands"] else [])]


def _to(rates: Mapping[str, float], peer: str) -> float | None:
    return rates["ours"] / rates[peer] if peer in rates else None


def _to_best(rates: Mapping[str, float]) -> float | None:
    return min((rates["ours"] / rates[peer] for peer in PEERS if peer in rates), default=None)


def _count(what: str, reached: int, wanted: int) -> dict[str, Any]:
    return {"case": what, "ours": reached, "target": wanted, "verdict": "met" if reached >= wanted else "missed"}


def _mean(what: str, mean: float, is_judged: bool) -> dict[str, Any]:
    row = {"case": what, "ours": mean, "unit": "times"}
    if is_judged:
        row |= {"target": TIMES_THE_BEST, "verdict": "met" if mean >= TIMES_THE_BEST else "missed"}
    return row


def _rates(cases: Mapping[str, Any]) -> Iterable[Panel]:
    for kind, title in (("stateless", "without state"), ("stateful", "with state")):
        chosen = {name: case["rates"] for name, case in cases.items() if case["kind"] == kind}
        if chosen:
            yield _bars(f"queries {title}", "1,000 tuples per second", chosen, 1e-3)


def _times(commands: Mapping[str, Mapping[str, float]]) -> Panel:
    return _bars("as a command, with start-up", "seconds", commands, 1.0)


def _bars(title: str, y: str, values: Mapping[str, Mapping[str, float]], unit: float) -> Panel:
    series = tuple(
        Series(
            name,
            tuple((float(place), each[system] * unit) for place, each in enumerate(values.values()) if system in each),
            "bars",
        )
        for system, name in _NAMES.items()
        if any(system in each for each in values.values())
    )
    return Panel(title, "query", y, series, ticks=tuple(values))
