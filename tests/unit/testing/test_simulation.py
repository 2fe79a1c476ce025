from __future__ import annotations

import polars as pl

from headrace.elements.expression import TRUE
from headrace.elements.page import Page
from headrace.elements.schema import TS
from headrace.graph.graph import Graph, Vertex
from headrace.operators.specs import Filter, OrderedUnion, Output, Scan
from headrace.runtime.engine import Engine
from headrace.testing.clock import VirtualClock
from headrace.testing.simulation import Arrival, Costs, Simulation, heartbeats

SCANS = tuple(Vertex(name, Scan(name, ())) for name in "AB")
MERGED = Graph((*SCANS, Vertex("s", Filter(TRUE), ("A",)), Vertex("U", OrderedUnion(2), ("s", "B")), Vertex("out", Output("out"), ("U",))))


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
