"""From the commands in force to the dispatch table: which strategy each vertex follows, and where the graph is cut."""

from __future__ import annotations

from headrace.commands.running import Running
from headrace.graph.graph import Arc, Vertex, VertexId

#: The operators that are meant where ALTER ... SET breaks names a kind, by tag.
KINDS: dict[str, tuple[str, ...]] = {
    "join": ("join", "multi_join", "rows_join", "table_join", "ordered_join", "sequence_join", "membership"),
    "aggregate": (
        "pane_aggregate", "partial_aggregate", "rows_aggregate", "session_aggregate", "sliding_aggregate",
        "while_aggregate", "changes", "over",
    ),
    "union": ("union", "ordered_union"),
    "event": ("detect",),
    "filter": ("filter",),
    "project": ("project",),
    "function": ("python_function",),
    "sort": ("reorder",),
    "rank": ("rank",),
    "distinct": ("distinct", "deduplicate"),
}  # fmt: skip


def strategies_in(running: Running) -> tuple[str, dict[VertexId, str]]:
    """Return the strategy of the whole graph, and those of the vertices of queries that have their own."""
    strategies = {query: chosen.name for query, chosen in running.strategies.items()}
    whole = strategies.pop(None, "dfs")
    own: dict[VertexId, str] = {}
    for query, strategy in strategies.items():
        own |= dict.fromkeys(running.own(query), strategy)
    return whole, own


def cut_in(running: Running) -> set[Arc]:
    """Return the arcs that are cut; the setting of a query overrides that of the whole graph."""
    cut: set[Arc] = set()
    vertices = {vertex.id: vertex for query in running.queries for vertex in query.graph}
    for query, breaks in sorted(running.breaks.items(), key=lambda item: item[0] is not None):
        own = {(name, port) for name in running.own(query) for port in range(len(vertices[name].inputs))}
        cut = (cut - own) | {arc for arc in own if _is_cut(arc, breaks.where, vertices)}
    return cut


def _is_cut(arc: Arc, where: str, vertices: dict[VertexId, Vertex]) -> bool:
    """Return whether a setting names an arc: 'everywhere', or by the kind of the operator at one of its ends."""
    if where in ("everywhere", "none"):
        return where == "everywhere"
    reader = vertices[arc[0]]
    ends = {"before": reader, "after": vertices[reader.inputs[arc[1]]]}
    for place in where.split(", "):
        side, _, kind = place.partition(" ")
        if ends[side].spec.__struct_config__.tag in KINDS[kind]:
            return True
    return False
