"""Desires: tuples that readers want first."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct

from headrace.engine.buffer import Waiting
from headrace.engine.feedback.guards import MAX_DESIRES, Guards
from headrace.engine.network import Network
from headrace.graph.feedback import arcs_of, spread_from
from headrace.graph.graph import Arc, Graph, VertexId
from headrace.model.page import Page
from headrace.model.patterns.feedback import Intent
from headrace.model.patterns.pattern import Pattern, matches
from headrace.operators.spec import Order


class Desire(Struct, frozen=True):
    """The pattern of the tuples that a reader wants first of an input."""

    reader: VertexId
    port: int
    pattern: Pattern
    priority: int = 0


class Desires:
    """The desires in a running graph: those of the highest priority first, of these the newest.

    Where order is free, desired tuples overtake others that wait; elsewhere the branch that holds them is served first.
    """

    def __init__(self, network: Network, guards: Guards, preferred: set[Arc]) -> None:
        self._network, self._guards = network, guards
        self._preferred = preferred  # the branches that are served first
        self._graph, self._taps, self._ends = Graph(), frozenset[VertexId](), frozenset[VertexId]()
        self._desires: list[Desire] = []

    def use(self, graph: Graph, taps: frozenset[VertexId], ends: Collection[VertexId]) -> None:
        """Change to another graph."""
        self._graph, self._taps, self._ends = graph, taps, frozenset(ends)
        self.restore(self._desires)

    def add(self, vertex: VertexId, pattern: Pattern, priority: int = 0) -> bool:
        """Put first what matches of a vertex's output (of an end: its input); False if that changes nothing."""
        return self._take(arcs_of(self._graph, vertex, self._taps), pattern, priority)

    def add_at(self, arc: Arc, pattern: Pattern) -> bool:
        """Put first what matches on an arc, as its reader wants it."""
        return self._take((arc,), pattern)

    def hurry(self, source: VertexId) -> None:
        """Let desired tuples that wait behind a source overtake the others, where order is free."""
        if source not in self._guards.relayed:
            return
        desired = [feedback.pattern for feedback in self._guards.relayed[source] if feedback.intent is Intent.DESIRED]
        if desired:
            arcs = arcs_of(self._graph, source, self._taps)
            move_forward(self._graph, self._network, [(arc, pattern) for pattern in desired for arc in arcs])

    def in_force(self) -> list[Desire]:
        """Return all desires, as values that can be saved and given to `restore`."""
        return list(self._desires)

    def restore(self, desires: Iterable[Desire]) -> None:
        """Continue with saved desires, as far as their readers exist."""
        self._desires = [desire for desire in desires if self._guards.exists((desire.reader, desire.port))]
        self._preferred.clear()
        self._guards.forget_desires()
        for desire in self._desires:
            self._apply(((desire.reader, desire.port),), desire.pattern)

    def _take(self, arcs: Iterable[Arc], pattern: Pattern, priority: int = 0) -> bool:
        """Remember a desire and act on it; then on those of a higher priority, which overtake it."""
        added = [Desire(*arc, pattern, priority) for arc in arcs]
        known = [*(desire for desire in self._desires if desire not in added), *added]
        self._desires = sorted(known, key=lambda desire: desire.priority)[-MAX_DESIRES:]
        changed = self._apply([(desire.reader, desire.port) for desire in added], pattern)
        higher = [desire for desire in self._desires if desire.priority > priority]
        if higher:
            self.restore(self._desires)
        return changed

    def _apply(self, arcs: Iterable[Arc], pattern: Pattern) -> bool:
        spread = spread_from(self._graph, arcs, pattern, taps=self._taps, invariants=self._guards.invariants())
        moved = move_forward(self._graph, self._network, spread.guards)
        waiting = {arc for arc, _ in spread.guards if arc[0] in self._graph.by_id() and arc[0] not in self._ends}
        self._preferred |= waiting
        self._guards.relay_desires(spread)
        return bool(moved or waiting)


def order_free_arcs(graph: Graph, merging: Collection[VertexId]) -> set[Arc]:
    """Return the arcs on which tuples may overtake each other: no operator before sorts, none behind needs order."""
    merging = {*merging, *(vertex.id for vertex in graph if vertex.spec.order_matters)}
    steady = leading_to(graph, merging)
    in_order: set[VertexId] = set()
    free: set[Arc] = set()
    for vertex in graph:
        order = vertex.spec.output_order
        if order is Order.OWN or (order is Order.KEPT and any(origin in in_order for origin in vertex.inputs)):
            in_order.add(vertex.id)
        for port, origin in enumerate(vertex.inputs):
            if vertex.id not in merging and vertex.id not in steady and origin not in in_order:
                free.add((vertex.id, port))
    return free


def leading_to(graph: Graph, merging: Collection[VertexId]) -> set[VertexId]:
    """Return the vertices before merging ones that keep the order of their input, which must be that of time."""
    readers = graph.readers()
    before: set[VertexId] = set()
    for vertex in reversed(graph.vertices):
        keeps_order = vertex.spec.output_order is Order.KEPT
        if keeps_order and any(reader in merging or reader in before for reader, _ in readers[vertex.id]):
            before.add(vertex.id)
    return before


def move_forward(graph: Graph, network: Network, desired: Iterable[tuple[Arc, Pattern]]) -> int:
    """Let matching tuples that wait be read first where order is free; returns how many overtake others.

    Tuples that do not match keep their place among punctuation.
    """
    free = order_free_arcs(graph, network.registers)
    return sum(_overtake(network, arc, pattern) for arc, pattern in desired if arc in free and arc in network.ready)


def _overtake(network: Network, arc: Arc, pattern: Pattern) -> int:
    first: list[Waiting] = []
    rest: list[Waiting] = []
    count = 0
    for waiting in network.rest(arc):
        element, arrived = waiting
        mask = matches(pattern, element.rows) if isinstance(element, Page) else None
        if mask is None or not isinstance(element, Page) or not mask.any():
            rest.append(waiting)
            continue
        if mask.all():
            count += len(element) if rest else 0  # a page at the front overtakes nothing
            first.append(waiting)
            continue
        count += int(mask.sum())
        first.append((Page(element.rows.filter(mask)), arrived))
        rest.append((Page(element.rows.filter(~mask)), arrived))
    if count:
        network.swap(arc, [*first, *rest])
    return count
