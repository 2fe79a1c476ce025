"""A graph as text: where each vertex runs, what feeds it, and, if given, what was counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.graph.graph import Graph, VertexId
from headrace.graph.naming import Names
from headrace.graph.place import Deferral, origin_of, place
from headrace.operators.specs import Receive


def explain_graph(graph: Graph, notes: Mapping[VertexId, str] | None = None, deferrals: Iterable[Deferral] = ()) -> str:
    """Write both halves of a graph, vertex by vertex in the order in which tuples pass them.

    A line reads from the line before it unless an arrow names its inputs.
    """
    vertices = graph.by_id()
    placement = place(graph, (deferral for deferral in deferrals if deferral.vertex in vertices))
    names = Names(graph)
    lines = ["ingest (before the shuffle)", *_lines(placement.ingest, names, notes or {})]
    return "\n".join([*lines, "buckets (keyed, with state)", *_lines(placement.keyed, names, notes or {})])


def _lines(half: Graph, names: Names, notes: Mapping[VertexId, str]) -> list[str]:
    lines = []
    before: tuple[VertexId, ...] = ()
    for vertex in half:
        if isinstance(vertex.spec, Receive):
            text = f"{names.readable(vertex.spec.describe(), vertex.spec.origin)} <- {names[vertex.spec.origin]}"
        else:
            text = names.full(vertex.id)
            if vertex.inputs and vertex.inputs != before:
                text += f" <- {'; '.join(names[origin_of(origin)] for origin in vertex.inputs)}"
        lines.append(f"  {text}   [{notes[vertex.id]}]" if vertex.id in notes else f"  {text}")
        before = (vertex.id,)
    return lines
