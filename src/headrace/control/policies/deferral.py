"""The expensive work of the ingest that moves into the buckets, so that urgent queries do not wait for it."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.commands.running import Running
from headrace.commands.running_graph import whole_of
from headrace.commands.shedders_in_force import readers_of
from headrace.graph.deferral import deferral_of
from headrace.graph.graph import VertexId
from headrace.graph.place import Deferral

#: Less work than this (busy seconds per second) is not worth sending tuples through the shuffle that it might drop.
MIN_DEFERRED_WORK = 0.05


def deferrals(running: Running, work: Mapping[VertexId, float], may_wait: frozenset[str]) -> tuple[Deferral, ...]:
    """Return the deferrals that remain, and those of further expensive vertices.

    `work` is that of each vertex of the ingest.
    """
    readers, whole = readers_of(running), whole_of(running)
    ending = {vertex.id for query in running.ending for vertex in query.graph}
    watched = {vertex.id for query in running.known for graph in query.activation.watched for vertex in graph}
    patient = {name for name, queries in readers.items() if may_wait.issuperset(queries)} - ending - watched
    chosen = [deferral for deferral in running.deferrals if deferral.vertex in patient]
    behind = {deferral.vertex for deferral in chosen}
    for vertex in whole:
        if not behind.isdisjoint(vertex.inputs):
            behind.add(vertex.id)
        elif (
            vertex.id in patient
            and work.get(vertex.id, 0.0) >= MIN_DEFERRED_WORK
            and (new := deferral_of(whole, vertex.id)) is not None
        ):
            chosen.append(new)
            behind.add(vertex.id)
    return tuple(chosen)
