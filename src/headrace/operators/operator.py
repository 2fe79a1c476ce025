"""The interface of everything that runs in a graph: the running half of a spec.

An operator never blocks, reads no clock, draws no chance and knows no neighbor. It returns what it emits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import polars as pl

from headrace.model.page import Completion, Element, Page, Punctuation
from headrace.model.time import BEGIN

#: State is immutable chunks of columns by name. A chunk object that is still the same object has not changed, so only
#: new objects are written; a name that is gone is removed. Chunks stay below about 1 MB where the operator can choose.
State: TypeAlias = Mapping[str, pl.DataFrame]
#: The names of chunks that an operator can compute from its other chunks begin with this. They may be missing at a
#: restart, all of them or none.
DERIVED = "~"


class Operator(ABC):
    """The running half of a spec; `operators.capabilities` lists what some operators can do besides."""

    @abstractmethod
    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        """Take a page of the port's input; return what is ready to go out."""

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        """Take a bound; return what it completes, then the bound that holds for the output."""
        return (mark,)

    def on_completion(self, port: int, completion: Completion) -> Iterable[Element]:
        """Take the end of some keys; return what it completes, then what it says of the output: here nothing."""
        return ()

    def on_element(self, port: int, element: Element) -> Iterable[Element]:
        """Take whatever comes on a port."""
        match element:
            case Page():
                return self.on_page(port, element)
            case Punctuation():
                return self.on_punctuation(port, element)
            case Completion():
                return self.on_completion(port, element)

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
