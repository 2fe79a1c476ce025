"""How bounds move through a running graph: from silent sources on demand, by register, or as punctuation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from headrace.engine.bounds.ets import Ets
from headrace.engine.bounds.wakeup import upstream_sources
from headrace.engine.network import Network
from headrace.graph.graph import Graph, VertexId
from headrace.model.page import Element, Punctuation
from headrace.model.time import BEGIN


class Bounds:
    """The bounds of a running graph. With `registers` they go from register to register where no tuple is on the way.

    `emit` puts elements into the buffer of a vertex; `due` yields vertices and the bounds that they wait for.
    """

    def __init__(
        self,
        network: Network,
        ets: Ets | None,
        emit: Callable[[VertexId, Sequence[Element]], None],
        due: Callable[[], Iterable[tuple[VertexId, int]]],
        *,
        registers: bool,
    ) -> None:
        self._network, self._ets, self._emit, self._due, self._registers = network, ets, emit, due, registers
        self._ends: Collection[VertexId] = ()
        self.reached: dict[VertexId, int] = {}  # the newest bound of each vertex's output
        self.owed: dict[VertexId, int] = {}  # bounds that a tuple on its way makes needless, if it arrives
        self.signalled: dict[VertexId, None] = {}  # merging vertices with a new register value that have not run since
        self.sources: dict[VertexId, tuple[VertexId, ...]] = {}  # from which each vertex's input stems
        self.asked = 0  # bounds that sources gave on demand

    def use(self, graph: Graph, ends: Collection[VertexId]) -> None:
        """Change to another graph."""
        self._ends, self.sources = ends, upstream_sources(graph)

    def start(self, name: VertexId) -> None:
        """Begin with a vertex of which nothing is known."""
        self.reached[name] = BEGIN

    def forget(self, name: VertexId) -> None:
        """Forget a vertex that has gone."""
        del self.reached[name]
        self.owed.pop(name, None)

    def hand_on(self, name: VertexId, bound: int, *, with_tuples: bool) -> int | None:
        """Pass on the bound that a merging vertex has reached; returns it if it must go as punctuation."""
        bound = max(bound, self.owed.pop(name, BEGIN))
        if self._registers and name in self._network.arcs:
            if bound > BEGIN and not self._write(name, bound):
                self.owed[name] = bound
            return None
        if bound <= self.reached[name]:
            return None
        is_implied = name in self._network.needs_no_echo and bound <= self._network.registers[name].newest
        if is_implied and (with_tuples or not self._improves(name, bound)):
            self.owed[name] = bound  # the last tuple stands for the bound, unless a selection drops it
            return None
        return bound

    def pending(self, name: VertexId) -> bool:
        """Return whether a merging vertex has a bound to hand on."""
        registers = self._network.registers.get(name)
        if registers is None:
            return False
        return registers.pending or (name in self.owed and self._can_hand_on(name, self.owed[name]))

    def ask(self, source: VertexId) -> bool:
        """Send a new bound from a source; False if it has none."""
        bound = None if self._ets is None else self._ets(source)
        if bound is None:
            return False
        if self._registers and source in self._network.arcs:
            if not self._improves(source, bound):
                return False
            self.reached[source] = max(self.reached[source], bound)
            self._write(source, bound)
        elif bound <= self.reached[source] or self._known(source, bound):
            return False
        else:
            self._emit(source, (Punctuation(bound),))
        self.asked += 1
        return True

    def send_due(self) -> bool:
        """Send the bounds of sources for which operators or guards wait, such as a window's end; False if none."""
        if self._ets is None:
            return False
        sent = False
        for name, due in list(self._due()):
            for source in self.sources[name]:
                bound = self._ets(source)
                if self.reached[source] < due and bound is not None and bound >= due:
                    self._emit(source, (Punctuation(bound),))
                    self.asked += 1
                    sent = True
        return sent

    def _write(self, name: VertexId, bound: int) -> bool:
        """Write a bound to the registers at the ends of a vertex's arcs; False if tuples are on the way."""
        is_complete = True
        for arc in self._network.arcs[name]:
            if not self._network.is_empty(arc.path):
                is_complete = False
            elif arc.target in self._ends:
                self.reached[arc.target] = max(self.reached[arc.target], bound)
            elif self._network.registers[arc.target].write(arc.port, bound):
                self.signalled[arc.target] = None
        return is_complete

    def _can_hand_on(self, name: VertexId, bound: int) -> bool:
        """Return whether a bound that was held up by tuples on the way would be new at the end of an arc now."""
        ends = (arc for arc in self._network.arcs.get(name, ()) if arc.target in self._ends)
        return self._improves(name, bound) or any(
            self.reached[arc.target] < bound and self._network.is_empty(arc.path) for arc in ends
        )

    def _improves(self, name: VertexId, bound: int) -> bool:
        """Return whether a bound would raise a register at the end of a vertex's arcs now.

        A punctuation costs steps, so it is sent only to a vertex that waits.
        """
        network = self._network
        arcs = (arc for arc in network.arcs[name] if arc.target in network.registers and network.is_empty(arc.path))
        return any(
            network.registers[arc.target].values[arc.port] < bound and (self._registers or network.blocked(arc.target))
            for arc in arcs
        )

    def _known(self, source: VertexId, bound: int) -> bool:
        """Return whether a source leads only to registers, and all have reached a bound already."""
        arcs = [arc for arc in self._network.arcs.get(source, ()) if arc.target in self._network.registers]
        return bool(arcs) and all(self._network.registers[arc.target].values[arc.port] >= bound for arc in arcs)
