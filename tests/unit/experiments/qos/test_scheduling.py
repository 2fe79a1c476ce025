import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from headrace.engine.scheduling.schedulers import SCHEDULERS
from headrace.engine.scheduling.schedulers.round_robin import RoundRobin
from headrace.experiments.experiment import Range, Trial
from headrace.experiments.judging import below, within
from headrace.experiments.qos import fifo_or_chain, random_plans, scheduling
from headrace.experiments.qos.scheduling import PC, STRATEGIES, Measured
from headrace.experiments.sample import Sample
from headrace.testing.simulation.stations import Seen


@pytest.mark.parametrize("name", fifo_or_chain.TABLE)
def test_x9_every_cell_of_the_tables_comes_out(name: str) -> None:
    rows, (waiting, out, latency) = fifo_or_chain.simulate(name), fifo_or_chain.TABLE[name]
    assert rows.waiting == pytest.approx(list(waiting))
    assert rows.out == pytest.approx(list(out))
    assert rows.latency == pytest.approx(list(latency))


def test_x9_means_and_peaks_are_the_published_ones() -> None:
    outcome = fifo_or_chain.run(Trial("quick"))
    assert {finding.verdict for finding in outcome.findings} == {"confirmed"}


def test_x9_another_schedule_is_not_confirmed() -> None:
    swapped = {"fifo": fifo_or_chain.simulate("chain"), "chain": fifo_or_chain.simulate("fifo")}
    swapped |= {name: swapped[like] for name, like in fifo_or_chain.LIKE.items()}
    verdicts = [finding.verdict for finding in fifo_or_chain._findings(swapped)]
    assert verdicts.count("not confirmed") >= 8


@pytest.mark.parametrize("seed", [1, 2])
def test_path_capacity_gives_all_tuples_less_time_in_the_system_than_fifo_and_round_robin_of_paths(seed: int) -> None:
    plan = random_plans.plan(seed, 8)
    waits = {name: random_plans.simulate(plan, scheduler, seed).mean_wait for name, scheduler in
             ((PC, SCHEDULERS[PC]), ("fifo", SCHEDULERS["fifo"]), ("paths", RoundRobin(("path",))))}  # fmt: skip
    assert waits[PC] < min(waits["fifo"], waits["paths"])


def test_memory_optimal_and_chain_need_the_same_memory_if_choices_are_free_and_far_less_than_path_capacity() -> None:
    plan = random_plans.plan(3, 8)
    peaks = {name: random_plans.simulate(plan, SCHEDULERS[name], 3).peak for name in (PC, "memory-optimal", "chain")}
    assert peaks["memory-optimal"] == pytest.approx(peaks["chain"], rel=0.03)
    assert peaks["memory-optimal"] < 0.8 * peaks[PC]


def test_a_tiny_run_on_drawn_plans_gives_the_table() -> None:
    outcome = random_plans.report(random_plans.Size(1, 2), Trial("quick", 5))
    verdicts = {finding.what: finding.verdict for finding in outcome.findings}
    assert verdicts["results"] == "confirmed"
    assert msgspec.json.encode(outcome)
    assert len(outcome.panels) == 2


def test_a_tiny_run_under_overload_gives_the_same_results_for_all_strategies() -> None:
    seen: list[str] = []
    outcome = scheduling.report(scheduling.Size(1, 1, 0.5), Trial("quick", 1, lambda what, done, of: seen.append(what)))
    verdicts = {finding.what: finding.verdict for finding in outcome.findings}
    assert verdicts["results in all"] == "confirmed"
    assert verdicts[f"most memory: memory-optimal to {PC}"] == "confirmed"
    assert len(seen) == len(STRATEGIES)
    assert msgspec.json.encode(outcome)
    assert len(outcome.panels) == 4


def test_orders_that_do_not_hold_are_not_confirmed() -> None:
    same = Measured(1.0, 1.0, 100.0, 50.0, 0.5, 10, 5, {})
    runs = {name: [same, same] for name in STRATEGIES}
    verdicts = {finding.what: finding.verdict for finding in scheduling._findings(runs)}
    assert verdicts[f"latency: {PC} to simplified"] == "not confirmed"
    assert verdicts["most memory: memory-optimal to chain"] == "confirmed"  # no more than
    runs["chain"] = [same, replace(same, results=11)]
    assert {finding.what: finding.verdict for finding in scheduling._findings(runs)}[
        "results in all"
    ] == "not confirmed"


def test_results_are_counted_by_second() -> None:
    counts, latencies = scheduling.per_second(Seen(times=[0.5, 2.1, 2.9], born=[0.0, 2.0, 2.0], queries=[0, 0, 0]))
    assert counts.tolist() == [1, 0, 2]
    assert latencies[0] == 0.5
    assert math.isnan(latencies[1])
    assert np.isclose(latencies[2], 0.5)


def test_an_order_is_judged_by_every_seed() -> None:
    assert below(Sample((0.8, 0.9))) == "confirmed"
    assert below(Sample((0.8, 1.1))) == "consistent"
    assert below(Sample((0.9, 1.3))) == "not confirmed"


def test_a_range_is_within_another_or_meets_it() -> None:
    assert within(Range(1.0, 2.0), Range(0.9, 1.9), 0.1) == "confirmed"
    assert within(Range(1.0, 3.0), Range(0.9, 1.9), 0.1) == "consistent"
    assert within(Range(2.0, 3.0), Range(0.9, 1.9), 0.1) == "not confirmed"
