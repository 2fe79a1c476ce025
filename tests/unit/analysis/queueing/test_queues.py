"""Stand-alone queues: the validation numbers of tables 5.1 and 5.2, and a recursion that simulates."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.analysis.queueing import queues
from headrace.analysis.queueing.join_queue import JoinQueue, join_service
from headrace.analysis.queueing.moments import Moments, constant, deciding_tests, exponential

HALF_A_MILLION = 500_000


def lindley(gaps: np.ndarray, services: np.ndarray) -> np.ndarray:
    """Waits of a queue with one server: W(n+1) = max(0, W(n) + S(n) - gap), as a running minimum."""
    steps = np.concatenate([[0.0], np.cumsum(services[:-1] - gaps[1:])])
    return steps - np.minimum.accumulate(steps)


@pytest.mark.parametrize(
    ("rates", "services", "wait", "waiting"),
    [
        pytest.param((100, 100), (1 / 209.4, 1 / 209.4), 0.05080, 10.161, id="table 5.1, experiment 1"),
        pytest.param((90, 90), (1 / 209.4, 1 / 209.4), 0.01462, 2.6314, id="table 5.1, experiment 2"),
        pytest.param((200, 100), (1 / 440, 1 / 220), 0.01705, 5.1136, id="table 5.2, experiment 1"),
        pytest.param((180, 90), (1 / 440, 1 / 220), 0.00767, 2.0710, id="table 5.2, experiment 2"),
        pytest.param((150, 75), (1 / 440, 1 / 220), 0.00365, 0.8218, id="table 5.2, experiment 3"),
    ],
)
def test_3_8_waits_and_queues_of_the_join(
    rates: tuple[float, float], services: tuple[float, float], wait: float, waiting: float
) -> None:
    queue = JoinQueue(rates, services).solve()
    assert queue.wait == pytest.approx(wait, abs=6e-6)
    assert queue.waiting == pytest.approx(waiting, rel=1e-4)


@pytest.mark.parametrize(
    ("rates", "services", "utilization"),
    [
        ((100, 100), (1 / 209.4,) * 2, 0.9551),
        ((90, 90), (1 / 209.4,) * 2, 0.8596),
        ((150, 75), (1 / 440, 1 / 220), 0.6818),
    ],
)
def test_3_8_utilizations(rates: tuple[float, float], services: tuple[float, float], utilization: float) -> None:
    assert JoinQueue(rates, services).utilization == pytest.approx(utilization, abs=5e-5)


@pytest.mark.parametrize(
    ("rates", "services", "mean"), [((100, 100), (1 / 209.4,) * 2, 0.05003), ((150, 75), (1 / 440, 1 / 220), 0.00330)]
)
def test_3_3_mean_of_the_approximate_distribution_of_waits(
    rates: tuple[float, float], services: tuple[float, float], mean: float
) -> None:
    join = JoinQueue(rates, services)
    assert join.utilization / -join.decay() == pytest.approx(mean, abs=5e-6)
    assert join.waits_at_most(0.0) == pytest.approx(1 - join.utilization)
    assert join.waits_at_most(join.wait_of(0.99)) == pytest.approx(0.99)


def test_3_3_probabilities_of_few_tuples_have_a_closed_form() -> None:
    join = JoinQueue((150, 75), (1 / 440, 1 / 220))
    shares = join.distribution()
    rho, rate = join.utilization, 225
    c = [
        sum(
            own / rate * math.exp(-rate * d) * (rate * d) ** k for own, d in zip(join.rates, join.services, strict=True)
        )
        for k in range(2)
    ]
    assert shares[0] == pytest.approx(1 - rho)
    assert shares[1] == pytest.approx((1 - rho) * (1 / c[0] - 1))
    assert shares[2] == pytest.approx((1 - rho) * (1 - c[0] - c[1]) / c[0] ** 2)  # E-5


@given(st.floats(1, 200), st.floats(1, 200), st.floats(1e-4, 1e-2), st.floats(1e-4, 1e-2), st.floats(0.05, 0.95))
@settings(deadline=None, max_examples=40)
def test_3_3_distribution_sums_to_one_and_has_the_mean_of_5_8(
    first: float, second: float, d1: float, d2: float, rho: float
) -> None:
    scale = rho / (first * d1 + second * d2)
    join = JoinQueue((first * scale, second * scale), (d1, d2))
    shares = join.distribution()
    assert sum(shares) == pytest.approx(1, abs=1e-8)
    assert sum(k * share for k, share in enumerate(shares)) == pytest.approx(join.solve().number, rel=1e-5)


def test_3_3_scaling_law_keeps_the_queue_and_divides_the_wait() -> None:
    once, tenfold = (
        JoinQueue((100, 50), (1 / 300, 1 / 200)).solve(),
        JoinQueue((1000, 500), (1 / 3000, 1 / 2000)).solve(),
    )
    assert tenfold.number == pytest.approx(once.number)
    assert tenfold.wait == pytest.approx(once.wait / 10)


def test_3_3_a_join_with_a_relation_is_a_deterministic_queue() -> None:
    join, plain = JoinQueue((70, 0), (0.01, 0.0)).solve(), queues.deterministic(70, 100)
    assert (join.number, join.wait) == pytest.approx((plain.number, plain.wait))
    assert join.number_variance == pytest.approx(plain.number_variance, rel=1e-6)
    assert join.sojourn_variance == pytest.approx(plain.sojourn_variance, rel=1e-6)


def test_3_3_service_time_of_a_join_grows_with_the_other_window() -> None:
    assert join_service(hash_call=1, evaluation=0.5, output=0, other=1000, buckets=100) == 7
    assert join_service(hash_call=1, evaluation=0.5, output=0, other=1000, buckets=100, upkeep=0.3) == pytest.approx(10)


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.84])
def test_3_3_formulas_agree_with_a_simulation(rho: float) -> None:
    random = np.random.default_rng(5)
    gaps = random.exponential(1.0, HALF_A_MILLION * 2)
    for services, queue in (
        (np.full(len(gaps), rho), queues.deterministic(1.0, 1 / rho)),
        (random.exponential(rho, len(gaps)), queues.exponential(1.0, 1 / rho)),
        (
            random.choice([rho / 2, rho * 2], len(gaps), p=[2 / 3, 1 / 3]),
            queues.general(1.0, Moments(rho, rho**2 * 1.5)),
        ),
    ):
        waits = lindley(gaps, services)
        assert waits.mean() == pytest.approx(queue.wait, rel=0.03)
        if not math.isnan(queue.sojourn_variance):
            assert (waits + services).var() == pytest.approx(queue.sojourn_variance, rel=0.12)


def test_3_3_a_join_agrees_with_a_simulation() -> None:
    random = np.random.default_rng(6)
    join = JoinQueue((100, 300), (1 / 300, 1 / 700))
    gaps = random.exponential(1 / join.rate, HALF_A_MILLION)
    services = random.choice(join.services, HALF_A_MILLION, p=[0.25, 0.75])
    waits = lindley(gaps, services)
    assert waits.mean() == pytest.approx(join.wait, rel=0.03)
    assert (waits <= 0.01).mean() == pytest.approx(join.waits_at_most(0.01), abs=0.01)


def test_3_3_one_queue_in_three_forms() -> None:
    for rho in (0.1, 0.5, 0.9):
        assert queues.general(rho, constant(1.0)).wait == pytest.approx(queues.deterministic(rho, 1.0).wait)
        assert queues.general(rho, exponential(1.0)).wait == pytest.approx(queues.exponential(rho, 1.0).wait)
        assert queues.deterministic(rho, 1.0).number == pytest.approx(
            rho * queues.deterministic(rho, 1.0).sojourn
        )  # Little


def test_conditions_are_tried_until_one_decides() -> None:
    found = deciding_tests(((0.5, 1.0), (0.25, 2.0), (0.1, 3.0)))
    assert found.mean == pytest.approx(0.5 * 1 + 0.125 * 3 + 0.375 * 6)
    assert found.square == pytest.approx(0.5 * 1 + 0.125 * 9 + 0.375 * 36)


@pytest.mark.parametrize(
    "make",
    [lambda: queues.deterministic(2, 1), lambda: queues.exponential(1, 1), lambda: JoinQueue((1, 1), (1, 1)).solve()],
)
def test_too_much_load_waits_without_end(make: object) -> None:
    queue = make()
    assert math.isinf(queue.wait)
    assert math.isinf(queue.number)
