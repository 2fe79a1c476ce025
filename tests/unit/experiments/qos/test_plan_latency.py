from dataclasses import replace

import msgspec
import numpy as np
import pytest

from headrace.analysis.forecast.network import flow
from headrace.experiments.experiment import Trial
from headrace.experiments.qos import load_latency, plan_latency
from headrace.experiments.qos.plan_latency import PLAN, Compared, global_order
from headrace.experiments.qos.workload import TARGET, TARGET_STATIONS, at_load, workload
from headrace.experiments.sample import Sample
from headrace.testing.simulation.rounds import SimulatedRounds, reference_plan


def test_the_global_order_runs_three_plans_between_two_operators_of_the_target() -> None:
    network = workload(1)
    order = [station.name for station in global_order(network).stations]
    assert sorted(order) == sorted(station.name for station in network.stations)
    places = [order.index(name) for name in TARGET_STATIONS]
    assert places[0] == 0
    assert places == sorted(places)
    between = {name.partition(".")[0] for name in order[places[1] + 1 : places[2]]}
    assert len(between) == 3
    flow(global_order(network))  # each still follows those that feed it


def test_exhaustive_rounds_serve_what_comes_meanwhile() -> None:
    network = reference_plan(elsewhere=0.05)
    gated = SimulatedRounds(network, 400, 1).latency("q")
    exhaustive = SimulatedRounds(replace(network, discipline="exhaustive"), 400, 1).latency("q")
    assert exhaustive < gated


def test_given_arrivals_are_all_served_and_waited_for() -> None:
    network = reference_plan(20, elsewhere=0.0)
    arrivals = {name: np.array([1.0, 20.0, 30.0, 40.0]) for name in network.streams}
    run = SimulatedRounds(network, 10**9, 1, arrivals)
    assert run.wait("O1") < 0.01


def test_a_tiny_run_gives_the_tables() -> None:
    outcome = plan_latency.report(plan_latency.Size(2, 30), Trial("quick", 1))
    whats = [finding.what for finding in outcome.findings]
    assert {"hierarchical: plan", "global: O3", "exhaustive to gated: the plan"} <= set(whats)
    assert msgspec.json.encode(outcome)
    assert len(outcome.panels) == 3


def test_a_forecast_that_is_far_off_is_not_confirmed() -> None:
    names = (*TARGET_STATIONS, PLAN)
    off = Compared(dict.fromkeys(names, 0.1), {name: Sample((0.2, 0.2)) for name in names})
    findings = {
        finding.what: finding for finding in plan_latency._claims({"hierarchical": off, "global": off}, off, {0.8: off})
    }
    assert findings["hierarchical: largest error of the forecast"].verdict == "not confirmed"
    assert findings["load 80 %: error of the forecast for the plan"].verdict == "not confirmed"
    assert findings["global to hierarchical: the plan"].verdict != "confirmed"


def test_latency_grows_with_the_load_and_self_similar_streams_have_the_same_rates() -> None:
    network = at_load(workload(1), 0.9)
    streams = load_latency.streams(network, "self-similar", 60, 1)
    assert {name: len(times) / 60 for name, times in streams.items()} == pytest.approx(network.streams, rel=0.1)
    size = load_latency.Size(1, 1, 3, (0.7, 0.9, 0.95, 0.99))
    outcome = load_latency.report(size, Trial("quick", 1))
    assert outcome.findings[0].what.startswith("Poisson: growth")
    calm = load_latency.measure(at_load(network, 0.3), "Poisson", size, Trial("quick", 1))
    assert calm.mean.mean < load_latency.measure(network, "Poisson", size, Trial("quick", 1)).mean.mean


def test_bursts_that_change_nothing_are_not_confirmed() -> None:
    same = {
        load: load_latency.Seen(*(Sample((0.1 / (1.01 - load),)) for _ in range(3))) for load in (0.7, 0.9, 0.95, 0.99)
    }
    foreseen = {load: each.mean.mean for load, each in same.items()}
    findings = {
        finding.what: finding.verdict
        for finding in load_latency._claims({"Poisson": same, "self-similar": same}, foreseen)
    }
    assert findings["at 90 %: deviation, self-similar to Poisson"] == "not confirmed"
    assert findings["below 95 %: mean, self-similar to Poisson, at most"] == "confirmed"


def test_the_target_is_a_query_of_the_workload() -> None:
    assert workload(1).queries[TARGET] == "O5"
