"""Executes the operators of a graph one element at a time, and passes on what they emit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from headrace.engine.blame import blaming, operator_fault
from headrace.engine.bounds.bounds import Bounds
from headrace.engine.bounds.ets import Ets
from headrace.engine.bounds.mode import BoundsMode
from headrace.engine.choosing import Step, Visit
from headrace.engine.feedback.desires import leading_to
from headrace.engine.feedback.guards import Guards
from headrace.engine.network import Network
from headrace.engine.shedding.shedders import Shedders
from headrace.engine.statistics import VertexCounts
from headrace.graph.feedback import tap_of
from headrace.graph.graph import Arc, Graph, VertexId
from headrace.model.page import Completion, Element, Page, Punctuation
from headrace.model.patterns.feedback import Feedback
from headrace.model.schema import TS
from headrace.model.time import BEGIN
from headrace.operators.capabilities import is_speaking, is_timed
from headrace.operators.operator import Operator
from headrace.operators.specs import Exchange, Output


class Execution:
    """The operators of a graph, the network between them, and what acts on its arcs: bounds, guards and shedders.

    `taps` are vertices whose pages are results besides being passed on. `take_feedback` acts on the feedback that an
    operator has for its inputs.
    """

    def __init__(
        self,
        taps: Iterable[VertexId],
        ets: Ets | None,
        mode: BoundsMode,
        take_feedback: Callable[[VertexId, Iterable[tuple[int, Feedback]]], None],
    ) -> None:
        self.taps = frozenset(taps)
        self.graph = Graph()
        self.ends: set[VertexId] = set()
        self.operators: dict[VertexId, Operator] = {}
        self.statistics: dict[VertexId, VertexCounts] = {}
        self.results: dict[VertexId, list[Page]] = {}  # what reached Output and Exchange vertices
        self.network = Network(mode, screen=self._screen, shed=self._shed)
        self.bounds = Bounds(self.network, ets, self.emit, self._due, registers=mode.registers)
        self.guards = Guards(self.network, self.operators, self.bounds.reached)
        self.shedders = Shedders()
        self._take_feedback = take_feedback

    def use(self, graph: Graph) -> None:
        """Change to another graph, whose new vertices start empty; those that go have finished their input."""
        self._build(graph)
        self.graph = graph
        self._portions = {vertex.id: vertex.spec.portion for vertex in graph}
        self._notice()
        self.ends = {vertex.id for vertex in graph if isinstance(vertex.spec, Output | Exchange)}
        self._ends_of = {
            name: tuple(reader for reader, _ in arcs if reader in self.ends) for name, arcs in graph.readers().items()
        }
        self.bounds.use(graph, self.ends)
        self.connect()
        self._steady = leading_to(graph, self.network.registers)
        self.guards.use(graph, self.taps)

    def _build(self, graph: Graph) -> None:
        """Build the operators of new vertices, and drop those that have gone."""
        before, after = self.graph.by_id(), graph.by_id()
        for vertex in graph:
            if vertex.id not in before or before[vertex.id].spec != vertex.spec:
                with blaming(vertex.id, graph):
                    self.operators[vertex.id] = vertex.spec.build()
                if vertex.id in before and vertex.spec.is_stateless:
                    continue  # another version of its table: it goes on where it was
                self.statistics[vertex.id] = VertexCounts()
                self.bounds.start(vertex.id)
        for gone in [name for name in self.operators if name not in after]:
            del self.operators[gone], self.statistics[gone]
            self.bounds.forget(gone)

    def rebuild(self, name: VertexId) -> None:
        """Build the operator of a vertex again, with empty state."""
        with blaming(name, self.graph):
            self.operators[name] = self.graph.by_id()[name].spec.build()
        self._notice()

    def _notice(self) -> None:
        """Remember which operators speak, and which wait for time."""
        self._speaking = {name: speaker for name, speaker in self.operators.items() if is_speaking(speaker)}
        self._timed = {name: timed for name, timed in self.operators.items() if is_timed(timed)}

    def connect(self) -> None:
        """Connect the operators by arcs; what is unread stays."""
        vertices = self.graph.by_id()
        merging = [name for name in self.operators if vertices[name].spec.merges_inputs]
        self.network.use(self.graph, merging, self.ends, self.shedders.settings.keys())

    def execute(self, visit: Visit) -> Step:
        """Let an operator take one element of its input, and pass on what it emits."""
        name = visit.vertex
        operator, counts = self.operators[name], self.statistics[name]
        merges = name in self.network.registers
        port, element = (
            (0, None)
            if merges and not self.network.more(name)
            else self.network.take(name, lower_limit(visit.limit, self._portions[name]))
        )
        bound = BEGIN  # in place of a dropped tuple, for operators that wait behind
        if (name, port) in self.guards.by_arc and element is not None:
            element, bound = self.guards.let_in((name, port), element, tells_time=name in self._steady)
        began = time.perf_counter_ns()  # a measurement, never an input to a result
        try:
            emitted: list[Element] = []
            if isinstance(element, Page):
                counts.tuples_in += len(element)
                counts.bytes_in += self.network.size((name, port), len(element))
                counts.pages_in += 1
                if len(element):
                    emitted += operator.on_page(port, element)
                if bound > BEGIN:
                    emitted += operator.on_punctuation(port, Punctuation(bound))
            elif isinstance(element, Completion):
                emitted += operator.on_completion(port, element)
            elif element is not None and not merges:
                emitted += operator.on_punctuation(port, element)
            if merges:
                emitted += self._give_bounds(name, operator)
        except BaseException as error:
            fault = operator_fault(error, name, self.graph)
            if fault is None or fault is error:
                raise
            raise fault from error
        counts.busy_ns += time.perf_counter_ns() - began
        if name in self._speaking:
            self._take_feedback(name, self._speaking[name].said())
        if name in self.guards.watches and isinstance(element, Page):
            self.guards.find_groups(name)
        if merges:
            self._emit_merged(name, emitted)
        else:
            self.emit(name, emitted)
        if element is None:
            return Step(name, "register")
        return Step(name, "page", len(element)) if isinstance(element, Page) else Step(name, "punctuation")

    def _give_bounds(self, name: VertexId, operator: Operator) -> list[Element]:
        """Give a merging operator the new bounds of its inputs."""
        registers, emitted = self.network.registers[name], list[Element]()
        for port, value in enumerate(registers.values):
            if value > registers.given[port]:
                registers.given[port] = value
                emitted += operator.on_punctuation(port, Punctuation(value))
                if (name, port) in self.guards.by_arc:
                    self.guards.expire((name, port), value)
        registers.passed, registers.raised = registers.minimum, False
        return emitted

    def emit(self, name: VertexId, elements: Sequence[Element]) -> None:
        """Pass elements of a vertex on to its arcs and to the ends behind it; those of a tap are results, too."""
        useful, pages, reached = list[Element](), list[Page](), self.bounds.reached
        for element in elements:
            if isinstance(element, Punctuation):
                reached[name] = max(reached[name], element.bound)
                useful.append(element)
            elif isinstance(element, Completion):
                useful.append(element)
                for end in self._ends_of[name]:
                    if (end, 0) in self.guards.by_arc:
                        self.guards.complete((end, 0), element)
            elif len(element):
                pages.append(element)
                useful.append(element)
        for end in self._ends_of[name]:
            self._deliver(end, pages, reached[name])
        if name in self.taps:
            self._keep(name, self.guards.let_out((tap_of(name), 0), pages, reached[name]))
        if useful:
            count = self.network.append(name, useful)
            counts = self.statistics[name]
            counts.tuples_out += count
            counts.bytes_out += round(count * self.network.sizes[name])

    def _emit_merged(self, name: VertexId, elements: Sequence[Element]) -> None:
        """Emit the output of a merging operator: tuples first, then the newest bound, if it must go as punctuation."""
        pages = [element for element in elements if isinstance(element, Page) and len(element)]
        if pages:
            registers = self.network.registers[name]
            registers.newest = max(registers.newest, int(pages[-1].rows[TS][-1]))
        bound = max((element.bound for element in elements if isinstance(element, Punctuation)), default=BEGIN)
        self.emit(name, pages)
        rest = self.bounds.hand_on(name, bound, with_tuples=bool(pages))
        if rest is not None:
            self.emit(name, (Punctuation(rest),))

    def _deliver(self, end: VertexId, pages: Sequence[Page], bound: int) -> None:
        """Deliver results at an end of the graph, which executes nothing."""
        pages = self.guards.let_out((end, 0), pages, bound)
        if self.shedders.active and (end, 0) in self.shedders.settings:
            pages = [rest for page in pages if len(rest := self.shedders.screen((end, 0), page))]
        counts, count = self.statistics[end], sum(map(len, pages))
        self.bounds.reached[end] = max(self.bounds.reached[end], bound)
        counts.tuples_in += count
        counts.pages_in += len(pages)
        counts.tuples_out += count
        self._keep(end, pages)

    def _shed(self, arc: Arc, elements: Sequence[Element]) -> Sequence[Element]:
        """Return what is stored of elements on an arc with a shedder."""
        tells_time = arc[0] in self._steady or arc[0] in self.network.registers
        return self.shedders.screen_all(arc, elements, tells_time=tells_time) if self.shedders.active else elements

    def _screen(self, arc: Arc, page: Page) -> Page:
        """Return the rest of a page on an arc with guards."""
        return self.guards.screen(arc, page)

    def _keep(self, name: VertexId, pages: Sequence[Page]) -> None:
        if pages:
            self.results.setdefault(name, []).extend(pages)

    def take_results(self) -> dict[VertexId, list[Page]]:
        """Return what reached the ends of the graph, and what tapped vertices emitted, since the last call."""
        taken, self.results = self.results, {}
        return taken

    def take_statistics(self) -> dict[VertexId, VertexCounts]:
        """Return what was counted since the last call."""
        taken, self.statistics = self.statistics, {name: VertexCounts() for name in self.statistics}
        return taken

    def _due(self) -> Iterator[tuple[VertexId, int]]:
        """Yield the bounds for which operators and guards wait."""
        for name, operator in self._timed.items():
            due = operator.due()
            if due is not None:
                yield name, due
        yield from self.guards.due().items()


def lower_limit(limit: int | None, other: int | None) -> int | None:
    """Return the lower of two limits; None is no limit."""
    if limit is None or other is None:
        return other if limit is None else limit
    return min(limit, other)
