"""Machines that share the partitions of a join, in virtual time, and the two published ways to move partitions.

A splitter sends each tuple to the machine that has its partition. A manager looks at the load of all machines; when
parcels move, and which, is decided by the policy of a deployment (`control.policies.rebalance`). How they move is one
of two protocols of D-CAPE:

- PTLB: tuples of the partitions go to sender and receiver, until the sender has no row from before the move.
- MSLB: tuples wait at the splitter, while the sender works off its queue and sends the rows of the partitions.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from headrace.control.policies.rebalance import Balance, Look, Movables, Processor, rebalance
from headrace.model.join_tree import Tree
from headrace.model.time import SECOND
from headrace.operators.operator import State
from headrace.optimizer.joins.cost import Costs
from headrace.testing.simulation.box import Arrivals
from headrace.testing.simulation.machine import LocalPolicy, Machine, Mark, Shared, Tuple

#: How partitions move; None if they stay.
Way = Literal["PTLB", "MSLB"] | None
#: Seconds between two looks of the manager, as in a deployment.
LOOK_EVERY = 1.0


class Moment(NamedTuple):
    """The state at a time: results of all machines, rows that are held, tuples that wait, rows of joined states."""

    time: float
    out: int
    held: int
    waiting: int
    joined: int
    first_share: float  # of the rows and waiting tuples that the first machine has


@dataclass(slots=True)
class Relocation:
    """Partitions that leave a machine: their receivers, what was said about it, and when it ended."""

    way: Literal["PTLB", "MSLB"]
    sender: int
    parcels: dict[int, int]
    began: float
    messages: list[str] = field(default_factory=list)
    ended: float = math.inf
    rows: int = 0  # that were sent, or came twice
    buffer: list[Tuple] = field(default_factory=list)
    missing: int = 0  # receivers that do not have their rows yet


@dataclass(slots=True)
class Shares:
    """What a run gave: moments, and the moves."""

    moments: list[Moment] = field(default_factory=list)
    moves: list[Relocation] = field(default_factory=list)
    trees: list[set[Tree]] = field(default_factory=list)  # that each machine ran

    def at(self, time: float) -> Moment:
        """Return the last moment up to a time."""
        return max((moment for moment in self.moments if moment.time <= time), key=lambda moment: moment.time)


class Cluster:
    """Machines, the splitter with its table, and the manager."""

    def __init__(
        self,
        setting: Shared,
        tree: Tree,
        *,
        costs: Costs,
        capacity: float,
        memory: float,
        way: Way = None,
        local: Sequence[LocalPolicy | None] | None = None,
        network: float = math.inf,
        looks_from: float = 0.0,
    ) -> None:
        """Begin with one tree everywhere; `memory` are the rows that count as a full machine, `network` rows/s."""
        self._setting, self._way, self._memory, self._network = setting, way, memory, network
        policies = local or [None] * setting.machines
        self.machines = [Machine(setting, tree, costs, capacity, policy) for policy in policies]
        self._table = setting.places()
        self._counts = np.zeros(setting.partitions)
        self._balance = Balance()
        self._looked = looks_from
        self._active: dict[int, Relocation] = {}
        self.moves: list[Relocation] = []

    def send(self, at: float, port: int, key: int) -> None:
        """Send a tuple to the machine that has its partition."""
        parcel = key % self._setting.partitions
        self._counts[parcel] += 1
        for number, move in self._active.items():
            if parcel in move.parcels and not math.isfinite(move.ended):
                if move.way == "MSLB":
                    move.buffer.append(Tuple(at, port, key))
                else:
                    move.rows += 1
                    self.machines[move.sender].queue.append(Tuple(at, port, key, number))
                    self.machines[move.parcels[parcel]].queue.append(Tuple(at, port, key))
                return
        self.machines[self._table[parcel]].queue.append(Tuple(at, port, key))

    def run(self, until: float, tick: float) -> Moment:
        """Let all machines work until a time, and the manager look."""
        for machine in self.machines:
            machine.run(until)
        for number, move in list(self._active.items()):
            if move.way == "PTLB":
                self._check_old(number, move, until)
            if move.ended <= until:
                del self._active[number]
        for machine in self.machines:
            machine.tick(until)
        sizes = [machine.sizes() for machine in self.machines]
        waiting = [len(machine.queue) for machine in self.machines]
        if self._way is not None and until - self._looked >= LOOK_EVERY:
            self._looked = until
            self._look(until, tick, [sum(size.values()) for size in sizes], waiting)
        held = [sum(size.get(str(port), 0) for port in range(3)) for size in sizes]
        all_rows = [sum(size.values()) + count for size, count in zip(sizes, waiting, strict=True)]
        buffered = sum(len(move.buffer) for move in self._active.values())
        return Moment(
            until,
            sum(machine.out for machine in self.machines),
            sum(held),
            sum(waiting) + buffered,
            sum(sum(size.values()) for size in sizes) - sum(held),
            all_rows[0] / max(1, sum(all_rows)),
        )

    def _look(self, time: float, tick: float, rows: Sequence[int], waiting: Sequence[int]) -> None:
        """Ask the policy; a machine's load is its rows and waiting tuples, of what it can hold."""
        loads = [(held + count) / self._memory for held, count in zip(rows, waiting, strict=True)]
        beside = np.zeros(len(loads))
        np.add.at(beside, self._table, self._counts)
        parcels = {
            parcel: loads[place] * float(self._counts[parcel]) / max(1.0, float(beside[place]))
            for parcel, place in enumerate(self._table)
        }
        look = Look(
            round(time * SECOND),
            tick,
            [Processor({place: load}) for place, load in enumerate(loads)],
            {"join": Movables(parcels, dict(enumerate(self._table)))},
            is_settled=not self._active,
        )
        self._balance, move = rebalance(self._balance, look)
        self._counts *= 0.7
        if move is None or self._way is None:
            return
        senders: dict[int, dict[int, int]] = {}
        for parcel, place in move.moves["join"].items():
            senders.setdefault(self._table[parcel], {})[parcel] = place
        for sender, leaving in senders.items():
            relocation = Relocation(self._way, sender, leaving, time)
            relocation.messages += ["DM>S ComputePartitionsToMove", "S>DM PartitionsToMove"]
            number = len(self.moves)
            self.moves.append(relocation)
            self._active[number] = relocation
            if self._way == "PTLB":
                self._duplicate(number, relocation)
            else:
                self._deactivate(number, relocation)

    # PTLB

    def _duplicate(self, number: int, move: Relocation) -> None:
        """Send tuples of the partitions to both from now on; what the sender has got before is old."""
        move.messages += ["DM>S,K DuplicatePartitions", "K>S CheckOld"]

        def separate(machine: Machine, time: float) -> float:
            machine.welcome(number, machine.give(move.parcels))  # the same machine: this costs nothing
            limit = round((move.began + self._setting.window) * SECOND)
            machine.guests[number].counts_until = limit  # results without an old part come from the receiver
            return 0.0

        self.machines[move.sender].queue.append(Mark(move.began, separate))

    def _check_old(self, number: int, move: Relocation, time: float) -> None:
        """End a move once all rows from before it have expired at the sender."""
        sender = self.machines[move.sender]
        if number not in sender.guests or sender.progress <= move.began + self._setting.window:
            return
        move.messages += [
            "S>DM AllOldPurged",
            "DM>S,K DeletePartitions",
            "K>S DeletePartitions",
            "S>DM PartitionDeleted",
        ]
        sender.done += sender.guests.pop(number).out
        sender.queue = deque(entry for entry in sender.queue if isinstance(entry, Mark) or entry.guest != number)
        move.ended = time
        for parcel, place in move.parcels.items():
            self._table[parcel] = place

    # MSLB

    def _deactivate(self, number: int, move: Relocation) -> None:
        """Let tuples of the partitions wait; the sender works off what it has got, then sends the rows."""
        move.messages += [
            "DM>S,K DeactivatePartitions",
            "K>DM MinTimestamp",
            "DM>K SyncTime",
            "K>S EndOfPartition",
        ]
        receivers = sorted(set(move.parcels.values()))
        move.missing = len(receivers)

        def send(machine: Machine, time: float) -> float:
            move.messages += ["S>DM Deactivated", "DM>S SendPartitions"]
            arrives = time
            for receiver in receivers:
                given = machine.give(parcel for parcel, place in move.parcels.items() if place == receiver)
                count = sum(len(rows) for rows in given.values())
                move.rows += count
                arrives += count / self._network
                move.messages.append("S>R ReceivePartitions")
                self.machines[receiver].inbox.append(Mark(arrives, partial(self._receive, number, move, given)))
            return 0.0

        self.machines[move.sender].queue.append(Mark(move.began, send))

    def _receive(self, number: int, move: Relocation, given: State, machine: Machine, start: float) -> float:
        """Take rows in, compute the states that the tree of this machine has, and say so."""
        cost = machine.welcome(number, given)

        def received(there: Machine, time: float) -> float:
            move.messages.append("R>DM Received")
            move.missing -= 1
            if not move.missing:
                self._reactivate(number, move, time)
            return 0.0

        machine.inbox.append(Mark(start + cost / machine.capacity, received))  # when that is done
        return cost

    def _reactivate(self, number: int, move: Relocation, time: float) -> None:
        """Send what has waited to the receivers, then what comes."""
        move.messages.append("DM>K ReactivatePartitions")
        move.ended = time
        for parcel, place in move.parcels.items():
            self._table[parcel] = place
        for entry in move.buffer:
            receiver = self.machines[move.parcels[entry.key % self._setting.partitions]]
            receiver.queue.append(entry._replace(guest=number))
        move.buffer.clear()

        def settle(machine: Machine, time: float) -> float:
            machine.settle(number)
            return 0.0

        for place in sorted(set(move.parcels.values())):
            self.machines[place].queue.append(Mark(time, settle))


def share_out(
    cluster: Cluster,
    setting: Shared,
    seconds: float,
    *,
    seed: int = 1,
    rates: Callable[[float], Sequence[float]] | None = None,
    tick: float = 0.5,
    lasts: float | None = None,
) -> Shares:
    """Run machines for some seconds; tuples come until `lasts`."""
    arrivals = Arrivals(setting.rates, seed, lambda time: (setting.keys,) * 2, rates)
    result = Shares(trees=[set() for _ in cluster.machines])
    now = 0.0
    while now < seconds:
        now += tick
        for at, port, left, right in arrivals.until(now):
            if lasts is None or at < lasts:
                cluster.send(at, port, right if port == 0 else left)
        result.moments.append(cluster.run(now, tick))
        for trees, machine in zip(result.trees, cluster.machines, strict=True):
            trees.add(machine.box.tree)
    result.moves = cluster.moves
    return result
