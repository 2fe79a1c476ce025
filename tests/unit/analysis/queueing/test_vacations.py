"""Operators that share a processor: numbers of section 3.9 and of the errata."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.analysis.queueing.batches import Batch, batch_waits
from headrace.analysis.queueing.moments import constant, exponential
from headrace.analysis.queueing.queues import general
from headrace.analysis.queueing.vacations import vacation_queue


@pytest.mark.parametrize(
    ("discipline", "empty", "wait", "simulated"),
    [("exhaustive", 0.5714, 2.670, 2.651), ("gated", 0.3318, 4.618, 4.608)],
)
def test_3_9_single_operator(discipline: str, empty: float, wait: float, simulated: float) -> None:
    queue = vacation_queue(0.5, exponential(1), constant(0.3), exponential(1.5), discipline)  # type: ignore[arg-type]
    assert queue.empty == pytest.approx(empty, abs=5e-5)
    assert queue.wait == pytest.approx(wait, abs=5e-4)
    assert queue.wait == pytest.approx(simulated, rel=0.01)


def test_e_7_cycle_of_non_empty_rounds() -> None:
    assert vacation_queue(0.5, exponential(1), constant(0.3), exponential(1.5), "exhaustive").cycle == pytest.approx(
        7.60, abs=5e-3
    )


def test_e_9_gated_wait_with_rare_arrivals() -> None:
    assert vacation_queue(0.2, exponential(1), constant(0.5), exponential(1)).wait == pytest.approx(2.150, abs=1e-3)


@given(st.floats(0.05, 0.9), st.floats(0.01, 2), st.floats(20, 60))
@settings(deadline=None)
def test_3_4_gated_waits_longer_by_a_known_time_when_no_visit_finds_nothing(
    rho: float, setup: float, vacation: float
) -> None:
    """(U1 + rho V1)/(1 - rho), for long vacations."""
    args = (10.0, constant(rho / 10), constant(setup), constant(vacation))
    gated, exhaustive = vacation_queue(*args), vacation_queue(*args, "exhaustive")
    difference = (setup + rho * vacation) / (1 - rho)
    # the residual terms agree only if nothing is ever empty
    assert gated.empty == pytest.approx(0, abs=1e-6)
    assert gated.wait - exhaustive.wait == pytest.approx(difference, rel=1e-6)


@given(st.floats(0.05, 0.9), st.floats(0, 1), st.floats(0.01, 5))
@settings(deadline=None)
def test_3_4_rounds_are_consistent(rho: float, setup: float, vacation: float) -> None:
    for discipline in ("gated", "exhaustive"):
        queue = vacation_queue(rho, constant(1), constant(setup), exponential(vacation), discipline)
        assert queue.served == pytest.approx(rho * queue.round)
        assert queue.busy == pytest.approx(queue.served)
        assert queue.round == pytest.approx(queue.busy + (1 - queue.empty) * setup + vacation)
        assert queue.wait >= general(rho, constant(1)).wait


def test_3_4_without_vacations_a_queue_is_m_g_1() -> None:
    assert vacation_queue(0.7, exponential(1), constant(0), constant(0)).wait == pytest.approx(
        general(0.7, exponential(1)).wait
    )


def test_3_4_exhaustive_service_agrees_with_a_simulation() -> None:
    rng = np.random.default_rng(3)
    rate, service, setup, vacation = 0.6, 1.0, 0.2, 2.0
    clock, position, waits = 0.0, 0, []
    arrivals = np.cumsum(rng.exponential(1 / rate, 60_000))
    while position < len(arrivals) - 1000:
        clock += vacation
        if arrivals[position] <= clock:
            clock += setup
            while arrivals[position] <= clock:
                waits.append(clock - arrivals[position])
                clock += service
                position += 1
    predicted = vacation_queue(rate, constant(service), constant(setup), constant(vacation), "exhaustive")
    assert np.mean(waits) == pytest.approx(predicted.wait, rel=0.05)


def test_3_4_a_tuple_of_the_later_child_waits_for_those_of_the_earlier() -> None:
    first, second = Batch(10, 0.5, 1.0, 100, gap=7), Batch(20, 0.1, 2.0, 100, gap=0)
    waits = batch_waits((first, second), 3.0, 0.5)
    assert waits[0] == (5 - 1) / 2 * 3 + (10 - 2) / 2 * 1 + 7 + 0.5
    assert waits[1] == (2 - 1) / 2 * 3 + (20 - 10) / 2 * 2 + 0.5 + 5 * 3


def test_3_4_batches_of_a_child_that_runs_more_often_are_spread_over_its_cycles() -> None:
    assert batch_waits((Batch(10, 1.0, 1.0, 50, gap=0, runs=3),), 1.0, 0.0) == (
        (30 - 1) / 2 + 9 / 2 + (3 - 1) / 2 * 50,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "limit"), [(0.2, 1), (0.35, 2), (0.5, 3), (0.5, 8)])
def test_a_limit_of_tuples_a_visit_waits_as_long_as_in_a_simulation(rate: float, limit: int) -> None:
    queue = vacation_queue(rate, exponential(1), constant(0.3), exponential(1.5), limit=limit)
    empty, wait = simulated(rate, limit, 100_000, np.random.default_rng(limit))
    assert queue.wait == pytest.approx(wait, rel=0.05)
    assert queue.empty == pytest.approx(empty, abs=0.01)
    assert queue.served == pytest.approx(rate * queue.round, rel=1e-6), "what comes in a round is served in a round"


def test_a_limit_that_is_never_reached_is_gated_service_and_smaller_ones_wait_longer() -> None:
    args = (0.5, exponential(1), constant(0.3), exponential(1.5))
    gated = vacation_queue(*args)
    assert vacation_queue(*args, limit=200).wait == pytest.approx(gated.wait, rel=1e-3)
    waits = [vacation_queue(*args, limit=limit).wait for limit in (2, 3, 5, 20)]
    assert waits == sorted(waits, reverse=True)
    assert vacation_queue(*args, limit=1).wait == np.inf, "more comes in a round than one tuple"
    assert vacation_queue(0.0, *args[1:], limit=1).empty == 1.0


def simulated(rate: float, limit: int, number: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return the share of empty visits and the mean wait: service 1 (exponential), setup 0.3, vacation 1.5."""
    arrivals = np.cumsum(rng.exponential(1 / rate, number))
    services = rng.exponential(1.0, number)
    clock, first, empty, visits, waits = 0.0, 0, 0, 0, []
    while first < number:
        here = min(int(np.searchsorted(arrivals, clock, side="right")) - first, limit)
        visits += 1
        empty += here <= 0
        clock += 0.3 if here > 0 else 0.0
        for place in range(first, first + max(0, here)):
            waits.append(clock - arrivals[place])
            clock += services[place]
        first += max(0, here)
        clock += rng.exponential(1.5)
    return empty / visits, float(np.mean(waits))
