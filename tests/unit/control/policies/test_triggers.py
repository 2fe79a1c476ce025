"""When plans are looked at before their time."""

from headrace.control.policies.triggers import Waiting, is_near
from headrace.model.time import SECOND


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
