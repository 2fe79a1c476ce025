"""Trees of binary joins, MJoins and trees in between: work, memory and throughput under limits.

Experiments E1 to E4 of Zhu's dissertation (figures 8.2 to 8.9), with the real operator in virtual time. The printed
settings give up to 16 million results per second, which no machine of that time delivered. Where the number of results
does not matter for the claim, the condition between the second and the third stream is made more selective.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.experiments.experiment import Finding, Outcome, Panel, Series, Trial
from headrace.experiments.judging import claim, near
from headrace.model.join_tree import Tree, flat, format_tree, left_deep, parse_tree
from headrace.optimizer.joins.cost import PROBED, UNIT
from headrace.testing.simulation.box import Chain, Run, simulate

NAMES = "ABCD"
MJOIN, TREE, BUSHY, HYBRID = (
    flat(3),
    left_deep(range(3)),
    parse_tree("((A B) (C D))", NAMES),
    parse_tree("((A B) C D)", NAMES),
)
E1 = Chain((20, 20, 20), (20, 2), 5)
E2 = Chain((20, 20, 50), (50, 2), 15)
E3 = Chain((10, 10, 10, 10), (10, 7000, 10), 15)
E4 = Chain((20, 20, 20, 20), (50, 50_000, 20), 50)
#: What the processor does per second in E2, in pairs that are compared: enough for one plan, too little for the other.
CAPACITY = 700_000.0
#: 30 MB in tuples, if the MJoin of E3 with its 600 tuples takes 12 MB; and in E4 between hybrid and tree.
MEMORY_E3, MEMORY_E4 = 1500.0, 40_000.0
#: Seconds of each run.
SECONDS = {"quick": (12, 18, 25, 55), "normal": (25, 30, 45, 70), "full": (60, 60, 120, 150)}


@dataclass(frozen=True, slots=True)
class Pair:
    """Runs of one setting with different plans."""

    chain: Chain
    runs: dict[str, Run]
    seconds: float

    def held(self, name: str) -> float:
        """Return the tuples that a plan holds once windows are full."""
        start = min(self.chain.window * 1.1, self.seconds * 0.8)
        return self.runs[name].mean(lambda moment: moment.held + moment.intermediate, start, self.seconds)

    def throughput(self, name: str) -> float:
        """Return results per second once windows are full."""
        start = min(self.chain.window, self.seconds / 2)
        return self.runs[name].rate(start, self.runs[name].moments[-1].time)


def run(trial: Trial) -> Outcome:
    """Run the four settings with their plans."""
    lengths = SECONDS[trial.scale]
    done, total = 0, 10

    def of(chain: Chain, trees: tuple[Tree, ...], seconds: float, most_tuples: float = math.inf) -> Pair:
        nonlocal done
        runs = {}
        for tree in trees:
            name = format_tree(tree, NAMES)
            trial.progress(f"{name} for {seconds} s", done, total)
            runs[name] = simulate(chain, tree, seconds, costs=UNIT, seed=trial.seed, most_tuples=most_tuples)
            done += 1
        return Pair(chain, runs, seconds)

    first = of(E1, (MJOIN, TREE), lengths[0])
    trial.progress("E2", done, total)
    second = Pair(
        E2,
        {
            format_tree(tree, NAMES): simulate(
                E2, tree, lengths[1], costs=PROBED, seed=trial.seed, capacity=CAPACITY, most_results=20_000_000
            )
            for tree in (MJOIN, TREE)
        },
        lengths[1],
    )
    third = of(E3, (flat(4), BUSHY), lengths[2])
    limited = of(E3, (flat(4), BUSHY), lengths[2], most_tuples=MEMORY_E3)
    fourth = of(E4, (flat(4), HYBRID, BUSHY), lengths[3])
    notes = (
        "virtual time on the real operator; a unit is the insertion, deletion or match of a tuple, in E2 a comparison",
        "E3, E4: the second condition is 1,000 and 10,000 times as selective as printed; states do not depend on it",
        f"E2: the processor compares {CAPACITY:,.0f} pairs per second; what the published machine did is not known",
    )
    findings = (*_first(first), *_second(second), *_third(third, limited), *_fourth(fourth))
    return Outcome(findings, tuple(_panels(first, second, third, fourth)), notes)


def _first(pair: Pair) -> Iterator[Finding]:
    yield Finding(
        "E1: tuples of the MJoin", pair.held("(A B C)"), near(pair.held("(A B C)"), 300, 0.1), simulator=300.0
    )
    tree = pair.held("((A B) C)")
    yield Finding("E1: tuples of the tree", tree, near(tree, 800, 0.1), simulator=800.0)
    ratio = pair.throughput("((A B) C)") / pair.throughput("(A B C)")
    yield Finding("E1: throughput of the tree to the MJoin", ratio, near(ratio, 1.0, 0.02), paper="the same", unit="x")
    waiting = max(run.moments[-1].waiting for run in pair.runs.values())
    yield Finding("E1: tuples that wait at the end", float(waiting), claim(waiting < 20), paper="near 0")


def _second(pair: Pair) -> Iterator[Finding]:
    ratio = pair.throughput("((A B) C)") / pair.throughput("(A B C)")
    yield Finding("E2: throughput of the tree to the MJoin", ratio, claim(ratio > 2), paper="more than 2", unit="x")
    queue = pair.runs["(A B C)"]
    grows = queue.at(pair.seconds).waiting > 2 * queue.at(pair.seconds / 2).waiting > 100
    yield Finding(
        "E2: tuples that wait for the MJoin, half-way and at the end",
        f"{queue.at(pair.seconds / 2).waiting} and {queue.at(pair.seconds).waiting}",
        claim(grows),
        paper="the queue grows",
    )
    calm = pair.runs["((A B) C)"].moments[-1].waiting
    yield Finding("E2: tuples that wait for the tree", float(calm), claim(calm < 200), paper="near 0")
    held = pair.held("((A B) C)")
    yield Finding("E2: tuples of the tree", held, near(held, 3150, 0.1), simulator=3150.0)


def _third(pair: Pair, limited: Pair) -> Iterator[Finding]:
    flat_held, tree_held = pair.held("(A B C D)"), pair.held("((A B) (C D))")
    yield Finding("E3: tuples of the MJoin", flat_held, near(flat_held, 600, 0.1), simulator=600.0)
    yield Finding("E3: tuples of the tree", tree_held, near(tree_held, 5100, 0.1), simulator=5100.0)
    ended = {name: run.moments[-1].time for name, run in limited.runs.items()}
    is_out = ended["((A B) (C D))"] < limited.seconds <= ended["(A B C D)"] + 1
    yield Finding(
        "E3: what happens in a memory of 30 MB",
        f"the tree runs out of it after {ended['((A B) (C D))']:.0f} s, the MJoin never",
        "consistent" if is_out else "not confirmed",
        paper="the tree runs out of it after 50 s, the MJoin never",
    )


def _fourth(pair: Pair) -> Iterator[Finding]:
    for name, expected in (("(A B C D)", 4000.0), ("((A B) C D)", 24_000.0), ("((A B) (C D))", 74_000.0)):
        held = pair.held(name)
        yield Finding(f"E4: tuples of {name}", held, near(held, expected, 0.1), simulator=expected)
    work = {name: run.moments[-1].busy for name, run in pair.runs.items()}
    yield Finding(
        "E4: work of the hybrid to the MJoin",
        work["((A B) C D)"] / work["(A B C D)"],
        claim(work["((A B) C D)"] < work["(A B C D)"]),
        paper="the hybrid is faster",
        unit="x",
    )
    survives = pair.held("((A B) C D)") < MEMORY_E4 < pair.held("((A B) (C D))")
    yield Finding(
        f"E4: plans within {MEMORY_E4:,.0f} tuples",
        "MJoin and hybrid" if survives else "others",
        claim(survives),
        paper="the tree runs out of memory, the hybrid survives",
    )


def _panels(first: Pair, second: Pair, third: Pair, fourth: Pair) -> Iterator[Panel]:
    for title, pair in (("E1: tuples held", first), ("E3: tuples held", third), ("E4: tuples held", fourth)):
        yield Panel(
            title,
            "time (s)",
            "tuples",
            tuple(
                Series(name, tuple((moment.time, float(moment.held + moment.intermediate)) for moment in run.moments))
                for name, run in pair.runs.items()
            ),
            log_y=pair is fourth,
        )
    yield Panel(
        "E2: tuples that wait",
        "time (s)",
        "tuples",
        tuple(
            Series(name, tuple((moment.time, float(moment.waiting)) for moment in run.moments))
            for name, run in second.runs.items()
        ),
    )
