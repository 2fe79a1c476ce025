import math

import numpy as np
import polars as pl
import pytest

from headrace.analysis.forecast.network import Feed, Network, Station
from headrace.analysis.queueing.moments import constant
from headrace.engine.engine import Engine
from headrace.engine.scheduling.master import Share
from headrace.engine.scheduling.schedulers import SCHEDULERS
from headrace.engine.scheduling.schedulers.fairness import Fairness
from headrace.experiments.arrivals import keep
from headrace.graph.graph import Graph, Vertex
from headrace.model.page import Page
from headrace.model.schema import TS
from headrace.model.time import SECOND
from headrace.operators.specs import Output, Scan
from headrace.testing.clock import VirtualClock
from headrace.testing.simulation.engine import Arrival, Costs, Simulation
from headrace.testing.simulation.stations import Dispatch, Processor, part_of_network

#: Microseconds and shares of the operators of two paths.
PATHS = {"a": ((300, 0.3), (900, 0.8), (200, 0.5)), "b": ((500, 0.6), (100, 0.9), (1500, 0.7), (400, 0.6))}


def network() -> Network:
    stations, queries = [], {}
    for name, operators in PATHS.items():
        origin = name
        for place, (cost, share) in enumerate(operators):
            stations.append(Station(f"{name}{place}", (Feed(origin, share),), constant(cost / SECOND), size=8.0))
            origin = stations[-1].name
        queries[f"q{name}"] = origin
    return Network({"a": 500.0, "b": 300.0}, tuple(stations), queries)


def arrivals(seed: int = 1, count: int = 60) -> dict[str, np.ndarray]:
    chance = np.random.default_rng(seed)
    return {
        name: np.cumsum(chance.integers(1, 2 * SECOND // rate, count)) / SECOND
        for name, rate in (("a", 500), ("b", 300))
    }


def by_engine(scheduler: str, processor: Processor) -> list[tuple[int, int]]:
    """Run the same tuples in the engine, each a page of its own; return when results and their tuples came."""
    vertices, outputs, costs, coming = [], [], {}, []
    for lane in processor._lanes:
        name, depth = lane.stream, len(lane.stations)
        vertices.append(Vertex(name, Scan(name, ("x",))))
        for place, (cost, _) in enumerate(PATHS[name]):
            vertices.append(
                Vertex(
                    f"{name}{place}",
                    keep(1 - (place + 1) / (depth + 1)),
                    (name if place == 0 else f"{name}{place - 1}",),
                )
            )
            costs[f"{name}{place}"] = cost
        outputs.append(Vertex(f"out{name}", Output(f"q{name}"), (f"{name}{depth - 1}",)))
        for born, far in zip(lane.born, lane.far, strict=True):
            stamp = round(born * SECOND)
            coming.append(Arrival(stamp, name, Page(pl.DataFrame({"x": [1 - (far + 1) / (depth + 1)], TS: [stamp]}))))
    engine = Engine(Graph((*vertices, *outputs)))
    part = part_of_network(network(), {"qa": 0.02, "qb": 0.01})
    engine.use_costs(part.costs)
    engine.use_schedulers([Share("all", SCHEDULERS[scheduler], part)], Fairness())
    trace = Simulation(engine, VirtualClock(), Costs(of=costs)).run(coming)
    return [(emission.time, int(emission.row[TS])) for emission in trace.emissions]


@pytest.mark.parametrize(
    "scheduler",
    [
        "path-capacity",
        "path-capacity-output",
        "fifo",
        "chain",
        "memory-optimal",
        "simplified",
        "segment",
        "edf",
        "threshold",
    ],
)
def test_results_come_when_they_come_from_the_engine_under_the_same_scheduler(scheduler: str) -> None:
    processor = Processor(network(), arrivals(), SCHEDULERS[scheduler], promises={"qa": 0.02, "qb": 0.01})
    seen = processor.run()
    ours = [(round(time * SECOND), round(born * SECOND)) for time, born in zip(seen.times, seen.born, strict=True)]
    assert len(ours) > 10
    assert ours == by_engine(scheduler, processor)


def test_every_scheduler_gives_the_same_results_in_the_same_total_time() -> None:
    for name, scheduler in SCHEDULERS.items():
        processor = Processor(network(), arrivals(2), scheduler)
        seen = processor.run()
        assert sorted(seen.born) == sorted(Processor(network(), arrivals(2), SCHEDULERS["fifo"]).run().born), name
        assert seen.left == 120
        assert processor.waiting() == 0


def test_choices_and_switches_cost_time() -> None:
    free, dear = (
        Processor(network(), arrivals(), SCHEDULERS["path-capacity"], Dispatch(1, *costs))
        for costs in ((0, 0), (1e-4, 1e-3))
    )
    assert dear.run().mean_wait > free.run().mean_wait
    assert free.seen.choices >= free.seen.switches > 0


def test_a_larger_page_needs_fewer_choices() -> None:
    small, large = (
        Processor(network(), arrivals(), SCHEDULERS["fifo"], Dispatch(page)).run().choices for page in (1, 10)
    )
    assert large < small


def test_what_is_shed_is_never_stored() -> None:
    crowd = {name: np.zeros(1000) for name in ("a", "b")}
    whole, shed = (Processor(network(), crowd, SCHEDULERS["fifo"]) for _ in range(2))
    shed.shed({"a0": 0.5, "b2": 1.0})
    whole.run()
    seen = shed.run()
    assert seen.peak == pytest.approx(0.75 * whole.seen.peak, rel=0.05)
    assert len(seen.of(0)[0]) == pytest.approx(len(whole.seen.of(0)[0]) / 2, rel=0.2)
    assert not len(seen.of(1)[0])
    assert set(seen.born) <= set(whole.seen.born)


def test_a_run_can_stop_and_go_on_with_another_scheduler() -> None:
    processor = Processor(network(), arrivals(), SCHEDULERS["memory-optimal"])
    processor.run(0.02)
    assert processor.clock >= 0.02
    held = processor.waiting()
    processor.use(SCHEDULERS["path-capacity"])
    assert processor.waiting() == held
    processor.run(math.inf)
    assert processor.seen.left == 120


def test_joins_are_served_from_both_sides_the_oldest_first() -> None:
    join = Station("j", (Feed("l", 1.0), Feed("r", 1.0)), constant(1.0))
    plan = Network({"l": 1.0, "r": 1.0}, (join, Station("top", (Feed("j", 1.0),), constant(1.0))), {"q": "top"})
    seen = Processor(plan, {"l": np.array([0.0, 0.2]), "r": np.array([0.1])}, SCHEDULERS["fifo"]).run()
    assert seen.born == [0.0, 0.1, 0.2]
    assert seen.times == [2.0, 4.0, 6.0]


def test_idle_time_passes() -> None:
    processor = Processor(network(), {"a": np.array([5.0]), "b": np.empty(0)}, SCHEDULERS["fifo"])
    processor.run(2.0)
    assert processor.clock == 2.0
    processor.run(10.0)
    assert processor.clock == 10.0
    assert len(processor.seen.waiting) == 10
