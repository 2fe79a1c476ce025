"""The protocol by which an engine learns what to execute next, and the values that it exchanges with a chooser."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from headrace.graph.graph import VertexId

Kind: TypeAlias = Literal["page", "punctuation", "register"]


@dataclass(frozen=True, slots=True)
class Visit:
    """An execution that is to come: of a vertex, on at most `limit` tuples."""

    vertex: VertexId
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """An execution that took place: on a page of so many tuples, a punctuation, or only the registers of the vertex."""

    vertex: VertexId
    kind: Kind
    tuples: int = 0


class Chooser(Protocol):
    """Decides who runs: the dispatch cycle, the master of the schedulers, or a fixed order."""

    def select(self, now: int) -> Visit | None:
        """Return the next execution; None if nothing can run."""
        ...

    def executed(self, visit: Visit, step: Step) -> None:
        """Take note of the execution that `select` returned."""
        ...


class InOrder:
    """A chooser that lets each of some vertices run until it cannot, in a given order; `cycle` takes note of it."""

    def __init__(
        self, vertices: Iterable[VertexId], runnable: Callable[[VertexId], bool], cycle: Chooser | None = None
    ) -> None:
        self._vertices, self._runnable, self._cycle = deque(vertices), runnable, cycle

    def select(self, now: int) -> Visit | None:
        while self._vertices:
            if self._runnable(self._vertices[0]):
                return Visit(self._vertices[0])
            self._vertices.popleft()
        return None

    def executed(self, visit: Visit, step: Step) -> None:
        if self._cycle is not None:
            self._cycle.executed(visit, step)
