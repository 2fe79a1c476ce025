from __future__ import annotations

import polars as pl

from headrace.engine.bounds.mode import BoundsMode
from headrace.engine.engine import Engine
from headrace.graph.graph import Graph, Vertex
from headrace.model.expressions.expression import TRUE
from headrace.model.page import Page
from headrace.model.schema import TS
from headrace.operators.specs import Filter, OrderedUnion, Output, Scan
from headrace.testing.clock import VirtualClock
from headrace.testing.simulation.engine import Arrival, Costs, Simulation, heartbeats

SCANS = tuple(Vertex(name, Scan(name, ())) for name in "AB")
MERGED = Graph(
    (
        *SCANS,
        Vertex("s", Filter(TRUE), ("A",)),
        Vertex("U", OrderedUnion(2), ("s", "B")),
        Vertex("out", Output("out"), ("U",)),
    )
)


def arrival(source: str, *stamps: int) -> Arrival:
    return Arrival(stamps[0], source, Page(pl.DataFrame({TS: stamps})))


def test_it_tells_how_long_an_operator_waited_and_how_much_was_queued() -> None:
    clock = VirtualClock()
    simulation = Simulation(Engine(MERGED), clock)
    trace = simulation.run([arrival("A", 10), arrival("A", 20), arrival("B", 25)], until=30)
    assert trace.times() == [25, 25]
    assert trace.waited == {"U": 15 + 5}  # the first tuple for B's, then B's for another of A
    assert trace.idle_share("U") == 20 / 30
    assert trace.peak == 3
    assert trace.mean_latency() == (15 + 5) / 2
    assert (trace.ended, clock.now()) == (30, 30)


def test_costs_count_by_tuple_and_operator() -> None:
    clock = VirtualClock()
    simulation = Simulation(Engine(MERGED), clock, Costs(2, punctuation=1, of={"s": 5}))
    trace = simulation.run([arrival("A", 0, 0, 0), *heartbeats("B", 10, 10)])
    assert trace.times() == [15 + 3 * 2] * 3  # the bound came at 10, while the selection was busy
    simulation.run([arrival("A", 30)])
    assert clock.now() == 35


def test_rules_and_bounds_may_cost_too() -> None:
    clock = VirtualClock()
    engine = Engine(MERGED)
    Simulation(engine, clock, Costs(0, test=1)).run([arrival("A", 0)])
    assert clock.now() == engine.tests > 0


def test_an_operator_may_take_punctuation_at_no_cost() -> None:
    clock = VirtualClock()
    graph = Graph(
        (
            SCANS[0],
            Vertex("s", Filter(TRUE), ("A",)),
            Vertex("t", Filter(TRUE), ("s",)),
            Vertex("out", Output("out"), ("t",)),
        )
    )
    Simulation(Engine(graph), clock, Costs(5, free=("s",))).run(heartbeats("A", 1, 1))
    assert clock.now() == 1 + 5  # only t's


def test_a_tuple_behind_punctuation_is_held_but_its_operator_is_not_idle() -> None:
    simulation = Simulation(Engine(MERGED, mode=BoundsMode(absorb=False)), VirtualClock(), Costs(0, punctuation=3))
    trace = simulation.run([*heartbeats("B", 5, 5), arrival("A", 6)], until=20)
    assert trace.behind == {"U": 3}  # the bound 5 of B is taken first
    assert trace.waited == {"U": 20 - 9}
    assert trace.held_share("U") == 14 / 20


def test_each_operator_whose_rule_is_looked_at_counts_once() -> None:
    engine = Engine(
        Graph(
            (
                SCANS[0],
                Vertex("s", Filter(TRUE), ("A",)),
                Vertex("t", Filter(TRUE), ("s",)),
                Vertex("out", Output("out"), ("t",)),
            )
        )
    )
    clock = VirtualClock()
    trace = Simulation(engine, clock, Costs(10, test=1)).run([arrival("A", 0)])
    assert trace.times() == [10 + 1 + 10]  # to go on from s costs 1; to begin at the source costs nothing
