"""The protocol of schedulers: they see numbers about the units that can run, and choose which runs next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

#: The ways to cut a graph into units.
UnitKind: TypeAlias = Literal["path", "operator", "envelope", "plan", "greedy", "memory-optimal", "simplified"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A unit that can run, in numbers; `unit` is its place among all units, which decides where nothing else does."""

    unit: int
    kind: UnitKind
    queued: int = 0  # tuples that wait at its inputs
    bytes: float = 0.0  # their size
    oldest: int = 0  # when the oldest of them arrived
    capacity: float = 1.0  # tuples a second
    release: float = 1.0  # bytes a second that it frees
    selectivity: float = 1.0  # results for each tuple that enters
    weight: float = 1.0  # of the queries behind it
    deadline: int | None = None  # of the oldest tuple's results, if a query promises a latency
    operators: int = 1


class Turn(Struct, frozen=True):
    """The memory of a scheduler between choices; it is saved, so that a repeated micro-batch chooses the same."""

    last: int = -1  # the unit that was chosen last
    served: int = 0  # how often in a row
    tight: bool = False  # memory is short
    mean: float = 0.0  # bytes that waited, in the mean of the last choices
    since: float = 0.0  # nanoseconds of work since the oldest tuple had its turn


class Choice(Struct, frozen=True):
    """The unit that runs next, and what to remember."""

    unit: int
    turn: Turn


class Scheduler(Protocol):
    """A strategy: pure, so the same candidates and the same memory give the same choice."""

    @property
    def kinds(self) -> tuple[UnitKind, ...]:
        """The kinds of units among which it chooses."""
        ...

    @property
    def gated(self) -> bool:
        """Return whether a unit that runs takes all that was there when it began, or one page at its first operator."""
        ...

    def choose(self, candidates: Sequence[Candidate], turn: Turn) -> Choice:
        """Choose one of the candidates, of which there is at least one."""
        ...
