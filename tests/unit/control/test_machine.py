"""What is learned from the durations of micro-batches."""

from __future__ import annotations

import pytest

from headrace.control.machine import Machine, Work, work_of


def learned(*batches: tuple[float, float], side_by_side: float = 1.0) -> Machine:
    machine = Machine()
    for seconds, span in batches:
        machine = machine.after(seconds, Work(span * side_by_side, span))
    return machine


def test_the_fixed_part_and_what_work_costs_are_told_apart_by_different_sizes() -> None:
    machine = learned(*((0.2 + 1.25 * span, span) for span in (0.0, 0.1, 0.5, 1.0, 0.3)), side_by_side=2.0)
    assert (machine.fixed, machine.cost) == pytest.approx((0.2, 1.25))
    assert machine.room(0.5) == pytest.approx(0.3 * 2.0 / 1.25)


def test_micro_batches_that_are_all_alike_say_nothing_new_about_the_cost_of_work() -> None:
    machine = learned(*[(1.2, 1.0)] * 20)
    assert machine.cost == Machine().cost
    assert machine.fixed == pytest.approx(0.2)


def test_what_was_learned_fades() -> None:
    before = [(0.2 + 0.8 * span, span) for span in (0.1, 0.5, 1.0)] * 10
    after = [(0.4 + 1.5 * span, span) for span in (0.1, 0.5, 1.0)] * 40
    machine = learned(*before, *after)
    assert (machine.fixed, machine.cost) == pytest.approx((0.4, 1.5), rel=0.02)


def test_there_is_no_room_in_less_than_the_fixed_part() -> None:
    assert learned((0.3, 0.0)).room(0.2) == 0.0


@pytest.mark.parametrize(
    ("stages", "busy", "span"),
    [
        ([[1.0, 1.0], [0.5, 0.5]], 3.0, 1.5),
        ([[1.0], [0.5, 0.1]], 1.6, 1.5),  # a task cannot be divided
        ([[0.4, 0.4, 0.4], []], 1.2, 0.6),
        ([], 0.0, 0.0),
    ],
)
def test_a_stage_takes_as_long_as_its_longest_task_or_all_on_all_cores(
    stages: list[list[float]], busy: float, span: float
) -> None:
    work = work_of(stages, 2)
    assert (work.busy, work.span) == pytest.approx((busy, span))
