"""What does an optimizer bring that changes plans while they run, and what does it cost if nothing changes?

Experiments E13 to E15 of Zhu's dissertation (figures 16.9 to 16.13): two joins of three streams with 20 tuples per
second each, windows of 5 s, and an optimizer that looks every 10 s. The selectivities of the two joins stay, are
swapped once, or are swapped again and again. The operator, the estimates and the policy are those of a deployment;
time is virtual. The optimizer of the dissertation orders joins by selectivity; ours wants to win twice before a change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from headrace.experiments.experiment import Finding, Outcome, Panel, Range, Series, Trial
from headrace.experiments.judging import claim, near
from headrace.experiments.plans.migration_length import PAIRS
from headrace.experiments.plans.optimizing import Optimizer
from headrace.model.join_tree import Tree, parse_tree
from headrace.operators.multijoin.seen import BoxSeen, How
from headrace.testing.simulation.box import Chain, Run, simulate

#: The lower join is that of A and B.
LOWER_FIRST = parse_tree("((A B) C)", "ABC")
RATES, WINDOW = (20.0, 20.0, 20.0), 5.0
#: Numbers of keys: selectivities of .005 and .02; .02 and .3.
E14, E15 = (200, 50), (50, 3)
SWAPS = (0.0, 20.0, 60.0, 120.0)
SECONDS = {"quick": (30.0, 60.0, 100.0), "normal": (60.0, 80.0, 180.0), "full": (120.0, 150.0, 200.0)}


@dataclass(frozen=True, slots=True)
class Both:
    """Runs of one setting with a fixed plan and with an optimizer, and the seconds that looks took."""

    fixed: Run
    optimized: Run
    optimizer: Optimizer
    seconds: float
    overhead: float

    def work(self, run: Run, start: float) -> float:
        """Return the work of a second, from a time on."""
        return (run.moments[-1].busy - run.at(start).busy) / (run.moments[-1].time - start)


def run(trial: Trial) -> Outcome:
    """Run the three settings."""
    stable, once, often = SECONDS[trial.scale]
    trial.progress("E13", 0, 3)
    first = _both(E14, lambda at: E14, stable, trial)
    trial.progress("E14", 1, 3)
    second = _both(E14, lambda at: E14 if at < 10 else E14[::-1], once, trial)
    trial.progress("E15", 2, 3)
    third = _both(E15, lambda at: E15[:: 1 - 2 * (sum(at >= swap for swap in SWAPS) % 2)], often, trial)
    notes = (
        "virtual time on the real operator; a unit is a compared pair or an inserted row",
        "throughput is what a processor delivers that is busy all the time: results per unit of work",
        "E14: swapped at 10 s; E15: swapped at 0, 20, 60 and 120 s; a change needs two looks that agree",
    )
    return Outcome((*_stable(first), *_once(second), *_often(third, often)), tuple(_panels(second, third)), notes)


def _both(start: Sequence[int], keys: Callable[[float], Sequence[int]], seconds: float, trial: Trial) -> Both:
    chain = Chain(RATES, tuple(start), WINDOW)
    fixed = simulate(chain, LOWER_FIRST, seconds, costs=PAIRS, seed=trial.seed, keys=keys)
    optimizer = Optimizer(chain.shape, PAIRS)
    taken = 0.0

    def timed(at: float, seen: BoxSeen, tick: float) -> tuple[Tree, How, int] | None:
        nonlocal taken
        began = time.process_time()
        try:
            return optimizer(at, seen, tick)
        finally:
            taken += time.process_time() - began

    optimized = simulate(chain, LOWER_FIRST, seconds, costs=PAIRS, seed=trial.seed, keys=keys, policy=timed)
    return Both(fixed, optimized, optimizer, seconds, taken)


def _stable(both: Both) -> Iterator[Finding]:
    share = 100 * both.overhead / both.seconds
    yield Finding("E13: time of the optimizer, of a core", share, claim(share < 3), paper="negligible", unit="%")
    yield Finding(
        "E13: changes of plan while nothing changes",
        float(len(both.optimizer.changes)),
        claim(not both.optimizer.changes),
        paper="none",
    )


def _once(both: Both) -> Iterator[Finding]:
    start = max(both.optimizer.changes, default=40.0) + WINDOW
    gain = _throughput(both.optimized, start) / _throughput(both.fixed, start)
    yield Finding(
        "E14: throughput with a change to that without",
        gain,
        near(gain, Range(1.4, 1.5), 0.15) if gain < 1.4 else "consistent",
        paper="1.4 - 1.5",
        unit="x",
    )
    before, after = (
        run.mean(lambda moment: moment.intermediate, start, both.seconds) for run in (both.fixed, both.optimized)
    )
    yield Finding("E14: intermediate rows without a change", before, near(before, 200.0, 0.2), simulator=200.0)
    yield Finding("E14: intermediate rows with a change", after, near(after, 50.0, 0.3), simulator=50.0)
    memory = after / before
    yield Finding(
        "E14: memory of intermediate states to that without a change",
        memory,
        claim(memory <= 0.5),
        paper="half or less",
        unit="x",
    )
    same = both.fixed.moments[-1].out == both.optimized.moments[-1].out
    yield Finding("E14: results of both runs", "the same" if same else "different", claim(same), paper="the same")


def _often(both: Both, seconds: float) -> Iterator[Finding]:
    swaps = [swap for swap in SWAPS if swap + 25 < seconds]
    times = both.optimizer.changes
    yield Finding(
        "E15: changes of plan",
        ", ".join(f"{at:.0f} s" for at in times) or "none",
        claim(len(times) in (len(swaps) - 1, len(swaps))),
        paper="10, 30, 70 and 130 s",
    )
    ratio = both.work(both.fixed, 20.0) / both.work(both.optimized, 20.0)
    yield Finding(
        "E15: work of the fixed plan to that with changes",
        ratio,
        claim(ratio > 1.0),
        paper="always higher throughput",
        unit="x",
    )
    rows = [run.mean(lambda moment: moment.intermediate, 20.0, seconds) for run in (both.optimized, both.fixed)]
    yield Finding(
        "E15: intermediate rows with changes to those without",
        rows[0] / rows[1],
        claim(rows[0] < rows[1]),
        paper="less memory",
        unit="x",
    )


def _throughput(run: Run, start: float) -> float:
    """Return results per unit of work, from a time on."""
    last = run.moments[-1]
    return (last.out - run.at(start).out) / (last.busy - run.at(start).busy)


def _panels(second: Both, third: Both) -> Iterator[Panel]:
    for title, both in (("E14: swapped once", second), ("E15: swapped repeatedly", third)):
        series = (("fixed plan", both.fixed), ("optimizer", both.optimized))
        yield Panel(
            f"{title}, intermediate rows",
            "time (s)",
            "rows",
            tuple(
                Series(name, tuple((moment.time, float(moment.intermediate)) for moment in run.moments))
                for name, run in series
            ),
        )
        yield Panel(
            f"{title}, work so far",
            "time (s)",
            "units",
            tuple(Series(name, tuple((moment.time, moment.busy) for moment in run.moments)) for name, run in series),
        )
