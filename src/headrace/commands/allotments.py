"""Allotments: which bucket has which parcel of the keys of some vertices."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from headrace.commands.command import Allot, KeySplit, UseBuckets
from headrace.graph.graph import VertexId
from headrace.graph.place import Lay, Placement, is_dealt
from headrace.operators.specs import Exchange, Receive

#: Keys are divided into so many parcels for each bucket; a multiple, so that without a table the hash decides as ever.
PARCELS_PER_BUCKET = 64


class Allotment(Struct, frozen=True):
    """Where the parcels of some vertices are, and of those behind them that share a bucket with them.

    A parcel that `places` does not name is where the hash of its keys puts it. One that is split is in several buckets,
    and that place is one of them. The vertices lay by the allotment `origin` before they got this one.
    """

    name: str
    vertices: tuple[VertexId, ...]
    parcels: int
    buckets: tuple[int, ...]  # all, in their order
    places: dict[int, int] = {}  # by parcel
    number: int = 0  # of the last change
    is_common: bool = False  # to vertices that do not lie together; those that move get one of their own
    splits: dict[int, KeySplit] = {}  # by parcel
    origin: str = ""

    def after(self, change: Allot) -> Allotment:
        """Return the allotment after a change; one that was made before does nothing."""
        if change.number <= self.number:
            return self
        vertices = tuple(dict.fromkeys((*self.vertices, *change.vertices)))
        splits = {parcel: split for parcel, split in self.splits.items() if parcel not in change.moves}
        return replace(
            self,
            vertices=vertices,
            places={**self.places, **change.moves},
            splits={**splits, **change.splits},
            number=change.number,
        )

    def bucket(self, parcel: int) -> int:
        """Return the bucket of a parcel."""
        return self.places.get(parcel, self.buckets[parcel % len(self.buckets)])

    def holders(self, parcel: int) -> frozenset[int]:
        """Return all buckets that have tuples of a parcel."""
        split = self.splits.get(parcel)
        return frozenset((self.bucket(parcel), *(() if split is None else split.buckets)))

    def used(self) -> set[int]:
        """Return the buckets that have a parcel."""
        split = {bucket for split in self.splits.values() for bucket in split.buckets}
        if not self.places:
            return split | set(self.buckets[: self.parcels])
        return split | {self.bucket(parcel) for parcel in range(self.parcels)}

    def before_in(self, before: Mapping[str, Allotment]) -> Allotment:
        """Return where the parcels were before some changes, given the allotments of that time."""
        known = before.get(self.name)
        if known is None:
            origin = before.get(self.origin)
            known = Allotment(self.name, (), self.parcels, self.buckets, {} if origin is None else origin.places)
        return known

    def table(self, buckets: Sequence[int]) -> npt.NDArray[np.int64]:
        """Return for each parcel the place of its bucket among `buckets`."""
        places = {bucket: place for place, bucket in enumerate(buckets)}
        return np.array([places[self.bucket(parcel)] for parcel in range(self.parcels)], dtype=np.int64)


def allotted(allotments: Mapping[str, Allotment], change: Allot) -> dict[str, Allotment]:
    """Return allotments after a change of one of them."""
    before = allotments.get(change.name)
    if before is None:
        before = Allotment(change.name, (), change.parcels, change.buckets, origin=change.origin)
    others: dict[str, Allotment] = {}
    for name, other in allotments.items():
        vertices = tuple(vertex for vertex in other.vertices if vertex not in change.vertices)
        if vertices:
            others[name] = replace(other, vertices=vertices)
    return {**others, change.name: before.after(change)}


def stay(allotments: Mapping[str, Allotment], lays: Mapping[VertexId, Lay], change: UseBuckets) -> dict[str, Allotment]:
    """Return allotments by which vertices that had none stay in the buckets before a change of buckets."""
    staying = dict(allotments)
    for is_keyed in (True, False):
        vertices = tuple(name for name, lay in lays.items() if not lay.allotment and any(lay.keys) == is_keyed)
        if vertices:
            digest = hashlib.blake2b(repr(vertices).encode(), digest_size=6).hexdigest()
            name = f"before-{len(change.before)}-{digest}"
            parcels = PARCELS_PER_BUCKET * len(change.before) if is_keyed else 1
            staying[name] = Allotment(name, vertices, parcels, change.before, is_common=True)
    return staying


def names_of(allotments: Iterable[Allotment]) -> dict[VertexId, str]:
    """Return the allotment of each vertex that has one of its own."""
    return {vertex: allotment.name for allotment in allotments for vertex in allotment.vertices}


def lying_together(placement: Placement, vertex: VertexId) -> dict[VertexId, Lay]:
    """Return the vertices with state that must be in the buckets of one, since pages go from one to another there."""
    reached = reached_from(placement, vertex)
    return {name: lay for name, lay in placement.lays.items() if name in reached}


def reached_from(placement: Placement, vertex: VertexId) -> set[VertexId]:
    """Return all vertices that are in the buckets of one, since pages go from one to another there."""
    inner = {other.id: other for other in placement.keyed if not isinstance(other.spec, Receive | Exchange)}
    neighbors: dict[VertexId, set[VertexId]] = {name: set() for name in inner}
    for name, other in inner.items():
        for origin in other.inputs:
            if origin in inner:
                neighbors[name].add(origin)
                neighbors[origin].add(name)
    reached, waiting = {vertex}, [vertex]
    while waiting:
        found = neighbors[waiting.pop()] - reached
        reached |= found
        waiting += found
    return reached


def moved_parcels(
    before: Mapping[str, Allotment], after: Mapping[str, Allotment]
) -> dict[str, dict[int, tuple[int, int]]]:
    """Return, by allotment, the parcels that change bucket between two states, from where and to where."""
    moved: dict[str, dict[int, tuple[int, int]]] = {}
    for name, new in after.items():
        old = new.before_in(before)
        if old.places == new.places or is_dealt(name):  # of the latter, `key_splits` says which rows go where
            continue
        parcels = {*old.places, *new.places}
        ways = {parcel: (old.bucket(parcel), new.bucket(parcel)) for parcel in sorted(parcels)}
        moved[name] = {parcel: way for parcel, way in ways.items() if way[0] != way[1]}
    return {name: ways for name, ways in moved.items() if ways}
