"""The interface of everything that runs in a graph: a frozen spec that says what, and a running operator.

An operator never blocks, reads no clock, draws no chance and knows no neighbour. It returns what it emits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import polars as pl
from msgspec import Struct

from headrace.model.expressions.expression import Expr
from headrace.model.page import Element, Page, Punctuation
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

    @property
    def merges_inputs(self) -> bool:
        """True if the engine merges the inputs by timestamp: it holds tuples back until no input can have earlier ones."""
        return False

    @property
    def portion(self) -> int | None:
        """The most tuples of a page to be given to the operator at once; feedback may spare it the rest. None: all."""
        return None


class Operator(ABC):
    """The running half of a spec; `operators.capabilities` lists what some operators can do besides."""

    @abstractmethod
    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        """Take a page of the port's input; return what is ready to go out."""

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        """Take a bound; return what it completes, then the bound that holds for the output."""
        return (mark,)

    def state(self) -> State:
        """Return all that must survive a restart, as immutable chunks."""
        return {}

    def restore(self, state: State) -> None:  # noqa: B027  an operator without state has nothing to do
        """Continue from what `state` returned."""


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
