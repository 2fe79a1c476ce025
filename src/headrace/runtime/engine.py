"""Runs one graph in one process, step by step, deterministically.

The two-step cycle of the query-graph model: execute the current operator on one element of its input, then choose the next. The choice is a
`Strategy`; depth first is the default: what was produced goes on towards the output before anything new is begun.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.elements.page import Element, Page, Punctuation
from headrace.elements.time import BEGIN
from headrace.errors import HeadraceError, OperatorFault
from headrace.graph.graph import Graph, VertexId
from headrace.operators.operator import Operator, State
from headrace.operators.specs import Exchange, Output
from headrace.runtime.buffer import Buffer
from headrace.runtime.statistics import VertexStatistics


@dataclass(frozen=True, slots=True)
class Candidate:
    """A vertex that has unread input on a port; `depth` is its place in topological order."""

    vertex: VertexId
    port: int
    depth: int


class Strategy(Protocol):
    """Chooses who runs next."""

    def choose(self, ready: Sequence[Candidate]) -> Candidate: ...


class DepthFirst:
    """The vertex nearest to the output first, then the lowest port."""

    def choose(self, ready: Sequence[Candidate]) -> Candidate:
        return max(ready, key=lambda candidate: (candidate.depth, -candidate.port))


class Engine:
    """The operators of a graph and the buffers between them. Same graph, strategy and calls: same steps."""

    def __init__(self, graph: Graph, strategy: Strategy | None = None, *, taps: Iterable[VertexId] = ()) -> None:
        self.taps = frozenset(taps)  # vertices whose pages are wanted besides being passed on
        self.strategy: Strategy = strategy or DepthFirst()
        self.operators: dict[VertexId, Operator] = {}
        self.statistics: dict[VertexId, VertexStatistics] = {}
        self.bounds: dict[VertexId, int] = {}  # newest promise of each vertex's output
        self.results: dict[VertexId, list[Page]] = {}  # what reached Output and Exchange vertices
        self.graph = Graph()
        self.use(graph)

    def use(self, graph: Graph) -> None:
        """Change to another graph between runs; vertices of both keep their state, the others start empty or go."""
        for vertex in graph.vertices:
            if vertex.id not in self.operators:
                self.operators[vertex.id] = vertex.spec.build()
                self.statistics[vertex.id] = VertexStatistics()
                self.bounds[vertex.id] = BEGIN
        kept = {vertex.id for vertex in graph.vertices}
        for gone in [name for name in self.operators if name not in kept]:
            del self.operators[gone], self.statistics[gone], self.bounds[gone]
        self.graph = graph
        self.ends = {vertex.id for vertex in graph.vertices if isinstance(vertex.spec, Output | Exchange)}
        self._vertices = graph.by_id()
        self._depth = {vertex.id: depth for depth, vertex in enumerate(graph.vertices)}
        self._readers = graph.readers()
        self._buffers = {name: Buffer(len(readers)) for name, readers in self._readers.items()}
        # a reader's cursor number in its input's buffer
        self._cursor = {(reader, port): i for readers in self._readers.values() for i, (reader, port) in enumerate(readers)}
        self._ready: dict[tuple[VertexId, int], Candidate] = {}

    def push(self, source: VertexId, element: Element) -> None:
        """Let an element enter at a source vertex."""
        self._emit(source, (element,))

    def run(self) -> None:
        """Work until no operator has input."""
        while self._ready:
            self.step()

    def take_results(self) -> dict[VertexId, list[Page]]:
        """What reached the ends of the graph, and what tapped vertices emitted, since the last call."""
        taken, self.results = self.results, {}
        return taken

    def step(self) -> bool:
        """Execute one operator on one element; False if there is nothing to do."""
        if not self._ready:
            return False
        candidate = next(iter(self._ready.values())) if len(self._ready) == 1 else self.strategy.choose(list(self._ready.values()))
        name, port = candidate.vertex, candidate.port
        origin = self._vertices[name].inputs[port]
        buffer = self._buffers[origin]
        cursor = self._cursor[name, port]
        element = buffer.take(cursor)
        if not buffer.unread(cursor):
            del self._ready[name, port]
        self._execute(name, port, element)
        return True

    def state(self) -> Mapping[VertexId, State]:
        """The state of every operator."""
        return {name: operator.state() for name, operator in self.operators.items()}

    def restore(self, state: Mapping[VertexId, State]) -> None:
        for name, chunks in state.items():
            if name in self.operators:
                self.operators[name].restore(chunks)

    def observe(self) -> dict[VertexId, VertexStatistics]:
        """Counts since the last call, with what is queued and held now."""
        seen, self.statistics = self.statistics, {name: VertexStatistics() for name in self.statistics}
        for name, counts in seen.items():
            counts.held = self.operators[name].held()
            inputs = self._vertices[name].inputs
            counts.queued = sum(self._buffers[origin].queued(self._cursor[name, port]) for port, origin in enumerate(inputs))
        return seen

    def _execute(self, name: VertexId, port: int, element: Element) -> None:
        operator, seen = self.operators[name], self.statistics[name]
        began = time.perf_counter_ns()  # a measurement, never an input to a result
        try:
            if isinstance(element, Page):
                seen.tuples_in += len(element)
                seen.pages_in += 1
                emitted = list(operator.on_page(port, element))
            else:
                emitted = list(operator.on_punctuation(port, element))
        except HeadraceError:
            raise
        except Exception as error:
            raise OperatorFault(f"operator {name} failed: {type(error).__name__}: {error}") from error
        seen.busy_ns += time.perf_counter_ns() - began
        self._emit(name, emitted)

    def _emit(self, name: VertexId, elements: Sequence[Element]) -> None:
        for element in elements:
            if isinstance(element, Punctuation):
                self.bounds[name] = max(self.bounds[name], element.bound)
        if name in self.ends or name in self.taps:
            pages = [element for element in elements if isinstance(element, Page) and len(element)]
            self.results.setdefault(name, []).extend(pages)
            if name in self.ends:
                self.statistics[name].tuples_out += sum(map(len, pages))
                return
        useful = [element for element in elements if not isinstance(element, Page) or len(element)]
        if not useful:
            return
        self.statistics[name].tuples_out += self._buffers[name].append(useful)
        for reader, port in self._readers[name]:
            if (reader, port) not in self._ready:
                self._ready[reader, port] = Candidate(reader, port, self._depth[reader])
