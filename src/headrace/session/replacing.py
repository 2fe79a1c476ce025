"""What a query that replaces another keeps of its state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import Query
from headrace.commands.command import AddQuery
from headrace.graph.graph import Graph, Vertex
from headrace.graph.incarnations import meaning_of
from headrace.graph.naming import Names
from headrace.operators.specs import Output
from headrace.optimizer.gathering import ChooseGrid
from headrace.optimizer.keeping import keep, stateful_parts
from headrace.optimizer.shedding.prepare import prepare_for_shedding
from headrace.plan.nodes import Node
from headrace.session.compile import graph_of, plans_of
from headrace.session.outcome import Listing
from headrace.session.transaction import Transaction, digest_of


@dataclass(frozen=True, slots=True)
class Kept:
    """The operators with state of a new query and of the one that it replaces, by name.

    `readers` are the queries and rules that read the old one. They contain its plan, so they go on with that.
    """

    kept: tuple[str, ...]
    empty: tuple[str, ...]
    dropped: tuple[str, ...]
    readers: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = (("keeps the state of", self.kept), ("begins empty:", self.empty))
        said = [f"{verb} {', '.join(names)}" for verb, names in parts if names]
        if self.readers:
            verb, them = ("reads", "it") if len(self.readers) == 1 else ("read", "them")
            again = f"drop and create {them} to change that"
            said.append(f"{', '.join(self.readers)} still {verb} the earlier text; {again}")
        return "; ".join(said)

    def listing(self) -> Listing:
        """Return the operators with what becomes of their state."""
        parts = (("kept", self.kept), ("begins empty", self.empty), ("dropped", self.dropped))
        rows = [(name, state) for state, names in parts for name in names]
        readers = [(name, "still reads the earlier text") for name in self.readers]
        return Listing(("operator", "state"), (*rows, *readers))


def with_state(query: Query, plan: Node, transaction: Transaction, choose_grid: ChooseGrid) -> tuple[Query, Node]:
    """Return a query and its plan so that it runs as many operators as possible of the one that it replaces."""
    known, running = replaced_by(query, transaction)
    if known is None or running is None:
        return query, plan
    # a crash between the catalog and the command log leaves a definition that has not run yet
    has_run = running.definition in ("", digest_of(known))
    texts = (known.text, *known.basis) if has_run else known.basis
    plans = plans_of(known, texts, transaction.catalog)
    kept = keep(plan, plans)
    shared = [_shared(each, query, running, transaction.catalog, choose_grid) for each in (kept, plan)]
    if shared[0] <= shared[1]:
        return query, plan
    parts = stateful_parts(kept)
    used = [text for text, old in zip(texts, plans, strict=True) if any(part in parts for part in stateful_parts(old))]
    return msgspec.structs.replace(query, basis=tuple(used)), kept


def replaced_by(query: Query, transaction: Transaction) -> tuple[Query | None, AddQuery | None]:
    """Return the definition and the command of the running query whose state another one may keep; None for none."""
    known, running = transaction.catalog.get(query.name), transaction.running.get(query.name)
    if not isinstance(known, Query) or known.is_event or running is None or transaction.lacks_state(running):
        return None, None
    return known, running


def compare(graph: Graph, running: AddQuery | None, readers: Iterable[str] = ()) -> Kept:
    """Compare the graph of a query, which has no incarnation yet, with what runs under its name."""
    names, known = Names(graph), {meaning_of(vertex.id) for vertex in (running.graph if running else ())}
    own = {vertex.id for vertex in graph}
    kept = tuple(names[vertex.id] for vertex in _stateful(graph) if vertex.id in known)
    empty = tuple(names[vertex.id] for vertex in _stateful(graph) if vertex.id not in known)
    if running is None:
        return Kept(kept, empty, (), tuple(readers))
    before = Names(running.graph)
    gone = (vertex for vertex in _stateful(running.graph) if meaning_of(vertex.id) not in own)
    return Kept(kept, empty, tuple(before[vertex.id] for vertex in gone), tuple(readers))


def _shared(plan: Node, query: Query, running: AddQuery, catalog: Catalog, choose_grid: ChooseGrid) -> int:
    """Return how many operators with state a plan has in common with what runs."""
    graph = graph_of(prepare_for_shedding(plan, query.qos), query.name, catalog, choose_grid=choose_grid)
    return len(compare(graph, running).kept)


def _stateful(graph: Graph) -> Iterator[Vertex]:
    return (vertex for vertex in graph if not vertex.spec.is_stateless and not isinstance(vertex.spec, Output))
