"""Operators between a start and an end: NOT, APERIODIC, PERIODIC and their starred forms.

Starts wait in the first store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from headrace.model.events.event import Mode
from headrace.model.time import END
from headrace.operators.events.node import Node, Setting
from headrace.operators.events.occurrence import Memory, Occurrence, Occurrences
from headrace.operators.events.selection import Keeping, choose, remove


class _Measured(Node):
    """A node that measures a length of time."""

    def __init__(self, length: int, setting: Setting, operands: Sequence[Node], base: int) -> None:
        super().__init__(setting, operands, base)
        self._length = length


class _Delayed(_Measured):
    """A node whose occurrences come a length of time after what is in its first store."""

    def limits(self) -> tuple[Keeping | None, ...]:
        return (Keeping(),)  # it goes when its time has come

    def timer(self, memory: Memory, last: int) -> int:
        return min((start.end + self._length for start in memory[self.base]), default=END)

    def take_due(self, store: Occurrences, now: int) -> Occurrences:
        """Remove and return what has waited for the length of time."""
        due = [start for start in store if start.end + self._length <= now]
        store[:] = [start for start in store if start.end + self._length > now]
        return due


class Bracket(Node):
    """What all of them do: keep starts, and close them."""

    def begin(self, memory: Memory, now: int, starts: Occurrences) -> None:
        store, keeping = memory[self.base], self.keeping[0]
        for start in starts:
            keeping.expire(store, now)
            keeping.add(store, start)

    def ended(self, store: Occurrences, end: Occurrence) -> list[bool]:
        """Return which starts an end closes; if it is no constituent, the conditions with it are `blocks`."""
        keeping = self.keeping[0]
        return self.pairs(
            store, end, [start.end < end.start and keeping.alive(start, end.end) for start in store], self.test
        )

    def close(self, store: Occurrences, ends: Occurrences) -> None:
        """Drop the starts that were ended by what is no constituent: the oldest, or all."""
        for end in ends:
            fits = [start.end < end.start and self.keeping[0].alive(start, end.end) for start in store]
            fits = self.pairs(store, end, fits, self.blocks)
            closed = {i for i, fit in enumerate(fits) if fit}
            remove(store, {min(closed)} if closed and self.mode is Mode.CHRONICLE else closed)


class NotNode(Bracket):
    """At an end: the starts with no middle from the end of the start to the start of the end."""

    stores = 2

    def limits(self) -> tuple[Keeping | None, ...]:
        return (self.keeping[0], None)

    def step(self, memory: Memory, now: int, arrived: Sequence[Occurrences]) -> Occurrences:
        starts, middles, ends = arrived
        store, between = memory[self.base], memory[self.base + 1]
        if middles or ends:
            self.keeping[0].expire(store, now)
        between += middles
        detected: Occurrences = []
        for end in ends:
            fits = self.ended(store, end)
            live = [fit and not self._blocked(store[i], between, end) for i, fit in enumerate(fits)]
            groups, gone = choose(self.mode, live)
            detected += [self.merge([*(store[i] for i in group), end], now) for group in groups]
            remove(
                store,
                gone if self.mode in (Mode.UNRESTRICTED, Mode.CHRONICLE) else {i for i, fit in enumerate(fits) if fit},
            )
        self.begin(memory, now, starts)
        oldest = min((start.end for start in store), default=END)
        between[:] = [middle for middle in between if middle.start >= oldest]
        return detected

    def _blocked(self, start: Occurrence, between: Occurrences, end: Occurrence) -> bool:
        inside = [middle for middle in between if start.end <= middle.start and middle.end <= end.start]
        return bool(inside) and any(self.blocks([start.rows + middle.rows + end.rows for middle in inside]))


class AbsentNode(_Delayed, Bracket):
    """A span after a start, unless a middle came in the meantime."""

    def step(self, memory: Memory, now: int, arrived: Sequence[Occurrences]) -> Occurrences:
        starts, middles = arrived
        store = memory[self.base]
        self._prevent(store, middles)
        due = self.take_due(store, now)
        self.begin(memory, now, starts)
        self._prevent(store, middles)
        return [self.merge([start], now) for start in due if self.keeping[0].alive(start, now)]

    def _prevent(self, store: Occurrences, middles: Occurrences) -> None:
        for middle in middles:
            met = self.pairs(store, middle, [start.end <= middle.start for start in store], self.blocks)
            remove(store, {i for i, fit in enumerate(met) if fit})


class AperiodicNode(Bracket):
    """Each middle with the starts that no end has closed."""

    def step(self, memory: Memory, now: int, arrived: Sequence[Occurrences]) -> Occurrences:
        starts, middles, ends = arrived
        store = memory[self.base]
        if middles or ends:
            self.keeping[0].expire(store, now)
        self.close(store, ends)
        detected: Occurrences = []
        for middle in middles:
            fits = [start.end < middle.start and self.keeping[0].alive(start, now) for start in store]
            groups, gone = choose(self.mode, self.pairs(store, middle, fits, self.test))
            detected += [self.merge([*(store[i] for i in group), middle], now) for group in groups]
            if self.mode is Mode.PROXIMAL:
                remove(store, gone)
        self.begin(memory, now, starts)
        return detected


class AperiodicStarNode(Bracket):
    """At an end: the starts, each with the middles since."""

    stores = 2

    def step(self, memory: Memory, now: int, arrived: Sequence[Occurrences]) -> Occurrences:
        starts, middles, ends = arrived
        store, between = memory[self.base], memory[self.base + 1]
        if ends:
            self.keeping[0].expire(store, now)
            self.keeping[1].expire(between, now)
        detected: Occurrences = []
        for end in ends:
            fits = self.ended(store, end)
            inside = partial(self._inside, between=between, end=end)
            detected += closed(self, store, fits, end, now, inside)
        for middle in middles:
            self.keeping[1].add(between, middle)
        self.begin(memory, now, starts)
        oldest = min((start.end for start in store), default=END)
        between[:] = [occurrence for occurrence in between if occurrence.start > oldest]
        return detected

    def _inside(self, start: Occurrence, between: Occurrences, end: Occurrence) -> Occurrences | None:
        keeping = self.keeping[1]
        inside = [
            middle
            for middle in between
            if start.end < middle.start and middle.end < end.start and keeping.alive(middle, end.end)
        ]
        passed = self.blocks([start.rows + middle.rows + end.rows for middle in inside])
        return [middle for middle, holds in zip(inside, passed, strict=True) if holds] or None


class PeriodicNode(_Measured, Bracket):
    """Ticks of the starts that no end has closed; a start's mark counts its ticks."""

    def step(self, memory: Memory, now: int, arrived: Sequence[Occurrences]) -> Occurrences:
        starts, ends = arrived
        store = memory[self.base]
        self.keeping[0].expire(store, now)
        self.close(store, ends)
        due = [start for start in store if self._next(start) == now and self.keeping[0].alive(start, now)]
        if due and self.mode is Mode.PROXIMAL:
            store[:] = [start for start in store if self._next(start) != now]
        elif due:
            store[:] = [
                Occurrence(start.start, start.end, start.begin, start.rows, start.mark + (self._next(start) == now))
                for start in store
            ]
        self.begin(memory, now, [Occurrence(start.start, start.end, start.begin, start.rows) for start in starts])
        groups = [due] if due and self.mode is Mode.CUMULATIVE else [[start] for start in due]
        return [self.merge(group, now) for group in groups]

    def timer(self, memory: Memory, last: int) -> int:
        return min(
            (tick for start in memory[self.base] if self._awaited(start, tick := self._next(start), last)), default=END
        )

    def stop(self, memory: Memory, last: int) -> None:
        store = memory[self.base]
        store[:] = [start for start in store if self._awaited(start, self._next(start), last)]

    def _next(self, start: Occurrence) -> int:
        return start.end + (start.mark + 1) * self._length

    def _awaited(self, start: Occurrence, tick: int, last: int) -> bool:
        keeping = self.keeping[0]
        lasts = (keeping.age is None or tick - start.end <= keeping.age) and (
            self.span is None or tick - start.begin <= self.span
        )
        return lasts and (tick <= last or self.span is not None or keeping.age is not None)


class PeriodicStarNode(_Measured, Bracket):
    """At an end: the starts that at least one tick has passed since."""

    def step(self, memory: Memory, now: int, arrived: Sequence[Occurrences]) -> Occurrences:
        starts, ends = arrived
        store = memory[self.base]
        if ends:
            self.keeping[0].expire(store, now)
        detected: Occurrences = []
        for end in ends:
            detected += closed(
                self,
                store,
                self.ended(store, end),
                end,
                now,
                lambda start: [] if now - start.end > self._length else None,
            )
        self.begin(memory, now, starts)
        return detected


class PlusNode(_Delayed):
    """A span after each occurrence."""

    def step(self, memory: Memory, now: int, arrived: Sequence[Occurrences]) -> Occurrences:
        store = memory[self.base]
        due = self.take_due(store, now)
        store += arrived[0]
        return [Occurrence(now, now, now, start.rows) for start in due]


def closed(
    node: Node,
    store: Occurrences,
    fits: Sequence[bool],
    end: Occurrence,
    now: int,
    inside: Callable[[Occurrence], Occurrences | None],
) -> Occurrences:
    """Return what an end makes of the starts it fits, each with what is inside (None: nothing); close the starts."""
    fitting = [i for i, fit in enumerate(fits) if fit]
    match node.mode:
        case Mode.CHRONICLE:
            fitting = fitting[:1]
            taken = fitting
        case Mode.PROXIMAL:
            taken = fitting[-1:]
        case Mode.UNRESTRICTED | Mode.RECENT | Mode.CONTINUOUS | Mode.CUMULATIVE:
            taken = fitting
    filled = [(store[i], parts) for i in taken if (parts := inside(store[i])) is not None]
    if node.mode is not Mode.UNRESTRICTED:
        remove(store, set(fitting))
    if node.mode is Mode.CUMULATIVE and filled:
        middles = {id(part): part for _, parts in filled for part in parts}
        return [node.merge([*(start for start, _ in filled), *middles.values(), end], now)]
    return [node.merge([start, *parts, end], now) for start, parts in filled]
