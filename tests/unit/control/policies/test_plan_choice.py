"""When a plan changes: it must win twice, save enough, pay for itself, and not be barred."""

from headrace.control.policies.plan_choice import CONFIRMING, LIBRARY, ChoiceMemory, Look, decide, ended, signature_of
from headrace.model.join_tree import Branch, flat, left_deep
from headrace.model.time import SECOND
from headrace.optimizer.joins.cost import Plan
from headrace.optimizer.joins.front import Limits
from headrace.optimizer.joins.join_graph import Estimates, JoinGraph, Stream, uniform

MJOIN, LEFT, RIGHT = flat(3), left_deep((0, 1, 2)), Branch((0, Branch((1, 2))))


def look(seconds, running, *plans, price=0.1, limits=None, signature=(1,), work=None, predicted=0.0, drifted=False):
    return Look(
        time=seconds * SECOND,
        running=running,
        plans=plans,
        limits=limits or Limits(),
        price=lambda plan: price,
        signature=signature,
        work=work,
        predicted=predicted,
        is_drifting=drifted,
    )


def run(*looks, memory=None):
    """Return the seconds at which the plan changes, with the last memory and choice."""
    memory, changes, choice = memory or ChoiceMemory(), [], None
    for seen in looks:
        memory, choice = decide(memory, seen)
        if choice.changes:
            changes.append(seen.time // SECOND)
    return changes, memory, choice


def test_a_better_plan_is_taken_at_the_second_look_that_it_wins():
    bad, good = Plan(MJOIN, 1.0, 10.0), Plan(LEFT, 0.5, 20.0)
    changes, _, choice = run(look(10, bad, good), look(20, bad, good))
    assert changes == [20]
    assert choice.why == "0.5 s of work per second instead of 1; the change takes 100 ms and pays off after 0 s"


def test_one_look_that_differs_changes_nothing():
    bad, good = Plan(MJOIN, 1.0, 10.0), Plan(LEFT, 0.5, 20.0)
    still = Plan(MJOIN, 0.4, 10.0)
    assert (
        run(look(10, bad, good), look(20, still, still, signature=(2,)), look(30, bad, good, signature=(3,)))[0] == []
    )


def test_after_a_drift_the_second_look_waits_until_as_much_is_wasted_as_the_change_takes():
    bad, good = Plan(MJOIN, 1.0, 10.0), Plan(LEFT, 0.5, 20.0)
    waits = {price: run(look(10, bad, good, price=price, drifted=True))[1].confirming for price in (0.0, 0.1, 50.0)}
    assert waits == {0.0: 0.0, 0.1: 0.2, 50.0: CONFIRMING}
    assert run(look(10, bad, good))[1].confirming == CONFIRMING, "two looks at the same noise prove nothing"
    assert run(look(10, bad, good), look(14, bad, good))[1].confirming is None
    assert run(look(10, bad, good), look(14, good, good))[1].confirming is None


def test_a_change_that_pays_off_at_once_may_go_to_another_plan_than_the_one_that_won_before():
    bad, good, better = Plan(MJOIN, 1.0, 10.0), Plan(LEFT, 0.5, 20.0), Plan(RIGHT, 0.4, 20.0)
    for price, expected in ((0.1, [11]), (1.0, [])):
        looks = look(10, bad, good, price=price), look(11, bad, good, better, price=price, signature=(2,))
        changes, _, choice = run(*looks)
        assert changes == expected
        assert choice.best == better


def test_a_saving_below_a_fifth_or_below_twenty_milliseconds_is_not_worth_it():
    bad, good = Plan(MJOIN, 1.0, 10.0), Plan(LEFT, 0.85, 20.0)
    changes, _, choice = run(*(look(10 * i, bad, good) for i in range(1, 6)))
    assert changes == []
    assert choice.why == "saves 15% of the work, less than 20%"
    small, less = Plan(MJOIN, 0.02, 10.0), Plan(LEFT, 0.005, 20.0)
    changes, _, choice = run(*(look(10 * i, small, less) for i in range(1, 6)))
    assert changes == []
    assert choice.why == "saves 15.0 ms of work per second, less than 20 ms"


def test_a_change_must_return_twice_its_price_while_the_plan_stays_best():
    bad, good = Plan(MJOIN, 1.0, 10.0), Plan(LEFT, 0.5, 20.0)
    changes, _, choice = run(*(look(10 * i, bad, good, price=8.0) for i in range(1, 4)))
    assert changes == []
    assert choice.why == "the change takes 8.00 s of work, and pays off only after 16 s"
    long = ChoiceMemory(spells=(100.0, 60.0))
    assert run(*(look(10 * i, bad, good, price=8.0) for i in range(1, 3)), memory=long)[0] == [20]


def test_the_next_change_waits_ten_times_as_long_as_the_last_one_took():
    bad, good = Plan(MJOIN, 1.0, 10.0), Plan(LEFT, 0.5, 20.0)
    _, memory, _ = run(look(10, bad, good), look(20, bad, good))
    memory = ended(memory, 3.0)
    other, back = Plan(LEFT, 1.0, 20.0), Plan(RIGHT, 0.4, 20.0)
    changes, _, _ = run(*(look(s, other, back, signature=(9,)) for s in (30, 40, 49, 51)), memory=memory)
    assert changes == [51]


def test_a_change_that_costs_nothing_may_follow_another_after_a_second():
    bad, good = Plan(MJOIN, 1.0, 10.0), Plan(LEFT, 0.5, 20.0)
    _, memory, _ = run(look(10, bad, good), look(20, bad, good))
    other, back = Plan(LEFT, 1.0, 20.0), Plan(RIGHT, 0.4, 20.0)
    for price, expected in ((0.001, [21]), (0.03, [23]), (0.2, [30])):
        looks = (look(20.5 + s / 2, other, back, price=price, signature=(9,)) for s in range(20))
        assert run(*looks, memory=memory)[0][:1] == expected


def test_a_plan_whose_limits_are_exceeded_is_left_though_the_next_one_works_more():
    tight = Limits(memory=15.0)
    large, small = Plan(LEFT, 0.5, 20.0), Plan(MJOIN, 0.6, 10.0)
    changes, _, choice = run(*(look(s, large, large, small, limits=tight) for s in (10, 20)))
    assert changes == [20]
    assert choice.best == small
    assert "exceeds what it may use of memory" in choice.why


def test_statistics_that_come_back_need_one_look():
    a, b = Plan(MJOIN, 1.0, 10.0), Plan(LEFT, 0.5, 20.0)
    _, memory, _ = run(look(10, a, b, signature=(7,)), look(20, a, b, signature=(7,)))
    back = Plan(LEFT, 1.0, 20.0), Plan(MJOIN, 0.5, 10.0)
    changes, memory, _ = run(*(look(s, *back, signature=(8,)) for s in (30, 40)), memory=memory)
    assert changes == [40]
    changes, _, _ = run(look(60, a, b, signature=(7,)), memory=memory)
    assert changes == [60], "the second period uses the plan of the first"


def test_the_library_forgets_the_oldest():
    plan, memory = Plan(MJOIN, 1.0, 10.0), ChoiceMemory()
    for number in range(LIBRARY + 10):
        memory, _ = decide(memory, look(number, plan, plan, signature=(number,)))
    assert len(memory.library) == LIBRARY
    assert (0,) not in memory.library


def test_a_plan_that_needs_twice_what_was_predicted_is_barred_for_five_minutes():
    a, b = Plan(MJOIN, 1.0, 10.0), Plan(LEFT, 0.5, 20.0)
    _, memory, _ = run(look(10, a, b), look(20, a, b))
    slow = Plan(LEFT, 1.2, 20.0), Plan(MJOIN, 1.1, 10.0)
    memory, choice = decide(memory, look(38, *slow, work=1.2, predicted=0.5))
    assert (choice.wrong, memory.barred) == (0.0, {}), "something else may have kept the machine busy"
    memory, choice = decide(memory, look(40, *slow, work=1.2, predicted=0.5))
    assert choice.wrong > 2
    assert memory.is_barred(b, 339 * SECOND)
    assert not memory.is_barred(b, 341 * SECOND)
    assert not memory.is_barred(a, 100 * SECOND)
    _, choice = decide(memory, look(50, a, b, a, signature=(5,)))
    assert choice.best == a, "though the statistics speak for the other again"


def test_a_plan_that_hardly_works_at_all_is_not_barred():
    a, b = Plan(MJOIN, 1.0, 10.0), Plan(LEFT, 0.5, 20.0)
    _, memory, _ = run(look(10, a, b), look(20, a, b))
    memory, choice = decide(memory, look(40, b, b, work=0.01, predicted=0.002))
    assert (choice.wrong, memory.barred) == (0.0, {})


def test_a_prediction_that_holds_bars_nothing():
    a, b = Plan(MJOIN, 1.0, 10.0), Plan(LEFT, 0.5, 20.0)
    _, memory, _ = run(look(10, a, b), look(20, a, b))
    for seconds, work in ((40, 2.0), (42, 0.9), (44, 2.0)):
        memory, choice = decide(memory, look(seconds, b, b, work=work, predicted=0.5))
        assert (choice.wrong, memory.barred) == (0.0, {})


def test_stationary_statistics_with_noise_change_nothing_in_ten_minutes():
    changes, _, _ = run(
        *(
            look(10 * i, Plan(MJOIN, 1.0 + 0.1 * (-1) ** i, 10.0), Plan(LEFT, 1.0 - 0.05 * (-1) ** i, 9.0))
            for i in range(1, 61)
        )
    )
    assert changes == []


def test_statistics_are_alike_if_they_differ_by_less_than_a_factor_of_two():
    def signature(rate, keys):
        graph = JoinGraph((Stream(rate, 100), Stream(16, 100)), (uniform((0, 1), keys),))
        return signature_of(Estimates(graph))

    assert signature(16, 64) == signature(18, 60)
    assert signature(16, 64) != signature(40, 64)
    assert signature(16, 64) != signature(16, 300)
