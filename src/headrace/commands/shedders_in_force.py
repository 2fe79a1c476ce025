"""The shedders in force: on which arcs of all running queries tuples are dropped, and in which half of the graph.

An arc is named by its reader in the graph of all queries. Where queries share an arc, the one that tolerates least
decides; what others tolerate beyond that is dropped behind the place where they part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.commands.command import ShedAt
from headrace.commands.running import Running
from headrace.commands.running_graph import whole_of
from headrace.graph.graph import Arc, Graph, Vertex, VertexId
from headrace.graph.losses import creating_arcs
from headrace.graph.place import Placement
from headrace.model.expressions.expression import Column
from headrace.model.qos import Shedding
from headrace.model.streams import is_system_stream
from headrace.model.window import Cumulative, Landmark, Range
from headrace.operators import specs

#: Aggregates whose value depends on the sum of their input.
_SUMS = frozenset({"sum", "avg"})


@dataclass(frozen=True, slots=True)
class PlacedShedders:
    """Shedders by place: arcs of the ingest, routes (by Receive vertex, before the shuffle), keyed arcs."""

    ingest: dict[Arc, ShedAt] = field(default_factory=dict)
    routes: dict[VertexId, ShedAt] = field(default_factory=dict)
    keyed: dict[Arc, ShedAt] = field(default_factory=dict)


def shedders_in(running: Running) -> dict[Arc, ShedAt]:
    """Return the shedders in force: as promises need, except for queries whose share a user set."""
    if not running.shedders and not running.shed_shares:
        return {}
    whole = whole_of(running)
    arcs, exact = sheddable(whole), exact_vertices(running)
    by_hand = {vertex for query in running.shed_shares for vertex in running.own(query)}
    automatic = [shedder for shedder in running.shedders if shedder.reader not in by_hand | exact]
    in_force: dict[Arc, ShedAt] = {}
    for shedder in (*automatic, *_by_hand(running, whole)):
        known = in_force.get(shedder.arc)
        if shedder.arc in arcs and (known is None or shedder.share < known.share):
            in_force[shedder.arc] = shedder
    return in_force


def place_shedders(placement: Placement, shedders: Mapping[Arc, ShedAt]) -> PlacedShedders:
    """Place each shedder as early as possible: on a route with a single reader it acts before the shuffle."""
    placed = PlacedShedders()
    if not shedders:
        return placed
    ingest, keyed, readers = placement.ingest.by_id(), placement.keyed.by_id(), placement.keyed.readers()
    for (reader, port), shedder in shedders.items():
        if reader in ingest:
            placed.ingest[reader, port] = shedder
        elif reader in keyed:
            origin = keyed[reader].inputs[port]
            if isinstance(keyed[origin].spec, specs.Receive) and len(readers[origin]) == 1:
                placed.routes[origin] = shedder
            else:
                placed.keyed[reader, port] = shedder
    return placed


def sheddable(graph: Graph) -> set[Arc]:
    """Return the arcs on which tuples may be dropped.

    Excluded are arcs behind a partial aggregate, whose rows stand for many tuples; all that comes from a system stream:
    shedding it would only produce more of it; and arcs on which a loss would create results.
    """
    vertices, creating = graph.by_id(), creating_arcs(graph)
    system: set[VertexId] = set()
    arcs: set[Arc] = set()
    for vertex in graph:
        if (isinstance(vertex.spec, specs.Scan) and is_system_stream(vertex.spec.stream)) or any(
            origin in system for origin in vertex.inputs
        ):
            system.add(vertex.id)
            continue
        arcs |= {
            (vertex.id, port)
            for port, origin in enumerate(vertex.inputs)
            if not isinstance(vertices[origin].spec, specs.PartialAggregate) and (vertex.id, port) not in creating
        }
    return arcs


def unsheddable(graph: Graph) -> VertexId | None:
    """Return the vertex because of which nothing that a query reads may be shed; None if some of it may.

    To drop tuples behind that vertex is harmless, but it is its results that would be dropped.
    """
    arcs, vertices = sheddable(graph), graph.by_id()
    if any(isinstance(vertices[vertices[reader].inputs[port]].spec, specs.Scan) for reader, port in arcs):
        return None
    return next(iter(creating_arcs(graph).values()), None)


def exact_vertices(running: Running) -> set[VertexId]:
    """Return the vertices whose input must stay whole.

    They belong to a query without an error, to a stint that is ending, or to a graph that starts or stops a query.
    """
    strict = (query.graph for query in running.queries if not query.qos.error)
    return unpromised_vertices(running) | {vertex.id for graph in strict for vertex in graph}


def unpromised_vertices(running: Running) -> set[VertexId]:
    """Return the vertices of stints that are ending and of graphs that start or stop queries: these promise nothing."""
    ending = (query.graph for query in running.ending)
    watched = (graph for query in running.known for graph in query.activation.watched)
    return {vertex.id for graph in (*ending, *watched) for vertex in graph}


def readers_of(running: Running) -> dict[VertexId, tuple[str, ...]]:
    """Return the queries to which each vertex belongs."""
    by_vertex: dict[VertexId, list[str]] = {}
    for query in running.queries:
        for vertex in query.graph:
            by_vertex.setdefault(vertex.id, []).append(query.query)
    return {name: tuple(queries) for name, queries in by_vertex.items()}


def parts_of(graph: Graph, name: VertexId) -> int:
    """Return how many tuples of streams an output of a vertex consists of at most; it is lost if one of them is."""
    vertices = graph.by_id()
    counts: dict[VertexId, int] = {}

    def count(name: VertexId) -> int:
        if name not in counts:
            vertex = vertices[name]
            parts = [count(origin) for origin in vertex.inputs]
            # of a union each tuple comes from one input
            counts[name] = (
                max(parts, default=1)
                if isinstance(vertex.spec, specs.Union | specs.OrderedUnion | specs.Pace)
                else max(1, sum(parts))
            )
        return counts[name]

    return count(name)


def share_of_each(share: float, parts: int) -> float:
    """Return the share that each part may lose so that results that need all parts lose at most `share`."""
    return share if parts == 1 else 1.0 - (1.0 - share) ** (1.0 / parts)


def fitted(shedding: Shedding | None, arc: Arc, whole: Graph) -> Shedding:
    """Return how to shed on an arc: as the query asks if the arc has the attribute, else at random.

    Where values are summed behind the arc, the share holds for the sum of the attribute as well; where there are
    windows of time, it holds for each.
    """
    if shedding is None or shedding.attribute is None:
        return Shedding()
    (reader, port), vertices = arc, whole.by_id()
    name = _attribute(shedding.attribute, vertices[reader].inputs[port], vertices)
    if name is None:
        return Shedding()
    behind = _behind(reader, whole)
    return Shedding(
        shedding.kind, name, shedding.center, bounds_sum=_sums_behind(behind), pane=_pane_of_windows(behind)
    )


def _behind(reader: VertexId, whole: Graph) -> list[Vertex]:
    """Return a vertex, and all to which its results go."""
    names, found = {reader}, list[Vertex]()
    for vertex in whole:
        if vertex.id in names or not names.isdisjoint(vertex.inputs):
            names.add(vertex.id)
            found.append(vertex)
    return found


def _pane_of_windows(behind: Sequence[Vertex]) -> int:
    """Return the longest span (microseconds) so that all windows of time consist of whole spans; 0 without windows."""
    parts = list[int]()
    for vertex in behind:
        match vertex.spec:
            case specs.PartialAggregate(window=Range(size=size, slide=slide, offset=offset)):
                parts += [size, slide, offset]
            case specs.PartialAggregate(window=Cumulative(size=size, step=step, offset=offset)):
                parts += [size, step, offset]
            case specs.PartialAggregate(window=Landmark(start=start, slide=slide)):
                parts += [slide, start or 0]
            case _:
                pass
    return math.gcd(*parts)


def _sums_behind(behind: Sequence[Vertex]) -> bool:
    """Return whether an aggregate depends on the sizes of values."""
    for vertex in behind:
        match vertex.spec:
            case (
                specs.PartialAggregate(calls=calls)
                | specs.RowsAggregate(calls=calls)
                | specs.SessionAggregate(calls=calls)
                | specs.SlidingAggregate(calls=calls)
                | specs.WhileAggregate(calls=calls)
            ) if any(call.function in _SUMS for call in calls):
                return True
            case _:
                pass
    return False


def _by_hand(running: Running, whole: Graph) -> list[ShedAt]:
    """Return the shedders for the shares that users set."""
    return shedders_for(running, whole, running.shed_shares)


def shedders_for(running: Running, whole: Graph, chosen: Mapping[str, float]) -> list[ShedAt]:
    """Return the shedders for shares of the input of queries, as near to the streams as the readers of an arc agree.

    A query loses no more than its error. Along a path the share only grows, so each arc drops what is missing of it
    from the tuples that remain.
    """
    qos, readers, arcs = running.promises(), readers_of(running), sheddable(whole)
    exact, creating = exact_vertices(running), creating_arcs(whole)
    parts = {query.query: parts_of(query.graph, query.output) for query in running.queries}
    shares = {
        query: min(share, share_of_each(qos[query].error or 0.0, parts[query]))
        for query, share in chosen.items()
        if query in qos
    }
    dropped: dict[VertexId, float] = {}
    shedders = []
    for vertex in whole:
        strictest = min(readers.get(vertex.id, ()), key=lambda query: shares.get(query, 0.0), default="")
        share = 0.0 if vertex.id in exact else shares.get(strictest, 0.0)
        after = {
            port: share if (vertex.id, port) in arcs else dropped[origin] for port, origin in enumerate(vertex.inputs)
        }
        # what is missing where nothing may be shed is not made up for by dropping results
        sheddable_ports = [lost for port, lost in after.items() if (vertex.id, port) not in creating]
        dropped[vertex.id] = min(sheddable_ports or after.values(), default=0.0)
        for port, origin in enumerate(vertex.inputs):
            if (vertex.id, port) in arcs and share > dropped[origin]:
                missing = 1.0 - (1.0 - share) / (1.0 - dropped[origin]) if dropped[origin] else share
                shedders.append(
                    ShedAt(vertex.id, port, missing, fitted(qos[strictest].shed, (vertex.id, port), whole), strictest)
                )
    return shedders


def _attribute(name: str, origin: VertexId, vertices: Mapping[VertexId, Vertex]) -> str | None:
    """Return the column of a vertex's output that is this attribute of a stream.

    None if it is not there or not obvious.
    """
    vertex = vertices[origin]
    match vertex.spec:
        case specs.Scan(columns=columns):
            return next((column for column in columns if column.lower() == name.lower()), None)
        case specs.Filter():
            return _attribute(name, vertex.inputs[0], vertices)
        case specs.Project(columns=columns):
            before = _attribute(name, vertex.inputs[0], vertices)
            return next((out for out, expr in columns if isinstance(expr, Column) and expr.name == before), None)
        case _:
            return None
