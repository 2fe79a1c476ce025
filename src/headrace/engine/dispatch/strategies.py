"""The strategies in force and the arcs that are cut; both make up the dispatch table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.engine.dispatch.cycle import Cycle
from headrace.engine.dispatch.table import Table, build_table
from headrace.engine.network import Network
from headrace.errors import InternalError, NameFault
from headrace.graph.graph import Arc, Graph, VertexId


@dataclass(frozen=True, slots=True)
class Strategy:
    """The family of a row's selection; `batch` is k of DFS-k, in tuples."""

    family: str
    batch: int | None = None


#: By the name that a user writes; `dfs-<k>` stands for dfs-1, dfs-2 and so on.
STRATEGIES: Mapping[str, Strategy] = {
    "dfs": Strategy("DFS"),
    "bfs": Strategy("BFS"),
    "rr": Strategy("RR"),
    "dfs-<k>": Strategy("DFSK"),
}


def strategy_named(name: str) -> Strategy:
    """Return the strategy of a name; NameFault if there is none."""
    if name in STRATEGIES and "<" not in name:
        return STRATEGIES[name]
    head, _, number = name.partition("-")
    if head == "dfs" and number.isdecimal() and int(number) > 0:
        return Strategy("DFSK", int(number))
    raise NameFault(f"no strategy {name!r}", hint=f"choose one of {', '.join(STRATEGIES)}, such as dfs-100")


class Dispatch:
    """The builder of the dispatch table: the cycle uses a new one when a strategy, a cut or the graph changes.

    With `registers`, merging vertices select by whether bounds passed from register to register.
    """

    def __init__(self, cycle: Cycle, network: Network, *, registers: bool) -> None:
        self._cycle, self._network, self._registers = cycle, network, registers
        self._graph, self._ends = Graph(), frozenset[VertexId]()
        self._strategy = strategy_named("dfs")
        self._own: dict[VertexId, Strategy] = {}
        self._breaks: set[Arc] = set()

    @property
    def table(self) -> Table:
        """The table in force."""
        return self._cycle.table

    def use(self, graph: Graph, ends: Collection[VertexId]) -> None:
        """Change to another graph; the strategies of its vertices and the cuts of its arcs stay."""
        self._graph, self._ends = graph, frozenset(ends)
        self._own = {name: chosen for name, chosen in self._own.items() if name in graph.by_id()}
        self._breaks &= set(self._arcs())
        self._rebuild()

    def use_strategy(self, strategy: str, vertices: Iterable[VertexId] | None = None) -> None:
        """Use another strategy for these vertices, or (None) for all that have none of their own."""
        chosen = strategy_named(strategy)
        if vertices is None:
            self._strategy = chosen
        else:
            self._own |= {name: chosen for name in vertices if name in self._graph.by_id()}
        self._rebuild()

    def use_strategies(self, strategy: str, own: Mapping[VertexId, str], cut: Collection[Arc]) -> None:
        """Use `strategy`, but those in `own` for the vertices named there; cut these arcs."""
        self._strategy = strategy_named(strategy)
        self._own = {name: strategy_named(chosen) for name, chosen in own.items() if name in self._graph.by_id()}
        self.use_breaks(cut)

    def set_break(self, reader: VertexId, port: int = 0) -> None:
        """Cut an arc: the parts before and behind it are scheduled as graphs of their own."""
        if (reader, port) not in self._arcs():
            raise InternalError(f"no arc into port {port} of {reader} that could be cut")
        self._breaks.add((reader, port))
        self._rebuild()

    def use_breaks(self, cut: Collection[Arc]) -> None:
        """Cut these arcs and no others."""
        self._breaks = set(cut).intersection(self._arcs())
        self._rebuild()

    def _arcs(self) -> Iterator[Arc]:
        """Yield the arcs that can be cut."""
        return (
            (vertex.id, port)
            for vertex in self._graph
            if vertex.id not in self._ends
            for port in range(len(vertex.inputs))
        )

    def _rebuild(self) -> None:
        self._cycle.use(build_table(self._graph, self._ends, self._breaks, self._selection))

    def _selection(self, name: VertexId, before_sink: bool) -> tuple[str, int | None]:
        chosen = self._own.get(name, self._strategy)
        enhanced = "EQG-" if self._registers and name in self._network.registers else ""
        return f"{enhanced}{chosen.family}-{'SINK' if before_sink else 'NOS'}", chosen.batch
