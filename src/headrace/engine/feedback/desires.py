"""Tuples that are wanted first, and results that are wanted now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from headrace.engine.buffer import Waiting
from headrace.engine.feedback.guards import MOST_WISHES, Assumptions
from headrace.engine.network import Network
from headrace.graph.feedback import arcs_of, spread_from
from headrace.graph.graph import Arc, Graph, VertexId
from headrace.model.page import Page
from headrace.model.patterns.feedback import Intent
from headrace.model.patterns.pattern import Pattern, matches
from headrace.operators import specs
from headrace.operators.operator import Operator


class Wish(Struct, frozen=True):
    """A reader wants matching tuples of an input first."""

    reader: VertexId
    port: int
    pattern: Pattern


class Wishes:
    """The newest desires in a running graph: tuples that wait overtake others where order is free, elsewhere their branch is served first."""

    def __init__(self, network: Network, assumptions: Assumptions, preferred: set[Arc]) -> None:
        self._network, self._assumptions = network, assumptions
        self._preferred = preferred  # the branches that are served first
        self._graph, self._taps, self._ends = Graph(), frozenset[VertexId](), frozenset[VertexId]()
        self._kept: list[Wish] = []

    def use(self, graph: Graph, taps: frozenset[VertexId], ends: Collection[VertexId]) -> None:
        """Go on with another graph."""
        self._graph, self._taps, self._ends = graph, taps, frozenset(ends)
        self.restore(self._kept)

    def hear(self, vertex: VertexId, wanted: Pattern) -> bool:
        """What matches of a vertex's output (of an end: what reaches it) is wanted first; False if nothing is done about it."""
        return self._take(arcs_of(self._graph, vertex, self._taps), wanted)

    def hear_reader(self, arc: Arc, wanted: Pattern) -> bool:
        """An operator wants this of an input first."""
        return self._take((arc,), wanted)

    def hurry(self, source: VertexId) -> None:
        """Let those tuples that wait behind a source and are desired overtake the others, where order is free."""
        wishes = [said.pattern for said in self._assumptions.relayed.get(source, ()) if said.intent is Intent.DESIRED]
        if wishes:
            arcs = arcs_of(self._graph, source, self._taps)
            move_forward(self._graph, self._network, [(arc, wanted) for wanted in wishes for arc in arcs])

    def kept(self) -> list[Wish]:
        """What is wanted first, as values that can be kept and given to `restore`."""
        return list(self._kept)

    def restore(self, wishes: Iterable[Wish]) -> None:
        """Go on with what was wanted first, as far as those are there who want it."""
        self._kept = [wish for wish in wishes if self._assumptions.exists((wish.reader, wish.port))]
        self._preferred.clear()
        self._assumptions.forget_wishes()
        for wish in self._kept:
            self._heed(((wish.reader, wish.port),), wish.pattern)

    def _take(self, arcs: Iterable[Arc], wanted: Pattern) -> bool:
        """Remember a desire and heed it."""
        said = [Wish(*arc, wanted) for arc in arcs]
        self._kept = [*(wish for wish in self._kept if wish not in said), *said][-MOST_WISHES:]
        return self._heed([(wish.reader, wish.port) for wish in said], wanted)

    def _heed(self, arcs: Iterable[Arc], wanted: Pattern) -> bool:
        found = spread_from(self._graph, arcs, wanted, taps=self._taps, facts=self._assumptions.facts())
        moved = move_forward(self._graph, self._network, found.guards)
        waiting = {arc for arc, _ in found.guards if arc[0] in self._graph.by_id() and arc[0] not in self._ends}
        self._preferred |= waiting
        self._assumptions.note_wishes(found)
        return bool(moved or waiting)


def order_free_arcs(graph: Graph, merging: Collection[VertexId]) -> set[Arc]:
    """Where tuples may overtake each other: nobody put them in order, and nobody behind takes their order for time."""
    merging = {
        *merging,
        *(vertex.id for vertex in graph if isinstance(vertex.spec, specs.Pace)),
    }  # who comes later may be late
    steady = leading_to(graph, merging)
    in_order: set[VertexId] = set()
    free: set[Arc] = set()
    for vertex in graph:
        match vertex.spec:
            case (
                specs.Filter()
                | specs.Project()
                | specs.Impute()
                | specs.TableJoin()
                | specs.Output()
                | specs.Exchange()
            ):
                if vertex.inputs[0] in in_order:
                    in_order.add(vertex.id)
            case specs.Scan() | specs.Receive() | specs.Union() | specs.PartialAggregate():
                pass
            case _:
                in_order.add(vertex.id)  # what they emit comes in an order of their own
        for port, origin in enumerate(vertex.inputs):
            if vertex.id not in merging and vertex.id not in steady and origin not in in_order:
                free.add((vertex.id, port))
    return free


def leading_to(graph: Graph, merging: Collection[VertexId]) -> set[VertexId]:
    """The vertices before merging ones that keep the order of their input: it must be that of time."""
    readers = graph.readers()
    found: set[VertexId] = set()
    for vertex in reversed(graph.vertices):
        keeps_order = isinstance(
            vertex.spec, specs.Filter | specs.Project | specs.Impute | specs.TableJoin | specs.Scan | specs.Receive
        )
        if keeps_order and any(reader in merging or reader in found for reader, _ in readers[vertex.id]):
            found.add(vertex.id)
    return found


def move_forward(graph: Graph, network: Network, wanted: Iterable[tuple[Arc, Pattern]]) -> int:
    """Let waiting tuples that match be read first where order is free; the others stay before and behind promises as they were."""
    free = order_free_arcs(graph, network.registers)
    return sum(_overtake(network, arc, mine) for arc, mine in wanted if arc in free and arc in network.ready)


def _overtake(network: Network, arc: Arc, wanted: Pattern) -> int:
    first: list[Waiting] = []
    rest: list[Waiting] = []
    count = 0
    for waiting in network.rest(arc):
        element, arrived = waiting
        found = matches(wanted, element.rows) if isinstance(element, Page) else None
        if found is None or not isinstance(element, Page) or not found.any():
            rest.append(waiting)
            continue
        if found.all():
            count += len(element) if rest else 0  # what is in front already moves nowhere
            first.append(waiting)
            continue
        count += int(found.sum())
        first.append((Page(element.rows.filter(found)), arrived))
        rest.append((Page(element.rows.filter(~found)), arrived))
    if count:
        network.swap(arc, [*first, *rest])
    return count


def results_now(graph: Graph, operators: Mapping[VertexId, Operator], vertex: VertexId, wanted: Pattern) -> list[Page]:
    """What would come out of a vertex if the input ended now, from the nearest operators that hold results back; nothing changes."""
    vertices = graph.by_id()

    def now(name: VertexId) -> list[Page]:
        found = operators[name].partial()
        if found is not None:
            return [Page(found)]
        spec = vertices[name].spec
        if not spec.is_stateless:
            return []
        fresh = spec.build()
        inputs = [(port, page) for port, origin in enumerate(vertices[name].inputs) for page in now(origin)]
        return [out for port, page in inputs for out in fresh.on_page(port, page) if isinstance(out, Page)]

    pages = [Page(page.rows.filter(matches(wanted, page.rows))) for page in now(vertex)]
    return [page for page in pages if len(page)]
