"""For each key an instant, least first."""

from __future__ import annotations

import heapq

from headrace.model.time import END
from headrace.operators.events.histories import Key


class Timers:
    """A heap in which a key's instant can change: entries that are no longer true are passed over."""

    def __init__(self) -> None:
        self._instants: dict[Key, int] = {}
        self._heap: list[tuple[int, int, Key]] = []
        self._count = 0  # keys need not be comparable

    def set(self, key: Key, instant: int) -> None:
        """Note when it is a key's turn; END: never."""
        if instant >= END:
            self._instants.pop(key, None)
        elif self._instants.get(key) != instant:
            self._instants[key] = instant
            self._count += 1
            heapq.heappush(self._heap, (instant, self._count, key))

    def least(self) -> int:
        """Return the least instant; END if there is none."""
        while self._heap and self._instants.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else END

    def below(self, bound: int) -> list[Key]:
        """Remove and return the keys whose turn is before the bound."""
        due = []
        while self.least() < bound:
            key = heapq.heappop(self._heap)[2]
            del self._instants[key]
            due.append(key)
        return due
