"""Bounds on demand: the bound of a source now, and when it will be higher."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from headrace.engine.clock import Clock
from headrace.graph.graph import VertexId


class Ets(Protocol):
    """The bounds of sources. Stamping a tuple and reading a bound must not overlap, or the bound could be wrong."""

    def __call__(self, source: VertexId) -> int | None:
        """Return the bound of a source now; None if it has none."""
        ...

    def when(self, source: VertexId, bound: int) -> int | None:
        """Return the time at which the source reaches `bound`; None if it never will by itself."""
        ...

    def saw(self, source: VertexId, stamp: int) -> None:
        """Take note of a tuple with this timestamp that entered at the source."""
        ...


class BatchEts:
    """Bounds that hold during a micro-batch, by source; the driver plans when they rise."""

    def __init__(self) -> None:
        self.bounds: dict[VertexId, int] = {}

    def __call__(self, source: VertexId) -> int | None:
        return self.bounds.get(source)

    def when(self, source: VertexId, bound: int) -> int | None:
        return None

    def saw(self, source: VertexId, stamp: int) -> None:
        """Do nothing: the bounds are those of streams, of which a source has a share."""


class ClockEts:
    """Bounds by the clock.

    `skews` names the sources that have bounds: None for one whose tuples are stamped by this clock when they enter,
    else the greatest delay less the least delay of its channel. A source that is not named never has one.
    """

    def __init__(self, clock: Clock, skews: Mapping[VertexId, int | None]) -> None:
        self._clock = clock
        self._skews = dict(skews)
        self._last: dict[VertexId, tuple[int, int]] = {}  # newest timestamp, and when it came

    def __call__(self, source: VertexId) -> int | None:
        if source not in self._skews:
            return None
        skew, now = self._skews[source], self._clock.now()
        if skew is None:
            return now
        if source not in self._last:
            return None
        stamp, arrived = self._last[source]
        return max(stamp, stamp + now - arrived - skew)

    def when(self, source: VertexId, bound: int) -> int | None:
        if source not in self._skews:
            return None
        skew = self._skews[source]
        if skew is None:
            return bound
        if source not in self._last:
            return None
        stamp, arrived = self._last[source]
        return arrived if bound <= stamp else arrived + bound - stamp + skew

    def saw(self, source: VertexId, stamp: int) -> None:
        if source not in self._last or stamp >= self._last[source][0]:
            self._last[source] = (stamp, self._clock.now())
