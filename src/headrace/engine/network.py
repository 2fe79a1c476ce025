"""The arcs of a running graph: buffers with a cursor for each reader, and the registers of operators that merge by timestamp.

Nothing executes here. The network knows who has unread input, who may take it, and what is taken.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence

from headrace.engine.bounds.shortcuts import EtsArc, ets_arcs, only_merging_readers
from headrace.engine.buffer import Buffer, Waiting
from headrace.engine.registers import Registers, fresh_registers, head_of
from headrace.graph.graph import Arc, Graph, Vertex, VertexId
from headrace.graph.place import origin_of
from headrace.model.page import Element, Page, Punctuation
from headrace.model.schema import TS
from headrace.model.time import BEGIN


class Network:
    """Buffers and registers. `absorb` folds a punctuation at the head of a merging operator's input into the register at once.

    What is appended arrived when that did which was taken last (`arrival`), or when whoever lets elements enter says.
    """

    def __init__(self, *, absorb: bool, keep_late: bool, relaxed: bool = True, folds: bool = False) -> None:
        self._absorb, self._keep_late, self._relaxed, self._folds = absorb, keep_late, relaxed, folds
        self.arrival = BEGIN
        self.graph = Graph()
        self.vertices: Mapping[VertexId, Vertex] = {}
        self.depth: dict[VertexId, int] = {}
        self.ports: dict[VertexId, range] = {}
        self.ready: dict[Arc, None] = {}  # arcs with unread elements
        self.registers: dict[VertexId, Registers] = {}
        self.arcs: dict[VertexId, tuple[EtsArc, ...]] = {}
        self.needs_no_echo: set[VertexId] = set()  # whose readers take a tuple for a promise of its timestamp
        self.readers: dict[VertexId, tuple[Arc, ...]] = {}  # the arcs on which a vertex's buffer is read
        self.screen: Callable[[Arc, Page], Page] = lambda arc, page: page  # what is left of a page that is read there
        self.shedding: set[Arc] = set()  # arcs on which tuples are dropped before they are stored; for `use`
        self.shed: Callable[[Arc, Sequence[Element]], Sequence[Element]] = lambda arc, elements: (
            elements
        )  # what is left of elements there
        self._own: dict[Arc, Buffer] = {}  # of such an arc: what is left, since its neighbours read everything
        self._buffers: dict[VertexId, Buffer] = {}
        self._cursors: dict[Arc, tuple[Buffer, int]] = {}
        self._inputs: dict[VertexId, tuple[Arc, ...]] = {}

    def use(self, graph: Graph, merging: Collection[VertexId], ends: Collection[VertexId]) -> None:
        """Change the topology: arcs that stay keep what is unread and how far they had come; a new reader begins at the tail."""
        before, unread, known = self.vertices, {arc: self.waiting(arc) for arc in self.ready}, self.registers
        self.graph, self.vertices = graph, graph.by_id()
        self.depth = {vertex.id: depth for depth, vertex in enumerate(graph)}
        self.ports = {vertex.id: range(len(vertex.inputs)) for vertex in graph}
        self._inputs = {vertex.id: tuple((vertex.id, port) for port in range(len(vertex.inputs))) for vertex in graph}
        self.readers = readers = {
            name: tuple(arc for arc in arcs if arc[0] not in ends) for name, arcs in graph.readers().items()
        }
        self._own = {
            arc: Buffer(1, folds=self._folds) for arcs in readers.values() for arc in arcs if arc in self.shedding
        }
        shared = (
            {name: [arc for arc in arcs if arc not in self._own] for name, arcs in readers.items()}
            if self._own
            else readers
        )
        self._buffers = {name: Buffer(len(arcs), folds=self._folds) for name, arcs in shared.items()}
        self._cursors = {
            arc: (self._buffers[name], number) for name, arcs in shared.items() for number, arc in enumerate(arcs)
        }
        self._cursors |= {arc: (buffer, 0) for arc, buffer in self._own.items()}
        self.ready, self.registers = {}, {}
        for vertex in graph:
            if vertex.id in merging:
                self.registers[vertex.id] = fresh_registers(len(vertex.inputs), relaxed=self._relaxed)
            if vertex.id not in before:
                continue
            kept = _same_ports(before[vertex.id], vertex)
            for new, old in kept.items():
                self.give((vertex.id, new), *unread.get((vertex.id, old), ((), 0)))
            if vertex.id in merging and vertex.id in known:
                found, was = self.registers[vertex.id], known[vertex.id]
                found.values = [
                    was.values[kept[port]] if port in kept else value for port, value in enumerate(found.values)
                ]
                found.passed, found.newest, found.late, found.side, found.raised = (
                    was.passed,
                    was.newest,
                    was.late,
                    was.side,
                    True,
                )
        self.arcs = ets_arcs(graph, merging, ends)
        self.needs_no_echo = only_merging_readers(graph, merging)

    def append(self, name: VertexId, elements: Sequence[Element]) -> int:
        """Put what a vertex produced into its buffer; returns the number of tuples."""
        buffer = self._buffers[name]
        count = buffer.append(elements, self.arrival)
        for arc in self.readers[name]:
            if self._own and arc in self._own:
                left = self.shed(arc, elements)
                if not left:
                    continue
                self._own[arc].append(left, self.arrival)
            self.ready[arc] = None
        return count

    def give(self, arc: Arc, elements: Sequence[Waiting], taken: int = 0) -> None:
        """Let one reader have elements that it must read first, without the tuples already `taken` of the first."""
        if elements:
            buffer, cursor = self._cursors[arc]
            buffer.carry(cursor, elements, taken)
            self.ready[arc] = None

    def swap(self, arc: Arc, elements: Sequence[Waiting]) -> None:
        """Let one reader have these elements, of which there is at least one, instead of all that is unread."""
        buffer, cursor = self._cursors[arc]
        buffer.swap(cursor, elements)

    def elements(self, arc: Arc) -> list[Element]:
        """What is unread on an arc."""
        buffer, cursor = self._cursors[arc]
        return buffer.elements(cursor)

    def rest(self, arc: Arc) -> list[Waiting]:
        """What is unread on an arc, and since when."""
        buffer, cursor = self._cursors[arc]
        return buffer.rest(cursor)

    def waiting(self, arc: Arc) -> tuple[list[Waiting], int]:
        """As `rest`, but the first element whole, and how many of its tuples were taken."""
        buffer, cursor = self._cursors[arc]
        return buffer.whole(cursor), buffer.taken(cursor)

    def oldest(self, arc: Arc) -> int:
        """Since when the head of an arc that is ready has been waiting."""
        buffer, cursor = self._cursors[arc]
        head = buffer.next(cursor)
        assert head is not None
        return head[1]

    def tuples(self, arc: Arc) -> int:
        """How many tuples wait on an arc."""
        buffer, cursor = self._cursors[arc]
        return buffer.queued(cursor)

    def unread(self, name: VertexId) -> int:
        """How many elements wait at a vertex's inputs."""
        return sum(buffer.unread(cursor) for buffer, cursor in (self._cursors[name, port] for port in self.ports[name]))

    def queued(self, name: VertexId) -> int:
        """How many tuples wait at a vertex's inputs."""
        return sum(buffer.queued(cursor) for buffer, cursor in (self._cursors[name, port] for port in self.ports[name]))

    def stored(self, name: VertexId) -> int:
        """How many elements a vertex's buffer keeps for its slowest reader."""
        return max(
            len(self._buffers[name]), *(len(self._own[arc]) for arc in self.readers[name] if arc in self._own), 0
        )

    def first_stamp(self, arc: Arc) -> int:
        """The timestamp of the head of an arc that is ready."""
        buffer, cursor = self._cursors[arc]
        head = buffer.head(cursor)
        assert head is not None
        element, first = head
        return int(element.rows[TS][first]) if isinstance(element, Page) else element.bound

    def more(self, name: VertexId) -> bool:
        """Whether a vertex may take input: any, or for a merging one a head at the least register."""
        found = self.registers.get(name)
        if found is None:
            return not self.ready.keys().isdisjoint(self._inputs[name])
        self.refresh(name)
        return found.port() is not None

    def blocked(self, name: VertexId) -> bool:
        """Whether a merging vertex holds tuples that it may not take."""
        if name not in self.registers or self.more(name):
            return False
        found = self.registers[name]
        behind = (self._cursors[name, port] for port, marked in enumerate(found.marks) if marked)
        return found.holds or any(buffer.queued(cursor) for buffer, cursor in behind)

    def blocking(self, name: VertexId) -> int:
        """The port to go back along when a vertex has no more: the lowest that is empty and holds up the others."""
        found = self.registers.get(name)
        port = None if found is None else found.blocking()
        return 0 if port is None else port

    def take(self, name: VertexId, limit: int | None) -> tuple[int, Element]:
        """Remove what a vertex may take next, of a page at most `limit` tuples.

        If the rest has to wait, inputs keep pace by timestamp: a join that had read far ahead on one would then find all of its pairs at once.
        """
        found = self.registers.get(name)
        if found is None:
            ready = [port for port in self.ports[name] if (name, port) in self.ready]
            port = (
                ready[0]
                if limit is None or len(ready) == 1
                else min(ready, key=lambda port: self._next_time((name, port)))
            )
        else:
            chosen = found.port()
            assert chosen is not None
            port = chosen
            if found.heads[port] is not None:
                allowed = found.allowed(port)
                limit = allowed if limit is None else min(limit, allowed)
        element = self._remove((name, port), limit)
        if found is not None:
            arrived = self.arrival
            self.refresh(name)
            self.arrival = arrived
        return port, element

    def _next_time(self, arc: Arc) -> int:
        """The timestamp of what is next on an arc that is ready."""
        buffer, cursor = self._cursors[arc]
        head = buffer.head(cursor)
        assert head is not None
        element, taken = head
        if isinstance(element, Punctuation):
            return element.bound
        return int(element.rows[TS][taken]) if len(element) else BEGIN

    def refresh(self, name: VertexId) -> None:
        """Let the registers of a merging vertex see the heads of its inputs; tuples below their register are late and go aside."""
        found = self.registers[name]
        for port in self.ports[name]:
            arc = (name, port)
            buffer, cursor = self._cursors[arc]
            found.marks[port] = False
            while (head := buffer.head(cursor)) is not None:
                element, first = head
                if isinstance(element, Punctuation):
                    if self._absorb:
                        mark = self._remove(arc, None)  # perhaps with those behind it
                        assert isinstance(mark, Punctuation)
                        found.write(port, mark.bound)
                        continue
                    found.heads[port], found.marks[port] = None, True
                    found.see(port, element.bound)
                    break
                last = found.heads[port]
                if last is None or last.page is not element:
                    last = head_of(element, first)
                elif last.first != first:
                    last = last.at(first)
                late = last.stamps[last.first : last.ordered] < found.values[port]
                if late[0]:
                    self._set_aside(found, arc, self._remove(arc, int(late.sum())))
                    continue
                found.heads[port] = last
                found.see(port, last.stamp)
                break
            else:
                found.heads[port] = None

    def is_empty(self, path: Sequence[Arc]) -> bool:
        """Whether nothing is on its way along these arcs."""
        return not any(arc in self.ready for arc in path)

    def _remove(self, arc: Arc, limit: int | None) -> Element:
        buffer, cursor = self._cursors[arc]
        element = buffer.take(cursor, limit)
        self.arrival = buffer.arrived
        if not buffer.unread(cursor):
            del self.ready[arc]
        return element

    def _set_aside(self, found: Registers, arc: Arc, late: Element) -> None:
        assert isinstance(late, Page)
        late = self.screen(arc, late)
        found.late += len(late)
        if self._keep_late and len(late):
            found.side.append(late)


def _same_ports(before: Vertex, after: Vertex) -> dict[int, int]:
    """Which new port was which old port: the n-th that reads the same vertex, where it is or from afar."""
    free = dict(enumerate(before.inputs))
    found: dict[int, int] = {}
    for same in (operator.eq, _is_sent):
        for port, origin in enumerate(after.inputs):
            match = next((old for old, name in free.items() if port not in found and same(name, origin)), None)
            if match is not None:
                found[port] = match
                del free[match]
    return found


def _is_sent(one: VertexId, other: VertexId) -> bool:
    """Whether one vertex is the other as it is received from the ingest, or both are: it may change its place."""
    return origin_of(one) == origin_of(other)
