"""Time-stamp memory of an operator that takes its inputs merged by timestamp: one register for each input.

A register holds the timestamp of the input's head and keeps it until there is a next one, so it is a bound of the input
even while the input is empty. The operator may go on with a head at the least register.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headrace.model.page import Page
from headrace.model.schema import TS
from headrace.model.time import BEGIN


@dataclass(slots=True)
class Head:
    """The head of an input: a page with its timestamps, how far it was read and how far it is in order."""

    page: Page
    stamps: npt.NDArray[np.int64]
    first: int
    ordered: int

    def at(self, first: int) -> Head:
        """Return the head of the same page, read up to `first`."""
        return Head(
            self.page, self.stamps, first, self.ordered if first < self.ordered else _ordered(self.stamps, first)
        )

    @property
    def stamp(self) -> int:
        return int(self.stamps[self.first])


def head_of(page: Page, first: int) -> Head:
    """Return the head that a page is."""
    stamps = page.rows[TS].to_numpy()
    return Head(page, stamps, first, _ordered(stamps, first))


@dataclass(slots=True)
class Registers:
    """The registers of one operator."""

    values: list[int]
    heads: list[Head | None]
    given: list[int]  # the bounds that the operator was given of them
    marks: list[bool]  # a punctuation is at the head (only where heads are not absorbed)
    passed: int = BEGIN  # the least register at the last step
    raised: bool = False  # by a bound since the last step, not by a tuple
    newest: int = BEGIN  # timestamp of the last tuple that went out
    late: int = 0
    late_pages: list[Page] = field(default_factory=list)  # only with BoundsMode.keep_late
    relaxed: bool = True  # else every input must have a head, as without registers

    @property
    def minimum(self) -> int:
        return min(self.values)

    @property
    def pending(self) -> bool:
        """Return whether the least register rose by bounds alone, and the operator has not run since."""
        return self.raised and self.minimum > self.passed

    @property
    def holds(self) -> bool:
        """Return whether tuples wait at an input."""
        return any(head is not None for head in self.heads)

    def continue_from(self, before: Registers, ports: Mapping[int, int]) -> None:
        """Take over what the registers of the same vertex held in another graph; `ports` says which port was which."""
        for port, old in ports.items():
            self.values[port] = before.values[old]
        self.passed, self.newest = before.passed, before.newest
        self.late, self.late_pages = before.late, before.late_pages
        self.raised = True

    def begin_again(self) -> None:
        """Forget heads and what the operator was given: another one takes its place."""
        self.heads, self.given = [None] * len(self.heads), [BEGIN] * len(self.given)
        self.passed, self.newest, self.raised = BEGIN, BEGIN, True

    def see(self, port: int, stamp: int) -> None:
        """Raise the register of a port to the timestamp of its head."""
        if stamp > self.values[port]:
            self.values[port] = stamp

    def write(self, port: int, bound: int) -> bool:
        """Take a bound for a port; False if it is not new."""
        if bound <= self.values[port]:
            return False
        self.values[port] = bound
        self.raised = True
        return True

    def port(self) -> int | None:
        """Return the port whose head may be taken: at the least register, tuples first, then the lowest."""
        if not self.relaxed and None in self.heads:
            return None
        least = self.minimum
        for port, head in enumerate(self.heads):
            if head is not None and head.stamp == least:
                return port
        for port, marked in enumerate(self.marks):
            if marked and self.values[port] == least:
                return port
        return None

    def blocking(self) -> int | None:
        """Return the lowest empty port at the least register, else the lowest empty one; None if all have heads."""
        least = self.minimum
        empty = [port for port, head in enumerate(self.heads) if head is None and not self.marks[port]]
        return next((port for port in empty if self.values[port] == least), empty[0] if empty else None)

    def allowed(self, port: int) -> int:
        """Return how many tuples of a port's head may be taken together, as if one by one."""
        head = self.heads[port]
        assert head is not None
        upto: int | None = None
        for other, value in enumerate(self.values):
            if other != port:
                # a tie goes to the lower port
                limit = value - 1 if other < port and self.heads[other] is not None else value
                upto = limit if upto is None or limit < upto else upto
        if upto is None:
            return head.ordered - head.first
        return int(np.searchsorted(head.stamps[head.first : head.ordered], upto, "right"))


def fresh_registers(ports: int, *, relaxed: bool = True) -> Registers:
    """Return registers of inputs of which nothing is known yet."""
    return Registers([BEGIN] * ports, [None] * ports, [BEGIN] * ports, [False] * ports, relaxed=relaxed)


def _ordered(stamps: npt.NDArray[np.int64], first: int) -> int:
    """Return the position up to which the timestamps from `first` on do not fall."""
    falls = np.flatnonzero(np.diff(stamps[first:]) < 0)
    return len(stamps) if not len(falls) else first + int(falls[0]) + 1
