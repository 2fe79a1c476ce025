"""When a silent source releases what an operator holds: its bound grows with the clock."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from headrace.engine.bounds.ets import Ets
from headrace.engine.network import Network
from headrace.graph.graph import Graph, VertexId
from headrace.operators.capabilities import due_of
from headrace.operators.operator import Operator


def upstream_sources(graph: Graph) -> dict[VertexId, tuple[VertexId, ...]]:
    """Return the sources from which each vertex's input stems; of a source, itself."""
    sources: dict[VertexId, tuple[VertexId, ...]] = {}
    for vertex in graph:
        sources[vertex.id] = (
            tuple(dict.fromkeys(source for origin in vertex.inputs for source in sources[origin]))
            if vertex.inputs
            else (vertex.id,)
        )
    return sources


def ends_behind(graph: Graph, ends: Collection[VertexId]) -> dict[VertexId, tuple[VertexId, ...]]:
    """Return the ends of the graph that each vertex's output leads to; of an end, itself."""
    readers = graph.readers()
    leads_to: dict[VertexId, tuple[VertexId, ...]] = {}
    for vertex in reversed(graph.vertices):
        behind = (end for reader, _ in readers[vertex.id] for end in leads_to[reader])
        leads_to[vertex.id] = (vertex.id,) if vertex.id in ends else tuple(dict.fromkeys(behind))
    return leads_to


def waits(
    network: Network, sources: Mapping[VertexId, tuple[VertexId, ...]], operators: Mapping[VertexId, Operator]
) -> Iterator[tuple[VertexId, tuple[VertexId, ...], int]]:
    """Yield the vertices that wait for a bound, with the sources and the bound.

    It would release a blocked tuple, or complete what an operator holds.
    """
    for name, registers in network.registers.items():
        if not network.blocked(name) or not registers.holds:
            continue
        needed = min(head.stamp for head in registers.heads if head is not None)
        holding = [
            origin
            for port, origin in enumerate(network.vertices[name].inputs)
            if registers.heads[port] is None and registers.values[port] < needed
        ]
        yield name, tuple(dict.fromkeys(source for origin in holding for source in sources[origin])), needed
    for name, operator in operators.items():
        due = due_of(operator)
        if due is not None:
            yield name, sources[name], due


def next_wakeup(
    waiting: Iterator[tuple[tuple[VertexId, ...], int]], bounds: Mapping[VertexId, int], ets: Ets
) -> int | None:
    """Return the earliest time at which sources alone could release what waits."""
    return min((time for sources, bound in waiting for time in _all_reach(sources, bound, bounds, ets)), default=None)


def _all_reach(sources: Collection[VertexId], bound: int, bounds: Mapping[VertexId, int], ets: Ets) -> list[int]:
    """Return when all of these sources will have reached a bound; nothing if one never will, or all have."""
    times = [ets.when(source, bound) for source in sources if bounds[source] < bound]
    known = [time for time in times if time is not None]
    return [max(known)] if known and len(known) == len(times) else []
