"""Moves parcels of keys from busy processors to idle ones, if `balancing` is 'auto'."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from headrace.commands.command import Allot
from headrace.commands.key_splits import dealing
from headrace.commands.parcel_groups import ParcelGroup, parcel_groups
from headrace.commands.running import Running
from headrace.control.decisions import GatherParcel, KeepParcels, MoveParcels, SplitParcel
from headrace.control.parcel_loads import ParcelLoads
from headrace.control.policies.heavy_keys import Change, Heavy, heavy_keys, is_worth_splitting
from headrace.control.policies.rebalance import Balance, Look, Movables, Move, Processor, is_uneven, rebalance
from headrace.graph.graph import VertexId
from headrace.model.time import SECOND
from headrace.worker.wire import Report

ParcelDecision: TypeAlias = MoveParcels | SplitParcel | GatherParcel | KeepParcels

#: The weight of a new load against all before it.
_WEIGHT = 0.4
#: So often it looks (microseconds).
LOOK_EVERY = SECOND


#: What a processor does beside operators, among the work of vertices.
_REST = ""


class Balancer:
    """Looks at the load of processors every second. What has no keys is one parcel.

    What operators do for parcels is taken to be divided as the tuples are, which are counted: times that are measured
    in one processor say as much about what else runs on the machine.
    """

    def __init__(self) -> None:
        self.loads = ParcelLoads()
        self._memory = Balance()
        self._heavy = Heavy()
        #: By processor, as its buckets: the part of a micro-batch during which it works for each vertex, averaged.
        self._busy: dict[tuple[int, ...], dict[VertexId, float]] = {}
        self._told: set[str] = set()  # why parcels stay, as it was said
        self._looked: int | None = None  # when it looked last

    def after(
        self, reports: Sequence[Report], running: Running, now: int, batch_ms: float, buckets: Sequence[int]
    ) -> tuple[list[Allot], list[ParcelDecision]]:
        """Return the moves that a micro-batch calls for, and the decisions."""
        self.loads.add(reports)
        if running.balancing != "auto" or running.draining or batch_ms <= 0:
            self._memory, self._heavy, self._busy = Balance(), Heavy(), {}
            return [], []
        self._observe(reports, batch_ms)
        if self._looked is not None and now - self._looked < LOOK_EVERY:
            return [], []
        self._looked = now
        groups = {group.allotment.name: group for group in parcel_groups(running, buckets)}
        movable = {
            name: self._movables(group, reports)
            for name, group in groups.items()
            if group.hindrance is None or group.joins
        }
        processors = self._processors(groups, movable)
        is_settled = not any(report.moved for report in reports)
        closed = frozenset(buckets).difference(running.in_use(buckets))
        look = Look(now, batch_ms / 1000, processors, movable, is_settled, closed)
        self._heavy, change = heavy_keys(self._heavy, look)
        if change is not None:
            self._memory = replace(self._memory, moved=now)
            return self._split(change, groups[change.name], running.in_use(buckets))
        self._memory, move = rebalance(self._memory, look)
        if move is None:
            return [], self._kept(look, groups)
        self._told.clear()
        commands = [groups[name].moving(dict(moves), auto=True) for name, moves in move.moves.items()]
        return commands, [_decision(move, groups)]

    def _split(
        self, change: Change, group: ParcelGroup, buckets: Sequence[int]
    ) -> tuple[list[Allot], list[ParcelDecision]]:
        """Return the commands by which a parcel is in all buckets from now on, or in one again."""
        queries, parcel = list(group.queries), change.parcel
        if change.is_split:
            ports = {vertex: self.loads.heaviest_port(routes, parcel) for vertex, routes in group.joins.items()}
            commands = [replace(command, auto=True) for command in dealing(group, {parcel: ports}, buckets)]
            return commands, [SplitParcel(queries, parcel, list(buckets), change.load, change.share)]
        home = group.allotment.bucket(parcel)
        bucket = home if home in buckets else buckets[0]
        gathering = group.moving({parcel: bucket}, auto=True)
        return [gathering], [GatherParcel(queries, parcel, bucket, change.load, change.share)]

    def _observe(self, reports: Sequence[Report], batch_ms: float) -> None:
        before, self._busy = self._busy, {}
        for report in reports:
            processor = tuple(note.bucket for note in report.buckets)
            spent = {name: counts.busy_ns for name, counts in report.vertices.items()}
            spent[_REST] = max(0, report.busy_ns - sum(spent.values()))
            known = before.get(processor, {})
            self._busy[processor] = {
                name: old + _WEIGHT * (busy - old)
                for name, busy in ((name, ns / 1e6 / batch_ms) for name, ns in spent.items())
                for old in (known.get(name, busy),)
            }

    def _processors(self, groups: Mapping[str, ParcelGroup], movable: Mapping[str, Movables]) -> list[Processor]:
        """Return the processors: what parcels take where they are, and the rest as it was measured."""
        counted = {
            vertex
            for name, group in movable.items()
            if group.loads or group.split
            for vertex in (*groups[name].vertices, *groups[name].between)
        }
        at: defaultdict[int, float] = defaultdict(float)
        for group in movable.values():
            for parcel, load in group.loads.items():
                at[group.places[parcel]] += load
        for name, group in movable.items():
            for parcel, load in group.split.items():
                into = groups[name].allotment.splits[parcel].buckets
                for bucket in into:
                    at[bucket] += load / len(into)
        # what all do beside operators varies with what else the machine does
        common = sum(busy[_REST] for busy in self._busy.values()) / max(1, sum(map(len, self._busy)))
        processors = []
        for buckets, busy in self._busy.items():
            own = sum(load for vertex, load in busy.items() if vertex not in counted and vertex != _REST)
            rest = common + own / len(buckets)
            processors.append(Processor({bucket: rest + at[bucket] for bucket in buckets}))
        return processors

    def _movables(self, group: ParcelGroup, reports: Sequence[Report]) -> Movables:
        """Return the parcels of a group with their loads: its work, divided as its tuples are."""
        rates, total = self.loads.of(group) if group.is_keyed else ({0: 1.0}, 1.0)
        names = (*group.vertices, *group.between)
        work = sum(busy.get(name, 0.0) for busy in self._busy.values() for name in names)
        places = {parcel: group.allotment.bucket(parcel) for parcel in rates}
        all_loads = {parcel: work * rate / total for parcel, rate in rates.items()} if total else {}
        splits = group.allotment.splits
        loads = {parcel: load for parcel, load in all_loads.items() if parcel not in splits}
        split = {parcel: all_loads.get(parcel, 0.0) for parcel in splits} if total else {}
        sizes: dict[int, float] = {}
        for report in reports:
            held = sum(report.vertices[name].state_bytes for name in group.vertices if name in report.vertices)
            sizes |= {note.bucket: held / len(report.buckets) for note in report.buckets}
        return Movables(loads, places, sizes, split, self._splittable(group, loads), group.hindrance is None)

    def _splittable(self, group: ParcelGroup, loads: Mapping[int, float]) -> frozenset[int]:
        """Return the parcels of a group that its joins should have in several buckets if they are too heavy.

        One with less than the share of a processor in its own group is not too heavy among all.
        """
        if not group.joins:
            return frozenset()
        fair = sum(loads.values()) / max(1, len(self._busy))
        return frozenset(
            parcel
            for parcel, load in loads.items()
            if load >= fair
            and all(
                is_worth_splitting(self.loads.by_port(ports, parcel), len(self._busy)) for ports in group.joins.values()
            )
        )

    def _kept(self, look: Look, groups: Mapping[str, ParcelGroup]) -> list[ParcelDecision]:
        """Say once why parcels stay although the loads differ."""
        loads = [processor.load for processor in look.processors]
        lasts = self._memory.since is not None and look.time > self._memory.since
        if not lasts or len(loads) < 2 or not is_uneven(max(loads), min(loads)):
            return []
        hindered = next((group for group in groups.values() if group.hindrance is not None), None)
        heaviest = max((load for group in look.groups.values() for load in group.loads.values()), default=0.0)
        if heaviest > (max(loads) - min(loads)) / 2:
            why = f"one parcel alone has {heaviest / max(loads):.0%} of the work of the busiest processor"
        elif hindered is not None:
            why = f"{', '.join(hindered.queries)} cannot move: {hindered.hindrance}"
        else:
            return []
        if why.partition(" ")[0] in self._told:
            return []
        self._told.add(why.partition(" ")[0])
        return [KeepParcels(max(loads), min(loads), why)]


def _decision(move: Move, groups: Mapping[str, ParcelGroup]) -> MoveParcels:
    queries = sorted({query for name in move.moves for query in groups[name].queries})
    moved = [bucket for moves in move.moves.values() for bucket in moves.values()]
    return MoveParcels(
        queries, len(moved), sorted(set(moved)), move.busiest, move.idlest, move.mean, move.load, round(move.bytes)
    )
