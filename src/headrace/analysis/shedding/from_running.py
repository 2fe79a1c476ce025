"""From running queries and measurements to places where tuples may be dropped, and from places back to arcs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.analysis.capacity.capacity import PathOperator
from headrace.analysis.capacity.load import load
from headrace.analysis.forecast.facts import Facts
from headrace.analysis.forecast.from_graph import model
from headrace.analysis.shedding.allocation import Shed, shares
from headrace.analysis.shedding.decision import ActiveSheds
from headrace.analysis.shedding.places import Place, QueryPath, choose_places
from headrace.commands.command import ShedAt
from headrace.commands.running import Running
from headrace.commands.running_graph import whole_of
from headrace.commands.shedders_in_force import (
    fitted,
    parts_of,
    share_of_each,
    sheddable,
    shedders_in,
    unpromised_vertices,
)
from headrace.graph.graph import Arc, Graph, VertexId
from headrace.operators.specs import Output, Scan

#: Seconds that a shedder takes for a tuple: a draw and a column to filter.
TEST = 2e-8


@dataclass(frozen=True, slots=True)
class ShedOptions:
    """The load of the processor (1: all of it) before anything is shed for promises, and where tuples could be shed."""

    load: float
    places: tuple[Place, ...]
    arcs: Mapping[str, Arc]  # by the label of a place

    def shedders(self, plan: ActiveSheds, running: Running) -> tuple[ShedAt, ...]:
        """Return the shedders of a decision, each on behalf of the reader of the arc that tolerates least."""
        return shedders_of(plan.sheds, self.arcs, running)


def shed_options(
    running: Running, facts: Facts, *, speed: float = 1.0, bears: Mapping[str, float] | None = None, test: float = TEST
) -> ShedOptions:
    """Return the load on `speed` cores and the places to shed; `bears` is what each query may lose (else its error).

    A query whose share was set by hand bears nothing more, and what is dropped for it is not part of the load. A query
    with several inputs bears on each so much that together it is no more than it bears: a result of a join is there
    only if all of its parts are.
    """
    whole = whole_of(running)
    by_hand = running.shed_shares
    said = {query.query: query.qos.error or 0.0 for query in running.queries} if bears is None else bears
    errors = {query.query: 0.0 if query.query in by_hand else said.get(query.query, 0.0) for query in running.queries}
    fixed = {arc: shedder.share for arc, shedder in shedders_in(running).items() if shedder.query in by_hand}
    operators, arcs = _operators(whole, facts, fixed, speed)
    streams = {vertex.id: vertex.spec.stream for vertex in whole if isinstance(vertex.spec, Scan)}
    paths: list[QueryPath] = []
    for query in running.queries:
        error = share_of_each(errors[query.query], parts_of(query.graph, query.output))
        ways = _labels(whole, query.output)
        paths += [QueryPath(query.query, way, facts.rates.get(streams[way[0]], 0.0), error) for way in ways]
    may, whole_input = sheddable(whole), unpromised_vertices(running)
    barred = (
        frozenset(label for label, arc in arcs.items() if arc not in may or arc[0] in whole_input or arc in fixed)
        | streams.keys()
    )
    needs = load([(path.labels, path.rate) for path in paths], operators) if paths else 0.0
    return ShedOptions(needs, choose_places(paths, operators, test=test / speed, barred=barred), arcs)


def shedders_of(sheds: tuple[Shed, ...], arcs: Mapping[str, Arc], running: Running) -> tuple[ShedAt, ...]:
    """Return places and shares as shedders on arcs."""
    whole = whole_of(running)
    shedders = []
    for label, share in shares(sheds).items():
        reader, port = arcs[label]
        reads = [query for query in running.queries if any(vertex.id == reader for vertex in query.graph)]
        strictest = min(reads, key=lambda query: query.qos.error or 0.0)
        shedders.append(
            ShedAt(
                reader,
                port,
                share,
                fitted(strictest.qos.shed, (reader, port), whole),
                strictest.query,
            )
        )
    return tuple(shedders)


def _operators(
    whole: Graph, facts: Facts, fixed: Mapping[Arc, float], speed: float
) -> tuple[dict[str, PathOperator], dict[str, Arc]]:
    """Return by label what the reader of each arc does with a tuple; the label of a scan is its vertex."""
    stations = {station.name: station for station in model(whole, facts).network.stations}
    operators: dict[str, PathOperator] = {}
    arcs: dict[str, Arc] = {}
    for vertex in whole:
        if isinstance(vertex.spec, Output):
            arcs[label_of(vertex.id, 0)] = (vertex.id, 0)
            operators[label_of(vertex.id, 0)] = PathOperator(vertex.id, math.inf)
            continue
        station = stations[vertex.id]
        capacity = speed / station.service.mean if station.service.mean else math.inf
        if isinstance(vertex.spec, Scan):
            operators[vertex.id] = PathOperator(vertex.id, capacity, station.feeds[0].selectivity)
            continue
        for port, feed in enumerate(station.feeds):
            label, kept = label_of(vertex.id, port), 1.0 - fixed.get((vertex.id, port), 0.0)
            arcs[label] = (vertex.id, port)
            # what is dropped on the arc costs nothing and leads to nothing
            operators[label] = PathOperator(label, capacity / kept if kept else math.inf, feed.selectivity * kept)
    return operators, arcs


def label_of(reader: VertexId, port: int) -> str:
    """Return the name of an arc as a place."""
    return f"{reader}.{port}"


def _labels(whole: Graph, output: VertexId) -> list[tuple[str, ...]]:
    """Return all ways from a scan to an output, as labels of the arcs."""
    vertices = whole.by_id()

    def ways(name: VertexId) -> list[tuple[str, ...]]:
        vertex = vertices[name]
        if not vertex.inputs:
            return [(name,)]
        return [(*way, label_of(name, port)) for port, origin in enumerate(vertex.inputs) for way in ways(origin)]

    return ways(output)
