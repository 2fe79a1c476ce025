"""Does shedding keep a promised latency on Spark while the rate of a stream changes?

The phases of the simulation (QoS book, figures 7.6 to 7.11) in a running deployment: a generator whose rate is changed
by statements, to shares of the capacity of the machine, which is measured first. The same phases run with a promise
that must hold and an error that is tolerated, and without.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import polars as pl

from headrace.experiments.experiment import Finding, Outcome, Panel, Scale, Series, Trial, Verdict
from headrace.experiments.judging import claim
from headrace.experiments.qos.shedding import LOADS
from headrace.session import Session

#: Seconds of each phase.
SIZES: Mapping[Scale, float] = {"quick": 8.0, "normal": 20.0, "full": 60.0}
ERROR = 0.5
#: A promise is so many times the latency at a low rate, and at least so many seconds.
TIMES, LEAST_S = 3.0, 1.0
#: A phase has at least so many times the promise, or else no queue that grows by a quarter gets so long.
PHASE_PROMISES = 6.0
#: The rate at which the search for the capacity begins, by which factor it grows, the micro-batches of a step, and the
#: share of the rate that must be done: less means that tuples wait longer and longer.
FIRST_RATE, GROWTH, STEP, MOST_STEPS, ENOUGH = 500, 1.6, 4, 16, 0.85
#: Seconds after which a step is over, however long a micro-batch takes.
PATIENCE_S = 60.0
#: Results of the first seconds of a phase do not count: the load has to be noticed.
REACTION_S = 2.0
#: Each tuple is compared with so many rows.
POINTS = 10_000
STREAM = """
CREATE STREAM t (at TIMESTAMP, k INT) TIMESTAMP BY at SKEW 1 SECOND
  FROM GENERATOR (rate {rate:g}, process 'poisson', seed {seed}, col.k 'uniform(1, 10)');
CREATE TABLE lower FROM FILES (path '{folder}/lower.parquet', format 'parquet');
CREATE QUERY q {promise} AS SELECT k, count(*) AS n FROM t [RANGE 1 SECOND] JOIN lower ON p < k GROUP BY k INTO MEMORY
"""


@dataclass(frozen=True, slots=True)
class Moment:
    """What was seen at a moment: seconds since the start, the phase and the seconds in it, and the latency."""

    at: float
    phase: int
    within: float
    latency: float


@dataclass(frozen=True, slots=True)
class Step:
    """What is done at a rate: tuples a second, and the latency."""

    done: float
    latency: float


@dataclass(frozen=True, slots=True)
class Look:
    """What is seen when a micro-batch has ended: the time, the latency, and the tuples read so far."""

    at: float
    latency: float
    tuples: int


@dataclass(frozen=True, slots=True)
class Ran:
    """The moments of a run, and the share of tuples that were dropped."""

    moments: tuple[Moment, ...]
    dropped: float

    def latencies(self, *, overloaded: bool) -> list[float]:
        """Return latencies in phases above the capacity, or in the others, once the load was noticed."""
        chosen = {number for number, load in enumerate(LOADS) if (load > 1) is overloaded}
        return [m.latency for m in self.moments if m.phase in chosen and m.within >= REACTION_S]


def run(trial: Trial) -> Outcome:
    """Start Spark, measure the capacity, then run the phases with and without a promise."""
    with tempfile.TemporaryDirectory(prefix="shedding-") as name:
        folder = Path(name)
        pl.DataFrame({"p": pl.int_range(POINTS, dtype=pl.Int32, eager=True)}).write_parquet(folder / "lower.parquet")
        trial.progress("capacity", 0, 3)
        capacity, low = _capacity(folder, trial.seed)
        promise = max(LEAST_S, TIMES * low)
        seconds = max(SIZES[trial.scale], PHASE_PROMISES * promise)
        runs: dict[str, Ran] = {}
        for done, (case, clause) in enumerate(
            (
                ("no promise", ""),
                ("a promise", f"WITH (force, latency '{round(1000 * promise)} ms' MUST, error {ERROR})"),
            ),
            1,
        ):
            trial.progress(case, done, 3)
            runs[case] = _phases(folder, f"{done}", clause, capacity, seconds, trial.seed)
    return report(runs, capacity, promise, seconds)


def report(runs: Mapping[str, Ran], capacity: float, promise: float, seconds: float) -> Outcome:
    """Judge the latencies."""
    curves = tuple(Series(case, tuple((m.at, m.latency) for m in ran.moments)) for case, ran in runs.items())
    limit = Series("promise", ((0.0, promise),), "level")
    panel = Panel("Latency while the rate changes", "s since the start", "latency, s", (*curves, limit), log_y=True)
    notes = (
        f"capacity {capacity:,.0f} tuples/s; phases of {seconds:g} s at {', '.join(map(str, LOADS))} of it",
        f"the promise is {promise:.2f} s, {TIMES:g} times the latency at a low rate; {ERROR:.0%} may be lost",
        "the rate is changed by ALTER STREAM t SET rate; the book has 16 queries in three groups, here is one",
    )
    return Outcome(tuple(_findings(runs, promise)), (panel,), notes)


def _findings(runs: Mapping[str, Ran], promise: float) -> Iterator[Finding]:
    bare, kept = runs["no promise"], runs["a promise"]
    without, shedding = bare.latencies(overloaded=True), kept.latencies(overloaded=True)
    if not without or not shedding:
        yield Finding("latency above the capacity", "nothing was delivered", "not comparable", "shedding keeps it")
        return
    means = statistics.fmean(without), statistics.fmean(shedding)
    exceeds = means[0] > promise
    yield Finding("mean latency above the capacity, without shedding", means[0], claim(exceeds), "grows", None, "s")
    yield Finding(
        "mean latency above the capacity, with shedding",
        means[1],
        # where nothing exceeds the promise, shedding proves nothing
        claim(means[1] < means[0]) if exceeds else "not comparable",
        "less",
        None,
        "s",
    )
    within = sum(latency <= promise for latency in shedding) / len(shedding)
    verdict: Verdict = "confirmed" if within >= 0.9 else "consistent" if within >= 0.5 else "not confirmed"
    share = 100 * within
    yield Finding("moments within the promise, with shedding", share, verdict, "promises are kept", None, "%")
    most = ERROR * 100
    yield Finding("tuples dropped", 100 * kept.dropped, claim(kept.dropped <= ERROR), f"at most {most:g} %", None, "%")
    yield Finding("tuples dropped without a promise", 100 * bare.dropped, claim(bare.dropped == 0), "none", None, "%")


def _capacity(folder: Path, seed: int) -> tuple[float, float]:
    """Return how many tuples are done in a second if more come, and the latency at the first rate."""
    with Session(folder / "capacity") as session:
        session.execute(STREAM.format(rate=FIRST_RATE, seed=seed, folder=folder, promise=""))
        session.start()
        next(_watched(session, PATIENCE_S), None)

        def measure(rate: float) -> Step:
            session.execute(f"ALTER STREAM t SET rate = {rate:g}")
            return _step(session)

        return find_capacity(measure)


def find_capacity(measure: Callable[[float], Step]) -> tuple[float, float]:
    """Raise the rate until less is done than comes; return what is done then, and the latency at the first rate.

    What is done in one step hangs on what else the machine does. If it is less than comes, the step is repeated: tuples
    wait then, so more than the rate is done if the machine can.
    """
    rate, low = float(FIRST_RATE), LEAST_S
    for number in range(MOST_STEPS):
        first = measure(rate)
        low = first.latency if number == 0 else low
        if first.done < ENOUGH * rate:
            again = measure(rate)
            if again.done < rate:
                return max(first.done, again.done), low
        rate *= GROWTH
    return rate / GROWTH, low


def _step(session: Session) -> Step:
    """Watch some micro-batches; return the tuples that are done in a second, and the latency in the middle."""
    seen = list(islice(_watched(session, PATIENCE_S), STEP + 1))
    if len(seen) < 2:
        return Step(0.0, PATIENCE_S)
    first, last = seen[0], seen[-1]
    return Step((last.tuples - first.tuples) / (last.at - first.at), statistics.median(look.latency for look in seen))


def _phases(folder: Path, name: str, promise: str, capacity: float, seconds: float, seed: int) -> Ran:
    moments: list[Moment] = []
    with Session(folder / name) as session:
        session.execute(STREAM.format(rate=LOADS[0] * capacity, seed=seed, folder=folder, promise=promise))
        session.start()
        next(_watched(session, PATIENCE_S), None)
        began = time.monotonic()
        for phase, load in enumerate(LOADS):
            session.execute(f"ALTER STREAM t SET rate = {load * capacity:g}")
            start = time.monotonic()
            looks = _watched(session, seconds)
            moments += [Moment(look.at - began, phase, look.at - start, look.latency) for look in looks]
        seen = session.statistics()
    return Ran(tuple(moments), seen.queries["q"].shed / max(1, seen.streams["t"].tuples))


def _watched(session: Session, seconds: float) -> Iterator[Look]:
    """Look at each micro-batch that ends: the longest that one of its tuples can have waited, and the tuples so far."""
    end, last = time.monotonic() + seconds, session.statistics().batch
    while (now := time.monotonic()) < end:
        seen = session.statistics()
        query, stream = seen.queries.get("q"), seen.streams.get("t")
        if seen.batch > last and stream is not None and query is not None and query.latency_ms is not None:
            last = seen.batch
            yield Look(now, query.latency_ms / 1000, stream.tuples)
        time.sleep(0.05)
