"""The interface of everything that runs in a graph: a frozen spec that says what, and a running operator.

An operator never blocks, reads no clock, draws no chance and knows no neighbour. It returns what it emits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, TypeAlias

import polars as pl
from msgspec import Struct

from headrace.model.expressions.expression import Expr
from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.feedback import Feedback
from headrace.model.patterns.pattern import Pattern
from headrace.model.time import BEGIN

#: State is immutable chunks of columns by name. A chunk object that is still the same object has not changed, so only
#: new objects are written; a name that is gone is removed. Chunks stay below about 1 MB where the operator can choose.
State: TypeAlias = Mapping[str, pl.DataFrame]


class Spec(Struct, frozen=True):
    """What a vertex does, as a frozen, hashable value that can be written as JSON; a subclass adds fields and a tag.

    The defaults are safe for every operator: one that keeps state and must see all tuples in one bucket.
    """

    @abstractmethod
    def build(self) -> Operator:
        """Make a new operator with empty state."""

    @abstractmethod
    def describe(self, inputs: Sequence[str] = ()) -> str:
        """Say in a phrase what the operator does, such as 'join bids x asks on item'.

        `inputs` says port by port where the tuples come from; without it the phrase does not name them.
        """

    @property
    def is_stateless(self) -> bool:
        """True if pages may be processed anywhere, in any order, with nothing kept."""
        return False

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        """Return expressions over the port's input such that tuples which differ in them never meet.

        The n-th key of one port corresponds to the n-th key of every other port. Empty: all tuples must meet in one
        bucket. A stateless spec is not asked.
        """
        return ()


class Operator(ABC):
    """The running half of a spec.

    An operator that `merges` gets its inputs merged by timestamp: the engine holds tuples back until no input can deliver an earlier one.
    """

    merges: ClassVar[bool] = False
    #: Whether `said` is asked after each element; of a join, that it is thrifty.
    speaks: bool = False
    #: Of a page it is given at most so many tuples at once, so that what is told meanwhile spares the rest; None: all.
    portion: int | None = None

    @abstractmethod
    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        """Take a page of the port's input; return what is ready to go out."""

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        """Take a promise; return what it completes, then what can be promised in turn."""
        return (mark,)

    def state(self) -> State:
        """All that must survive, as immutable chunks."""
        return {}

    def restore(self, state: State) -> None:  # noqa: B027  an operator without state has nothing to do
        """Continue from what `state` returned."""

    def held(self) -> int:
        """Number of tuples kept, for statistics."""
        return 0

    def late(self) -> int:
        """How many tuples came too late to be taken, since the last call."""
        return 0

    def due(self) -> int | None:
        """The least bound that would complete something now held, such as the end of an open window; None if no bound alone would."""
        return None

    def purge(self, port: int, wanted: Pattern) -> int:
        """Forget what is kept of the matching tuples of a port, which nobody needs; returns how many rows went."""
        return 0

    def said(self) -> Sequence[tuple[int, Feedback]]:
        """What the operator has to tell those before its ports, since the last call."""
        return ()

    def settled(self, wanted: Pattern) -> Sequence[Pattern]:
        """The groups whose results match already, as patterns of the input; asked only where they will match for ever."""
        return ()

    def partial(self) -> pl.DataFrame | None:
        """What would come out if the input ended now; changes nothing. None if the operator holds nothing back for later."""
        return None


class Frontier:
    """The bound of each port, and their minimum."""

    def __init__(self, ports: int) -> None:
        self.bounds = [BEGIN] * ports

    @property
    def minimum(self) -> int:
        return min(self.bounds)

    def advance(self, port: int, bound: int) -> int | None:
        """Raise a port's bound; return the new minimum if it rose, else None."""
        before = self.minimum
        self.bounds[port] = max(self.bounds[port], bound)
        after = self.minimum
        return after if after > before else None
