"""How promises get on: from silent sources on demand, from register to register, or as punctuation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from headrace.engine.bounds.ets import Ets
from headrace.engine.network import Network
from headrace.graph.graph import VertexId
from headrace.model.page import Element, Punctuation
from headrace.model.time import BEGIN
from headrace.operators.capabilities import due_of
from headrace.operators.operator import Operator


class Promises:
    """The bounds of a running graph. `registers` lets them pass from register to register where no tuple is on the way."""

    def __init__(
        self,
        network: Network,
        bounds: dict[VertexId, int],
        emit: Callable[[VertexId, Sequence[Element]], None],
        ets: Ets | None,
        *,
        registers: bool,
    ) -> None:
        self._network, self._bounds, self._emit, self._ets, self._registers = network, bounds, emit, ets, registers
        self.ends: Collection[VertexId] = ()
        self.asked = 0  # bounds that sources gave on demand
        self.owed: dict[VertexId, int] = {}  # bounds that a tuple on its way makes needless, if it arrives
        self.signalled: dict[
            VertexId, None
        ] = {}  # merging vertices whose register was written and that have not run since

    def hand_on(self, name: VertexId, bound: int, *, with_tuples: bool) -> int | None:
        """Pass on what a merging vertex can promise after what it emitted; returns the bound if it must go as punctuation."""
        bound = max(bound, self.owed.pop(name, BEGIN))
        if self._registers and name in self._network.arcs:
            if bound > BEGIN and not self._write(name, bound):
                self.owed[name] = bound
            return None
        if bound <= self._bounds[name]:
            return None
        says_enough = name in self._network.needs_no_echo and bound <= self._network.registers[name].newest
        if says_enough and (with_tuples or not self._improves(name, bound)):
            self.owed[name] = bound  # the last tuple says as much, unless a selection drops it
            return None
        return bound

    def pending(self, name: VertexId) -> bool:
        """Whether a merging vertex has a bound to hand on."""
        found = self._network.registers.get(name)
        if found is None:
            return False
        return found.pending or (name in self.owed and self._improves(name, self.owed[name]))

    def ask(self, source: VertexId) -> bool:
        """Send a new bound from a source; False if it has none."""
        bound = None if self._ets is None else self._ets(source)
        if bound is None:
            return False
        if self._registers and source in self._network.arcs:
            if not self._improves(source, bound):
                return False
            self._bounds[source] = max(self._bounds[source], bound)
            self._write(source, bound)
        elif bound <= self._bounds[source] or self._known(source, bound):
            return False
        else:
            self._emit(source, (Punctuation(bound),))
        self.asked += 1
        return True

    def send_due(
        self,
        operators: Mapping[VertexId, Operator],
        sources: Mapping[VertexId, Sequence[VertexId]],
        guards: Mapping[VertexId, int],
    ) -> bool:
        """Let sources say that the time has come which an operator or a guard at its input waits for, such as the end of a window."""
        if self._ets is None:
            return False
        sent = False
        times = [(name, due) for name, operator in operators.items() if (due := due_of(operator)) is not None]
        for name, due in (*times, *guards.items()):
            for source in sources[name]:
                bound = self._ets(source)
                if self._bounds[source] < due and bound is not None and bound >= due:
                    self._emit(source, (Punctuation(bound),))
                    self.asked += 1
                    sent = True
        return sent

    def _write(self, name: VertexId, bound: int) -> bool:
        """Write a bound to the registers at the ends of a vertex's arcs; False if tuples are on the way to one of them."""
        whole = True
        for arc in self._network.arcs[name]:
            if not self._network.is_empty(arc.path):
                whole = False
            elif arc.target in self.ends:
                self._bounds[arc.target] = max(self._bounds[arc.target], bound)
            elif self._network.registers[arc.target].write(arc.port, bound):
                self.signalled[arc.target] = None
        return whole

    def _improves(self, name: VertexId, bound: int) -> bool:
        """Whether a bound would raise a register at the end of a vertex's arcs now; as a punctuation it costs steps, so only of one that waits."""
        network = self._network
        arcs = (arc for arc in network.arcs[name] if arc.target in network.registers and network.is_empty(arc.path))
        return any(
            network.registers[arc.target].values[arc.port] < bound and (self._registers or network.blocked(arc.target))
            for arc in arcs
        )

    def _known(self, source: VertexId, bound: int) -> bool:
        """Whether a source leads only to registers, and all are as far as a bound already."""
        arcs = [arc for arc in self._network.arcs.get(source, ()) if arc.target in self._network.registers]
        return bool(arcs) and all(self._network.registers[arc.target].values[arc.port] >= bound for arc in arcs)
