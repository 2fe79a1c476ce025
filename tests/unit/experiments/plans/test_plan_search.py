"""The experiments on the search of plans: their counts, and verdicts that can come out bad."""

import random

import pytest

from headrace.experiments.experiment import Trial
from headrace.experiments.plans import plan_clouds, qualified_plans, search_time
from headrace.experiments.plans.settings import bjtree_init, mjoin_init, random_setting
from headrace.model.join_tree import all_trees
from headrace.optimizer.joins.cost import Plan


def verdicts(findings):
    return {finding.what: finding.verdict for finding in findings}


def test_the_exact_search_equals_a_list_of_all_trees_and_no_heuristic_beats_it():
    row = qualified_plans.measure(4, 8, 1, exact=True, listed=True)
    assert (row.settings, row.enumerated, row.different, row.worse) == (8, 8, 0, 0)
    assert row.exact is not None
    assert row.either <= row.exact


def test_a_front_that_misses_plans_is_noticed():
    row = qualified_plans.Row(5, settings=10, mjoin=9, bjtree=5, either=9, exact=10, worse=1, enumerated=4, different=2)
    found = verdicts(qualified_plans._findings([row]))
    assert list(found.values()) == [
        "confirmed",
        "not confirmed",
        "confirmed",
        "not comparable",
        "not confirmed",
        "not confirmed",
    ]


def test_both_heuristics_answer_with_a_plan_of_all_streams():
    setting = random_setting(6, random.Random(3))
    for plan in (mjoin_init(setting), bjtree_init(setting)):
        assert plan.cpu > 0
        assert plan.memory >= sum(stream.held for stream in setting.model.graph.streams) * (1 - 1e-9)


@pytest.mark.parametrize("count", [3, 4, 5])
def test_the_published_search_would_list_each_tree_once(count):
    assert search_time.PLANS[count] == sum(1 for _ in all_trees(range(count)))


def test_growth_is_told_apart():
    assert search_time.degree([(4, 16.0), (8, 64.0), (16, 256.0)]) == pytest.approx(2)
    steep = {"all plans": {4: 1.0, 5: 2.0, 6: 3.0}, "MJoin-Init": {4: 1.0, 8: 1000.0}, "BJTree-Init": {4: 1.0, 8: 4.0}}
    found = list(verdicts(search_time._findings(steep)).values())
    assert found == ["not confirmed", "not confirmed", "confirmed", "confirmed", "not confirmed"]


def test_clouds_that_do_not_separate_are_noticed():
    low, high = Plan(0, 5.0, 1.0), Plan(0, 3.0, 100.0)
    apart, alike = plan_clouds.Cloud(3, ((low, high),)), plan_clouds.Cloud(10, ((low, low),))
    assert list(verdicts(plan_clouds._findings([apart, alike])).values()) == ["not confirmed"] * 3
    assert list(verdicts(plan_clouds._findings([alike, apart])).values()) == ["confirmed"] * 3


def test_a_quick_run_draws_what_it_found():
    outcome = plan_clouds.run(Trial("quick"))
    assert [panel.title for panel in outcome.panels] == ["3 streams", "5 streams", "8 streams"]
    assert all(series.points for panel in outcome.panels for series in panel.series)
