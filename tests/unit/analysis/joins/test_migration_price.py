"""What a change of plan costs, and which way is taken."""

import pytest

from headrace.analysis.joins.migration_price import Way, price_of, states, ways
from headrace.control.policies.migration_choice import allowed_pause, allowed_portion, choose_way
from headrace.model.join_tree import flat, parse_tree
from headrace.optimizer.joins.cost import UNIT, Costs, Model
from headrace.optimizer.joins.fitting import Fitter
from headrace.optimizer.joins.join_graph import JoinGraph, Stream, Term, port_set, uniform

NAMES = "ABCD"
#: The costs of formula (16.1): every compared pair is a unit, and so is every row that is inserted.
PAIRS = Costs(store=1.0, candidate=0.0, match=0.0)


def chain(rates, window, *selectivities):
    terms = tuple(Term(port_set((place, place + 1)), share) for place, share in enumerate(selectivities))
    return Model(JoinGraph(tuple(Stream(rate, rate * window) for rate in rates), terms=terms), UNIT)


def tree(text):
    return parse_tree(text, NAMES[: text.count("A") + text.count("B") + text.count("C") + text.count("D")])


def test_a_plan_that_only_gives_states_up_costs_nothing():
    model = chain((10, 10, 10, 10), 1, 0.1, 0.05, 0.02)
    assert price_of(model, tree("(((A B) C) D)"), flat(4)).build == 0
    assert price_of(model, tree("(((A B) C) D)"), tree("((A B) C D)")).rows == 0


def test_states_that_both_plans_have_are_kept_and_the_others_are_built():
    model = chain((10, 10, 10, 10), 1, 0.1, 0.05, 0.02)
    price = price_of(model, tree("(((A B) C) D)"), tree("(A ((B C) D))"))
    assert price.rows == pytest.approx(model.estimates.held(0b0110) + model.estimates.held(0b1110))
    assert price.rows == pytest.approx(5 + 1)
    assert price_of(model, tree("(((A B) C) D)"), tree("((A B) (C D))")).rows == pytest.approx(2)


def test_the_pause_is_that_of_one_bucket():
    model = chain((10, 10, 10), 10, 0.1, 0.1)
    one, four = (price_of(model, flat(3), tree("((A B) C)"), buckets=count) for count in (1, 4))
    assert one.build == four.build
    assert one.pause == pytest.approx(4 * four.pause)


def test_a_state_that_is_searched_by_another_key_is_sorted_again():
    streams = (Stream(10, 100), Stream(10, 100), Stream(10, 100))
    model = Model(JoinGraph(streams, (uniform((0, 1), 50), uniform((1, 2), 50))), UNIT)
    left, right = tree("((A B) C)"), tree("(A (B C))")
    assert states(model, left)[0b010] != states(model, right)[0b010]
    price = price_of(model, left, right)
    assert price.build > price.rows * (UNIT.store + UNIT.match)


def test_two_tracks_never_take_less_work_to_a_plan_that_costs_no_more():
    model = chain((10, 10, 10, 10), 4, 0.1, 0.05, 0.02)
    fitter = Fitter(model)
    dear, cheap = sorted(map(fitter.plan, (tree("(((A B) C) D)"), tree("(A ((B C) D))"))), key=lambda plan: -plan.cpu)
    price = price_of(model, dear.tree, cheap.tree)
    found = {way.how: way for way in ways(model, dear.tree, cheap.tree, price, buckets=1, window=4.0, portion=0.1)}
    assert found["parallel"].work >= found["moving"].work
    assert found["moving"].pause == price.build
    assert found["stepwise"].work >= found["moving"].work
    assert found["stepwise"].pause <= 0.1
    assert found["stepwise"].portion >= 1000
    assert found["parallel"].pause == 0


def test_windows_without_end_have_no_two_tracks():
    model = chain((10, 10, 10), 1, 0.1, 0.1)
    price = price_of(model, flat(3), tree("((A B) C)"))
    assert {way.how for way in ways(model, flat(3), tree("((A B) C)"), price, buckets=1, window=None)} == {
        "moving",
        "stepwise",
    }


def test_a_change_is_made_at_once_if_nobody_notices_and_else_in_portions():
    options = (Way("moving", 1.0, 0.2), Way("stepwise", 1.1, 0.05, 5000), Way("parallel", 3.0, 0.0))
    assert choose_way(options, allowed_pause([])).how == "moving"
    assert choose_way(options, allowed_pause([0.5, 2.0])).how == "stepwise"
    assert allowed_pause([2.0]) == 0.5
    assert allowed_portion([]) == 0.05
    assert allowed_portion([0.1]) == 0.025
