"""What EXPLAIN says of joins of several inputs: the tree by which each runs, or why it has only one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from headrace.commands.command import AddQuery, UseTree
from headrace.control.planning import labels_of
from headrace.graph.graph import Graph, VertexId
from headrace.model.expressions.text import format_expr
from headrace.model.grid import Grid
from headrace.model.join_tree import Tree, format_tree, late_ports, left_deep
from headrace.operators.multijoin.spec import MultiJoin
from headrace.optimizer.gathering import ChooseGrid, ungathered
from headrace.plan.nodes import Node


def explain_joins(
    plan: Node,
    graph: Graph,
    query: AddQuery | None,
    trees: Mapping[VertexId, UseTree],
    *,
    choose_grid: ChooseGrid,
    cells: Callable[[VertexId], int],
) -> str:
    """Return the trees of a graph's joins, those in force if it is that of a query that runs, and what has no others.

    Nothing if it has no join of three inputs or more. `cells` says among how many buckets a vertex is divided.
    """
    running = {vertex.spec: vertex.id for vertex in (() if query is None else query.graph)}
    parts: list[str] = []
    for vertex in graph:
        spec = vertex.spec
        if isinstance(spec, MultiJoin):
            labels = labels_of(spec)
            used = trees.get(running[spec]) if spec in running else None
            tree = left_deep(range(len(labels))) if used is None else used.tree
            verb = "runs" if spec in running else "begins"
            lines = [f"join {verb} as {format_tree(tree, labels)}", *_drawn(tree, labels), *_tested(tree, spec)]
            lines += [] if spec.cells is None else _cells(spec.cells, labels, cells(running.get(spec, "")))
            parts.append("\n".join(lines))
    for kept in ungathered(plan, choose_grid):
        parts.append(f"{', '.join(kept.labels)} are joined in the order of FROM: {kept.why}")
    return "\n\n".join(parts)


def _cells(grid: Grid, labels: tuple[str, ...], buckets: int) -> Iterator[str]:
    """Yield a line that says how many copies of the tuples of each input there are, by the number of buckets."""
    sizes = " x ".join(map(str, grid.sizes(buckets)))
    copies = [(label, grid.copies((port,), buckets)) for port, label in enumerate(labels)]
    sent = ", ".join(f"of {label} to {count} of them" for label, count in copies if count > 1)
    word = "1 bucket" if buckets == 1 else f"{buckets} buckets"
    yield f"  in a grid of {sizes} cells on {word}" + (f"; each tuple {sent}" if sent else "")


def _tested(tree: Tree, spec: MultiJoin) -> Iterator[str]:
    """Yield a line for each condition on one input that may be tested on its tuples or on results."""
    for port, terms in sorted(spec.conditions.items()):
        where = "on results" if port in late_ports(tree) else f"on tuples of {labels_of(spec)[port]}"
        for term in terms:
            yield f"  {format_expr(term)} is tested {where}"


def _drawn(tree: Tree, labels: tuple[str, ...], indent: str = "  ", *, is_root: bool = True) -> Iterator[str]:
    """Yield a line for each input and each join of a tree."""
    if isinstance(tree, int):
        yield indent + labels[tree]
        return
    yield f"{indent}{'results' if is_root else 'stored pairs' if len(tree.children) == 2 else 'stored combinations'} of"
    for child in tree.children:
        yield from _drawn(child, labels, indent + "  ", is_root=False)
