"""How much memory does Chain save compared with FIFO, and at what latency? A worked example.

Two selects that pass a fifth feed a join that passes four fifths and takes five times as long (QoS book, tables 6.1 and
6.2). Tuples may be served in part: a unit of time serves one tuple at a select and a fifth of one at the join.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headrace.analysis.forecast.network import Feed, Network, Station
from headrace.analysis.queueing.moments import constant
from headrace.engine.scheduling.schedulers import SCHEDULERS
from headrace.engine.scheduling.schedulers.scheduler import Candidate, Turn
from headrace.engine.scheduling.units import units_of
from headrace.experiments.experiment import Finding, Outcome, Panel, Series, Trial
from headrace.experiments.judging import claim, exact
from headrace.testing.simulation.stations import part_of_network

PLAN = Network(
    {"s1": 0.1, "s2": 0.1},
    (
        Station("1", (Feed("s1", 0.2),), constant(1.0)),
        Station("2", (Feed("s2", 0.2),), constant(1.0)),
        Station("3", (Feed("1", 0.8), Feed("2", 0.8)), constant(5.0)),
    ),
    {"q": "3"},
)
ARRIVALS = {1: "1", 2: "2", 3: "12", 10: "1"}
UNTIL = 10
#: What waits, what came out and its latency, from time 1 to time 10; 0 where nothing came out.
TABLE: Mapping[str, tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]] = {
    "fifo": (
        (1.0, 1.2, 3.0, 2.2, 2.0, 1.2, 1.0, 0.2, 0.0, 1.0),
        (0, 0, 0.16, 0, 0.16, 0, 0.16, 0, 0.16, 0),
        (0, 0, 2, 0, 3, 0, 4, 0, 6, 0),
    ),
    "chain": (
        (1.0, 1.2, 2.4, 1.6, 0.8, 0.6, 0.4, 0.2, 0.0, 1.0),
        (0, 0, 0, 0, 0, 0.16, 0.16, 0.16, 0.16, 0),
        (0, 0, 0, 0, 0, 5, 5, 5, 6, 0),
    ),
}
#: What follows from the tables for strategies that are not in them.
LIKE = {"path-capacity": "fifo", "memory-optimal": "chain"}


@dataclass(slots=True)
class Rows:
    """The columns of a table."""

    waiting: list[float] = field(default_factory=list)
    out: list[float] = field(default_factory=list)
    latency: list[float] = field(default_factory=list)

    def mean_latency(self) -> float:
        """Return the mean latency of the output, weighted by amount."""
        return sum(out * late for out, late in zip(self.out, self.latency, strict=True)) / sum(self.out)


def run(trial: Trial) -> Outcome:
    """Run all strategies; nothing is random, so every scale gives the same."""
    names = (*TABLE, *LIKE)
    results = {}
    for done, name in enumerate(names):
        trial.progress(name, done, len(names))
        results[name] = simulate(name)
    notes = (
        "a unit of time is the service time of a tuple at a select; tuples may be served in part",
        "the schedulers are those of the engine, with its units",
    )
    return Outcome(tuple(_findings(results)), (_panel(results, "waiting"), _panel(results, "out")), notes)


def simulate(name: str) -> Rows:
    """Serve one unit of time after the other."""
    scheduler = SCHEDULERS[name]
    units = units_of(scheduler.kinds, part_of_network(PLAN, {}))
    queues: dict[str, deque[tuple[float, int]]] = {station.name: deque() for station in PLAN.stations}
    rows, turn, ahead = Rows(), Turn(), deque[str]()
    made: tuple[float, float] = 0.0, 0.0
    for time in range(1, UNTIL + 1):
        for stream in ARRIVALS.get(time, ""):
            queues[stream].append((1.0, time))
        rows.waiting.append(round(sum(amount for queue in queues.values() for amount, _ in queue), 9))
        rows.out.append(made[0])
        rows.latency.append(made[1])
        while ahead and not queues[ahead[0]]:
            ahead.popleft()
        if not ahead:
            able = [
                Candidate(
                    number,
                    unit.kind,
                    oldest=min(queues[name][0][1] for name in unit.vertices if queues[name]),
                    release=unit.release,
                    capacity=unit.capacity,
                )
                for number, unit in enumerate(units)
                if any(queues[name] for name in unit.vertices)
            ]
            if not able:
                made = 0.0, 0.0
                continue
            choice = scheduler.choose(able, turn)
            turn = choice.turn
            ahead.extend(name for name in units[choice.unit].vertices)
            while not queues[ahead[0]]:
                ahead.popleft()
        made = _serve(ahead.popleft(), queues, time)
    return rows


def _serve(name: str, queues: Mapping[str, deque[tuple[float, int]]], time: int) -> tuple[float, float]:
    """Serve one unit of time at a station; return its output, and the latency if it is the last one."""
    most, share = (0.2, 0.8) if name == "3" else (1.0, 0.2)
    amount, born = queues[name].popleft()
    served = min(most, amount)
    if amount - served > 1e-9:
        queues[name].appendleft((amount - served, born))
    if name == "3":
        return round(served * share, 9), float(time + 1 - born)
    queues["3"].append((served * share, born))
    return 0.0, 0.0


def _findings(results: Mapping[str, Rows]) -> Iterator[Finding]:
    for name, (waiting, out, latency) in TABLE.items():
        rows = results[name]
        columns = (("waiting", waiting, rows.waiting), ("out", out, rows.out), ("latency", latency, rows.latency))
        for what, published, ours in columns:
            same = all(abs(expected - measured) < 1e-9 for expected, measured in zip(published, ours, strict=True))
            yield Finding(f"{name}: {what}, times 1 to 10", _list(ours), claim(same), _list(published))
    for name, mean, peak in (("fifo", 3.75, 3.0), ("chain", 5.25, 2.4)):
        yield Finding(
            f"{name}: mean latency", results[name].mean_latency(), exact(results[name].mean_latency(), mean), mean
        )
        yield Finding(
            f"{name}: most that waits", max(results[name].waiting), exact(max(results[name].waiting), peak), peak
        )
    for name, like in LIKE.items():
        means = results[name].mean_latency(), results[like].mean_latency()
        same = means[0] == means[1] and max(results[name].waiting) == max(results[like].waiting)
        yield Finding(f"{name}: mean latency and peak of {like}", means[0], claim(same), None, means[1])


def _list(values: tuple[float, ...] | list[float]) -> str:
    return " ".join(f"{value:g}" for value in values)


def _panel(results: Mapping[str, Rows], what: str) -> Panel:
    curves = []
    for name, table in TABLE.items():
        ours = results[name].waiting if what == "waiting" else results[name].out
        curves.append(Series(name, tuple((float(time), value) for time, value in enumerate(ours, 1))))
        published = table[0] if what == "waiting" else table[1]
        curves.append(
            Series(
                f"{name}, published",
                tuple((float(time), value) for time, value in enumerate(published, 1)),
                "marks",
                name,
            )
        )
    title, unit = ("What waits", "tuples") if what == "waiting" else ("What comes out", "tuples in a unit of time")
    return Panel(title, "time", unit, tuple(curves))
