"""A vertex's output: one queue of elements with a cursor for each reader; an element goes when all have read it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TypeAlias

from headrace.model.page import Completion, Element, Page, Punctuation

#: An element and when what it was made of arrived.
Waiting: TypeAlias = tuple[Element, int]


class Buffer:
    """A FIFO shared by several readers without copies; a reader may take a page in parts.

    With `folds`, only the last of several bounds in a row is kept.
    """

    def __init__(self, readers: int, *, folds: bool = False) -> None:
        self._elements: deque[Waiting] = deque()
        self._folds = folds
        self.arrived = 0  # the arrival time of the element taken last
        self._first = 0  # position of the oldest element kept
        self._cursors = [0] * readers
        self._taken = [0] * readers  # tuples already taken of the reader's next element
        self._waiting = [0] * readers  # tuples not taken; counted, as the length of a long queue is asked for often
        self._carried: dict[int, deque[Waiting]] = {}  # elements of one reader, read before the shared ones
        # the rest of a page that was begun: the same object each time it is asked for
        self._parts: dict[int, tuple[Element, int, Page]] = {}

    def __len__(self) -> int:
        """Return how many elements are kept for the slowest reader."""
        return len(self._elements)

    def append(self, elements: Iterable[Element], arrived: int = 0) -> int:
        """Add elements; returns the number of tuples in them."""
        tuples = 0
        for element in elements:
            if isinstance(element, Page):
                tuples += len(element)
            elif isinstance(element, Punctuation) and self._folds and self._elements and self._fold(element):
                continue
            if self._cursors:
                self._elements.append((element, arrived))
        self._waiting = [waiting + tuples for waiting in self._waiting]
        return tuples

    def carry(self, reader: int, elements: Iterable[Waiting], taken: int = 0) -> None:
        """Give one reader elements to read before the shared ones, without the first `taken` tuples of the first."""
        brought = list(elements)
        if not brought:
            return
        self._waiting[reader] += sum(len(element) for element, _ in brought if isinstance(element, Page)) - taken
        self._carried[reader] = deque([*brought, *self._carried.get(reader, ())])
        self._taken[reader] += taken

    def swap(self, reader: int, elements: Iterable[Waiting]) -> None:
        """Give one reader these elements instead of all that it has not taken."""
        self._carried.pop(reader, None)
        self._taken[reader] = self._waiting[reader] = 0
        while self.unread(reader):
            self._pass(reader)
        self.carry(reader, elements)

    def unread(self, reader: int) -> int:
        """Return how many elements the reader has not taken, or not wholly."""
        waiting = self._first + len(self._elements) - self._cursors[reader]
        return waiting + len(self._carried[reader]) if reader in self._carried else waiting

    def next(self, reader: int) -> Waiting | None:
        """Return the reader's next element, whole; None if there is none."""
        if reader in self._carried:
            return self._carried[reader][0]
        place = self._cursors[reader] - self._first
        return self._elements[place] if place < len(self._elements) else None

    def head(self, reader: int) -> tuple[Element, int] | None:
        """Return the reader's next element and how many of its tuples were taken; None if there is none."""
        following = self.next(reader)
        return None if following is None else (following[0], self._taken[reader])

    def take(self, reader: int, limit: int | None = None) -> Element:
        """Remove and return the reader's next element, of a page at most `limit` tuples."""
        taken = self._taken[reader]
        element, self.arrived = (
            self._carried[reader][0] if reader in self._carried else self._elements[self._cursors[reader] - self._first]
        )
        if isinstance(element, Completion):
            self._pass(reader)
            return element
        if isinstance(element, Punctuation):
            self._pass(reader)
            while (
                self._folds and (following := self.next(reader)) is not None and isinstance(following[0], Punctuation)
            ):
                element = Punctuation(max(element.bound, following[0].bound))
                self._pass(reader)
            return element
        rest = len(element) - taken
        self._waiting[reader] -= rest if limit is None else min(limit, rest)
        if limit is None or limit >= rest:
            self._pass(reader)
            return Page(element.rows[taken:]) if taken else element
        self._taken[reader] += limit
        return Page(element.rows[taken : taken + limit])

    def taken(self, reader: int) -> int:
        """Return how many tuples of its next element the reader has taken."""
        return self._taken[reader]

    def whole(self, reader: int) -> list[Waiting]:
        """Return all that the reader has not taken, the first element whole."""
        behind = self._cursors[reader] - self._first
        return [
            *self._carried.get(reader, ()),
            *(waiting for place, waiting in enumerate(self._elements) if place >= behind),
        ]

    def rest(self, reader: int) -> list[Waiting]:
        """Return all that the reader has not taken."""
        rest = self.whole(reader)
        taken = self._taken[reader]
        if taken and rest:
            whole, arrived = rest[0]
            known = self._parts.get(reader)
            if known is None or known[0] is not whole or known[1] != taken:
                assert isinstance(whole, Page)
                known = self._parts[reader] = (whole, taken, Page(whole.rows[taken:]))
            rest[0] = (known[2], arrived)
        return rest

    def elements(self, reader: int) -> list[Element]:
        """Return the same as `rest`, without arrival times."""
        return [element for element, _ in self.rest(reader)]

    def queued(self, reader: int) -> int:
        """Return how many tuples the reader has not taken."""
        return self._waiting[reader]

    @property
    def most_queued(self) -> int:
        """The number of tuples that the slowest reader has not taken."""
        return max(self._waiting, default=0)

    def _fold(self, mark: Punctuation) -> bool:
        """Merge a bound into the last element, if that is one too and no reader has taken it."""
        last, arrived = self._elements[-1]
        if not isinstance(last, Punctuation) or max(self._cursors) >= self._first + len(self._elements):
            return False
        if mark.bound > last.bound:
            self._elements[-1] = (mark, arrived)
        return True

    def _pass(self, reader: int) -> None:
        """Move the reader to its next element, and drop what all readers have taken."""
        self._taken[reader] = 0
        if reader in self._carried:
            self._carried[reader].popleft()
            if not self._carried[reader]:
                del self._carried[reader]
            return
        self._cursors[reader] += 1
        if len(self._cursors) == 1:
            self._elements.popleft()
            self._first += 1
            return
        while self._elements and min(self._cursors) > self._first:
            self._elements.popleft()
            self._first += 1
