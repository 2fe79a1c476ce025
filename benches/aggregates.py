"""How fast are aggregates that are written in SQL?

A mean whose statements can be computed by built-in aggregates is beside AVG. Three that are computed tuple by tuple are
beside the same in Python: one keeps one row, one removes rows, one changes rows. Ours run in the order of time, for
which tuples are kept until their window ends; Python's take tuples as they come. All run over the same files in the
same windows, in one process, one after the other in several rounds. A rate is the tuples of a run divided by its CPU
time, from reading files to results.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benches.parts.bids import Bids, write_bids

from headrace.session import Session

SCRIPT = """
CREATE AGGREGATE mean(x DOUBLE) RETURNS DOUBLE { TABLE state(total DOUBLE, n INT);
  INITIALIZE: INSERT INTO state VALUES (x, 1);
  ITERATE:    UPDATE state SET total = total + x, n = n + 1;
  TERMINATE:  INSERT INTO RETURN SELECT total / n FROM state; };
CREATE AGGREGATE product(x DOUBLE) RETURNS DOUBLE { TABLE state(p DOUBLE);
  INITIALIZE: INSERT INTO state VALUES (x);
  ITERATE:    UPDATE state SET p = p * x;
  TERMINATE:  INSERT INTO RETURN SELECT p FROM state; };
CREATE AGGREGATE peaks(x DOUBLE) RETURNS DOUBLE { TABLE seen(y DOUBLE);
  INITIALIZE: INSERT INTO seen VALUES (x);
  ITERATE:    DELETE FROM seen WHERE y < x; INSERT INTO seen VALUES (x);
  TERMINATE:  INSERT INTO RETURN SELECT y FROM seen; };
CREATE AGGREGATE cheap(x INT) RETURNS INT { TABLE classes(c INT, n INT);
  INITIALIZE: ITERATE: UPDATE classes SET n = n + 1 WHERE c = x;
    INSERT INTO classes VALUES (x, 1) WHERE NOT EXISTS (SELECT * FROM classes WHERE c = x);
  TERMINATE:  INSERT INTO RETURN SELECT n FROM classes WHERE c = 0; };
CREATE AGGREGATE product_in_python(DOUBLE) RETURNS DOUBLE FROM PYTHON 'benches.parts.products:Product';
CREATE AGGREGATE peaks_in_python(DOUBLE) RETURNS DOUBLE FROM PYTHON 'benches.parts.products:Peaks';
CREATE AGGREGATE cheap_in_python(INT) RETURNS INT FROM PYTHON 'benches.parts.products:Cheap';
"""
_CLASS = "CAST(price / 50 AS INT)"
#: What is compared: a call of an aggregate in SQL, its peer, and the least ratio of their rates.
PAIRS = {
    "compiled: a mean": ("mean(price)", "avg", "avg(price)", 0.5),
    "one row: a product": ("product(price)", "python", "product_in_python(price)", 1.0),
    "rows are removed: prices that no later one exceeds": ("peaks(price)", "python", "peaks_in_python(price)", 1.0),
    "rows are changed: counts by class": (f"cheap({_CLASS})", "python", f"cheap_in_python({_CLASS})", 1.0),
}
ROUNDS = 5


def main(quick: bool) -> dict[str, Any]:
    """Run each aggregate and its peer in turn, after a run of each that does not count."""
    rows, rounds = (400_000, 3) if quick else (2_000_000, ROUNDS)
    figures: dict[str, Any] = {
        "bench": "aggregates",
        "title": f"Aggregates in SQL, {rows:,} tuples, windows of 10 s, 1000 groups",
        "cases": {},
        "rows": [],
        "notes": [],
    }
    with tempfile.TemporaryDirectory(prefix="aggregates-") as folder:
        bids = write_bids(Path(folder) / "bids", rows, per_file=rows // 4, seed=1)
        for case, (call, peer, other, target) in PAIRS.items():
            rates: dict[str, list[float]] = {call: [], other: []}
            results = {}
            for _ in range(rounds + 1):
                for each, seen in rates.items():
                    rate, results[each] = _run(bids, each)
                    seen.append(rate)
            if not _agree(results[call], results[other]):
                raise SystemExit(f"{call} and {other} gave different results")
            mine, theirs = (statistics.median(seen[1:]) for seen in rates.values())
            measured = {
                "ours": mine,
                "peers": {peer: theirs},
                "unit": "tuples/CPU s",
                "ratio": mine / theirs,
                "target": target,
            }
            figures["cases"][case] = measured
            verdict = "met" if mine >= target * theirs else "missed"
            figures["rows"].append({"case": case, **measured, "verdict": verdict})
    return figures


def _run(bids: Bids, call: str) -> tuple[float, dict[tuple[Any, ...], float]]:
    """Return tuples per second of CPU time, and what each group of each window gave."""
    with Session(host="local", python_modules=["benches.parts.products"]) as session:
        session.execute(
            f"{bids.stream('bids')}; {SCRIPT} CREATE QUERY q AS SELECT auction, window_end, {call} AS x "
            "FROM bids [RANGE 10 SECONDS] WHERE auction >= 0 GROUP BY auction INTO MEMORY"
        )
        began = time.process_time()
        session.drain()
        took = time.process_time() - began
        return bids.rows / took, {(row["auction"], row["window_end"]): row["x"] for row in session.results("q")}


def _agree(mine: dict[tuple[Any, ...], float], theirs: dict[tuple[Any, ...], float]) -> bool:
    """Return whether results are equal but for the order in which floats were added."""
    return mine.keys() == theirs.keys() and all(
        abs((mine[key] or 0) - (x or 0)) <= 1e-9 * abs(x or 0) for key, x in theirs.items()
    )
