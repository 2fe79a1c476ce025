"""The model of rounds forecasts what takes turns, and not what chooses by load: the book gives no formula for that."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from headrace.analysis.forecast.solver import forecast
from headrace.engine.scheduling.schedulers import SCHEDULERS
from headrace.experiments.qos.load_latency import streams
from headrace.experiments.qos.workload import at_load, workload
from headrace.testing.simulation.rounds import SimulatedRounds
from headrace.testing.simulation.stations import Dispatch, Processor

LOAD, SECONDS, SEED = 0.9, 10.0, 1


@pytest.mark.slow
def test_the_vacations_of_rounds_are_those_of_rounds_only() -> None:
    """At 90 % load, in virtual time: rounds come out as predicted; with the same costs Chain takes far longer."""
    network = at_load(workload(SEED), LOAD)
    arrivals, queries = streams(network, "Poisson", SECONDS, SEED), list(network.queries)
    predicted = statistics.fmean(forecast(network).queries[query].latency for query in queries)
    rounds = SimulatedRounds(network, 10**9, SEED, arrivals)
    assert statistics.fmean(float(np.mean(rounds.latencies(query))) for query in queries) == pytest.approx(
        predicted, rel=0.3
    )

    def measured(name: str) -> float:
        seen = Processor(network, arrivals, SCHEDULERS[name], Dispatch(10, switch=5e-5), seed=SEED).run()
        latencies = [seen.of(place)[1] for place in range(len(queries))]
        return statistics.fmean(float(mine.mean()) for mine in latencies if len(mine))

    in_turn = measured("round-robin")
    assert measured("path-capacity") > 1.5 * in_turn
    assert measured("chain") > 5 * in_turn
    assert measured("edf") < in_turn
