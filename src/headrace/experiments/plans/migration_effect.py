"""What do results and states look like while a plan changes, with power to spare and under overload?

Experiments E11 and E12 of Zhu's dissertation (figures 16.5 to 16.8): from ((A B) C) D to A ((B C) D) after ten seconds,
with the real operator in virtual time: at once (Moving State), with both plans (Parallel Track), and in portions, which
the dissertation does not have. Beside them the old and the new plan alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.experiments.experiment import Finding, Outcome, Panel, Series, Trial
from headrace.experiments.judging import claim, near
from headrace.experiments.plans.migration_length import NEW, OLD, PAIRS
from headrace.model.join_tree import Tree
from headrace.operators.multijoin.seen import BoxSeen, How
from headrace.testing.simulation.box import Chain, Policy, Run, simulate

E11 = Chain((10, 10, 10, 10), (10, 50, 50), 1.0)
E12 = Chain((20, 20, 20, 20), (5, 20, 20), 2.0)
CHANGE = 10.0
SECONDS = {"quick": 20.0, "normal": 40.0, "full": 60.0}
WAYS: dict[str, How] = {"at once": "moving", "in portions": "stepwise", "both plans": "parallel"}
#: Rows of a portion.
PORTION = 40


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of one setting, by the way the plan changes."""

    runs: dict[str, Run]
    seconds: float
    window: float

    def intermediate(self, name: str) -> float:
        """Return the mean rows of intermediate states once the change is over."""
        start = CHANGE + 4 * self.window
        return self.runs[name].mean(lambda moment: moment.intermediate, start, self.seconds)

    def results(self, name: str) -> int:
        """Return all results."""
        return self.runs[name].moments[-1].out

    def pause(self, name: str) -> float:
        """Return the time without a result that the change takes."""
        return self.runs[name].pauses[0]

    def length(self, name: str) -> float:
        """Return how long after the change only the new plan runs, with its states."""
        return self.runs[name].changes[0][1] - self.runs[name].changes[0][0]

    def caught_up(self, name: str) -> float:
        """Return how long after the change nothing waits any more; the rest of the run if it never happens."""
        for moment in self.runs[name].moments:
            if moment.time > CHANGE + 0.5 and moment.waiting < 40 and moment.tree != OLD:
                return moment.time - CHANGE
        return self.seconds - CHANGE


def run(trial: Trial) -> Outcome:
    """Run both settings in five ways."""
    seconds = SECONDS[trial.scale]
    calm = _runs(E11, seconds, None, trial, 0)
    old, new = (_work(calm_or_busy) for calm_or_busy in (_alone(E12, OLD, trial), _alone(E12, NEW, trial)))
    capacity = (old * new) ** 0.5
    busy = _runs(E12, seconds, capacity, trial, 5)
    notes = (
        "virtual time on the real operator; units are compared pairs and inserted rows",
        f"E12: the old plan needs {old:,.0f} units/s, the new one {new:,.0f}; the processor does {capacity:,.0f}",
        "rows of intermediate states are purged by their oldest part: half of what the dissertation holds",
    )
    return Outcome((*_calm(calm), *_busy(busy)), tuple(_panels(calm, busy)), notes)


def _runs(chain: Chain, seconds: float, capacity: float | None, trial: Trial, done: int) -> Runs:
    runs: dict[str, Run] = {}
    for name in ("old plan", "new plan", *WAYS):
        trial.progress(f"{name}, window of {chain.window:g} s", done + len(runs), 10)
        runs[name] = simulate(
            chain,
            NEW if name == "new plan" else OLD,
            seconds,
            costs=PAIRS,
            seed=trial.seed,
            capacity=capacity or 1e9,
            policy=_once(WAYS[name]) if name in WAYS else None,
            tick=0.1,
        )
    return Runs(runs, seconds, chain.window)


def _once(how: How) -> Policy:
    is_done = False

    def policy(time: float, seen: BoxSeen, tick: float) -> tuple[Tree, How, int] | None:
        nonlocal is_done
        if is_done or time < CHANGE:
            return None
        is_done = True
        return NEW, how, PORTION

    return policy


def _alone(chain: Chain, tree: Tree, trial: Trial) -> Run:
    return simulate(chain, tree, 12.0, costs=PAIRS, seed=trial.seed)


def _work(run: Run) -> float:
    return (run.moments[-1].busy - run.at(6.0).busy) / (run.moments[-1].time - 6.0)


def _calm(runs: Runs) -> Iterator[Finding]:
    old, new = runs.intermediate("old plan"), runs.intermediate("new plan")
    yield Finding("E11: intermediate rows of the old plan", old, near(old, 12.0, 0.25), simulator=12.0)
    yield Finding("E11: intermediate rows of the new plan", new, near(new, 2.4, 0.3), simulator=2.4)
    times = {name: runs.length(name) for name in WAYS}
    yield Finding(
        "E11: until states are those of the new plan, at once and with both plans",
        f"{times['at once']:.2f} s and {times['both plans']:.2f} s",
        claim(times["at once"] < times["both plans"]),
        paper="at once is first",
    )
    counts = {runs.results(name) for name in runs.runs}
    yield Finding(
        "E11: results of the five runs",
        "the same" if len(counts) == 1 else f"{min(counts)} to {max(counts)}",
        claim(max(counts) - min(counts) <= 0.02 * max(counts)),
        paper="no difference",
    )


def _busy(runs: Runs) -> Iterator[Finding]:
    new = runs.intermediate("new plan")
    yield Finding("E12: intermediate rows of the new plan", new, near(new, 240.0, 0.25), simulator=240.0)
    gains = [runs.results(name) / max(1, runs.results("old plan")) for name in WAYS]
    yield Finding(
        "E12: results with a change to those of the old plan, least",
        min(gains),
        claim(min(gains) > 1.1),
        paper="dramatically more",
        unit="x",
    )
    pauses = {name: runs.pause(name) for name in WAYS}
    yield Finding(
        "E12: pause, at once (hangs on the power of the machine)",
        pauses["at once"],
        "not comparable",
        paper="10 s - 20 s",
        unit="s",
    )
    yield Finding(
        "E12: pause, both plans and in portions to that at once",
        f"{pauses['both plans'] / pauses['at once']:.3f} and {pauses['in portions'] / pauses['at once']:.3f}",
        claim(max(pauses["both plans"], pauses["in portions"]) < 0.05 * pauses["at once"]),
        paper="both plans: no pause",
    )
    caught = {name: runs.caught_up(name) for name in WAYS}
    yield Finding(
        "E12: until nothing waits, at once, in portions, both plans",
        ", ".join(f"{seconds:.1f} s" for seconds in caught.values()),
        claim(caught["at once"] <= caught["both plans"]),
        paper="at once is first",
    )


def _panels(calm: Runs, busy: Runs) -> Iterator[Panel]:
    for title, runs in (("E11, power to spare", calm), ("E12, overload", busy)):
        yield Panel(
            f"{title}: intermediate rows",
            "time (s)",
            "rows",
            tuple(
                Series(name, tuple((moment.time, float(moment.intermediate)) for moment in run.moments))
                for name, run in runs.runs.items()
            ),
        )
        yield Panel(
            f"{title}: results so far",
            "time (s)",
            "results",
            tuple(
                Series(name, tuple((moment.time, float(moment.out)) for moment in run.moments))
                for name, run in runs.runs.items()
            ),
        )
