import msgspec
import numpy as np
import pytest

from headrace.analysis.queueing.join_queue import JoinQueue
from headrace.engine.engine import Engine
from headrace.experiments.arrivals import at_times, keep
from headrace.experiments.experiment import Trial
from headrace.experiments.qos import join_queue
from headrace.experiments.qos.join_queue import TABLES, simulate
from headrace.experiments.sample import Sample
from headrace.graph.graph import Graph, Vertex
from headrace.model.time import SECOND
from headrace.operators.specs import Output, Scan
from headrace.testing.clock import VirtualClock
from headrace.testing.simulation.engine import Costs, Simulation


def test_printed_utilizations_are_those_of_the_rates() -> None:
    assert [round(printed.queue.utilization, 3) for printed in TABLES] == [0.955, 0.860, 0.909, 0.818, 0.682]


def test_the_wait_is_that_of_the_formula() -> None:
    queue = JoinQueue((150, 75), (1 / 440, 1 / 220))
    means = [simulate(queue, 200_000, seed).mean() for seed in range(4)]
    assert np.mean(means) == pytest.approx(queue.wait, rel=0.05)


def test_the_engine_waits_as_long() -> None:
    """A busy operator of the engine on virtual time is the same queue: tuple by tuple, the waits are equal."""
    chance = np.random.default_rng(1)
    gaps = np.round(chance.exponential(0.01, 300) * SECOND)
    came = np.cumsum(gaps)
    cost = 8_000
    graph = Graph(
        (Vertex("S", Scan("S", ("x",))), Vertex("a", keep(1.0), ("S",)), Vertex("out", Output("out"), ("a",)))
    )
    trace = Simulation(Engine(graph), VirtualClock(), Costs(cost)).run(at_times("S", came, chance))
    left_to_do = np.concatenate(([0.0], np.cumsum(cost - gaps[1:])))
    waits = left_to_do - np.minimum.accumulate(left_to_do)
    assert [emission.latency - cost for emission in trace.emissions] == waits.tolist()


def test_a_tiny_run_gives_the_table() -> None:
    outcome = join_queue.report(join_queue.Size(2, 40_000), Trial("quick", 1))
    verdicts = {finding.what: finding.verdict for finding in outcome.findings}
    assert verdicts["windows 2 : 1, 150 + 75 /s: delay, by formula"] == "confirmed"
    assert verdicts["windows 2 : 1, 150 + 75 /s: delay, printed theory"] == "not confirmed"  # the misprint
    assert msgspec.json.encode(outcome)
    assert len(outcome.panels) == 2


def test_other_delays_are_not_confirmed() -> None:
    findings = list(join_queue._column(TABLES[0], Sample((0.2, 0.2))))
    assert [finding.verdict for finding in findings[:2]] == ["not confirmed"] * 2
