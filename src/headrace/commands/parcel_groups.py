"""Groups of vertices whose parcels change bucket together, and what hinders that."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from headrace.commands.allotments import PARCELS_PER_BUCKET, Allotment, lying_together, reached_from
from headrace.commands.command import Allot, KeySplit
from headrace.commands.running import Running
from headrace.commands.running_graph import placement_of, whole_of
from headrace.graph.graph import VertexId
from headrace.graph.naming import Names
from headrace.graph.place import Placement, counted_as, route_of
from headrace.operators.specs import Receive


class ParcelGroup(Struct, frozen=True):
    """Vertices with state that lie together, where their parcels are, and which queries they work for."""

    vertices: tuple[VertexId, ...]
    allotment: Allotment
    queries: tuple[str, ...]
    hindrance: str | None  # why they cannot move
    is_keyed: bool
    routes: tuple[str, ...]  # by which tuples come, as their parcels are counted, whatever the allotment
    #: Of the joins that may have a parcel in several buckets, the same for each port.
    joins: dict[VertexId, tuple[tuple[str, ...], ...]] = {}
    between: tuple[VertexId, ...] = ()  # vertices without state that work on their pages in the same buckets

    def moving(self, moves: dict[int, int], *, auto: bool = False) -> Allot:
        """Return the command that lets parcels go to other buckets."""
        at = self.allotment
        return Allot(at.name, at.number + 1, self.vertices, at.parcels, at.buckets, moves, auto=auto)

    def redealt(self, moves: dict[int, int], buckets: Sequence[int]) -> Allot:
        """Return the same, which has those that are in several buckets in these."""
        splits = {parcel: KeySplit(split.port, tuple(buckets)) for parcel, split in self.allotment.splits.items()}
        return replace(self.moving(moves), splits=splits)


def parcel_groups(running: Running, buckets: Sequence[int]) -> list[ParcelGroup]:
    """Return all groups, those of the oldest queries first; `buckets` are those with which the checkpoint began."""
    in_use = running.in_use(buckets)
    placement = placement_of(running)
    keyed = placement.keyed.by_id()
    groups: list[ParcelGroup] = []
    seen: set[VertexId] = set()
    for vertex, lay in placement.lays.items():
        if vertex in seen:
            continue
        together = lying_together(placement, vertex)
        is_keyed = any(lay.keys)
        vertices = tuple(
            name for name, other in together.items() if other.allotment == lay.allotment and any(other.keys) == is_keyed
        )
        between = reached_from(placement, vertex) - placement.lays.keys() - seen
        seen.update(vertices, between)
        known = running.allotments.get(lay.allotment)
        if known is None or known.is_common:
            before = in_use if known is None else known.buckets
            parcels = PARCELS_PER_BUCKET * len(before) if is_keyed else 1
            known = Allotment(_name(vertices[0]), vertices, parcels, before)
        queries = [
            query.query
            for query in (*running.queries, *running.ending, *running.early)
            if not {vertex.id for vertex in query.graph}.isdisjoint(vertices)
        ]
        groups.append(
            ParcelGroup(
                vertices,
                known,
                tuple(dict.fromkeys(queries)),
                _hindrance(placement, running, vertices),
                is_keyed,
                _routes(placement, [origin for vertex in vertices for origin in keyed[vertex].inputs], known.parcels),
                {
                    vertex: tuple(_routes(placement, [origin], known.parcels) for origin in keyed[vertex].inputs)
                    for vertex in vertices
                    if is_keyed and keyed[vertex].spec.can_be_split
                },
                tuple(name for name in keyed if name in between),
            )
        )
    return groups


def _routes(placement: Placement, origins: Sequence[VertexId], parcels: int) -> tuple[str, ...]:
    """Return the routes by whose keys the tuples of some vertices are divided, as they are counted."""
    keyed = placement.keyed.by_id()
    found: dict[VertexId, None] = {}
    waiting = list(origins)
    seen = set(waiting)
    while waiting:
        origin = waiting.pop()
        if isinstance(keyed[origin].spec, Receive):
            found[route_of(origin)] = None
            continue
        before = [name for name in keyed[origin].inputs if name not in seen]
        seen.update(before)
        waiting += before
    return tuple(counted_as(route, parcels) for route in found)


def _name(vertex: VertexId) -> str:
    return hashlib.blake2b(vertex.encode(), digest_size=6).hexdigest()


def _hindrance(placement: Placement, running: Running, vertices: Sequence[VertexId]) -> str | None:
    specs = {vertex.id: vertex.spec for vertex in placement.keyed}
    is_keyed = any(any(placement.lays[vertex].keys) for vertex in vertices)
    for vertex in vertices:
        reason = specs[vertex].hindrance if is_keyed else specs[vertex].whole_hindrance
        if reason is None and is_keyed and specs[vertex].has_own_time:
            late = next((behind for behind in _readers(placement, vertex) if not specs[behind].is_stateless), None)
            if late is not None:
                waits = "its tuples wait for a partner without limit"
                reason = f"{waits}, and time cannot go back where {Names(whole_of(running))[late]} is ahead of them"
        if reason is not None:
            return f"{Names(whole_of(running))[vertex]}: {reason}"
    return None


def _readers(placement: Placement, vertex: VertexId) -> list[VertexId]:
    """Return the vertices that results of one come to in the same bucket, past those without state."""
    readers, specs = placement.keyed.readers(), {other.id: other.spec for other in placement.keyed}
    found, waiting = dict[VertexId, None](), [vertex]
    while waiting:
        for reader, _ in readers[waiting.pop()]:
            if reader not in found:
                found[reader] = None
                waiting += [reader] if specs[reader].is_stateless else []
    return list(found)
