"""An operator of an event expression: looks at one instant at a time, for one key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headrace.model.events.event import Mode
from headrace.model.time import BEGIN, END
from headrace.operators.events.conditions import Test
from headrace.operators.events.occurrence import Memory, Occurrence, Occurrences, merge
from headrace.operators.events.selection import Keeping


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings of an operator of an expression: the mode, what is kept of each operand, and its conditions.

    `test` is about those that make an occurrence, `blocks` about those that only prevent or end it, together with the
    former.
    """

    mode: Mode
    point: bool
    span: int | None
    keeping: tuple[Keeping, ...]
    test: Test
    blocks: Test


class Node(ABC):
    """One operator; what it remembers is in the stores `base`, `base` + 1, ... of a memory."""

    stores: int = 1
    part: int | None = None  # of a leaf: which

    def __init__(self, setting: Setting, operands: Sequence[Node], base: int) -> None:
        self.mode, self.point, self.span = setting.mode, setting.point, setting.span
        self.keeping, self.test, self.blocks = setting.keeping, setting.test, setting.blocks
        self.operands = tuple(operands)
        self.base = base

    @abstractmethod
    def step(self, memory: Memory, now: int, arrived: Sequence[Occurrences]) -> Occurrences:
        """Return what ends now, given what ended now at each operand; called at every instant with an event."""

    def timer(self, memory: Memory, last: int) -> int:
        """Return the next instant at which a timer runs out, up to `last` for a timer without end; END if none."""
        return END

    def stop(self, memory: Memory, last: int) -> None:  # noqa: B027  most have nothing that would go on forever
        """Forget what has no end of its own and is not awaited after `last`, for all is over."""

    def limits(self) -> tuple[Keeping | None, ...]:
        """Return how long what is in each store can be used; None: only as long as what is in the others."""
        return self.keeping[: self.stores]

    def merge(self, parts: Sequence[Occurrence], now: int, mark: int = 0) -> Occurrence:
        return merge(parts, now, point=self.point, mark=mark)

    def pairs(self, waiting: Sequence[Occurrence], other: Occurrence, fits: list[bool], test: Test) -> list[bool]:
        """Return which of those that fit pass the test together with another."""
        if not test or not any(fits):
            return fits
        places = [i for i, fit in enumerate(fits) if fit]
        passed = test([waiting[i].rows + other.rows for i in places])
        result = [False] * len(fits)
        for i, holds in zip(places, passed, strict=True):
            result[i] = holds
        return result


class Leaf(Node):
    """A primitive event."""

    stores = 0

    def __init__(self, part: int) -> None:
        self.part = part
        self.operands = ()
        self.base = 0

    def step(self, memory: Memory, now: int, arrived: Sequence[Occurrences]) -> Occurrences:
        return []

    def limits(self) -> tuple[Keeping | None, ...]:
        return ()


def run(node: Node, memory: Memory, now: int, arrivals: Mapping[int, Occurrences]) -> Occurrences:
    """Return what ends now at a node, given the tuples of each part that came now."""
    if node.part is not None:
        return arrivals.get(node.part, [])
    return node.step(memory, now, [run(operand, memory, now, arrivals) for operand in node.operands])


#: From a primitive event to the root: each operator, and which of its operands leads there.
Path: TypeAlias = Sequence[tuple["Node", int]]


def path(node: Node, part: int) -> Path:
    """Return the operators above a part, the lowest first; a part stands in one place of an expression."""
    for place, operand in enumerate(node.operands):
        below = path(operand, part)
        if below or operand.part == part:
            return (*below, (node, place))
    return ()


def climb(way: Path, memory: Memory, now: int, occurrences: Occurrences) -> Occurrences:
    """Return what ends now at the root if only these tuples of one part came and nothing happens by itself."""
    for node, place in way:
        if not occurrences:
            return occurrences
        arrived: list[Occurrences] = [_NOTHING] * len(node.operands)
        arrived[place] = occurrences
        occurrences = node.step(memory, now, arrived)
    return occurrences


#: What came at an operand where nothing did; it is never changed.
_NOTHING: Occurrences = []


def is_timed(node: Node) -> bool:
    """Return whether anything happens by itself in a node or below it."""
    return type(node).timer is not Node.timer or any(map(is_timed, node.operands))


def next_timer(node: Node, memory: Memory, last: int) -> int:
    """Return the next instant at which something happens by itself in a node or below it; END if none."""
    return min([node.timer(memory, last), *(next_timer(operand, memory, last) for operand in node.operands)])


def stop(node: Node, memory: Memory, last: int) -> None:
    """Forget what would go on forever in a node or below it."""
    node.stop(memory, last)
    for operand in node.operands:
        stop(operand, memory, last)


def death(node: Node, memory: Memory) -> int:
    """Return the last instant at which the memory of a node and those below it is of use; END if not known."""
    latest = max((death(operand, memory) for operand in node.operands), default=BEGIN)
    for place, keeping in enumerate(node.limits() if latest < END else ()):
        if keeping is not None:
            latest = max([latest, *map(keeping.death, memory[node.base + place])])
    return latest
