"""What the tests of the cycle share: small graphs with readable names, and runs on virtual time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import polars as pl
import pytest

from headrace.engine.bounds.ets import ClockEts
from headrace.engine.bounds.mode import BoundsMode
from headrace.engine.engine import Engine
from headrace.graph.graph import Graph, Vertex
from headrace.model.expressions.expression import TRUE, Call, Column, Expr
from headrace.model.expressions.expression import Literal as Value
from headrace.model.page import Page, Punctuation
from headrace.model.schema import TS, Schema
from headrace.model.types import Type
from headrace.model.window import Extent
from headrace.operators.specs import Filter, OrderedJoin, OrderedUnion, Output, Scan
from headrace.testing.clock import VirtualClock
from headrace.testing.simulation.engine import Arrival, Costs, Simulation, Trace

#: How bounds reach a blocked operator: not at all, as punctuation taken in turn, as punctuation absorbed at the head,
#: by register.
Mode = Literal["none", "literal", "absorb", "registers"]


class Cycles:
    """Builds graphs and runs them."""

    def scan(self, name: str) -> Vertex:
        return Vertex(name, Scan(name, ("x",)))

    def select(self, name: str, origin: str, drop: Sequence[str] = ()) -> Vertex:
        """A selection that drops the tuples of these names."""
        keep: Expr = TRUE
        if drop:
            members: tuple[Expr, ...] = (Column("x", Type.STRING), *(Value(x, Type.STRING) for x in drop))
            keep = Call("not", (Call("in", members, Type.BOOLEAN),), Type.BOOLEAN)
        return Vertex(name, Filter(keep), (origin,))

    def union(self, name: str, *origins: str) -> Vertex:
        return Vertex(name, OrderedUnion(len(origins)), origins)

    def join(self, name: str, left: str, right: str, span: int) -> Vertex:
        sides = Schema.of(x=Type.STRING)
        spec = OrderedJoin("inner", sides, sides, ("y",), (), None, Extent(span), Extent(span), False)
        return Vertex(name, spec, (left, right))

    def output(self, name: str, origin: str) -> Vertex:
        return Vertex(name, Output(name), (origin,))

    def path(self, length: int) -> Graph:
        """S -> q1 -> ... -> sink."""
        chain = [self.scan("S")]
        for number in range(1, length + 1):
            chain.append(self.select(f"q{number}", chain[-1].id))
        return Graph((*chain, self.output("out", chain[-1].id)))

    def page(self, *tuples: tuple[str, int]) -> Page:
        return Page(
            pl.DataFrame(
                {"x": [x for x, _ in tuples], TS: [ts for _, ts in tuples]}, schema={"x": pl.String, TS: pl.Int64}
            )
        )

    def at(self, source: str, *tuples: str) -> list[Arrival]:
        """Arrivals at their timestamps: 'a1@4', or only a bound: '@4'; 'a@4>9' arrives at 9."""
        found = []
        for text in tuples:
            name, _, instant = text.partition("@")
            stamp, _, arrival = instant.partition(">")
            element = self.page((name, int(stamp))) if name else Punctuation(int(stamp))
            found.append(Arrival(int(arrival or stamp), source, element))
        return found

    def engine(
        self,
        graph: Graph,
        mode: Mode = "none",
        *,
        strategy: str = "dfs",
        skews: dict[str, int | None] | None = None,
        **more: Any,
    ) -> Engine:
        """An engine whose sources are stamped by its clock (`engine.ets`'s) unless `skews` says otherwise."""
        self.clock = VirtualClock()
        if skews is None:
            skews = {vertex.id: None for vertex in graph if not vertex.inputs}
        ets = None if mode == "none" else ClockEts(self.clock, skews)
        engine = Engine(
            graph, ets=ets, mode=BoundsMode(registers=mode == "registers", absorb=mode != "literal", **more)
        )
        engine.dispatch.use_strategy(strategy)
        return engine

    def simulate(
        self,
        graph: Graph,
        arrivals: Iterable[Arrival],
        mode: Mode = "none",
        *,
        cost: int = 0,
        strategy: str = "dfs",
        until: int | None = None,
        **more: Any,
    ) -> Trace:
        self.last = self.engine(graph, mode, strategy=strategy, **more)
        return Simulation(self.last, self.clock, Costs(cost)).run(arrivals, until)

    def run(self, engine: Engine, arrivals: Iterable[Arrival]) -> Trace:
        """Go on with the engine that was made last."""
        return Simulation(engine, self.clock, Costs()).run(arrivals)

    def named(self, trace: Trace, end: str | None = None) -> dict[str, int]:
        """When each tuple came out; they have names of their own."""
        return {emission.row["x"]: emission.time for emission in trace.emissions if end in (None, emission.end)}


@pytest.fixture
def cycles() -> Cycles:
    return Cycles()
