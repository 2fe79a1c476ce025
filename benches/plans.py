"""Joins of three and four streams whose best plan changes: plans that change by themselves beside fixed ones and Spark.

In each phase two streams rarely have a key in common. Joining them first leaves little to do, and any other beginning
makes pairs that nobody needs. The best plan of each phase is set by hand in the moment in which it begins. Work is the
time that the join takes in all buckets. Throughput follows from the time between the ends of micro-batches. All results
are compared with DuckDB's, as multisets. A phase takes about 40 seconds with its best plan: the optimizer needs some of
them to see that data have changed. All cases take about 20 minutes, the quick ones 3.

Plain Spark joins the same files in the order of the first plan, with its noop sink, which favors it. Both read a file
of each stream per micro-batch, of three sizes: a micro-batch costs us something whatever is in it.
"""

from __future__ import annotations

import gc
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

from benches.parts import box_work
from benches.parts.chained import run_chained
from benches.parts.drifting import FAST, SLOW, Drifting, write_drifting
from benches.parts.ours import sums_of
from benches.parts.outcome import Outcome, check_equal
from benches.parts.query import Query

from headrace.driver.moment import Moment
from headrace.experiments.experiment import Panel, Series
from headrace.hosts.local import LocalDeployment
from headrace.hosts.spark.starting.context import session_for
from headrace.model.allowed_python import allow
from headrace.model.join_tree import format_tree
from headrace.session import Session

#: Where a plan of a run comes from: a fixed one, the optimizer, joins of two inputs each, or somebody who changes it in
#: the moment in which a phase begins.
AUTO, BINARY, BY_HAND = "auto", "binary", "by hand"
#: Targets: auto's work against the best plans, its throughput against the plan that is wrong, its overhead without
#: drift, the box against binary vertices, and against plain Spark; conditions behind the shuffle against before it.
TARGETS = {"work": 1.15, "throughput": 2.0, "overhead": 1.03, "binary": 1.0, "spark": 10.0, "shuffle": 1.05}
#: Micro-batches of a phase that do not count in a throughput of steady work.
_WARM = 3
#: Beside plain Spark: the name of the case, and tuples of a stream in a file with the number of files. Both run small
#: files first: in the first micro-batches of a JVM, compiling takes more time than anything else.
BESIDE = "beside plain Spark"
_SMALL = {"files": 24, "per_file": 3_000}
SIZES = {60_000: 14, 166_000: 8, 333_000: 6}
Host = Literal["spark", "local"]


@dataclass(frozen=True, slots=True)
class Case:
    """Streams, the rare pair of each phase, the plan that is right in each phase, and sizes."""

    name: str
    streams: str
    phases: tuple[str, ...]
    plans: Mapping[str, str]  # by the rare pair; the plan of one is wrong for the other
    others: tuple[str, ...]  # further fixed plans
    per_file: int
    matches: int
    share: float
    files: int  # of each stream in a phase
    first: str  # the plan with which a query begins
    condition: str = ""

    @property
    def changes(self) -> int:
        """Return how often the right plan changes."""
        right = [self.first, *(self.plans[rare] for rare in self.phases)]
        return sum(one != other for one, other in itertools.pairwise(right))


THREE = Case(
    "three streams",
    "abc",
    ("ab", "bc"),
    {"ab": "((a b) c)", "bc": "((b c) a)"},
    (),
    per_file=20_000,
    matches=20,
    share=0.001,
    files=150,
    first="((a b) c)",
)
FOUR = Case(
    "four streams",
    "abcd",
    ("ab", "cd"),
    {"ab": "(((a b) c) d)", "cd": "(((c d) b) a)"},
    (),
    per_file=20_000,
    matches=4,
    share=0.01,
    files=150,
    first="(((a b) c) d)",
)
#: Two streams that rarely meet, and then often; tuples of the first are tested by a function that takes long.
CONDITIONED = Case(
    "a condition that takes long",
    "ab",
    ("ab", ""),
    {"ab": "(a b) late a", "": "(a b)"},
    ("(a b) late a",),
    per_file=10_000,
    matches=4,
    share=0.01,
    files=180,
    first="(a b)",
    condition=SLOW,
)


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch: its phase, the tuples taken, seconds since the one before, seconds of work, and the plan."""

    phase: int
    tuples: int
    seconds: float
    work: float
    plan: str


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the query, with what the optimizer said of it, and the processor time of this process."""

    batches: tuple[Batch, ...]
    sums: Mapping[str, float]
    decisions: tuple[str, ...]
    cpu: float

    def work(self, phases: Iterable[int]) -> float:
        return sum(batch.work for batch in self.batches if batch.phase in phases)

    def seconds(self, phases: Iterable[int]) -> float:
        return sum(batch.seconds for batch in self.batches if batch.phase in phases)

    def rate(self, phases: Iterable[int]) -> float:
        """Return tuples per second, of the whole time of some phases."""
        return sum(batch.tuples for batch in self.batches if batch.phase in phases) / self.seconds(phases)

    def steady(self, phases: Iterable[int]) -> float:
        """Return the median seconds of a micro-batch of some phases."""
        kept = [[batch.seconds for batch in self.batches if batch.phase == phase][_WARM:] for phase in phases]
        return statistics.median(second for series in kept for second in series)


def main(quick: bool, host: Host = "spark", only: str = "") -> dict[str, Any]:
    """Measure all cases whose names contain `only` (quick: not four streams, and two phases)."""
    figures: dict[str, Any] = {
        "bench": "plans",
        "title": "Plans that change with the data, " + ("quick" if quick else "full"),
        "cases": {},
        "rows": [],
        "notes": [],
        "panels": [],
    }
    allow(["headrace.testing.conditions"])
    if host == "spark":
        session_for().conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    for case in (THREE, CONDITIONED) if quick else (THREE, FOUR, CONDITIONED):
        if only in case.name:
            with tempfile.TemporaryDirectory(prefix="drifting-") as folder:
                _measure(case, Path(folder), figures, host, quick=quick)
    if host == "spark" and only in BESIDE:
        sizes = {60_000: 8} if quick else SIZES
        with tempfile.TemporaryDirectory(prefix="beside-") as folder:
            _beside_spark(THREE, Path(folder), sizes, _Adding(figures, BESIDE))
    if only in THREE.name:
        _in_one_process(figures, quick=quick)
    load = ", ".join(f"{mean:.1f}" for mean in os.getloadavg())
    figures["notes"].append(f"load of the machine at the end: {load}")
    return figures


def _in_one_process(figures: dict[str, Any], *, quick: bool) -> None:
    """Measure the operator beside joins of two inputs each, without Spark."""
    seconds = 10 if quick else 20
    box, two = box_work.measure(seconds, rounds=8)
    tuples = 3 * seconds * box_work.PER_SECOND
    _Adding(figures, "three streams")(
        "one operator to joins of two inputs each, by processor time of one process",
        tuples / box,
        {BINARY: tuples / two},
        "tuples/s",
        "binary",
    )


def _measure(case: Case, folder: Path, figures: dict[str, Any], host: Host, *, quick: bool) -> None:
    def write(name: str, phases: Sequence[str], files: int, per_file: int = case.per_file) -> Drifting:
        return _write(case, folder / name, phases, files, per_file)

    add = _Adding(figures, case.name)
    run(write("warm", case.phases[:2], 4), case.first, host)
    if case is THREE:
        _without_drift(case, write("steady", case.phases[:1], 30), add, rounds=2 if quick else 6)
    _with_drift(case, write("drifting", case.phases[: 2 if quick else None], 32 if quick else case.files), add, host)
    if case.condition:
        _behind_the_shuffle(
            case, write("often", case.phases[:1], 20 if quick else 30, 2 * case.per_file), add, host, rounds=2
        )


def _write(case: Case, folder: Path, phases: Sequence[str], files: int, per_file: int) -> Drifting:
    data = write_drifting(
        folder,
        streams=case.streams,
        phases=phases,
        files=files,
        per_file=per_file,
        matches=case.matches,
        share=case.share,
    )
    return replace(data, condition=case.condition)


def _with_drift(case: Case, data: Drifting, add: _Adding, host: Host) -> None:
    """Measure fixed plans and the optimizer over all phases."""
    fixed = {plan: run(data, plan, host) for plan in (case.first, *case.others)}
    fixed[BY_HAND] = run(data, BY_HAND, host, case.plans)
    auto = run(data, AUTO, host)
    assert all(other.sums == auto.sums for other in fixed.values()), "plans disagree"
    phases = range(len(data.phases))
    best = {phase: min(fixed, key=lambda plan: fixed[plan].work([phase])) for phase in phases}
    ideal = sum(fixed[plan].work([phase]) for phase, plan in best.items())
    changes = sum(one.plan != other.plan for one, other in itertools.pairwise(auto.batches))
    add.count("changes of plan by auto", changes, replace(case, phases=tuple(data.phases)).changes)
    add("auto's work to the best plan of each phase", auto.work(phases), {"best": ideal}, "s", "work", is_most=True)
    wrong = [phase for phase, rare in enumerate(data.phases) if case.plans[rare] != case.first]
    add("in phases in which the first plan is wrong", auto.rate(wrong), {"first plan": fixed[case.first].rate(wrong)},
        "tuples/s", "throughput")  # fmt: skip
    runs = {**fixed, AUTO: auto}
    add.draw(_panel(case, runs))
    add.note(*(f"{AUTO}: {decision}" for decision in auto.decisions))
    for plan, each in runs.items():
        said = (
            f"{rare or 'none'} rare: {each.rate([phase]):,.0f} tuples/s, {each.work([phase]):.1f} s of work"
            for phase, rare in enumerate(data.phases)
        )
        add.note(f"{plan}: {'; '.join(said)}")


def _without_drift(case: Case, data: Drifting, add: _Adding, rounds: int) -> None:
    """Measure the plan that stays right: fixed, watched by the optimizer, and as joins of two inputs each, in turn.

    These differ by a few percent, which the times of micro-batches on Spark do not show. So it is the processor time of
    the whole query on the local host that counts, from files to files.
    """
    runs: dict[str, list[Run]] = {case.first: [], AUTO: [], BINARY: []}
    for turn in range(rounds):
        for name in list(runs) if turn % 2 else list(runs)[::-1]:
            runs[name].append(run(data, name, "local"))
    fixed, auto, binary = (statistics.median(each.cpu for each in tries) for tries in runs.values())
    add("auto's processor time without drift", auto, {"off": fixed}, "s", "overhead", is_most=True)
    rates = {name: data.rows / cpu for name, cpu in ((case.first, fixed), (BINARY, binary))}
    add("a fixed tree to joins of two inputs each, whole query", rates[case.first], {BINARY: rates[BINARY]},
        "tuples/s", "binary")  # fmt: skip


def _behind_the_shuffle(case: Case, data: Drifting, add: _Adding, host: Host, *, rounds: int) -> None:
    """Measure a condition that takes little time and that few tuples pass: in the join, and before the shuffle."""
    data = replace(data, condition=FAST)
    plan = case.plans[""]
    runs: dict[str, list[Run]] = {plan: [], BINARY: []}
    for turn in range(rounds):
        for name in list(runs) if turn % 2 else list(runs)[::-1]:
            runs[name].append(run(data, name, host))
    behind, before = (statistics.median(each.steady([0]) for each in tries) for tries in runs.values())
    add("a fast condition in the join to one before the shuffle", 1e3 * behind, {"before": 1e3 * before}, "ms",
        "shuffle", is_most=True)  # fmt: skip


def _beside_spark(case: Case, folder: Path, sizes: Mapping[int, int], add: _Adding) -> None:
    """Measure the plan that is right, and Spark's joins in the same order; with more tuples per micro-batch."""
    small = _write(case, folder / "small", case.phases[:1], **_SMALL)
    run(small, case.first, "spark")
    run_chained(small)
    for per_file, files in sizes.items():
        data = _write(case, folder / str(per_file), case.phases[:1], files, per_file)
        mine = run(data, case.first, "spark")
        theirs = run_chained(data)
        check_equal(case.name, Outcome(0.0, (), {"met": mine.sums}), theirs)
        part = len(data.streams) * per_file
        rates = part / mine.steady([0]), 1e3 * part / theirs.median_ms(_WARM)
        add(f"three streams, {part:,} tuples per micro-batch", rates[0], {"spark": rates[1]}, "tuples/s", "spark")


def run(data: Drifting, plan: str, host: Host, plans: Mapping[str, str] | None = None) -> Run:
    """Run the query to the end of the files, with `plans` by phase or one plan; compare its results with DuckDB's."""
    gc.collect()
    moments: list[Moment] = []
    with tempfile.TemporaryDirectory(prefix="plans-") as name, ExitStack() as stack:
        folder = Path(name)
        if plan == BINARY:
            stack.enter_context(patch("headrace.session.compile.gather_joins", lambda node, *_: node))
        session = stack.enter_context(Session(folder / "checkpoint", host=host, limit=data.per_file))
        session.deployment.delivery.watchers.append(moments.append)
        first = plans[data.phases[0]] if plans else plan
        fixed = "" if plan in (AUTO, BINARY) else f";\nALTER QUERY met SET plan = '{first}'"
        began = time.process_time()
        session.execute(data.script(folder / "out") + fixed)
        _read_all(session, data, plans or {})
        session.drain()
        cpu = time.process_time() - began
        decisions = tuple(f"{each[1]}: {each[-1]}" for each in session.execute("SHOW DECISIONS")[0].rows)
        difference = data.check(folder / "out")
        if not difference.is_none:
            raise AssertionError(f"{plan}: not DuckDB's results: {difference}")
        query = Query("", lambda *frames: frames[0], "k", data.sums())
        sums = sums_of(folder / "out", query)
    return Run(tuple(_batches(data, moments)), sums, decisions, cpu)


def _read_all(session: Session, data: Drifting, plans: Mapping[str, str]) -> None:
    """Wait until all tuples are read, and set the plan of each phase as it begins.

    Nobody changes the plan of a deployment that is being drained.
    """
    deadline = time.monotonic() + 900
    phase, rows = 0, 0
    while rows < data.rows:
        if time.monotonic() > deadline:
            raise TimeoutError("the streams were not read to their end")
        if isinstance(session.deployment, LocalDeployment):
            session.deployment.step()
        else:
            time.sleep(0.02)
        rows = sum(stream.tuples for stream in session.statistics().streams.values())
        begun = data.phase_at(rows // (len(data.streams) * data.per_file))
        if plans and begun > phase:
            phase = begun
            session.execute(f"ALTER QUERY met SET plan = '{plans[data.phases[phase]]}'")


def _batches(data: Drifting, moments: Sequence[Moment]) -> Iterable[Batch]:
    read = 0
    for before, moment in itertools.pairwise(moments):
        counts = {name: stream.tuples for name, stream in moment.statistics.streams.items()}
        total = sum(counts.values())
        tuples, read = total - read, total
        if tuples <= 0:
            continue
        file = (total - 1) // (len(data.streams) * data.per_file)
        boxes = moment.observation.boxes.values()
        work = sum(box.busy_ns for box in boxes) / 1e9
        plan = next((format_tree(box.tree, data.streams) for box in boxes if box.tree is not None), BINARY)
        yield Batch(data.phase_at(file), tuples, (moment.now - before.now) / 1e6, work, plan)


class _Adding:
    """Adds a row to the figures."""

    def __init__(self, figures: dict[str, Any], case: str) -> None:
        self._figures, self._case = figures, case

    def __call__(
        self, what: str, ours: float, peer: Mapping[str, float], unit: str, target: str, *, is_most: bool = False
    ) -> None:
        (other,) = peer.values()
        ratio, limit = ours / other, TARGETS[target]
        verdict = "met" if (ratio <= limit if is_most else ratio >= limit) else "missed"
        row = {"case": f"{self._case}: {what}", "ours": ours, "peers": dict(peer), "unit": unit, "ratio": ratio}
        row |= {"target": limit, "verdict": verdict}
        self._figures["rows"].append(row)
        self._figures["cases"].setdefault(self._case, {})[what] = row

    def count(self, what: str, ours: int, target: int) -> None:
        """Add a number that should be at least as large as a target."""
        verdict = "met" if ours >= target else "missed"
        self._figures["rows"].append(
            {"case": f"{self._case}: {what}", "ours": ours, "target": target, "verdict": verdict}
        )

    def note(self, *lines: str) -> None:
        self._figures["notes"] += [f"{self._case}, {line}" for line in lines]

    def draw(self, panel: Panel) -> None:
        self._figures["panels"].append(panel)


def _panel(case: Case, runs: Mapping[str, Run]) -> Panel:
    """Draw the work of each micro-batch over the share of the input that was read."""
    series = []
    for name, each in runs.items():
        count = len(each.batches)
        points = tuple((100 * number / count, 1e3 * batch.work) for number, batch in enumerate(each.batches))
        series.append(Series(name, points, "line" if name == AUTO else "dashed"))
    return Panel(f"{case.name}: work of the join", "input read (%)", "ms per micro-batch", tuple(series))
