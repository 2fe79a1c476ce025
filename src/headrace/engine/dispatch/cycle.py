"""The dispatch cycle: it selects the next execution by the table, and searches for work that no move leads to."""

from __future__ import annotations

from headrace.engine.bounds.bounds import Bounds
from headrace.engine.choosing import Step, Visit
from headrace.engine.dispatch.moves import SELECTIONS, Move
from headrace.engine.dispatch.table import Row, State, Table
from headrace.engine.network import Network
from headrace.graph.graph import VertexId

#: Selections under which a batch is what was there at entry.
_BY_ENTRY = frozenset({"BFS-NOS", "RR-NOS", "EQG-BFS-NOS", "EQG-RR-NOS"})

#: States that execute nothing: to pass them is no selection.
_NOT_SELECTING = frozenset({"SOURCE", "SOURCE-VIRTUAL", "FORK"})


class Cycle:
    """Control of one graph: its state, its batch, and the sources that were asked in vain."""

    def __init__(self, network: Network, bounds: Bounds) -> None:
        self._network = network
        self._bounds = bounds
        self.table = Table()
        self.tests = 0  # selections of operators that were made
        self.preferred: set[tuple[VertexId, int]] = set()  # branches of forks that are served first
        self._at: State | None = None
        self._count = 0  # tuples in this batch
        self._room: int | None = None  # elements present when the batch began
        self._served: dict[State, int] = {}  # the branch that a fork chose last
        self._tried: set[VertexId] = set()
        self._for_blocked = False  # the way here came from a blocked operator
        self._sent = 0  # bounds that sources have sent

    def use(self, table: Table) -> None:
        """Change to another table."""
        self.table = table
        if self._at not in table.rows:
            self._at = None
        self._served = {state: branch for state, branch in self._served.items() if state in table.rows}

    def select(self, now: int) -> Visit | None:
        """Return the next execution; None if there is nothing to do, which ends the activation."""
        visit = self._select()
        if visit is None and self._bounds.send_due():
            visit = self._select()
        return visit

    def executed(self, visit: Visit, step: Step) -> None:
        """Count an execution; a punctuation ends a batch, a tuple of a merging vertex lets sources be asked again."""
        is_data = step.kind == "page"
        self._bounds.signalled.pop(visit.vertex, None)
        row = self.table.rows[visit.vertex]
        if row.batch is not None:
            self._count = self._count + step.tuples if is_data else row.batch
        else:
            self._count += 1
        if is_data and visit.vertex in self._network.registers:
            self._tried.clear()

    def _select(self) -> Visit | None:
        visit = None
        if self._network.ready or self._network.registers:
            visit = None if self._at is None else self._walk(self._at)
            visit = visit or self._stranded() or self._unblock()
        if visit is None:
            self._at = None
            self._tried.clear()
        return visit

    def yields(self, row: Row) -> bool:
        return not self._network.ready.keys().isdisjoint(row.arcs)

    def signals(self, row: Row) -> bool:
        return bool(self._bounds.signalled) and any(
            arc.target in self._bounds.signalled for arc in self._network.arcs.get(row.vertex, ())
        )

    def more(self, row: Row) -> bool:
        return self.runnable(row.vertex)

    def fresh(self, row: Row) -> bool:
        if row.state != self._at:
            return True
        limit = self._room if row.batch is None else row.batch
        return limit is None or self._count < limit

    def runnable(self, name: VertexId) -> bool:
        """Return whether a vertex can execute: it may take input, or has a bound to hand on."""
        return self._network.more(name) or self._bounds.pending(name)

    def _walk(self, start: State) -> Visit | None:
        """Move from a state on until a vertex can execute; no state is visited twice."""
        state, visited = start, {start}
        self._for_blocked = False
        while True:
            row = self.table.rows[state]
            if state in self._network.registers and self._network.blocked(state):
                self._for_blocked = True
            self.tests += row.selection not in _NOT_SELECTING
            move = SELECTIONS[row.selection](row, self)
            match move:
                case Move.ENCORE | Move.RENEW:
                    return self._enter(state, again=move is Move.ENCORE and state == self._at)
                case Move.FORWARD:
                    state = self._successor(row)
                    if self.table.rows[state].vertex == state and self.runnable(state):
                        return self._enter(state, again=False)
                case Move.SIGNAL:
                    state = self._signalled_by(row)
                    if self.runnable(state):
                        return self._enter(state, again=False)
                case Move.BACKTRACK:
                    state = row.pred[self._network.blocking(row.vertex) if state == row.vertex else 0]
                case Move.ASK:
                    answered = self._ask(row)
                    if answered is None:
                        return None
                    if answered != state and self.runnable(answered):
                        return self._enter(answered, again=False)
                    visited.clear()  # there is something new; a source is asked once only
                    state = answered
                case Move.EXIT:
                    return None
            if state in visited:
                return None
            visited.add(state)

    def _enter(self, state: State, *, again: bool) -> Visit:
        row = self.table.rows[state]
        # before a sink, batches follow each other
        if not again or (row.batch is not None and self._count >= row.batch):
            self._at, self._count = state, 0
            self._room = self._network.unread(row.vertex) if row.selection in _BY_ENTRY else None
        return Visit(row.vertex, None if row.batch is None else row.batch - self._count)

    def _successor(self, row: Row) -> State:
        if row.selection != "FORK":
            return row.succ[0]
        for branch, arc in enumerate(row.arcs):
            if arc in self.preferred and arc in self._network.ready:
                return row.succ[branch]
        count, last = len(row.arcs), self._served.get(row.state, -1)
        for step in range(1, count + 1):
            branch = (last + step) % count
            if row.arcs[branch] in self._network.ready:
                self._served[row.state] = branch
                return row.succ[branch]
        raise AssertionError("a fork that yields has a branch with unread elements")

    def _signalled_by(self, row: Row) -> VertexId:
        target = next(arc.target for arc in self._network.arcs[row.vertex] if arc.target in self._bounds.signalled)
        del self._bounds.signalled[target]
        return target

    def _ask(self, row: Row) -> State | None:
        """Ask an empty source for a bound on behalf of a blocked operator; returns the state to go on from, or None."""
        if not self._for_blocked:
            return None
        # a virtual source has no clock: `_unblock` takes the demand to the fragment that fills it
        if row.selection == "SOURCE-VIRTUAL" or row.vertex in self._tried or not self._bounds.ask(row.vertex):
            return None
        self._tried.add(row.vertex)
        self._sent += 1
        if self.yields(row):
            return row.state
        return next(
            (arc.target for arc in self._network.arcs.get(row.vertex, ()) if arc.target in self._bounds.signalled),
            None,
        )

    def _stranded(self) -> Visit | None:
        """Return a vertex that can execute though no move leads there, of this fragment and near the output first."""
        ready = {reader: None for reader, _ in self._network.ready}
        names = [name for name in {**ready, **dict.fromkeys(self._network.registers)} if name in self.table.rows]
        here = None if self._at is None else self.table.fragments[self._at]
        depth, fragments = self._network.depth, self.table.fragments
        names.sort(key=lambda name: (fragments[name] != here, -depth[name]))
        for group in (
            [name for name in names if fragments[name] == here],
            [name for name in names if fragments[name] != here],
        ):
            inner = next((name for name in group if not self._from_source(name) and self.runnable(name)), None)
            if inner is not None:
                return self._enter(inner, again=False)
            visit = self._start({fragments[name] for name in group})
            if visit is not None:
                return visit
            other = next((name for name in group if self.runnable(name)), None)
            if other is not None:
                return self._enter(other, again=False)
        return None

    def _from_source(self, name: VertexId) -> bool:
        """Return whether all unread input of a vertex lies in sources' buffers."""
        ports = [port for port in self._network.ports[name] if (name, port) in self._network.ready]
        return bool(ports) and all(
            self.table.rows[self._origin(name, port)].selection.startswith("SOURCE") for port in ports
        )

    def _origin(self, name: VertexId, port: int) -> State:
        state = self.table.rows[name].pred[port]
        row = self.table.rows[state]
        return row.pred[0] if row.selection == "FORK" else state

    def _start(self, fragments: set[int]) -> Visit | None:
        """Begin at the source whose head has the smallest timestamp."""
        network, full = self._network, []
        for place, state in enumerate(self.table.sources):
            arcs = [arc for arc in self.table.rows[state].arcs if arc in network.ready]
            if arcs and self.table.fragments[state] in fragments:
                full.append((arcs, place, state))
        if len(full) > 1:
            full.sort(key=lambda item: (min(network.first_stamp(arc) for arc in item[0]), item[1]))
        for _, _, state in full:
            visit = self._walk(state)
            if visit is not None:
                return visit
        return None

    def _unblock(self) -> Visit | None:
        """Ask the sources that hold up blocked operators, whatever the strategy, until none has a new bound."""
        network = self._network
        while True:
            sent = self._sent
            for name in sorted(
                (name for name in network.registers if network.blocked(name)), key=lambda name: -network.depth[name]
            ):
                visit = self._climb(name, set())
                if visit is not None:
                    return visit
            if self._sent == sent:
                return None
            visit = self._stranded()  # a bound may have crossed a break
            if visit is not None:
                return visit

    def _climb(self, state: State, visited: set[State]) -> Visit | None:
        """Go back from a blocked operator along what holds it up, across breaks, and ask the source at the end."""
        if state in visited:
            return None
        row, first = self.table.rows[state], not visited
        visited.add(state)
        match row.selection:
            case "SOURCE":
                self._for_blocked = True
                answered = self._ask(row)
                if answered is None:
                    return None
                if answered != state and self.runnable(answered):
                    return self._enter(answered, again=False)
                return self._walk(answered) or self._stranded()
            case "SOURCE-VIRTUAL":
                return self._climb(row.vertex, visited)
            case "FORK":
                return self._climb(row.pred[0], visited)
            case _:
                if not first and self.runnable(state):
                    return self._enter(state, again=False)
                # one input holds up a merging operator; any input may bring what another operator waits for
                ports = (
                    (self._network.blocking(state),) if state in self._network.registers else self._network.ports[state]
                )
                climbs = (self._climb(row.pred[port], visited) for port in ports)
                return next((visit for visit in climbs if visit is not None), None)
