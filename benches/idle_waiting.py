"""How long a union waits for a silent input, by how bounds reach it: a virtual-time experiment.

Two Poisson streams of 50 and 0.05 tuples a second pass a selection each (95 %) and meet in a union. An operator takes 20 us a tuple, a bound 2 us, a
rule 1 us. Run: python benches/idle_waiting.py [seconds] [seed]
"""

from __future__ import annotations

import random
import sys

import polars as pl

from headrace.elements.expression import Call, Column, Literal
from headrace.elements.page import Page
from headrace.elements.schema import TS
from headrace.elements.time import SECOND
from headrace.elements.types import Type
from headrace.graph.graph import Graph, Vertex
from headrace.operators.specs import Filter, OrderedUnion, Output, Scan, Union
from headrace.runtime.engine import Engine
from headrace.runtime.ets import ClockEts
from headrace.testing.clock import VirtualClock
from headrace.testing.simulation import Arrival, Costs, Simulation, Trace, heartbeats

COSTS = Costs(20, ets=2, test=1)
KEEP = Call("<", (Column("x", Type.DOUBLE), Literal(0.95, Type.DOUBLE)), Type.BOOLEAN)


def graph(union: OrderedUnion | Union) -> Graph:
    scans = tuple(Vertex(name, Scan(name, ("x",))) for name in ("S1", "S2"))
    selections = (Vertex("s1", Filter(KEEP), ("S1",)), Vertex("s2", Filter(KEEP), ("S2",)))
    return Graph((*scans, *selections, Vertex("U", union, ("s1", "s2")), Vertex("out", Output("out"), ("U",))))


def poisson(source: str, rate: float, until: int, chance: random.Random) -> list[Arrival]:
    found, time = [], 0.0
    while (time := time + chance.expovariate(rate) * SECOND) < until:
        rows = pl.DataFrame({"x": [chance.random()], TS: [int(time)]})
        found.append(Arrival(int(time), source, Page(rows)))
    return found


def measure(case: str, seconds: int, seed: int) -> Trace:
    chance, clock, until = random.Random(seed), VirtualClock(), seconds * SECOND
    arrivals = poisson("S1", 50, until, chance) + poisson("S2", 0.05, until, chance)
    kind, _, rate = case.partition(" ")
    if rate:
        arrivals += heartbeats("S2", SECOND // int(rate), until)
    ets = ClockEts(clock, {"S1": None, "S2": None}) if kind in ("demand", "registers") else None
    engine = Engine(
        graph(Union(2) if kind == "latent" else OrderedUnion(2)), ets=ets, registers=kind == "registers", absorb=kind not in ("literal", "demand")
    )
    return Simulation(engine, clock, COSTS).run(arrivals, until)


def main() -> None:
    seconds, seed = (int(text) for text in (sys.argv[1:] + ["100", "1"][len(sys.argv) - 1 :])[:2])
    print(f"{'case':<16}{'mean latency ms':>16}{'idle %':>10}{'peak':>8}{'bounds':>8}")
    for case in ("none", "literal 10", "literal 100", "literal 1000", "literal 5000", "absorb 5000", "demand", "registers", "latent"):
        trace = measure(case, max(2, seconds // 20) if case.endswith("000") else seconds, seed)
        print(f"{case:<16}{trace.mean_latency() / 1000:>16.4f}{100 * trace.idle_share('U'):>10.3f}{trace.peak:>8}{trace.asked:>8}", flush=True)


if __name__ == "__main__":
    main()
