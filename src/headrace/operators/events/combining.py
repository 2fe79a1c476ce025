"""Operators that combine occurrences: OR, SEQUENCE, AND, ANY, TIMES."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product

from headrace.model.events.event import Mode
from headrace.operators.events.node import Node, Setting
from headrace.operators.events.occurrence import Memory, Occurrence, Occurrences
from headrace.operators.events.selection import Keeping, choose, remove

#: Whoever comes is taken in even if it has been paired at once: to be paired again, or to replace those before it.
_LATEST = (Mode.UNRESTRICTED, Mode.RECENT, Mode.PROXIMAL)


class OrNode(Node):
    """Whatever ends at either operand."""

    stores = 0

    def step(self, memory: Memory, now: int, arrived: Sequence[Occurrences]) -> Occurrences:
        return [occurrence for occurrences in arrived for occurrence in occurrences]


class SequenceNode(Node):
    """Left ones wait; a right one takes those that ended before it started."""

    def step(self, memory: Memory, now: int, arrived: Sequence[Occurrences]) -> Occurrences:
        lefts, rights = arrived
        store, keeping = memory[self.base], self.keeping[0]
        detected: Occurrences = []
        if rights:
            keeping.expire(store, now)
        for right in rights:
            fits = self.pairs(
                store,
                right,
                [occurrence.end < right.start and keeping.alive(occurrence, now) for occurrence in store],
                self.test,
            )
            groups, gone = choose(self.mode, fits)
            detected += [self.merge([*(store[i] for i in group), right], now) for group in groups]
            remove(store, gone)
        for left in lefts:  # not before: nothing that ends now precedes anything that ends now
            keeping.expire(store, now)
            keeping.add(store, left)
        return detected


class AndNode(Node):
    """Each that comes takes those of the other operand; who is not used up waits."""

    stores = 2

    def step(self, memory: Memory, now: int, arrived: Sequence[Occurrences]) -> Occurrences:
        detected: Occurrences = []
        if arrived[0] or arrived[1]:
            for side in (0, 1):
                self.keeping[side].expire(memory[self.base + side], now)
        for side in (0, 1):
            mine, others = memory[self.base + side], memory[self.base + 1 - side]
            for new in arrived[side]:
                fits = [self.keeping[1 - side].alive(partner, now) for partner in others]
                groups, gone = choose(self.mode, self.pairs(others, new, fits, self.test))
                detected += [self.merge([*(others[i] for i in group), new], now) for group in groups]
                remove(others, gone)
                if not groups or self.mode in _LATEST:
                    self.keeping[side].add(mine, new)
                if groups and self.mode is Mode.PROXIMAL:  # used up, but what it replaced is gone
                    mine.pop()
        return detected


class AnyNode(Node):
    """Each that comes completes what others have begun.

    A store for each operand, and one for what CONTINUOUS has begun.
    """

    def __init__(self, count: int, setting: Setting, operands: Sequence[Node], base: int) -> None:
        super().__init__(setting, operands, base)
        self._count = count
        self._kinds = len(operands)
        self.stores = self._kinds + 1
        self._begun = Keeping(span=self.span)

    def limits(self) -> tuple[Keeping | None, ...]:
        return (*self.keeping, self._begun)

    def step(self, memory: Memory, now: int, arrived: Sequence[Occurrences]) -> Occurrences:
        if not any(arrived):
            return []
        if self._count == 1:
            return [occurrence for occurrences in arrived for occurrence in occurrences]
        stores = memory[self.base : self.base + self._kinds]
        begun = memory[self.base + self._kinds]
        for keeping, store in zip(self.keeping, stores, strict=True):
            keeping.expire(store, now)
        begun[:] = [combination for combination in begun if self._begun.alive(combination, now)]
        detected: Occurrences = []
        for kind, occurrences in enumerate(arrived):
            for new in occurrences:
                detected += (
                    self._continue(begun, kind, new, now)
                    if self.mode is Mode.CONTINUOUS
                    else self._complete(stores, kind, new, now)
                )
        return detected

    def _complete(self, stores: Sequence[Occurrences], kind: int, new: Occurrence, now: int) -> Occurrences:
        alive = [
            [occurrence for occurrence in store if keeping.alive(occurrence, now)]
            for keeping, store in zip(self.keeping, stores, strict=True)
        ]
        others = [i for i in range(self._kinds) if i != kind and alive[i]]
        detected = self._sets(stores, alive, others, kind, new, now) if len(others) >= self._count - 1 else []
        if not detected or self.mode in _LATEST:
            self.keeping[kind].add(stores[kind], new)
        if detected and self.mode is Mode.PROXIMAL:
            stores[kind].pop()
        return detected

    def _sets(
        self,
        stores: Sequence[Occurrences],
        alive: Sequence[Occurrences],
        others: Sequence[int],
        kind: int,
        new: Occurrence,
        now: int,
    ) -> Occurrences:
        """Return the occurrences that a new constituent completes with enough other kinds.

        What the mode uses up is removed from the stores.
        """
        needed = self._count - 1
        match self.mode:
            case Mode.UNRESTRICTED | Mode.CONTINUOUS:
                sets = [
                    parts for kinds in combinations(others, needed) for parts in product(*(alive[i] for i in kinds))
                ]
                return self._tested([self.merge([*_in_order(parts), new], now) for parts in sets])
            case Mode.CUMULATIVE:
                parts = _in_order([occurrence for i in [*others, kind] for occurrence in alive[i]])
                detected = self._tested([self.merge([*parts, new], now)])
                for store in stores if detected else ():
                    store.clear()
                return detected
            case Mode.RECENT | Mode.PROXIMAL:
                latest = sorted(others, key=lambda i: (-alive[i][-1].end, i))[:needed]
                return self._take(stores, {i: alive[i][-1] for i in latest}, new, now)
            case Mode.CHRONICLE:
                earliest = sorted(others, key=lambda i: (alive[i][0].end, i))[:needed]
                return self._take(stores, {i: alive[i][0] for i in earliest}, new, now)

    def _take(
        self, stores: Sequence[Occurrences], chosen: Mapping[int, Occurrence], new: Occurrence, now: int
    ) -> Occurrences:
        """Return the set of one of each chosen kind; used up unless the latest stay."""
        detected = self._tested([self.merge([*_in_order(list(chosen.values())), new], now)])
        if detected and self.mode is not Mode.RECENT:
            for i, used in chosen.items():
                stores[i].remove(used)
        return detected

    def _continue(self, begun: Occurrences, kind: int, new: Occurrence, now: int) -> Occurrences:
        """Extend whatever lacks this kind; who completes nothing begins something."""
        detected: Occurrences = []
        unfinished: Occurrences = []
        for combination in begun:
            if combination.mark >> kind & 1:
                unfinished.append(combination)
                continue
            mark = combination.mark | 1 << kind
            longer = self.merge([combination, new], now, mark)
            done = self._tested([longer]) if mark.bit_count() == self._count else []
            detected += [self.merge([combination, new], now) for _ in done]
            if not done:
                unfinished.append(combination if mark.bit_count() == self._count else longer)
        if not detected:
            unfinished.append(self.merge([new], now, 1 << kind))
        begun[:] = unfinished
        return detected

    def _tested(self, candidates: Occurrences) -> Occurrences:
        passed = self.test([candidate.rows for candidate in candidates])
        return [candidate for candidate, holds in zip(candidates, passed, strict=True) if holds]


class TimesNode(Node):
    """The last so many; kept for the next one or used up."""

    def __init__(self, count: int, setting: Setting, operands: Sequence[Node], base: int) -> None:
        super().__init__(setting, operands, base)
        self._count = count

    def limits(self) -> tuple[Keeping | None, ...]:
        return (Keeping(span=self.span),)

    def step(self, memory: Memory, now: int, arrived: Sequence[Occurrences]) -> Occurrences:
        store, detected = memory[self.base], Occurrences()
        for new in arrived[0]:
            if self.span is not None:
                store[:] = [occurrence for occurrence in store if now - occurrence.begin <= self.span]
            store.append(new)
            if len(store) >= self._count:
                detected.append(self.merge(store[-self._count :], now))
                if self.mode not in (Mode.UNRESTRICTED, Mode.RECENT, Mode.CONTINUOUS):
                    store.clear()
                elif self.span is None:
                    del store[0]
        return detected


def _in_order(parts: Sequence[Occurrence]) -> list[Occurrence]:
    return sorted(parts, key=lambda occurrence: occurrence.end)
