"""A busy stream and an almost silent one, a selection on each, and a union: the graph for studies of idle waiting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from headrace.engine.bounds.ets import ClockEts
from headrace.engine.bounds.mode import BoundsMode
from headrace.engine.engine import Engine
from headrace.experiments.arrivals import keep
from headrace.graph.graph import Graph, Vertex
from headrace.model.time import SECOND
from headrace.operators.specs import OrderedUnion, Output, Scan, Union
from headrace.testing.clock import VirtualClock
from headrace.testing.simulation.engine import Arrival, Costs, Simulation, Trace

#: How bounds reach the union: none, or only those that a source sends (taken in turn, or absorbed at the head); on
#: demand, as punctuation
#: or by registers; not needed, as latent tuples pass in the order of arrival.
Bounds: TypeAlias = Literal["none", "absorbed", "punctuation", "registers", "latent"]

BUSY, SILENT, UNION = "S1", "S2", "U"
#: The share that selections pass.
SHARE = 0.95


def simulate(
    arrivals: Iterable[Arrival], bounds: Bounds, seconds: float, *, cost: int = 20, test: int = 1, strategy: str = "dfs"
) -> Trace:
    """Run on virtual time: `cost` microseconds per tuple or punctuation, 2 per bound, `test` per checked move."""
    clock = VirtualClock()
    ets = ClockEts(clock, {BUSY: None, SILENT: None}) if bounds in ("punctuation", "registers") else None
    union = Union(2) if bounds == "latent" else OrderedUnion(2)
    absorb = bounds in ("absorbed", "registers", "latent")
    engine = Engine(_graph(union), ets=ets, mode=BoundsMode(registers=bounds == "registers", absorb=absorb))
    engine.dispatch.use_strategy(strategy)
    return Simulation(engine, clock, Costs(cost, ets=2, test=test)).run(arrivals, round(seconds * SECOND))


def _graph(union: OrderedUnion | Union) -> Graph:
    scans = (Vertex(BUSY, Scan(BUSY, ("x",))), Vertex(SILENT, Scan(SILENT, ("x",))))
    selections = (Vertex("s1", keep(SHARE), (BUSY,)), Vertex("s2", keep(SHARE), (SILENT,)))
    return Graph((*scans, *selections, Vertex(UNION, union, ("s1", "s2")), Vertex("out", Output("out"), (UNION,))))
