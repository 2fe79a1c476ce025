"""Parcels that a join has in several buckets, and which rows go where if that changes.

Tuples of one port of the join are dealt to the buckets of the parcel, those of all other ports are in each of them. A
parcel in one bucket is the simplest case: there, each port has all its rows. So every change, a move, a split, its end
or other buckets, follows from one rule for the rows of a port.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from headrace.commands.allotments import Allotment, moved_parcels
from headrace.commands.command import Allot, KeySplit
from headrace.commands.parcel_groups import ParcelGroup
from headrace.graph.graph import VertexId
from headrace.graph.place import dealt_name, is_dealt


class Transfer(Struct, frozen=True):
    """What a bucket does with the rows of a port: the other buckets that get them, and whether it keeps them."""

    to: tuple[int, ...]
    keeps: bool


def transfers(
    before: Mapping[str, Allotment], after: Mapping[str, Allotment], name: str, bucket: int, ports: int
) -> dict[tuple[Transfer, ...], list[int]]:
    """Return what a bucket does with rows of an allotment between two states.

    Parcels with which it does the same are together, by what it does with the rows of each of so many ports.
    """
    found: dict[tuple[Transfer, ...], list[int]] = {}
    old, new = after[name].before_in(before), after[name]
    for parcel in changed_parcels(before, after)[name]:
        if bucket in old.holders(parcel):
            actions = tuple(transfer(old, new, parcel, bucket, port) for port in range(ports))
            if any(action.to or not action.keeps for action in actions):
                found.setdefault(actions, []).append(parcel)
    return found


def changed_parcels(before: Mapping[str, Allotment], after: Mapping[str, Allotment]) -> dict[str, list[int]]:
    """Return the parcels that change place, of allotments that may have some in several buckets."""
    changed: dict[str, list[int]] = {}
    for name, new in after.items():
        if is_dealt(name):
            old = new.before_in(before)
            named = sorted({*old.places, *new.places, *old.splits, *new.splits})
            parcels = [parcel for parcel in named if _layout(old, parcel) != _layout(new, parcel)]
            changed |= {name: parcels} if parcels else {}
    return changed


def is_moving(before: Mapping[str, Allotment], after: Mapping[str, Allotment]) -> bool:
    """Return whether any parcel changes place between two states."""
    return bool(moved_parcels(before, after) or changed_parcels(before, after))


def transfer(old: Allotment, new: Allotment, parcel: int, bucket: int, port: int) -> Transfer:
    """Return what a bucket that has a parcel does with its rows of a port."""
    holders, were = new.holders(parcel), old.holders(parcel)
    is_dealt_now, was_dealt = (_is_dealt(allotment, parcel, port) for allotment in (new, old))
    home, was_home = new.bucket(parcel), old.bucket(parcel)
    stays = bucket in holders
    if was_dealt and is_dealt_now:  # each row is in one bucket
        return Transfer((), keeps=True) if stays else Transfer((home,), keeps=False)
    if was_dealt:  # all rows are to be in all buckets
        return Transfer(tuple(sorted(holders - {bucket})), keeps=stays)
    if is_dealt_now:  # all rows are in all buckets, and in one of them they stay
        keeper = was_home if was_home in holders else home
        to = (keeper,) if bucket == was_home and keeper not in were else ()
        return Transfer(to, keeps=bucket == keeper)
    return Transfer(tuple(sorted(holders - were)) if bucket == was_home else (), keeps=stays)


def dealing(group: ParcelGroup, ports: Mapping[int, Mapping[VertexId, int]], buckets: Sequence[int]) -> list[Allot]:
    """Return the commands by which the joins of a group have parcels in several buckets.

    `ports` says for each parcel of which port of each join the tuples are dealt. What lies together with a join and
    relies on all tuples of a key being in one bucket stays where it is: pages go there by an exchange.
    """
    at, commands = group.allotment, list[Allot]()
    homes = {parcel: buckets[0] for parcel in ports if at.bucket(parcel) not in buckets}

    def splits_of(vertex: VertexId) -> dict[int, KeySplit]:
        return {parcel: KeySplit(by[vertex], tuple(buckets)) for parcel, by in ports.items() if vertex in by}

    joins = list(dict.fromkeys(vertex for by in ports.values() for vertex in by))
    if is_dealt(at.name):
        splits = splits_of(joins[0])
        return [Allot(at.name, at.number + 1, group.vertices, at.parcels, at.buckets, homes, splits=splits)]
    rest = tuple(vertex for vertex in group.vertices if vertex not in joins)
    if rest:
        commands.append(Allot(at.name, at.number + 1, rest, at.parcels, at.buckets, {}))
    for vertex in joins:
        name, splits = dealt_name(at.name, vertex), splits_of(vertex)
        moves = {**at.places, **homes}
        commands.append(Allot(name, 1, (vertex,), at.parcels, at.buckets, moves, splits=splits, origin=at.name))
    return commands


def _layout(allotment: Allotment, parcel: int) -> tuple[int, KeySplit | None]:
    return allotment.bucket(parcel), allotment.splits.get(parcel)


def _is_dealt(allotment: Allotment, parcel: int, port: int) -> bool:
    split = allotment.splits.get(parcel)
    return split is not None and split.port == port
