"""The table that drives the cycle: for each state its predecessors, its successors and how the next move is selected.

States are operators, sources, forks (`fork:<vertex>`, where several operators read one buffer) and virtual sources
(`break:<reader>:<port>`, where an arc was cut). Another strategy changes the column of selections; another topology
makes another table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from headrace.graph.graph import Arc, Graph, VertexId

State: TypeAlias = str


@dataclass(frozen=True, slots=True)
class Row:
    """One state: `pred` has an entry per port, `arcs` those on which its output is read, `batch` is k of DFS-k."""

    state: State
    vertex: VertexId  # the operator or source itself; for a fork or virtual source the one whose buffer it is
    pred: tuple[State, ...]
    succ: tuple[State, ...]
    arcs: tuple[Arc, ...]
    selection: str  # a name in SELECTIONS
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """The rows by state, and the fragment of each; fragments meet only where arcs are cut."""

    rows: Mapping[State, Row] = field(default_factory=dict)
    fragments: Mapping[State, int] = field(default_factory=dict)
    sources: tuple[State, ...] = ()  # virtual ones too, in topological order

    def text(self) -> str:
        """Return the table for people to read."""
        lines = [("state", "pred", "succ", "selection")]
        lines += [
            (row.state, ",".join(row.pred) or "-", ",".join(row.succ) or "-", row.selection)
            for row in self.rows.values()
        ]
        widths = [max(len(line[i]) for line in lines) for i in range(4)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        )


def fork_state(vertex: VertexId) -> State:
    """Return the name of the fork behind a vertex."""
    return f"fork:{vertex}"


def break_state(arc: Arc) -> State:
    """Return the name of the virtual source on an arc."""
    return f"break:{arc[0]}:{arc[1]}"


def build_table(
    graph: Graph,
    ends: Collection[VertexId],
    breaks: Collection[Arc],
    selection: Callable[[VertexId, bool], tuple[str, int | None]],
) -> Table:
    """Return the table of a graph; `selection(vertex, before_sink)` names an operator's selection and batch."""
    readers = graph.readers()
    open_arcs = {
        v.id: tuple(arc for arc in readers[v.id] if arc[0] not in ends and arc not in breaks)
        for v in graph
        if v.id not in ends
    }
    rows: dict[State, Row] = {}
    sources: list[State] = []
    for vertex in graph:
        name = vertex.id
        if name in ends:
            continue
        for port, origin in enumerate(vertex.inputs):
            if (name, port) in breaks:
                state = break_state((name, port))
                rows[state] = Row(state, origin, (), (name,), ((name, port),), "SOURCE-VIRTUAL")
                sources.append(state)
        arcs = open_arcs[name]
        forked = len(arcs) > 1
        succ = (fork_state(name),) if forked else tuple(reader for reader, _ in arcs)
        pred = tuple(_pred(name, port, origin, breaks, open_arcs) for port, origin in enumerate(vertex.inputs))
        chosen, batch = selection(name, not arcs) if vertex.inputs else ("SOURCE", None)
        rows[name] = Row(name, name, pred, succ, arcs, chosen, batch)
        if not vertex.inputs:
            sources.append(name)
        if forked:
            state = fork_state(name)
            rows[state] = Row(state, name, (name,), tuple(reader for reader, _ in arcs), arcs, "FORK")
    return Table(rows, _fragments(rows), tuple(sources))


def _pred(
    reader: VertexId,
    port: int,
    origin: VertexId,
    breaks: Collection[Arc],
    open_arcs: Mapping[VertexId, tuple[Arc, ...]],
) -> State:
    if (reader, port) in breaks:
        return break_state((reader, port))
    return fork_state(origin) if len(open_arcs[origin]) > 1 else origin


def _fragments(rows: Mapping[State, Row]) -> dict[State, int]:
    """Number the weakly connected components."""
    neighbors: dict[State, set[State]] = {state: set() for state in rows}
    for row in rows.values():
        for other in (*row.pred, *row.succ):
            neighbors[row.state].add(other)
            neighbors[other].add(row.state)
    fragments: dict[State, int] = {}
    for number, start in enumerate(rows):
        for state in _reach(start, neighbors, fragments):
            fragments[state] = number
    return fragments


def _reach(start: State, neighbors: Mapping[State, set[State]], known: Mapping[State, int]) -> Iterator[State]:
    waiting, reached = [start], {start}
    if start in known:
        return
    while waiting:
        state = waiting.pop()
        yield state
        new = neighbors[state] - reached
        reached |= new
        waiting += new
