import msgspec
import numpy as np
import pytest

from headrace.analysis.capacity.load import load
from headrace.experiments.experiment import Trial
from headrace.experiments.qos import shedding
from headrace.experiments.qos.shedding import (
    GROUPS,
    Ran,
    group_of,
    lost,
    operators_of,
    paths_of,
    simulate,
    smoothed,
    worst,
)
from headrace.experiments.qos.workload import utilization, workload
from headrace.testing.simulation.stations import Seen


def test_the_load_of_all_paths_is_the_utilization() -> None:
    network = workload(1, load=1.1)
    paths = paths_of(network, network.streams)
    # of a join only the mean selectivity of both sides is used
    assert load([(path.labels, path.rate) for path in paths], operators_of(network)) == pytest.approx(
        utilization(network), rel=0.05
    )
    assert {path.error for path in paths} == {error for _, error in GROUPS}


def test_an_overload_of_a_quarter_is_shed_and_deadlines_hold_under_edf() -> None:
    network = workload(2, load=1.25)
    chance = np.random.default_rng(1)
    arrivals = {name: np.sort(chance.random(round(rate * 3)) * 3) for name, rate in network.streams.items()}
    whole, shed = (simulate(network, arrivals, "edf", 2, sheds=sheds) for sheds in (False, True))
    assert shed.seen.peak < whole.seen.peak
    assert worst(shed.seen, 0, len(network.queries)) <= 0.6 < worst(whole.seen, 0, len(network.queries))
    assert whole.seen.dropped == 0
    assert max(value for _, value in shed.shed) > 0.1
    for query in range(len(network.queries)):
        wanted = len(whole.seen.of(query)[0])
        bears = GROUPS[group_of(query)][1]
        assert lost(shed.seen, whole.seen, query) <= bears + 3 * (bears * (1 - bears) / max(1, wanted)) ** 0.5


def test_nothing_is_shed_if_everything_fits() -> None:
    network = workload(2, load=0.4)
    arrivals = {name: np.linspace(0.01, 2, round(rate * 2)) for name, rate in network.streams.items()}
    assert simulate(network, arrivals, "path-capacity", 2, sheds=True).seen.dropped == 0


def test_a_tiny_run_gives_the_table() -> None:
    outcome = shedding.report(shedding.Size(1, 0.3), Trial("quick", 1))
    assert {finding.what for finding in outcome.findings} >= {
        "edf, 0.6 s: largest latency with shedding",
        "path-capacity, 0.6 s: results lost",
    }
    assert msgspec.json.encode(outcome)
    assert len(outcome.panels) == 4


def test_late_results_and_losses_are_not_confirmed() -> None:
    queries = 3
    late = Seen([3.0, 3.0, 3.0, 4.0, 6.0], [0.0, 0.0, 0.0, 0.0, 0.0], [0, 1, 2, 0, 0], peak=10.0, waiting=[1.0, 1.0])
    many = Seen([3.0] * 300, [0.0] * 300, [0, 1, 2] * 100, peak=10.0, waiting=[1.0, 1.0])
    runs = {(name, sheds): [Ran(late if sheds else many)] for name in shedding.SCHEDULES for sheds in (False, True)}
    verdicts = {finding.what: finding.verdict for finding in shedding._findings(runs, queries)}
    assert verdicts["edf, 0.6 s: largest latency with shedding"] == "not confirmed"
    assert verdicts["path-capacity, 1.5 s: largest latency with shedding"] == "not confirmed"
    assert verdicts["edf: largest loss beyond tolerance and chance"] == "not confirmed"
    assert verdicts["edf: largest queues, with shedding to without"] == "not confirmed"


def test_the_moving_mean_is_of_the_last_second() -> None:
    seen = Seen([0.5, 0.9, 1.4, 2.5], [0.0, 0.0, 1.0, 2.0], [0, 0, 0, 0])
    assert smoothed(seen, 0)[0] == pytest.approx((1.0, 0.7))
