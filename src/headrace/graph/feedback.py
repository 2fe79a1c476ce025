"""How feedback spreads over a graph, against the flow: who may drop what, and what reaches the sources.

All of it follows from the graph alone, except which groups of an aggregate match: those are found while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from itertools import islice, product
from typing import TypeAlias

from msgspec import Struct

from headrace.graph.graph import Arc, Graph, VertexId
from headrace.model.patterns.pattern import Pattern, covers, intersect, is_empty
from headrace.model.streams import origin_of_scan
from headrace.operators.feedback.invariants import NO_INVARIANTS, Invariants, in_time, invariants_after, until
from headrace.operators.feedback.response import Response, respond
from headrace.operators.feedback.time_columns import Clock
from headrace.operators.specs import Exchange, Output, Receive, Scan, Spec

Respond: TypeAlias = Callable[[Spec, Pattern, tuple[Invariants, ...]], Response]

#: So many ways in which the readers of a fork agree are looked at.
_MOST_AGREEMENTS = 256
_TAP = "tap:"


class Spread(Struct, frozen=True):
    """What follows from an assumption, in the order in which it is to be done.

    `guards` drop tuples where they are read, `watches` are vertices whose groups are to be looked for, and `unneeded`
    says of which vertex's output all readers can do without what; of a vertex without inputs this is for the source.
    """

    guards: tuple[tuple[Arc, Pattern], ...] = ()
    watches: tuple[tuple[VertexId, Pattern], ...] = ()
    unneeded: tuple[tuple[VertexId, Pattern], ...] = ()

    def of_sources(self, graph: Graph) -> dict[VertexId, tuple[Pattern, ...]]:
        """Return what the sources may leave out."""
        by_source: dict[VertexId, tuple[Pattern, ...]] = {vertex.id: () for vertex in graph if not vertex.inputs}
        for name, pattern in self.unneeded:
            if name in by_source:
                by_source[name] = (*by_source[name], pattern)
        return {name: patterns for name, patterns in by_source.items() if patterns}


def spread_from(
    graph: Graph,
    arcs: Iterable[Arc],
    pattern: Pattern,
    *,
    known: Mapping[Arc, Sequence[Pattern]] | None = None,
    taps: Collection[VertexId] = (),
    invariants: Mapping[VertexId, Invariants] | None = None,
    answer: Respond = respond,
) -> Spread:
    """Return what follows if the readers at these arcs do not need the tuples that match; `known` was said before."""
    spreading = _Spreading(graph, known or {}, taps, invariants_of(graph) if invariants is None else invariants, answer)
    for arc in arcs:
        spreading.take(arc, pattern)
    return Spread(tuple(spreading.guards), tuple(spreading.watches), tuple(spreading.unneeded))


def spread_all(
    graph: Graph,
    assumed: Iterable[tuple[VertexId, Pattern]],
    *,
    said: Iterable[tuple[Arc, Pattern]] = (),
    invariants: Mapping[VertexId, Invariants] | None = None,
    answer: Respond = respond,
) -> Spread:
    """Return what follows from several assumptions: `assumed` of vertices' outputs, `said` by readers."""
    spreading = _Spreading(graph, {}, (), invariants_of(graph) if invariants is None else invariants, answer)
    for arc, pattern in said:
        if arc in spreading.origins:
            spreading.take(arc, pattern)
    for vertex, pattern in assumed:
        for arc in arcs_of(graph, vertex):
            spreading.take(arc, pattern)
    return Spread(tuple(spreading.guards), tuple(spreading.watches), tuple(spreading.unneeded))


def arcs_of(graph: Graph, vertex: VertexId, taps: Collection[VertexId] = ()) -> tuple[Arc, ...]:
    """Return where a vertex's output is read; of an end, where it reads."""
    spec = graph.by_id()[vertex].spec
    if isinstance(spec, Output | Exchange):
        return ((vertex, 0),)
    return (*graph.readers()[vertex], *(((tap_of(vertex), 0),) if vertex in taps else ()))


def tap_of(vertex: VertexId) -> VertexId:
    """Return the reader that takes a tapped vertex's pages out of the graph."""
    return _TAP + vertex


def tapped(reader: VertexId) -> VertexId:
    """Return the vertex whose pages a reader takes out of the graph, or the reader itself if it is no such tap."""
    return reader.removeprefix(_TAP)


def invariants_of(
    graph: Graph, times: Mapping[str, str] | None = None, given: Mapping[VertexId, Invariants] | None = None
) -> dict[VertexId, Invariants]:
    """Return what is known of each vertex's output; `times` names the columns that hold the timestamps of streams.

    `given` are the invariants of another graph, from which this one's `Receive` vertices get their input.
    """
    invariants: dict[VertexId, Invariants] = {}
    for vertex in graph:
        spec = vertex.spec
        if isinstance(spec, Scan) and times and times.get(spec.stream) in spec.columns:
            invariants[vertex.id] = Invariants(clocks=(Clock(times[spec.stream], 0, 0),))
        elif isinstance(spec, Receive) and given:
            invariants[vertex.id] = given.get(spec.origin) or given.get(
                origin_of_scan(spec.origin), NO_INVARIANTS
            )  # an exchange brings it back
        else:
            invariants[vertex.id] = invariants_after(vertex.spec, tuple(invariants[origin] for origin in vertex.inputs))
    return invariants


def supportable(graph: Graph, vertex: VertexId, pattern: Pattern, times: Mapping[str, str] | None = None) -> str | None:
    """Return why an assumption would have to be kept forever; None if progress in time ends it."""
    if is_empty(pattern):
        return "no tuple can match it"
    if until(pattern, invariants_of(graph, times)[vertex]) is not None:
        return None
    return f"nothing in [{pattern}] ends with time: say up to when it holds, or change the query"


def stamped(graph: Graph, vertex: VertexId, pattern: Pattern, times: Mapping[str, str] | None = None) -> Pattern:
    """Return the pattern with the timestamp instead of columns that tell it, so that every operator can see it end."""
    return in_time(pattern, invariants_of(graph, times).get(vertex, NO_INVARIANTS))


class _Spreading:
    def __init__(
        self,
        graph: Graph,
        known: Mapping[Arc, Sequence[Pattern]],
        taps: Collection[VertexId],
        invariants: Mapping[VertexId, Invariants],
        answer: Respond,
    ) -> None:
        self.vertices, self.invariants, self.answer = graph.by_id(), invariants, answer
        self.arcs: dict[VertexId, tuple[Arc, ...]] = {
            name: (*arcs, *(((tap_of(name), 0),) if name in taps else ())) for name, arcs in graph.readers().items()
        }
        self.origins = {arc: name for name, arcs in self.arcs.items() for arc in arcs}
        self.known = {arc: list(patterns) for arc, patterns in known.items()}
        self.guards: list[tuple[Arc, Pattern]] = []
        self.watches: list[tuple[VertexId, Pattern]] = []
        self.unneeded: list[tuple[VertexId, Pattern]] = []

    def take(self, arc: Arc, pattern: Pattern) -> None:
        """Note that a reader does not need this, and spread what no reader of its origin needs."""
        before = self.known.setdefault(arc, [])
        if is_empty(pattern) or any(covers(other, pattern) for other in before):
            return
        before.append(pattern)
        self.guards.append((arc, pattern))
        origin = self.origins[arc]
        others = [self.known.get(other, []) for other in self.arcs[origin] if other != arc]
        for choice in islice(product(*others), _MOST_AGREEMENTS):
            agreed = reduce(intersect, choice, pattern)
            if not is_empty(agreed):
                self.pass_on(origin, agreed)

    def pass_on(self, name: VertexId, pattern: Pattern) -> None:
        """Spread what no reader needs of a vertex's output."""
        vertex = self.vertices[name]
        self.unneeded.append((name, pattern))
        response = self.answer(vertex.spec, pattern, tuple(self.invariants[origin] for origin in vertex.inputs))
        if response.watch:
            self.watches.append((name, pattern))
        for port, mine in enumerate(response.inputs):
            if mine is not None:
                self.take((name, port), mine)
