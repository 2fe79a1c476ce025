"""When plans are looked at before their time."""

from headrace.control.policies.triggers import Drift, Waiting, is_near
from headrace.model.time import SECOND
from headrace.operators.multijoin.seen import BoxSeen, PortSeen, StepSeen


def fires(values):
    """Return the seconds at which what waits is a steady rise."""
    waiting, found = Waiting(), []
    for second, value in enumerate(values):
        waiting = waiting.after(value, second * SECOND)
        if waiting.is_ramp:
            found.append(second)
    return found


def queue(rates, served=10):
    """Return what waits after each second, if so many are served."""
    waits, found = 0, []
    for rate in rates:
        waits = max(0, waits + rate - served)
        found.append(waits)
    return found


def test_a_step_of_the_load_fires_a_ramp_fires_and_a_spike_does_not():
    assert fires(queue([8] * 10 + [14] * 10))
    assert fires(queue([8 + i for i in range(20)]))
    assert not fires(queue([8] * 10 + [60] + [8] * 20))


def test_values_less_than_a_second_apart_count_once():
    waiting = Waiting()
    for number in range(20):
        waiting = waiting.after(number, number * SECOND // 10)
    assert waiting.values == (0, 10)


def test_memory_is_near_its_limit_at_four_fifths():
    assert is_near(81, 100)
    assert not is_near(79, 100)
    assert not is_near(1e12, float("inf"))


def seen(taken=(1000, 1000), searched=1000, matched=2000):
    return BoxSeen(ports=[PortSeen(count) for count in taken], steps={"0>1": StepSeen(searched, matched)})


def test_a_drift_is_more_than_chance():
    usual = Drift.since(seen())
    assert not usual.is_over(seen())
    assert not usual.is_over(seen(taken=(1200, 900), matched=2500))
    assert usual.is_over(seen(matched=4000)), "each search finds twice as much"
    assert usual.is_over(seen(matched=900)), "or less than half"
    assert usual.is_over(seen(taken=(2000, 500))), "one input has become busier than the other"
    assert not usual.is_over(seen(searched=50, matched=5000)), "too few to tell"
    rare = Drift.since(seen(matched=4))
    assert not rare.is_over(seen(matched=11)), "rare events come and go"
    assert rare.is_over(seen(matched=40))


def test_a_new_plan_has_new_steps_and_they_are_no_drift():
    usual = Drift.since(seen())
    other = BoxSeen(ports=[PortSeen(1000), PortSeen(1000)], steps={"0>1.2": StepSeen(1000, 9000)})
    assert not usual.is_over(other)
    assert usual.with_more(Drift.since(other)).matches == {"0>1": 2.0, "0>1.2": 9.0}
