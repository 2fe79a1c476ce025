"""A vertex's output: one queue of elements with a cursor for each reader; an element goes when all have read it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from headrace.elements.page import Element, Page


class Buffer:
    """FIFO shared by several readers without copies."""

    def __init__(self, readers: int) -> None:
        self._elements: deque[Element] = deque()
        self._first = 0  # position of the oldest element kept
        self._cursors = [0] * readers

    def append(self, elements: Iterable[Element]) -> int:
        """Add elements; returns the number of tuples in them."""
        tuples = 0
        for element in elements:
            if self._cursors:
                self._elements.append(element)
            if isinstance(element, Page):
                tuples += len(element)
        return tuples

    def unread(self, reader: int) -> int:
        """How many elements the reader has not taken."""
        return self._first + len(self._elements) - self._cursors[reader]

    def take(self, reader: int) -> Element:
        """The reader's next element."""
        element = self._elements[self._cursors[reader] - self._first]
        self._cursors[reader] += 1
        while self._elements and min(self._cursors) > self._first:
            self._elements.popleft()
            self._first += 1
        return element

    def queued(self, reader: int) -> int:
        """How many tuples the reader has not taken."""
        start = self._cursors[reader] - self._first
        return sum(len(e) for i, e in enumerate(self._elements) if i >= start and isinstance(e, Page))
