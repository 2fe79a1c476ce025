"""What is learned from the durations of micro-batches."""

from __future__ import annotations

import pytest

from headrace.control.machine import Machine


def learned(*batches: tuple[float, float]) -> Machine:
    machine = Machine()
    for seconds, busy in batches:
        machine = machine.after(seconds, busy)
    return machine


def test_the_fixed_part_and_what_work_costs_are_told_apart_by_different_sizes() -> None:
    machine = learned(*((0.2 + 0.6 * busy, busy) for busy in (0.0, 0.1, 0.5, 1.0, 0.3)))
    assert (machine.fixed, machine.cost) == pytest.approx((0.2, 0.6))
    assert machine.room(0.5) == pytest.approx(0.5)


def test_micro_batches_that_are_all_alike_say_nothing_new_about_the_cost_of_work() -> None:
    machine = learned(*[(0.7, 1.0)] * 20)
    assert machine.cost == Machine().cost
    assert machine.fixed == pytest.approx(0.2)


def test_what_was_learned_fades() -> None:
    before = [(0.2 + 0.5 * busy, busy) for busy in (0.1, 0.5, 1.0)] * 10
    after = [(0.4 + 1.0 * busy, busy) for busy in (0.1, 0.5, 1.0)] * 40
    machine = learned(*before, *after)
    assert (machine.fixed, machine.cost) == pytest.approx((0.4, 1.0), rel=0.02)


def test_there_is_no_room_in_less_than_the_fixed_part() -> None:
    assert learned((0.3, 0.0)).room(0.2) == 0.0
