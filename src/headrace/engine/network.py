"""The arcs of a running graph: buffers with a cursor for each reader, and the registers of merging operators.

Nothing executes here. The network knows which vertices have unread input, which may take it, and hands it out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence

from headrace.engine.bounds.mode import BoundsMode
from headrace.engine.bounds.registers import Registers, fresh_registers, head_of
from headrace.engine.bounds.shortcuts import EtsArc, ets_arcs, only_merging_readers
from headrace.engine.buffer import Buffer, Waiting
from headrace.engine.sizes import TupleSizes
from headrace.engine.statistics import QueueStatistics
from headrace.graph.graph import Arc, Graph, Vertex, VertexId
from headrace.graph.place import origin_of
from headrace.model.page import Completion, Element, Page, Punctuation
from headrace.model.schema import TS
from headrace.model.streams import origin_of_scan
from headrace.model.time import BEGIN


class Network:
    """Buffers and registers.

    `screen` returns the rest of a page on an arc with guards, `shed` the rest of elements on an arc with a shedder.
    `arrival` is the arrival time of appended elements: that of the element taken last, or the one set by the caller.
    """

    def __init__(
        self,
        mode: BoundsMode,
        *,
        screen: Callable[[Arc, Page], Page],
        shed: Callable[[Arc, Sequence[Element]], Sequence[Element]],
    ) -> None:
        self.mode, self._screen, self._shed = mode, screen, shed
        self.arrival = BEGIN
        self.graph = Graph()
        self.vertices: Mapping[VertexId, Vertex] = {}
        self.depth: dict[VertexId, int] = {}
        self.ports: dict[VertexId, range] = {}
        self.ready: dict[Arc, None] = {}  # arcs with unread elements
        self.registers: dict[VertexId, Registers] = {}
        self.arcs: dict[VertexId, tuple[EtsArc, ...]] = {}
        self.needs_no_echo: set[VertexId] = set()  # whose readers take a tuple for a bound of its timestamp
        self.readers: dict[VertexId, tuple[Arc, ...]] = {}  # the arcs on which a vertex's buffer is read
        self._buffers: dict[VertexId, Buffer] = {}
        self._own: dict[Arc, Buffer] = {}  # of arcs with a shedder, as the other readers of the vertex read everything
        self._cursors: dict[Arc, tuple[Buffer, int]] = {}
        self._inputs: dict[VertexId, tuple[Arc, ...]] = {}
        self.sizes = TupleSizes()  # of what vertices produce
        self._kept: dict[VertexId, tuple[int, float]] = {}  # tuples that wait behind each vertex, and their bytes
        self._tuples, self._bytes = 0, 0.0  # the sums
        self._peak_tuples, self._peak_bytes = 0, 0.0  # the most since `take_queues`
        self._peaks: dict[VertexId, int] = {}  # the most that waited behind each vertex since `take_peaks`

    def use(
        self,
        graph: Graph,
        merging: Collection[VertexId],
        ends: Collection[VertexId],
        shedding: Collection[Arc] = frozenset(),
    ) -> None:
        """Change the topology; arcs that stay keep unread elements and registers, a new reader begins at the tail.

        Tuples on the arcs of `shedding` are dropped before they are stored.
        """
        unread = {arc: self.waiting(arc) for arc in self.ready}
        ports = {
            vertex.id: _same_ports(self.vertices[vertex.id], vertex) for vertex in graph if vertex.id in self.vertices
        }
        self._connect(graph, ends, shedding)
        self._hand_over(unread, ports)
        self._use_registers(merging, ports)
        self.arcs = ets_arcs(graph, merging, ends)
        self.needs_no_echo = only_merging_readers(graph, merging)

    def _connect(self, graph: Graph, ends: Collection[VertexId], shedding: Collection[Arc]) -> None:
        """Make empty buffers for a graph, and a cursor for each reader."""
        self.graph, self.vertices, self.ready = graph, graph.by_id(), {}
        self.depth = {vertex.id: depth for depth, vertex in enumerate(graph)}
        self.ports = {vertex.id: range(len(vertex.inputs)) for vertex in graph}
        self._inputs = {name: tuple((name, port) for port in ports) for name, ports in self.ports.items()}
        self.readers = {
            name: tuple(arc for arc in arcs if arc[0] not in ends) for name, arcs in graph.readers().items()
        }
        self._kept, self._tuples, self._bytes = {}, 0, 0.0
        self.sizes.forget_others(self.vertices)
        folds = self.mode.folds
        self._own = {arc: Buffer(1, folds=folds) for arcs in self.readers.values() for arc in arcs if arc in shedding}
        self._buffers, self._cursors = {}, {arc: (buffer, 0) for arc, buffer in self._own.items()}
        for name, arcs in self.readers.items():
            shared = [arc for arc in arcs if arc not in self._own]
            buffer = self._buffers[name] = Buffer(len(shared), folds=folds)
            self._cursors |= {arc: (buffer, cursor) for cursor, arc in enumerate(shared)}

    def _hand_over(
        self, unread: Mapping[Arc, tuple[Sequence[Waiting], int]], ports: Mapping[VertexId, Mapping[int, int]]
    ) -> None:
        """Give readers of both graphs what they have not read; `ports` says for each new port which old one it was."""
        for name, same in ports.items():
            for new, old in same.items():
                self.give((name, new), *unread.get((name, old), ((), 0)))

    def _use_registers(self, merging: Collection[VertexId], ports: Mapping[VertexId, Mapping[int, int]]) -> None:
        """Make registers for the merging vertices, which continue from those of the same vertex before."""
        before, self.registers = self.registers, {}
        for name in self.vertices:
            if name in merging:
                registers = self.registers[name] = fresh_registers(len(self.ports[name]), relaxed=self.mode.relaxed)
                if name in before:
                    registers.continue_from(before[name], ports[name])

    def append(self, name: VertexId, elements: Sequence[Element]) -> int:
        """Put what a vertex produced into its buffer; returns the number of tuples."""
        buffer = self._buffers[name]
        count = buffer.append(elements, self.arrival)
        for arc in self.readers[name]:
            if self._own and arc in self._own:
                rest = self._shed(arc, elements)
                if not rest:
                    continue
                self._own[arc].append(rest, self.arrival)
            self.ready[arc] = None
        if count:
            self.sizes.sample(name, elements)
            self._count(name)
        return count

    def give(self, arc: Arc, elements: Sequence[Waiting], taken: int = 0) -> None:
        """Give one reader elements that it must read first, without the tuples already `taken` of the first."""
        if elements:
            buffer, cursor = self._cursors[arc]
            buffer.carry(cursor, elements, taken)
            self.ready[arc] = None
            self.sizes.sample(self._origin(arc), [element for element, _ in elements])
            self._count(self._origin(arc))

    def swap(self, arc: Arc, elements: Sequence[Waiting]) -> None:
        """Give one reader these elements instead of all that is unread; without any, it is not ready any more."""
        buffer, cursor = self._cursors[arc]
        buffer.swap(cursor, elements)
        if not elements:
            del self.ready[arc]
        self._count(self._origin(arc))

    def clear(self, name: VertexId) -> None:
        """Forget what is unread at the inputs of a vertex; its registers stay, and it is told of them once more."""
        for arc in self._inputs[name]:
            if arc in self.ready:
                self.swap(arc, ())
        registers = self.registers.get(name)
        if registers is not None:
            registers.begin_again()

    def elements(self, arc: Arc) -> list[Element]:
        """Return what is unread on an arc."""
        buffer, cursor = self._cursors[arc]
        return buffer.elements(cursor)

    def rest(self, arc: Arc) -> list[Waiting]:
        """Return what is unread on an arc, with arrival times."""
        buffer, cursor = self._cursors[arc]
        return buffer.rest(cursor)

    def waiting(self, arc: Arc) -> tuple[list[Waiting], int]:
        """Return the same as `rest`, but the first element whole, and how many of its tuples were taken."""
        buffer, cursor = self._cursors[arc]
        return buffer.whole(cursor), buffer.taken(cursor)

    def oldest(self, arc: Arc) -> int:
        """Return when the head of an arc that is ready arrived."""
        buffer, cursor = self._cursors[arc]
        head = buffer.next(cursor)
        assert head is not None
        return head[1]

    def tuples(self, arc: Arc) -> int:
        """Return how many tuples wait on an arc."""
        buffer, cursor = self._cursors[arc]
        return buffer.queued(cursor)

    def unread(self, name: VertexId) -> int:
        """Return how many elements wait at a vertex's inputs."""
        return sum(buffer.unread(cursor) for buffer, cursor in (self._cursors[name, port] for port in self.ports[name]))

    def queued(self, name: VertexId) -> int:
        """Return how many tuples wait at a vertex's inputs."""
        return sum(buffer.queued(cursor) for buffer, cursor in (self._cursors[name, port] for port in self.ports[name]))

    def queued_bytes(self, name: VertexId) -> int:
        """Return the bytes of the tuples that wait at a vertex's inputs."""
        return sum(self.size(arc, self.tuples(arc)) for arc in self._inputs[name] if arc in self.ready)

    def size(self, arc: Arc, tuples: int) -> int:
        """Return the bytes of so many tuples of an arc."""
        return round(tuples * self.sizes[self._origin(arc)])

    def take_queues(self) -> QueueStatistics:
        """Return what waits now, and the most that waited at once since the last call."""
        queues = QueueStatistics(self._tuples, round(self._bytes), self._peak_tuples, round(self._peak_bytes))
        self._peak_tuples, self._peak_bytes = self._tuples, self._bytes
        return queues

    def take_peaks(self) -> dict[VertexId, int]:
        """Return the most tuples that waited at once behind each vertex since the last call."""
        peaks, self._peaks = self._peaks, {name: count for name, (count, _) in self._kept.items() if count}
        return peaks

    def _count(self, origin: VertexId) -> None:
        """Count what waits behind a vertex: what several others read counts once, until the last has taken it."""
        count = self._buffers[origin].most_queued
        if self._own:
            own = (self._own[arc].most_queued for arc in self.readers[origin] if arc in self._own)
            count = max(count, *own, 0)
        tuples, size = self._kept.get(origin, (0, 0.0))
        self._kept[origin] = count, count * self.sizes[origin]
        if count > self._peaks.get(origin, 0):
            self._peaks[origin] = count
        self._tuples += count - tuples
        self._bytes = self._bytes + self._kept[origin][1] - size if self._tuples else 0.0
        self._peak_tuples = max(self._peak_tuples, self._tuples)
        self._peak_bytes = max(self._peak_bytes, self._bytes)

    def _origin(self, arc: Arc) -> VertexId:
        return self.vertices[arc[0]].inputs[arc[1]]

    def stored(self, name: VertexId) -> int:
        """Return how many elements a vertex's buffer keeps for its slowest reader."""
        return max(
            len(self._buffers[name]), *(len(self._own[arc]) for arc in self.readers[name] if arc in self._own), 0
        )

    def first_stamp(self, arc: Arc) -> int:
        """Return the timestamp of the head of an arc that is ready."""
        buffer, cursor = self._cursors[arc]
        head = buffer.head(cursor)
        assert head is not None
        element, first = head
        if isinstance(element, Punctuation):
            return element.bound
        if isinstance(element, Completion):
            return BEGIN
        return int(element.rows[TS][first]) if len(element) else BEGIN

    def more(self, name: VertexId) -> bool:
        """Return whether a vertex may take input: any, or for a merging one a head at the least register."""
        registers = self.registers.get(name)
        if registers is None:
            return not self.ready.keys().isdisjoint(self._inputs[name])
        self.refresh(name)
        return registers.port() is not None

    def blocked(self, name: VertexId) -> bool:
        """Return whether a merging vertex holds tuples that it may not take."""
        if name not in self.registers or self.more(name):
            return False
        registers = self.registers[name]
        behind = (self._cursors[name, port] for port, marked in enumerate(registers.marks) if marked)
        return registers.holds or any(buffer.queued(cursor) for buffer, cursor in behind)

    def blocking(self, name: VertexId) -> int:
        """Return the port to go back along when a vertex has no input: the lowest empty one that blocks."""
        registers = self.registers.get(name)
        port = None if registers is None else registers.blocking()
        return 0 if port is None else port

    def take(self, name: VertexId, limit: int | None) -> tuple[int, Element]:
        """Remove what a vertex may take next, of a page at most `limit` tuples; returns the port, too.

        With a limit, inputs advance together by timestamp: a join that had read far ahead on one input would have to
        emit all of its pairs at once when it reads the other.
        """
        registers = self.registers.get(name)
        if registers is None:
            ready = [port for port in self.ports[name] if (name, port) in self.ready]
            port = (
                ready[0]
                if limit is None or len(ready) == 1
                else min(ready, key=lambda port: self.first_stamp((name, port)))
            )
            return port, self._remove((name, port), limit)
        chosen = registers.port()
        assert chosen is not None
        if registers.heads[chosen] is not None:
            allowed = registers.allowed(chosen)
            limit = allowed if limit is None else min(limit, allowed)
        element = self._remove((name, chosen), limit)
        arrived = self.arrival
        self.refresh(name)
        self.arrival = arrived
        return chosen, element

    def refresh(self, name: VertexId) -> None:
        """Update the registers of a merging vertex by the heads of its inputs; set tuples below a register aside."""
        registers = self.registers[name]
        for port in self.ports[name]:
            arc = (name, port)
            buffer, cursor = self._cursors[arc]
            registers.marks[port] = False
            while (head := buffer.head(cursor)) is not None:
                element, first = head
                if isinstance(element, Completion):  # who merges by time has no use for it
                    self._remove(arc, None)
                    continue
                if isinstance(element, Punctuation):
                    if self.mode.absorb:
                        mark = self._remove(arc, None)  # perhaps with those behind it
                        assert isinstance(mark, Punctuation)
                        registers.write(port, mark.bound)
                        continue
                    registers.heads[port], registers.marks[port] = None, True
                    registers.see(port, element.bound)
                    break
                last = registers.heads[port]
                if last is None or last.page is not element:
                    last = head_of(element, first)
                elif last.first != first:
                    last = last.at(first)
                late = last.stamps[last.first : last.ordered] < registers.values[port]
                if late[0]:
                    self._set_aside(registers, arc, self._remove(arc, int(late.sum())))
                    continue
                registers.heads[port] = last
                registers.see(port, last.stamp)
                break
            else:
                registers.heads[port] = None

    def is_empty(self, path: Sequence[Arc]) -> bool:
        """Return whether nothing is on its way along these arcs."""
        return not any(arc in self.ready for arc in path)

    def _remove(self, arc: Arc, limit: int | None) -> Element:
        buffer, cursor = self._cursors[arc]
        element = buffer.take(cursor, limit)
        if isinstance(element, Page):
            self._count(self._origin(arc))
        self.arrival = buffer.arrived
        if not buffer.unread(cursor):
            del self.ready[arc]
        return element

    def _set_aside(self, registers: Registers, arc: Arc, late: Element) -> None:
        assert isinstance(late, Page)
        late = self._screen(arc, late)
        registers.late += len(late)
        if self.mode.keep_late and len(late):
            registers.late_pages.append(late)


def _same_ports(before: Vertex, after: Vertex) -> dict[int, int]:
    """Return which new port was which old port: the n-th that reads the same vertex, where it is or from afar."""
    free = dict(enumerate(before.inputs))
    same: dict[int, int] = {}
    for is_same in (operator.eq, _is_sent):
        for port, origin in enumerate(after.inputs):
            old = next((old for old, name in free.items() if port not in same and is_same(name, origin)), None)
            if old is not None:
                same[port] = old
                del free[old]
    return same


def _is_sent(before: VertexId, after: VertexId) -> bool:
    """Return whether two names stand for one vertex, run here or received: it, or its results, may change place."""
    return _sender(before) == _sender(after)


def _sender(name: VertexId) -> VertexId:
    return origin_of_scan(origin_of(name))
