"""Repetition: at an end, all middles since a start, in the order in which they are written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from headrace.model.events.event import Mode
from headrace.model.time import END
from headrace.operators.events.between import Bracket, closed
from headrace.operators.events.conditions import Links
from headrace.operators.events.node import Node, Setting
from headrace.operators.events.occurrence import Memory, Occurrence, Occurrences
from headrace.operators.events.selection import remove

Counts = Sequence[tuple[int, int | None]]


class RepetitionNode(Bracket):
    """Starts wait in the first store, each kind of middle in one of those behind it."""

    def __init__(
        self, counts: Counts, links: Sequence[Links | None], setting: Setting, operands: Sequence[Node], base: int
    ) -> None:
        super().__init__(setting, operands, base)
        self._counts, self._links = counts, links
        self._has_start = len(operands) == len(counts) + 2
        self.stores = len(operands) - 1
        self._first = int(self._has_start)  # the place of the first middle

    def step(self, memory: Memory, now: int, arrived: Sequence[Occurrences]) -> Occurrences:
        between = memory[self.base + self._first : self.base + self.stores]
        ends, middles = arrived[-1], arrived[self._first : -1]
        if ends:
            for place in range(self.stores):
                self.keeping[place].expire(memory[self.base + place], now)
        detected: Occurrences = []
        for end in ends:
            detected += self._ended(memory, between, end, now)
        for place, (store, new) in enumerate(zip(between, middles, strict=True), self._first):
            keeping = self.keeping[place]
            if new:
                keeping.expire(store, now)
            for middle in new:
                keeping.add(store, middle)
        if self._has_start:
            starts = memory[self.base]
            self.begin(memory, now, arrived[0])
            oldest = min((start.end for start in starts), default=END)
            for store in between:
                store[:] = [middle for middle in store if middle.start > oldest]
        return detected

    def _ended(self, memory: Memory, between: Sequence[Occurrences], end: Occurrence, now: int) -> Occurrences:
        if self._has_start:
            starts = memory[self.base]
            return closed(
                self, starts, self.ended(starts, end), end, now, partial(self._inside, between=between, end=end)
            )
        inside = self._between(None, between, end)
        filled = self._filled(inside)
        if self.mode is not Mode.UNRESTRICTED:
            for store, taken in zip(between, inside, strict=True):
                gone = set(map(id, taken))
                remove(store, {i for i, middle in enumerate(store) if id(middle) in gone})
        return [] if filled is None else [self.merge([*filled, end], now)]

    def _inside(self, start: Occurrence, between: Sequence[Occurrences], end: Occurrence) -> Occurrences | None:
        return self._filled(self._between(start, between, end))

    def _between(self, start: Occurrence | None, between: Sequence[Occurrences], end: Occurrence) -> list[Occurrences]:
        """Return the middles of each kind that lie between a start and an end and pass the conditions with them."""
        found: list[Occurrences] = []
        for place, store in enumerate(between, self._first):
            keeping = self.keeping[place]
            inside = [
                middle
                for middle in store
                if (start is None or start.end < middle.start)
                and middle.end < end.start
                and keeping.alive(middle, end.end)
            ]
            if inside and self.blocks:
                before = () if start is None else start.rows
                passed = self.blocks([before + middle.rows + end.rows for middle in inside])
                inside = [middle for middle, holds in zip(inside, passed, strict=True) if holds]
            found.append(inside)
        return found

    def _filled(self, inside: Sequence[Occurrences]) -> Occurrences | None:
        """Return all middles if their numbers are as they should be, and those of one kind before those of the next.

        Those that are linked with the one before, too: all of them, or without a start those behind the last break.
        """
        last: int | None = None
        if any(self._links):
            kept = [self._linked(middles, links) for middles, links in zip(inside, self._links, strict=True)]
            if None in kept:
                return None
            inside = [middles for middles in kept if middles is not None]
        for middles, (least, most) in zip(inside, self._counts, strict=True):
            if len(middles) < least or (most is not None and len(middles) > most):
                return None
            if middles:
                if last is not None and min(middle.start for middle in middles) <= last:
                    return None
                ended = max(middle.end for middle in middles)
                last = ended if last is None else max(last, ended)
        return [middle for middles in inside for middle in middles]

    def _linked(self, middles: Occurrences, links: Links | None) -> Occurrences | None:
        breaks = [] if links is None else links.breaks([middle.rows[0] for middle in middles])
        if not breaks:
            return middles
        return None if self._has_start else middles[breaks[-1] :]
