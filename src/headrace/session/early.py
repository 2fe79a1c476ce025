"""Queries with results that come early: their IMPATIENT joins demand what is not final, and a column tells it."""

from __future__ import annotations

from msgspec.structs import replace

from headrace.catalog.definitions import EARLY, PARTIAL
from headrace.errors import NameFault, NotSupported, Span
from headrace.graph.graph import Graph
from headrace.graph.stints import has_exchange
from headrace.model.expressions.expression import FALSE, Column
from headrace.plan import nodes
from headrace.plan.nodes import Node
from headrace.plan.traversal import transform, walk

_EXAMPLE = "alarms [RANGE 1 MINUTE] AS a IMPATIENT JOIN counts [RANGE 1 MINUTE] AS c ON a.segment = c.segment"


def with_early_results(plan: Node, span: Span | None) -> Node:
    """Return a plan whose impatient joins demand, and whose results say whether they are partial."""
    if not any(isinstance(node, nodes.Join) and node.manner == "impatient" for node in walk(plan)):
        raise NotSupported(
            f"WITH ({EARLY}) needs an IMPATIENT JOIN: nothing else demands results before they are final",
            span=span,
            hint=_EXAMPLE,
        )
    if any(isinstance(node, nodes.Order | nodes.Limit) for node in walk(plan)):
        raise NotSupported(
            f"results in order cannot come {EARLY}", span=span, hint="leave ORDER BY, LIMIT and WITH (ordered) out"
        )
    if PARTIAL in plan.schema.names:
        raise NameFault(
            f"WITH ({EARLY}) adds a column {PARTIAL!r}, which the query has already",
            span=span,
            hint="give yours another name",
        )
    shown = tuple((field.name, Column(field.name, field.type)) for field in plan.schema)
    return nodes.Project(transform(plan, _demanding), (*shown, (PARTIAL, FALSE)))


def check_early(query: str, graph: Graph, span: Span | None) -> None:
    """Refuse a query whose join cannot reach what it demands."""
    if has_exchange(graph):
        raise NotSupported(
            f"{query} sends tuples from one of its operators to another between two micro-batches, and a join demands "
            "only what is in its own bucket",
            span=span,
            hint=f"group and join by the same keys, or ask with DEMAND {query} WHERE ...",
        )


def _demanding(node: Node) -> Node:
    is_impatient = isinstance(node, nodes.Join) and node.manner == "impatient"
    return replace(node, manner="demanding") if is_impatient else node
