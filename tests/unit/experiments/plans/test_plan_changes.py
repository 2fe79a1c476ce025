"""The experiments on plans that run and change (E1 to E4, E8 to E15): verdicts that can come out bad."""

from __future__ import annotations

import pytest

from headrace.experiments.plans import migration_effect, migration_length, multiway_costs, reoptimizing
from headrace.experiments.plans.migration_length import NEW, OLD, PAIRS, Length, published
from headrace.experiments.plans.optimizing import Optimizer
from headrace.experiments.sample import Sample
from headrace.model.join_tree import Tree
from headrace.testing.simulation.box import Chain, Moment, Run


def verdicts(findings):
    return {finding.what: finding.verdict for finding in findings}


def steady(
    seconds: float,
    *,
    held: int = 0,
    intermediate: int = 0,
    rate: int = 100,
    waiting: float = 0.0,
    work: float = 1.0,
    tree: Tree = OLD,
) -> Run:
    """Return a run whose figures are the same all the time; `waiting` grows per second."""
    return Run(
        [
            Moment(float(second), rate * second, int(waiting * second), held, intermediate, work * second, tree)
            for second in range(int(seconds) + 1)
        ]
    )


def pair(chain: Chain, seconds: float, runs: dict[str, Run]) -> multiway_costs.Pair:
    return multiway_costs.Pair(chain, runs, seconds)


def test_states_queues_and_throughput_of_trees_and_mjoins_are_judged():
    good = pair(multiway_costs.E1, 20, {"(A B C)": steady(20, held=300), "((A B) C)": steady(20, held=800)})
    assert set(verdicts(multiway_costs._first(good)).values()) == {"confirmed"}
    wrong = pair(
        multiway_costs.E1, 20, {"(A B C)": steady(20, held=600), "((A B) C)": steady(20, held=2000, rate=50, waiting=9)}
    )
    assert set(verdicts(multiway_costs._first(wrong)).values()) == {"not confirmed"}
    good = pair(multiway_costs.E2, 40, {"(A B C)": steady(40, waiting=50, rate=10), "((A B) C)": steady(40, held=3150)})
    assert list(verdicts(multiway_costs._second(good)).values())[:1] == ["confirmed"]
    wrong = pair(multiway_costs.E2, 40, {"(A B C)": steady(40), "((A B) C)": steady(40, held=100, waiting=90)})
    assert set(verdicts(multiway_costs._second(wrong)).values()) == {"not confirmed"}


def test_a_tree_that_does_not_run_out_of_memory_is_noticed():
    runs = {"(A B C D)": steady(45, held=600), "((A B) (C D))": steady(45, held=5100)}
    full, short = pair(multiway_costs.E3, 45, runs), pair(multiway_costs.E3, 45, {**runs, "((A B) (C D))": steady(20)})
    assert list(verdicts(multiway_costs._third(full, short)).values()) == ["confirmed", "confirmed", "consistent"]
    assert list(verdicts(multiway_costs._third(full, full)).values())[-1] == "not confirmed"


def test_a_hybrid_that_saves_nothing_is_noticed():
    def of(hybrid_work: float, tree: int) -> list[str]:
        runs = {
            "(A B C D)": steady(70, held=4000, work=2.0),
            "((A B) C D)": steady(70, held=24_000, work=hybrid_work),
            "((A B) (C D))": steady(70, held=tree),
        }
        return list(verdicts(multiway_costs._fourth(pair(multiway_costs.E4, 70, runs))).values())

    assert of(1.0, 74_000) == ["confirmed"] * 5
    assert of(3.0, 30_000) == ["confirmed", "confirmed", "not confirmed", "not confirmed", "not confirmed"]


def lengths(moving: float, parallel: float) -> list[Length]:
    """Return lengths of changes: units as a multiple of what the formula says, seconds as one of the window."""
    found = []
    for window in (1.0, 5.0):
        chain = Chain((10, 10, 10, 10), migration_length.KEYS, window)
        units = moving * published(chain, 2.0)
        found.append(
            Length(
                chain,
                Sample((units, units)),
                published(chain, 2.0),
                published(chain, 1.0),
                Sample((parallel * window,) * 2),
            )
        )
    return found


def test_the_vectors_of_the_published_formula():
    chains = [Chain((10, 10, 10, 10), migration_length.KEYS, window) for window in (1.0, 2.0, 5.0)]
    assert [published(chain, 2.0) for chain in chains] == pytest.approx([207.0, 1236.0, 15375.0], rel=0.02)


def test_lengths_of_changes_are_judged():
    as_printed = verdicts(migration_length._findings(lengths(1.0, 2.0), lengths(1.0, 2.0)))
    assert as_printed["E8: a change at once, window of 1 s"] == "confirmed"
    assert as_printed["E8: both plans, window of 5 s"] == "confirmed"
    assert as_printed["E9: both plans, by the rate of B"] == "not confirmed", "the windows differ here"
    ours = verdicts(migration_length._findings(lengths(1.0, 1.0), lengths(1.0, 1.0)))
    assert ours["E8: both plans, window of 5 s"] == "not confirmed"
    assert ours["the same, if rows are purged by their oldest part, window of 5 s"] == "confirmed"
    short = lengths(9.0, 1.0)
    flat = verdicts(migration_length._findings([short[0], short[0]], [short[0], short[0]]))
    assert flat["E8: a change at once, window of 1 s"] == "not confirmed"
    assert flat["E9: both plans, by the rate of B"] == "confirmed"
    assert flat["E9: at once, by the rate of B"] == "not confirmed", "it does not rise"
    assert flat["E10: windows from which both plans are faster (model)"] == "confirmed"


def effects(window: float, intermediate: int, pauses: dict[str, float], rates: dict[str, int]) -> migration_effect.Runs:
    runs = {}
    for name in ("old plan", "new plan", *migration_effect.WAYS):
        rows = 12 if name == "old plan" else intermediate
        runs[name] = steady(40, intermediate=rows, rate=rates.get(name, 100), tree=OLD if name == "old plan" else NEW)
        runs[name].pauses = [pauses.get(name, 1.0)]
        runs[name].changes = [(10.0, 10.0 + pauses.get(name, 1.0))]
    return migration_effect.Runs(runs, 40.0, window)


def test_effects_of_a_change_are_judged():
    good = effects(1.0, 2, {"at once": 0.1, "in portions": 0.2, "both plans": 1.0}, {})
    assert set(verdicts(migration_effect._calm(good)).values()) <= {"confirmed", "consistent"}
    wrong = effects(1.0, 30, {"at once": 5.0, "both plans": 1.0}, {"both plans": 10})
    found = list(verdicts(migration_effect._calm(wrong)).values())
    assert found == ["confirmed", "not confirmed", "not confirmed", "not confirmed"]
    busy = effects(2.0, 240, {"at once": 10.0, "in portions": 0.1, "both plans": 0.0}, {"old plan": 10})
    assert list(verdicts(migration_effect._busy(busy)).values()) == [
        "confirmed",
        "confirmed",
        "not comparable",
        "confirmed",
        "confirmed",
    ]
    idle = effects(2.0, 900, {"at once": 1.0, "in portions": 1.0, "both plans": 1.0}, {})
    found = list(verdicts(migration_effect._busy(idle)).values())
    assert found[:2] == ["not confirmed"] * 2
    assert found[3] == "not confirmed"


def both(fixed: Run, optimized: Run, changes: list[float], overhead: float = 0.1) -> reoptimizing.Both:
    optimizer = Optimizer(Chain((20, 20, 20), reoptimizing.E14, 5.0).shape, PAIRS)
    optimizer.changes = changes
    return reoptimizing.Both(fixed, optimized, optimizer, fixed.moments[-1].time, overhead)


def test_an_optimizer_that_costs_much_or_swings_is_noticed():
    calm = both(steady(60), steady(60), [])
    assert list(verdicts(reoptimizing._stable(calm)).values()) == ["confirmed"] * 2
    restless = both(steady(60), steady(60), [20.0, 40.0], overhead=30.0)
    assert list(verdicts(reoptimizing._stable(restless)).values()) == ["not confirmed"] * 2


def test_a_change_that_brings_nothing_or_other_results_is_noticed():
    good = both(steady(80, intermediate=200, work=1.45), steady(80, intermediate=50, work=1.0), [30.0])
    assert set(verdicts(reoptimizing._once(good)).values()) <= {"confirmed", "consistent"}
    wrong = both(steady(80, intermediate=50), steady(80, intermediate=200, rate=99, work=4.0), [30.0])
    assert set(verdicts(reoptimizing._once(wrong)).values()) == {"not confirmed"}


def test_an_optimizer_that_does_not_follow_swaps_is_noticed():
    good = both(steady(180, intermediate=200, work=2.0), steady(180, intermediate=50), [10.0, 30.0, 70.0, 130.0])
    assert set(verdicts(reoptimizing._often(good, 180.0)).values()) == {"confirmed"}
    deaf = both(steady(180, intermediate=50), steady(180, intermediate=50, work=2.0), [])
    assert set(verdicts(reoptimizing._often(deaf, 180.0)).values()) == {"not confirmed"}
