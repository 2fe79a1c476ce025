"""Time-stamp memory of an operator that takes its inputs merged by timestamp: one register for each input.

A register holds the timestamp of the input's head and keeps it until there is a next one, so it says how far the input has come even while the
input is empty. The operator may go on with a head at the least register.
"""

from __future__ import annotations

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
        """The same page, read up to `first`."""
        return Head(
            self.page, self.stamps, first, self.ordered if first < self.ordered else _ordered(self.stamps, first)
        )

    @property
    def stamp(self) -> int:
        return int(self.stamps[self.first])


def head_of(page: Page, first: int) -> Head:
    """Look at a page that has become the head."""
    stamps = page.rows[TS].to_numpy()
    return Head(page, stamps, first, _ordered(stamps, first))


@dataclass(slots=True)
class Registers:
    """The registers of one operator."""

    values: list[int]
    heads: list[Head | None]
    told: list[int]  # what the operator knows of them
    marks: list[bool]  # a punctuation is at the head (only where heads are not absorbed)
    passed: int = BEGIN  # the least register at the last step
    raised: bool = False  # by a promise since the last step, not by a tuple
    newest: int = BEGIN  # timestamp of the last tuple that went out
    late: int = 0
    side: list[Page] = field(default_factory=list)
    relaxed: bool = True  # else every input must have a head, as without registers

    @property
    def minimum(self) -> int:
        return min(self.values)

    @property
    def pending(self) -> bool:
        """The least register rose by promises alone, and nobody was told."""
        return self.raised and self.minimum > self.passed

    @property
    def holds(self) -> bool:
        """Tuples wait at an input."""
        return any(head is not None for head in self.heads)

    def see(self, port: int, stamp: int) -> None:
        """The head of a port has this timestamp."""
        if stamp > self.values[port]:
            self.values[port] = stamp

    def write(self, port: int, bound: int) -> bool:
        """Take a promise for a port; False if it says nothing new."""
        if bound <= self.values[port]:
            return False
        self.values[port] = bound
        self.raised = True
        return True

    def port(self) -> int | None:
        """The port whose head may be taken: at the least register, tuples before punctuation, then the lowest port."""
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
        """The lowest empty port whose register is the least; the lowest empty one if none is; None if all have heads."""
        least = self.minimum
        empty = [port for port, head in enumerate(self.heads) if head is None and not self.marks[port]]
        return next((port for port in empty if self.values[port] == least), empty[0] if empty else None)

    def allowed(self, port: int) -> int:
        """How many tuples of a port's head may be taken together, as if one by one."""
        head = self.heads[port]
        assert head is not None
        upto: int | None = None
        for other, value in enumerate(self.values):
            if other != port:
                limit = (
                    value - 1 if other < port and self.heads[other] is not None else value
                )  # a tie goes to the lower port
                upto = limit if upto is None or limit < upto else upto
        if upto is None:
            return head.ordered - head.first
        return int(np.searchsorted(head.stamps[head.first : head.ordered], upto, "right"))


def fresh_registers(ports: int, *, relaxed: bool = True) -> Registers:
    """Nothing known: all inputs may still begin anywhere."""
    return Registers([BEGIN] * ports, [None] * ports, [BEGIN] * ports, [False] * ports, relaxed=relaxed)


def _ordered(stamps: npt.NDArray[np.int64], first: int) -> int:
    """Up to where the timestamps from `first` on do not fall."""
    falls = np.flatnonzero(np.diff(stamps[first:]) < 0)
    return len(stamps) if not len(falls) else first + int(falls[0]) + 1
