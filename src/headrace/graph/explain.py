"""A graph as text: where each vertex runs, what feeds it, and, if given, what was counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import UnsetType

from headrace.graph.graph import Graph, Vertex, VertexId
from headrace.graph.place import place
from headrace.model.events.text import format_context, format_event
from headrace.model.expressions.expression import Expr
from headrace.model.expressions.text import format_expr
from headrace.model.suppression import format_suppression
from headrace.model.time import format_duration
from headrace.operators import specs
from headrace.operators.tuples.archives import StoredRows

Note = Callable[[VertexId], str]


def explain_graph(graph: Graph, notes: Mapping[VertexId, str] | None = None) -> str:
    """Both halves of a graph, vertex by vertex in the order in which tuples pass them."""
    placement = place(graph)
    lines = ["ingest (before the shuffle)"]
    lines += [_line(vertex, notes or {}) for vertex in placement.ingest.vertices]
    lines.append("buckets (keyed, with state)")
    lines += [_line(vertex, notes or {}) for vertex in placement.keyed.vertices]
    return "\n".join(lines)


def _line(vertex: Vertex, notes: Mapping[VertexId, str]) -> str:
    origin = f" <- {', '.join(vertex.inputs)}" if vertex.inputs else ""
    note = f"   [{notes[vertex.id]}]" if vertex.id in notes else ""
    return f"  {vertex.id}: {describe(vertex.spec)}{origin}{note}"


def describe(spec: specs.Spec) -> str:
    """What a vertex does, in a phrase."""
    match spec:
        case specs.Scan():
            numbers, stint = (
                " with arrival numbers" if spec.seq else "",
                "" if isinstance(spec.stint, UnsetType) else f" for {spec.stint}",
            )
            return f"scan {spec.stream} ({', '.join(spec.columns)}){numbers}{stint}"
        case specs.Receive():
            return "receive " + _route(spec.keys)
        case specs.Output():
            return f"output of {spec.query}"
        case specs.Exchange():
            return "exchange: back in the next micro-batch"
        case specs.Filter():
            return f"filter {format_expr(spec.predicate)}"
        case specs.Project():
            return "project " + ", ".join(f"{format_expr(expr)} AS {name}" for name, expr in spec.columns)
        case specs.Union():
            return "union"
        case specs.OrderedUnion():
            return "union by timestamp"
        case specs.Pace():
            if spec.late:
                return f"what is more than {format_duration(spec.tolerance)} behind the fastest"
            work = f", work takes {format_duration(spec.service)}" if spec.service else ""
            return f"union at the pace of the fastest, tolerance {format_duration(spec.tolerance)}, cut at {spec.share:g} of it{work}"
        case specs.Distinct():
            return f"distinct within {format_duration(spec.span)}"
        case specs.Reorder():
            return "order by timestamp, " + ", ".join(spec.order)
        case specs.Impute():
            archive = "a table" if isinstance(spec.archive, StoredRows) else f"python:{spec.archive.target}"
            return f"impute {format_expr(spec.value)} AS {spec.name} from {archive} by {', '.join(map(format_expr, spec.keys))}"
        case specs.Suppress():
            return f"suppress {format_suppression(spec.rule)} by {', '.join(map(format_expr, spec.by)) or 'nothing'}"
        case specs.TableJoin():
            return f"{spec.kind} join with a table on " + _equalities(tuple((left, right) for left, right in spec.keys))
        case specs.Join() | specs.RowsJoin():
            residual = f" and {format_expr(spec.residual)}" if spec.residual is not None else ""
            manner = "" if spec.manner == "plain" else f"{spec.manner} "
            return f"{manner}{spec.kind} window join on {_equalities(spec.keys)}{residual}"
        case specs.OrderedJoin():
            residual = f" and {format_expr(spec.residual)}" if spec.residual is not None else ""
            return f"{spec.kind} window join by timestamp on {_equalities(spec.keys)}{residual}"
        case specs.SequenceJoin():
            residual = f" and {format_expr(spec.residual)}" if spec.residual is not None else ""
            return f"{spec.mode} sequence join on {_equalities(spec.keys)}{residual}"
        case specs.Detect():
            by = ", ".join(" = ".join(map(format_expr, each)) for each in zip(*spec.keys, strict=True)) or "nothing"
            tested = "".join(f" and {format_expr(term)}" for term in spec.conditions)
            return f"detect {format_event(spec.event)} by {by}{tested}, context {format_context(spec.context)}"
        case specs.PartialAggregate():
            return "partial aggregates per pane of " + ", ".join(call.name for call in spec.calls)
        case (
            specs.PaneAggregate()
            | specs.SessionAggregate()
            | specs.SlidingAggregate()
            | specs.RowsAggregate()
            | specs.WhileAggregate()
        ):
            keys = ", ".join(name for name, _ in spec.keys) or "nothing"
            return f"aggregate {', '.join(call.name for call in spec.calls)} by {keys}, window {type(spec.window).__name__.lower()}"


def _route(keys: tuple[Expr, ...] | None) -> str:
    if keys is None:
        return "anywhere"
    return "in one bucket" if keys == () else "by hash of " + ", ".join(map(format_expr, keys))


def _equalities(keys: tuple[tuple[Expr, Expr | str], ...]) -> str:
    pairs = (f"{format_expr(left)} = {right if isinstance(right, str) else format_expr(right)}" for left, right in keys)
    return ", ".join(pairs) or "nothing"
