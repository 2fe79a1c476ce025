"""When parcels change bucket, and which: pure thresholds on the load of processors, and a choice of parcels.

A processor is what does the work of some buckets in a micro-batch, one after the other: a task on Spark. Its load is
the part of the micro-batch during which it is busy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from headrace.model.time import SECOND

#: Parcels move if the busiest processor has at least this load,
BUSY = 0.2
#: the idlest at most this,
IDLE = 0.8
#: and they differ by at least this share of the load of the busiest,
DIFFERENCE = 0.15
#: in looks over this time (microseconds).
LASTING = 2 * SECOND
#: So long after a move no other is made, since loads are averages; and a parcel that moved stays for longer.
PAUSE, STAY = 5 * SECOND, 30 * SECOND
#: No move takes more bytes or more parcels than these.
MOST_BYTES, MOST_PARCELS = 64 << 20, 256
#: A move must be worth the work that it takes within so many micro-batches; a byte takes so many seconds.
HORIZON, BYTE_SECONDS = 100, 3e-8
#: Each of the two micro-batches of a move takes at most this share longer than usual, for half of that work.
LONGER = 0.4


class Processor(Struct, frozen=True):
    """What works on some buckets, and its load; `busy` is the part of each bucket."""

    busy: Mapping[int, float]

    @property
    def load(self) -> float:
        return sum(self.busy.values())


class Movables(Struct, frozen=True):
    """The parcels of a group that can move: their loads and their buckets, and the bytes of state of each bucket.

    `split` are the loads of those that are in several buckets. They stay, as other parcels do of a group that is not
    `movable`. `splittable` are those for which it would be worth while.
    """

    loads: Mapping[int, float]
    places: Mapping[int, int]
    bytes: Mapping[int, float] = {}
    split: Mapping[int, float] = {}
    splittable: frozenset[int] = frozenset()
    movable: bool = True


class Look(Struct, frozen=True):
    """What is seen of all processors and parcels at a time; `period` is how long a micro-batch takes (seconds)."""

    time: int
    period: float
    processors: Sequence[Processor]
    groups: Mapping[str, Movables]
    is_settled: bool = True  # no earlier move is under way
    closed: frozenset[int] = frozenset()  # buckets that take nothing any more


class Balance(Struct, frozen=True):
    """What is remembered: since when the loads differ, and when parcels moved last."""

    since: int | None = None
    moved: int | None = None
    parcels: Mapping[str, Mapping[int, int]] = {}  # when each moved, by group


class Move(Struct, frozen=True):
    """Parcels to move, by group: their new buckets; and what led to it."""

    moves: Mapping[str, Mapping[int, int]]
    busiest: float
    idlest: float
    mean: float
    bytes: float
    load: float  # that goes over


def is_uneven(busiest: float, idlest: float) -> bool:
    """Return whether the loads of the busiest and the idlest processor call for a move."""
    return busiest >= BUSY and idlest <= IDLE and busiest - idlest >= DIFFERENCE * busiest


def rebalance(memory: Balance, look: Look) -> tuple[Balance, Move | None]:
    """Return what to remember, and the parcels to move now."""
    if len(look.processors) < 2:
        return Balance(), None
    busiest = max(look.processors, key=lambda processor: processor.load)
    idlest = min(look.processors, key=lambda processor: processor.load)
    if not is_uneven(busiest.load, idlest.load):
        return Balance(None, memory.moved, memory.parcels), None
    since = look.time if memory.since is None else memory.since
    memory = Balance(since, memory.moved, memory.parcels)
    pausing = memory.moved is not None and look.time - memory.moved < PAUSE
    if look.time - since < LASTING or pausing or not look.is_settled:
        return memory, None
    chosen = _choose(memory, look)
    if chosen is None:
        return memory, None
    parcels = {
        name: {**memory.parcels.get(name, {}), **dict.fromkeys(chosen.moves.get(name, {}), look.time)}
        for name in look.groups
    }
    return Balance(None, look.time, parcels), chosen


class _Plan:
    """The loads of processors as they will be, and the parcels that move for that."""

    def __init__(self, memory: Balance, look: Look) -> None:
        self._memory, self._look = memory, look
        self.loads = [dict(processor.busy) for processor in look.processors]
        self.moves: dict[str, dict[int, int]] = {}
        self.load = self.bytes = 0.0
        self._stuck: set[int] = set()  # processors from which nothing can leave

    def advance(self) -> bool:
        """Let parcels go from the busiest processor to the idlest; return False if they do not differ any more."""
        sums = [sum(busy.values()) for busy in self.loads]
        senders = [place for place in range(len(sums)) if place not in self._stuck]
        if not senders:
            return False
        busiest, idlest = max(senders, key=sums.__getitem__), min(range(len(sums)), key=sums.__getitem__)
        if not is_uneven(sums[busiest], sums[idlest]):
            return False
        if not self._even(busiest, idlest, (sums[busiest] - sums[idlest]) / 2):
            self._stuck.add(busiest)
        return True

    def _even(self, busiest: int, idlest: int, amount: float) -> bool:
        """Let parcels go that bring both to the same load, as far as possible, those with most load first."""
        busy, room = self.loads[busiest], self.loads[idlest]
        into = [bucket for bucket in room if bucket not in self._look.closed]
        candidates = sorted(
            (-load, name, parcel)
            for name, group in self._look.groups.items()
            for parcel, load in (group.loads.items() if group.movable else ())
            if group.places[parcel] in busy
            and parcel not in self.moves.get(name, {})
            and 0 < load <= amount * 1.3  # else little would be won, and the idlest would be the busiest
            and self._look.time - self._memory.parcels.get(name, {}).get(parcel, -STAY) >= STAY
        )
        taken = 0.0
        for number, (negative, name, parcel) in enumerate(candidates if into else ()):
            load, group = -negative, self._look.groups[name]
            is_last = number + 1 == len(candidates) and not taken  # one that is too heavy is better than none
            bytes_ = _bytes(group, parcel)
            if (taken + load > amount * 1.1 and not is_last) or not self._has_room(bytes_):
                continue
            if sum(map(len, self.moves.values())) >= MOST_PARCELS:
                break
            bucket = min(into, key=lambda bucket: (room[bucket], bucket))
            busy[group.places[parcel]] -= load
            room[bucket] += load
            taken, self.bytes = taken + load, self.bytes + bytes_
            self.moves.setdefault(name, {})[parcel] = bucket
        self.load += taken
        return taken > 0

    def _has_room(self, bytes_: float) -> bool:
        """Return whether a further parcel does not make the micro-batches too long, or is the only one."""
        portion = self._look.period * LONGER / (BYTE_SECONDS / 2)
        return self.bytes + bytes_ <= min(MOST_BYTES, portion if self.bytes else MOST_BYTES)


def _choose(memory: Balance, look: Look) -> Move | None:
    """Return the parcels that bring all processors to the same load, as far as that is possible."""
    plan = _Plan(memory, look)
    for _ in range(2 * len(look.processors)):
        if not plan.advance():
            break
    if not plan.moves or plan.load * look.period * HORIZON < plan.bytes * BYTE_SECONDS:
        return None
    loads = [processor.load for processor in look.processors]
    return Move(plan.moves, max(loads), min(loads), sum(loads) / len(loads), plan.bytes, plan.load)


def _bytes(group: Movables, parcel: int) -> float:
    """Return the bytes of state that a parcel has, if they are divided as its tuples are."""
    bucket = group.places[parcel]
    beside = sum(load for other, load in group.loads.items() if group.places[other] == bucket)
    return group.bytes.get(bucket, 0.0) * group.loads[parcel] / beside if beside else 0.0
