"""What the joins that remember tuples of both sides share: bounds, state, and forgetting."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import polars as pl

from headrace.model.page import Punctuation
from headrace.model.patterns.pattern import Pattern
from headrace.model.time import BEGIN
from headrace.operators.operator import Frontier, Operator, State


class Side(Protocol):
    """The tuples that a join remembers of one input."""

    def __len__(self) -> int: ...

    def state(self) -> dict[str, pl.DataFrame]: ...

    def restore(self, state: State) -> None: ...

    def remove(self, pattern: Pattern) -> int: ...


S = TypeVar("S", bound=Side)


class TwoSides(Operator, Generic[S]):
    """A join that remembers tuples of both sides; the bound of one side lets the other forget."""

    def __init__(self, left: S, right: S) -> None:
        self._sides = (left, right)
        self._frontier = Frontier(2)
        self._promised = BEGIN  # the bound of the output
        self._bounds: pl.DataFrame | None = None

    def state(self) -> State:
        if self._bounds is None:
            left, right = self._frontier.bounds
            self._bounds = pl.DataFrame({"left": [left], "right": [right], "promised": [self._promised]})
        return {"bounds": self._bounds} | self._sides[0].state() | self._sides[1].state()

    def restore(self, state: State) -> None:
        for side in self._sides:
            side.restore(state)
        self._bounds = state.get("bounds")
        left, right, self._promised = (BEGIN, BEGIN, BEGIN) if self._bounds is None else self._bounds.row(0)
        self._frontier.bounds = [left, right]

    def purge(self, port: int, pattern: Pattern) -> int:
        return self._sides[port].remove(pattern)

    def held(self) -> int:
        return sum(map(len, self._sides))

    def _advance(self, port: int, bound: int) -> bool:
        """Raise the bound of a port; return whether it rose."""
        if bound <= self._frontier.bounds[port]:
            return False
        self._frontier.advance(port, bound)
        self._bounds = None
        return True

    def _go_back(self, bound: int) -> None:
        """Lower the bound of the output, if tuples that came from another bucket are below it."""
        if bound < self._promised:
            self._promised, self._bounds = bound, None

    def _promise(self, bound: int) -> list[Punctuation]:
        """Raise the bound of the output, if this is a higher one."""
        if bound <= self._promised:
            return []
        self._promised = bound
        return [Punctuation(bound)]
