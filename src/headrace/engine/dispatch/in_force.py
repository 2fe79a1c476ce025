"""From the commands in force to the dispatch table: which strategy each vertex follows, and where the graph is cut."""

from __future__ import annotations

from headrace.commands.running import Running
from headrace.graph.graph import VertexId


def strategies_in(running: Running) -> tuple[str, dict[VertexId, str]]:
    """Return the strategy of the whole graph, and those of the vertices of queries that have their own."""
    strategies = {query: chosen.name for query, chosen in running.strategies.items()}
    whole = strategies.pop(None, "dfs")
    own: dict[VertexId, str] = {}
    for query, strategy in strategies.items():
        own |= dict.fromkeys(running.own(query), strategy)
    return whole, own


def cut_in(running: Running) -> set[VertexId]:
    """Return the vertices into which all arcs are cut; the setting of a query overrides that of the whole graph."""
    cut: set[VertexId] = set()
    for query, breaks in sorted(running.breaks.items(), key=lambda item: item[0] is not None):
        vertices = running.own(query)
        cut = cut | vertices if breaks.where == "everywhere" else cut - vertices
    return cut
