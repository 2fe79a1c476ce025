"""Verification, planning and admission: what the planner states makes a promise hold, and slightly less does not."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headrace.analysis.forecast.admission import admit
from headrace.analysis.forecast.network import Feed, Network, Station, faster, reached, thinned, with_rates
from headrace.analysis.forecast.planning import Remedy, largest_growth, remedy, smallest_shed, smallest_speed
from headrace.analysis.forecast.solver import forecast
from headrace.analysis.forecast.verification import Check, verify
from headrace.analysis.queueing.moments import constant
from headrace.model.qos import Qos, qos_of
from headrace.testing.simulation.rounds import SimulatedRounds, reference_plan

MUST = {"latency.class": "MUST", "memory.class": "MUST"}


def only(network: Network, qos: Qos) -> Check:
    (check,) = verify(forecast(network), "q", qos)
    return check


def latency(milliseconds: float) -> Qos:
    return qos_of({"latency": f"{milliseconds} ms", **MUST})


@given(st.floats(1000, 6000), st.floats(140, 400))
@settings(deadline=None, max_examples=40)
def test_the_stated_speed_keeps_the_latency_and_a_slightly_lower_one_does_not(rate: float, promised: float) -> None:
    network = reference_plan(rate)
    check = only(network, latency(promised))
    speed = smallest_speed(network, check)
    assert speed is not None
    assert only(faster(network, speed), latency(promised)).holds
    assert not only(faster(network, speed * 0.999), latency(promised)).holds
    assert check.holds == (speed <= 1)


@given(st.floats(1000, 6000), st.floats(200, 400))
@settings(deadline=None, max_examples=40)
def test_the_stated_share_to_shed_keeps_the_latency_and_a_slightly_smaller_one_does_not(
    rate: float, promised: float
) -> None:
    network = reference_plan(rate)
    check = only(network, latency(promised))
    share = smallest_shed(network, check)
    assert share is not None
    assert only(thinned(network, reached(network, "q")[1], share), latency(promised)).holds
    if share:
        assert not only(thinned(network, reached(network, "q")[1], share - 1e-4), latency(promised)).holds
    assert check.holds == (share == 0)


@given(st.floats(500, 5000), st.floats(100, 5000))
@settings(deadline=None, max_examples=30)
def test_the_stated_remedies_keep_the_memory(rate: float, promised: float) -> None:
    network = reference_plan(rate)
    qos = qos_of({"memory": f"{promised} B"})
    found = remedy(network, only(network, qos))
    if found.speed is not None:
        assert only(faster(network, found.speed), qos).holds
        assume(found.speed > 1e-6)
        assert not only(faster(network, found.speed * 0.999), qos).holds
    assert found.shed is not None
    assert only(thinned(network, reached(network, "q")[1], found.shed), qos).holds


@given(st.floats(500, 2500), st.floats(260, 600))
@settings(deadline=None, max_examples=30)
def test_rates_may_grow_as_far_as_stated_and_no_further(rate: float, promised: float) -> None:
    network = reference_plan(rate)
    factor = largest_growth(network, "q", latency(promised))

    def at(times):
        return only(
            with_rates(network, {name: value * times for name, value in network.streams.items()}), latency(promised)
        )

    assert at(factor).holds
    assert not at(factor * 1.001).holds


def test_planned_speed_is_confirmed_by_a_simulation() -> None:
    network, promised = reference_plan(2500), latency(320)
    speed = smallest_speed(network, only(network, promised))
    assert speed is not None
    assert speed > 1
    assert SimulatedRounds(faster(network, speed * 1.03), 1500, seed=3).latency("q") < 0.320
    assert SimulatedRounds(faster(network, speed * 0.95), 1500, seed=3).latency("q") > 0.320


def test_a_round_that_takes_too_long_elsewhere_cannot_be_mended_by_speed_or_shedding() -> None:
    network = reference_plan(elsewhere=1.0)
    assert remedy(network, only(network, latency(300))) == Remedy(speed=None, shed=None)


def test_overload_is_mended_by_either() -> None:
    network = reference_plan(20000)
    check = only(network, latency(400))
    assert math.isinf(check.predicted)
    assert check.margin == -math.inf
    found = remedy(network, check)
    assert found.speed is not None
    assert found.shed is not None
    assert 1 - 1 / found.speed == pytest.approx(found.shed, abs=0.05)  # setups do not shrink with the rate


def timed(rate: float) -> Network:
    stations = (
        Station("a", (Feed("s"),), constant(0.01)),
        Station("w", (Feed("a", 10 / rate),), constant(0.0001), emits="timed"),
    )
    return Network({"s": rate}, stations, {"q": "w"}, elsewhere=0.1)


def test_windows_that_come_late_for_overload_are_on_time_again_if_enough_is_shed() -> None:
    network = timed(200)
    check = only(network, qos_of({"throughput": "8/s"}))
    assert check.predicted == pytest.approx(10 / 2, rel=0.01)
    assert not check.holds
    share = smallest_shed(network, check)
    assert share == pytest.approx(1 - 100 / 200 / 0.8, abs=0.01)


def test_no_speed_and_no_shedding_gives_results_that_the_streams_do_not() -> None:
    network = timed(50)
    check = only(network, qos_of({"throughput": "11/s"}))
    assert (smallest_speed(network, check), smallest_shed(network, check)) == (None, None)


def test_promises_are_checked_at_their_strictest_instant() -> None:
    network = reference_plan()
    assert only(network, qos_of({"latency": "0 s: 300 ms, 500 s: 200 ms"})).promised == 0.2
    assert not only(network, qos_of({"latency": "0 s: 300 ms, 500 s: 200 ms"})).holds
    assert only(network, qos_of({"latency": "0 s: 300 ms, 500 s: 260 ms"})).holds
    assert only(network, qos_of({"throughput": "0 s: 1/s, 9 s: 181/s"})).holds is False


def test_margins_are_shares_of_what_was_promised() -> None:
    network = reference_plan()
    assert only(network, latency(504.84)).margin == pytest.approx(0.5, abs=1e-3)
    assert only(network, qos_of({"throughput": "90.29/s"})).margin == pytest.approx(1.0, abs=1e-3)


def test_a_query_is_admitted_only_if_everything_that_must_hold_still_does() -> None:
    network = reference_plan()
    both = replace(network, queries={"q": "O5", "r": "O3"})
    good, strict, wish = latency(300), latency(240), qos_of({"latency": "240 ms"})
    assert admit(both, "r", good, {"q": good}).admitted
    refused = admit(both, "r", good, {"q": strict})
    assert not refused.admitted
    assert [check.query for check in refused.broken] == ["q"]
    assert "latency of q" in refused.reason
    assert admit(both, "r", good, {"q": wish}).admitted  # best effort is no reason
    overloaded = admit(reference_plan(20000), "q", Qos(), {})
    assert not overloaded.admitted
    assert "more than available" in overloaded.reason
