"""Which rule stands in which row of the dispatch table: the strategies in force, and the arcs that are cut."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from headrace.engine.dispatch.cycle import Cycle
from headrace.engine.dispatch.rules import Strategy, strategy_named
from headrace.engine.dispatch.table import Table, build_table
from headrace.engine.network import Network
from headrace.errors import InternalError
from headrace.graph.graph import Arc, Graph, VertexId


class Dispatch:
    """Builds the table of a running graph when a strategy, a cut or the graph changes; the cycle goes on with it from the next step on.

    With `registers`, merging vertices follow the rules for bounds that pass from register to register.
    """

    def __init__(self, cycle: Cycle, network: Network, strategy: str, *, registers: bool) -> None:
        self._cycle, self._network, self._registers = cycle, network, registers
        self._graph, self._ends = Graph(), frozenset[VertexId]()
        self._strategy = strategy_named(strategy)
        self._own: dict[VertexId, Strategy] = {}
        self._breaks: set[Arc] = set()

    @property
    def table(self) -> Table:
        """The table in force."""
        return self._cycle.table

    def use(self, graph: Graph, ends: Collection[VertexId]) -> None:
        """Go on with another graph; what was said of vertices and arcs that it has too stays."""
        self._graph, self._ends = graph, frozenset(ends)
        self._own = {name: chosen for name, chosen in self._own.items() if name in graph.by_id()}
        self._breaks &= set(self._arcs())
        self._rebuild()

    def use_strategy(self, strategy: str, vertices: Iterable[VertexId] | None = None) -> None:
        """Select by another strategy: for all vertices that have none of their own, or for these."""
        chosen = strategy_named(strategy)
        if vertices is None:
            self._strategy = chosen
        else:
            self._own |= {name: chosen for name in vertices if name in self._graph.by_id()}
        self._rebuild()

    def use_strategies(self, strategy: str, own: Mapping[VertexId, str]) -> None:
        """Select by `strategy`, and by the strategies in `own` where these vertices are."""
        self._strategy = strategy_named(strategy)
        self._own = {name: strategy_named(chosen) for name, chosen in own.items() if name in self._graph.by_id()}
        self._rebuild()

    def set_break(self, reader: VertexId, port: int = 0) -> None:
        """Cut an arc: what is before it and what is behind it are scheduled as graphs of their own."""
        if (reader, port) not in self._arcs():
            raise InternalError(f"no arc into port {port} of {reader} that could be cut")
        self._breaks.add((reader, port))
        self._rebuild()

    def unset_break(self, reader: VertexId, port: int = 0) -> None:
        """Heal an arc."""
        self._breaks.discard((reader, port))
        self._rebuild()

    def use_breaks(self, readers: Collection[VertexId]) -> None:
        """Cut all arcs into these vertices and no others."""
        self._breaks = {arc for arc in self._arcs() if arc[0] in readers}
        self._rebuild()

    def _arcs(self) -> Iterator[Arc]:
        """Those that can be cut."""
        return (
            (vertex.id, port)
            for vertex in self._graph
            if vertex.id not in self._ends
            for port in range(len(vertex.inputs))
        )

    def _rebuild(self) -> None:
        self._cycle.use(build_table(self._graph, self._ends, self._breaks, self._rule))

    def _rule(self, name: VertexId, before_sink: bool) -> tuple[str, int | None]:
        chosen = self._own.get(name, self._strategy)
        enhanced = "EQG-" if self._registers and name in self._network.registers else ""
        return f"{enhanced}{chosen.family}-{'SINK' if before_sink else 'NOS'}", chosen.batch
