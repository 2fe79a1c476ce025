"""The solver: the reference case of section 3.9, and plans of all shapes against a simulation."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.analysis.forecast.network import Feed, Network, Station, faster, flow, thinned, with_rates
from headrace.analysis.forecast.rounds import solve_round
from headrace.analysis.forecast.solver import forecast
from headrace.analysis.queueing.moments import constant
from headrace.testing.simulation.rounds import SimulatedRounds, reference_plan

REFERENCE = {"O1": 0.19591, "O2": 0.20004, "O3": 0.04017, "O4": 0.19800, "O5": 0.03875}


def test_3_9_reference_case() -> None:
    found = forecast(reference_plan())
    assert found.round == pytest.approx(0.38254, abs=5e-6)
    for name, wait in REFERENCE.items():
        assert found.stations[name].wait == pytest.approx(wait, abs=5e-6)
    assert found.queries["q"].latency == pytest.approx(0.25242, abs=5e-6)


def test_3_9_weights_of_the_paths() -> None:
    network = reference_plan()
    through = {"O1": 0.24288 * 0.30703 * 0.308514, "O2": 0.487534 * 0.300177 * 0.308514, "O4": 0.36534 * 0.307712}
    out = flow(network).out["O5"]
    assert {name: round(1000 * share / out, 4) for name, share in through.items()} == {
        "O1": 0.1274,
        "O2": 0.2500,
        "O4": 0.6226,
    }


def test_3_9_simulated() -> None:
    """The specification's own simulation, and ours."""
    found = SimulatedRounds(reference_plan(), 3000, seed=1)
    assert found.round == pytest.approx(0.38212, rel=5e-3)
    for name, wait in {"O1": 0.19570, "O2": 0.19987, "O3": 0.04022, "O4": 0.19799, "O5": 0.03890}.items():
        assert found.wait(name) == pytest.approx(wait, rel=0.015)
        assert found.wait(name) == pytest.approx(REFERENCE[name], rel=0.015)
    assert found.latency("q") == pytest.approx(0.25262, rel=0.01)


def plan(shape: str, load: float) -> Network:
    """Plans of several shapes whose processor has this load."""
    stations = {
        "path": (_station("a", 3, Feed("s", 0.6)), _station("b", 5, Feed("a", 0.5)), _station("c", 8, Feed("b"))),
        "join": (
            _station("a", 3, Feed("s", 0.5)),
            _station("b", 2, Feed("t", 0.9)),
            _station("c", 9, Feed("a", 0.4), Feed("b", 0.3)),
        ),
        "shared": (
            _station("a", 3, Feed("s", 0.7)),
            _station("b", 4, Feed("a", 0.2)),
            _station("d", 6, Feed("a", 0.5)),
            _station("c", 2, Feed("d")),
        ),
        "mixed": (_station("a", 4, Feed("s", 0.5)), _station("c", 6, Feed("a", 0.8), Feed("t", 0.3))),
    }[shape]
    network = Network({"s": 1.0, "t": 0.7}, stations, {"q": "c"}, elsewhere=150.0)
    return faster(network, forecast(faster(network, 1e6)).utilization * 1e6 / load)


def _station(name: str, service: float, *feeds: Feed) -> Station:
    return Station(name, feeds, constant(service), constant(0.5))


@pytest.mark.parametrize("load", [0.3, 0.6, 0.84])
@pytest.mark.parametrize("shape", ["path", "join", "shared", "mixed"])
def test_x5_below_85_percent_load_the_error_is_below_3_percent(shape: str, load: float) -> None:
    network = plan(shape, load)
    predicted, simulated = forecast(network), SimulatedRounds(network, 2500, seed=2)
    assert predicted.utilization == pytest.approx(load)
    assert predicted.round == pytest.approx(simulated.round, rel=0.03)
    assert predicted.queries["q"].latency == pytest.approx(simulated.latency("q"), rel=0.03)
    for station in network.stations:
        assert predicted.stations[station.name].wait == pytest.approx(simulated.wait(station.name), rel=0.06, abs=1.0)


@pytest.mark.parametrize("load", [0.3, 0.84])
@pytest.mark.parametrize("shape", ["path", "join", "shared"])
def test_micro_batches_deliver_when_they_end(shape: str, load: float) -> None:
    network = replace(plan(shape, load), batched=True)
    predicted, simulated = forecast(network), SimulatedRounds(network, 2500, seed=4)
    assert predicted.queries["q"].latency == pytest.approx(simulated.latency("q"), rel=0.03)
    assert predicted.queries["q"].latency == pytest.approx(1.5 * predicted.round, rel=0.05)
    for station in network.stations:
        assert predicted.stations[station.name].wait == pytest.approx(simulated.wait(station.name), rel=0.06, abs=1.0)


@given(st.sampled_from(["path", "join", "shared", "mixed"]), st.floats(0.05, 0.6), st.floats(1.02, 1.5))
@settings(deadline=None)
def test_latency_and_queues_grow_with_the_rate(shape: str, load: float, factor: float) -> None:
    network = plan(shape, load)
    before, after = (
        forecast(network),
        forecast(with_rates(network, {name: rate * factor for name, rate in network.streams.items()})),
    )
    assert after.queries["q"].latency > before.queries["q"].latency
    assert after.queries["q"].memory > before.queries["q"].memory
    assert after.queries["q"].throughput == pytest.approx(before.queries["q"].throughput * factor)


def test_more_than_can_be_served_is_reported_with_the_excess() -> None:
    network = plan("join", 0.9)
    found = forecast(with_rates(network, {name: rate * 1.5 for name, rate in network.streams.items()}))
    assert not found.stable
    assert found.excess == pytest.approx(0.35)
    assert math.isinf(found.queries["q"].latency)
    assert found.queries["q"].throughput == pytest.approx(forecast(network).queries["q"].throughput * 1.5 / 1.35)
    assert found.bottleneck == "c"


def test_a_round_without_cost_leaves_the_wait_for_those_who_came_before() -> None:
    network = Network({"s": 0.5}, (Station("a", (Feed("s"),), constant(1.0)),), {"q": "a"})
    assert forecast(network).stations["a"].wait == pytest.approx(0.5)  # M/D/1 at half load


def test_exhaustive_service_waits_no_longer_than_gated() -> None:
    network = reference_plan()
    gated, exhaustive = forecast(network), forecast(replace(network, discipline="exhaustive"))
    assert exhaustive.queries["q"].latency < gated.queries["q"].latency


def test_weights_change_how_often_a_station_runs() -> None:
    network = reference_plan()
    twice = replace(
        network, stations=tuple(replace(each, weight=2.0 if each.name == "O1" else 1.0) for each in network.stations)
    )
    visits = solve_round(twice, flow(twice)).visits
    assert visits["O1"].cycle == pytest.approx(visits["O3"].cycle / 2)
    assert forecast(twice).stations["O1"].wait < forecast(network).stations["O1"].wait
    total = sum(2 * visit.turn if name == "O1" else visit.turn for name, visit in visits.items()) + 0.25
    assert total == pytest.approx(visits["O3"].cycle)  # (5.58)


def test_work_outside_lengthens_the_vacations() -> None:
    network = reference_plan()
    half = forecast(replace(network, outside=0.5))
    assert half.utilization == pytest.approx(2 * forecast(network).utilization)
    assert half.queries["q"].latency > forecast(network).queries["q"].latency


def test_an_exchange_costs_a_round() -> None:
    network = plan("path", 0.5)
    moved = replace(
        network,
        stations=tuple(
            replace(each, feeds=(replace(each.feeds[0], exchanged=each.name == "b"),)) for each in network.stations
        ),
    )
    assert forecast(moved).queries["q"].latency == pytest.approx(
        forecast(network).queries["q"].latency + forecast(network).round
    )


def test_state_is_what_windows_hold() -> None:
    join = Station("j", (Feed("s", 1.0, window=60.0), Feed("t", 1.0, window=30.0)), constant(1e-6), kept=5, size=10)
    found = forecast(Network({"s": 100, "t": 20}, (join,), {"q": "j"})).stations["j"]
    assert found.kept == 100 * 60 + 20 * 30 + 5
    assert found.bytes == pytest.approx((found.kept + found.queued) * 10)


def test_what_if_rates_change_what_joins_and_windows_give() -> None:
    join = Station("j", (Feed("s", 2.0), Feed("t", 1.0)), constant(1e-6), emits="pairs")
    window = Station("w", (Feed("j", 0.1),), constant(1e-6), emits="timed")
    network = Network({"s": 100, "t": 50}, (join, window), {"q": "w"})
    before, after = flow(network).out, flow(thinned(network, frozenset({"s"}), 0.5)).out
    assert after["j"] == pytest.approx(before["j"] / 2)  # as many tuples of t, half as many partners
    assert after["w"] == pytest.approx(before["w"])
    assert flow(with_rates(network, {"s": 200, "t": 100})).out["j"] == pytest.approx(before["j"] * 4)
