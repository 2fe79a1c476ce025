"""What EXPLAIN CAPACITY predicts, beside what is measured on Spark: latency, and the state of a join and of events.

Latency is compared at 50, 70 and 85 % of the machine's capacity. Probes are generated at a rate and matched with the
road points of their zone. The latency of a result is the time from its probe's timestamp, when the probe was generated,
to delivery. The rate for each load follows from the utilization that was predicted at the previous rate.

State is predicted twice: before anything runs, from the rates and the keys that the generators declare, and after a
third of a window, when what was measured is scaled to a full window. It is measured when all windows are full.
"""

from __future__ import annotations

import json
import math
import statistics
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.parts.probes import ZONES, write_points

from headrace.cli.output import err
from headrace.session import Message, Session

POINTS = 40
LOADS = (0.5, 0.7, 0.85)
H = "pow(sin((y - py) / 2), 2) + cos(y) * cos(py) * pow(sin((x - px) / 2), 2)"
#: The target for the relative error of a forecast.
TARGET = 0.15
#: Seconds of the runs that search for a rate, and the tolerated difference between utilization and load.
SEARCH_S, NEAR = 15.0, 0.04
#: The largest number of runs.
RUNS = 7
#: Seconds of the windows whose state is compared.
WINDOW_S = 15
#: Tuples per second of the streams of these queries.
RATES = {"a": 2000, "b": 2000, "c": 200}
STATE_CASES = {
    "a join": f"""CREATE QUERY held AS SELECT x.v, y.v AS w FROM {{a}} [RANGE {WINDOW_S} SECONDS] AS x
      JOIN {{b}} [RANGE {WINDOW_S} SECONDS] AS y ON x.k = y.k INTO MEMORY""",
    "NOT": f"""CREATE EVENT missing AS NOT ({{b}}) [{{a}}, {{c}}] WITHIN {WINDOW_S} SECONDS
      WHERE {{a}}.k = {{b}}.k AND {{b}}.k = {{c}}.k CONTEXT CONTINUOUS;
      CREATE QUERY held AS SELECT * FROM missing INTO MEMORY""",
    "SEQUENCE": f"""CREATE EVENT following AS {{a}} SEQUENCE {{c}} WITHIN {WINDOW_S} SECONDS
      WHERE {{a}}.k = {{c}}.k CONTEXT CONTINUOUS;
      CREATE QUERY held AS SELECT * FROM following INTO MEMORY""",
}


@dataclass(frozen=True, slots=True)
class Run:
    """One rate, with predicted and measured latency."""

    rate: float
    utilization: float
    predicted: float
    measured: float
    results: int


def main(quick: bool) -> dict[str, Any]:
    """Compare state, then latency: a minute at each load (20 s if quick), after a run for the first utilization."""
    seconds = 20.0 if quick else 60.0
    figures: dict[str, Any] = {
        "bench": "forecast",
        "title": "Predicted latency and state beside measured ones",
        "cases": {},
        "rows": [],
        "notes": [],
    }
    with tempfile.TemporaryDirectory(prefix="forecast-") as name:
        folder = Path(name)
        for case, state in watch_states(list(STATE_CASES)[: 2 if quick else None]).items():
            _add_state(case, state, figures)
        write_points(folder / "points.parquet", POINTS)
        run = watch(folder, 40_000.0, 20.0)
        for load in LOADS:
            err.print(f"load {load:.0%}", style="dim")
            run = at_load(folder, load, run, seconds, quick=quick)
            _add(load, run, figures)
    figures["notes"].append("utilization and latency are predicted at the end of each run, from its own counters")
    return figures


@dataclass(frozen=True, slots=True)
class State:
    """Tuples and bytes of a query's state, predicted and measured."""

    predicted_tuples: float
    predicted_bytes: float
    tuples: float
    bytes: float


def watch_states(cases: Iterable[str]) -> dict[str, State]:
    """Run queries one after the other until their windows are full; return each prediction beside what they held."""
    states: dict[str, State] = {}
    with tempfile.TemporaryDirectory(prefix="forecast-") as name, Session(Path(name) / "checkpoint") as session:
        session.execute(
            "CREATE STREAM ticks (n INT) FROM GENERATOR (rate 1); CREATE QUERY t AS SELECT n FROM ticks INTO MEMORY"
        )
        _read(session, "ticks", 1)  # from now on, what is read has just come
        for number, case in enumerate(cases):
            err.print(f"state of {case}", style="dim")
            names = {stream: f"{stream}{number}" for stream in RATES}
            for stream, rate in RATES.items():
                session.execute(
                    f"CREATE STREAM {names[stream]} (at TIMESTAMP, k INT, v DOUBLE) TIMESTAMP BY at "
                    f"FROM GENERATOR (rate {rate}, process 'poisson', seed {rate}, col.k 'uniform(1, 2000)')"
                )
            session.execute(STATE_CASES[case].format(**names))
            predicted = {"declared": _predicted(session)}
            _read(session, names["a"], RATES["a"] * WINDOW_S / 3)
            predicted["filling"] = _predicted(session)
            _read(session, names["a"], RATES["a"] * WINDOW_S * 1.3)
            samples = []
            for _ in range(6):
                time.sleep(1)
                vertices = session.statistics().vertices.values()
                samples.append((sum(v.held for v in vertices), sum(v.state_bytes for v in vertices)))
            tuples, size = (statistics.fmean(column) for column in zip(*samples, strict=True))
            for when, (kept, memory) in predicted.items():
                states[f"{case}, {when}"] = State(kept, memory, tuples, size)
            session.execute("DROP QUERY held")
    return states


def _read(session: Session, stream: str, tuples: float, *, timeout: float = 180.0) -> int:
    """Wait until so many tuples of a stream have been read; return how many have."""
    end = time.monotonic() + timeout
    while True:
        counts = session.statistics().streams.get(stream)
        count = 0 if counts is None else counts.tuples
        if count >= tuples:
            return count
        if time.monotonic() > end:
            raise TimeoutError(f"{tuples:.0f} tuples of {stream} were not read in {timeout:.0f} s, only {count}")
        time.sleep(0.1)


def _predicted(session: Session) -> tuple[float, float]:
    """Return the tuples and bytes of state that EXPLAIN CAPACITY predicts."""
    (message,) = session.execute("EXPLAIN CAPACITY JSON held")
    assert isinstance(message, Message)
    operators = json.loads(message.text)["operators"]
    return sum(line["kept"] for line in operators), sum(line["state"] for line in operators)


def _add_state(case: str, state: State, figures: dict[str, Any]) -> None:
    error = abs(state.predicted_bytes - state.bytes) / state.bytes
    measured = {
        "ours": state.predicted_bytes / 2**20,
        "peers": {"measured": state.bytes / 2**20},
        "unit": "MB",
        "ratio": state.predicted_bytes / state.bytes,
        "target": None,
    }
    tuples = {"predicted tuples": state.predicted_tuples, "tuples": state.tuples}
    figures["cases"][f"state of {case}"] = {**measured, **tuples, "error": error}
    figures["rows"].append({"case": f"state of {case}", **measured, "verdict": "met" if error <= TARGET else "missed"})
    off = abs(state.predicted_tuples - state.tuples) / state.tuples
    figures["notes"].append(
        f"state of {case}: {state.predicted_tuples:,.0f} tuples predicted, {state.tuples:,.0f} held, {off:.0%} off; "
        f"{state.predicted_bytes / 2**20:.2f} MB predicted, {state.bytes / 2**20:.2f} MB held, {error:.0%} off"
    )


def at_load(folder: Path, load: float, run: Run, seconds: float, *, quick: bool) -> Run:
    """Run until the utilization is near the load, or return the last attempt; if quick, the second one."""
    is_long, runs = quick, 2 if quick else RUNS
    for number in range(runs):
        is_long |= number == runs - 1
        run = watch(folder, _next(run, load), seconds if is_long else SEARCH_S)
        if abs(run.utilization - load) <= NEAR:
            if is_long:
                break
            is_long = True
    return run


def _next(run: Run, load: float) -> float:
    """Return the next rate toward the utilization `load`, in limited steps: a tuple's cost depends on the rate."""
    return run.rate * min(2.0, max(0.5, load / max(run.utilization, 1e-3)))


def _add(load: float, run: Run, figures: dict[str, Any]) -> None:
    is_known = math.isfinite(run.predicted) and math.isfinite(run.measured)
    error = abs(run.predicted - run.measured) / run.measured if is_known else math.inf
    measured = {
        "ours": run.predicted,
        "peers": {"measured": run.measured},
        "unit": "s",
        "ratio": run.predicted / run.measured if is_known else None,
        "target": None,
    }
    figures["cases"][f"load {load}"] = {
        **measured,
        "rate": run.rate,
        "utilisation": run.utilization,
        "error": error,
        "results": run.results,
    }
    figures["rows"].append({"case": f"load {load:.0%}", **measured, "verdict": "met" if error <= TARGET else "missed"})
    figures["notes"].append(
        f"load {load:.0%}: {run.rate:,.0f} tuples/s, utilization {run.utilization:.2f} predicted; "
        f"latency {run.predicted:.3f} s predicted, "
        f"{run.measured:.3f} s measured over {run.results:,} results, {error:.0%} off"
    )


def watch(folder: Path, rate: float, seconds: float) -> Run:
    """Run at a rate; ignore the first half, which includes the backlog of the start."""
    delays: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory(prefix="forecast-") as name, Session(Path(name) / "checkpoint") as session:
        session.execute(f"""
            CREATE STREAM probes (at TIMESTAMP, zone INT, x DOUBLE, y DOUBLE) TIMESTAMP BY at
              FROM GENERATOR (rate {rate:.0f}, process 'poisson', seed 3,
                col.zone 'uniform(0, {ZONES - 1})', col.x 'uniform(0.0, 1.0)', col.y 'uniform(0.0, 1.0)');
            CREATE TABLE points FROM FILES (path '{folder / "points.parquet"}', format 'parquet');
            CREATE QUERY near AS
              SELECT at, zone FROM probes JOIN points ON zone = area WHERE {H} < 0.000002 INTO MEMORY;
        """)

        def take(batch: int, rows: list[dict[str, Any]]) -> None:
            now = time.time()
            delays.extend((now, now - row["at"].timestamp()) for row in rows)

        session.subscribe("near", take)
        began = time.time()
        time.sleep(seconds)
        (message,) = session.execute("EXPLAIN CAPACITY JSON near")
        assert isinstance(message, Message)
        report = json.loads(message.text)
    late = [delay for at, delay in delays if at - began > seconds / 2]
    (line,) = report["queries"]
    latency = math.inf if line["latency"] is None else line["latency"]  # JSON has no infinity
    came = report["streams"]["probes"]  # of a stream that comes faster than it can be read, what was read
    return Run(came, report["utilisation"], latency, statistics.fmean(late) if late else float("inf"), len(late))
