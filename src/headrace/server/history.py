"""Figures over time, in rings: every second for 15 minutes, every 10 seconds for 6 hours.

A series is named by what it is of: `load`, `stream.bids.rate`, `query.best.latency_ms`, `promise.best.latency`,
`vertex.join-7c1e.busy`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from headrace.server.figures import Figures
from headrace.server.problems import Fault
from headrace.server.views import Beat, HistoryView, Series

#: Seconds of a step, and how many steps are kept.
RINGS = ((1, 900), (10, 2160))
#: So many series at most; those of operators that came later than that are left out.
MOST = 4000


class _Ring:
    """The last values of many series, one row each; `times` are the same for all."""

    def __init__(self, step: int, length: int) -> None:
        self.step, self.length = step, length
        self.times = np.zeros(length, dtype=np.int64)
        self.rows: dict[str, npt.NDArray[np.float32]] = {}
        self.last = 0  # the number of the newest step

    def put(self, at: float, values: dict[str, float]) -> None:
        number = int(at // self.step)
        if number <= self.last:
            return
        place = number % self.length
        for missed in range(max(self.last + 1, number - self.length + 1), number):
            self._clear(missed % self.length)
        self._clear(place)
        self.times[place] = number * self.step
        for name, value in values.items():
            row = self.rows.get(name)
            if row is None:
                if len(self.rows) >= MOST:
                    continue
                row = self.rows[name] = np.full(self.length, np.nan, dtype=np.float32)
            row[place] = value
        self.last = number
        if number % 60 == 0:  # what has gone for long
            for name in [name for name, row in self.rows.items() if np.isnan(row).all()]:
                del self.rows[name]

    def _clear(self, place: int) -> None:
        self.times[place] = 0
        for row in self.rows.values():
            row[place] = np.nan

    def order(self, since: float) -> npt.NDArray[np.int64]:
        order = np.argsort(self.times, kind="stable")
        return order[(self.times[order] > 0) & (self.times[order] >= since)]


class History:
    """All rings; the thread of the beats writes, and any thread reads."""

    def __init__(self) -> None:
        self._rings = [_Ring(step, length) for step, length in RINGS]
        self._lock = threading.Lock()

    def take(self, beat: Beat, figures: Figures | None) -> None:
        """Take the figures of a beat."""
        now = time.time()
        if all(int(now // ring.step) <= ring.last for ring in self._rings):
            return
        values = dict(_values(beat, figures))
        with self._lock:
            for ring in self._rings:
                ring.put(now, values)

    def view(self, names: Sequence[str], step: int, since_ms: int) -> HistoryView:
        """Return some series, or all that do not concern single operators; a name that ends in * stands for many."""
        ring = next((ring for ring in self._rings if ring.step == step), None)
        if ring is None:
            raise Fault(400, f"step must be one of {', '.join(str(ring.step) for ring in self._rings)} seconds")
        with self._lock:
            order = ring.order(since_ms / 1000)
            chosen = [name for name in ring.rows if _matches(name, names)]
            times = tuple(int(second) * 1000 for second in ring.times[order])
            series = tuple(Series(name, _plain(ring.rows[name][order])) for name in chosen)
        return HistoryView(float(step), times, series)


def _matches(name: str, wanted: Sequence[str]) -> bool:
    if not wanted:
        return not name.startswith("vertex.")
    return any(name == each or (each.endswith("*") and name.startswith(each[:-1])) for each in wanted)


def _plain(values: npt.NDArray[np.float32]) -> tuple[float | None, ...]:
    return tuple(None if value != value else round(value, 6) for value in values.tolist())


def _values(beat: Beat, figures: Figures | None) -> Iterator[tuple[str, float]]:
    if beat.load is not None:
        yield "load", beat.load
    if beat.took_ms is not None:
        yield "took_ms", beat.took_ms
    yield "batch", beat.batch
    yield "rate", beat.rate
    yield "queued", beat.queued
    yield "state_bytes", beat.state_bytes
    for stream in beat.streams:
        yield f"stream.{stream.name}.rate", stream.rate
        yield f"stream.{stream.name}.late", stream.late
        yield f"stream.{stream.name}.bad", stream.bad
        yield f"stream.{stream.name}.behind_ms", stream.behind_ms
        if stream.lag_ms is not None:
            yield f"stream.{stream.name}.lag_ms", stream.lag_ms
    for query in beat.queries:
        yield f"query.{query.name}.rate", query.rate
        yield f"query.{query.name}.waiting", query.waiting
        yield f"query.{query.name}.state_bytes", query.state_bytes
        yield f"query.{query.name}.shed", query.shed
        if query.latency_ms is not None:
            yield f"query.{query.name}.latency_ms", query.latency_ms
    for standing in beat.promises:
        yield f"promise.{standing.query}.{standing.measure}.promised", standing.promised
        if standing.observed is not None:
            yield f"promise.{standing.query}.{standing.measure}.observed", standing.observed
    for vertex in () if figures is None else figures.vertices(None):
        yield f"vertex.{vertex.id}.rate_in", vertex.rate_in
        yield f"vertex.{vertex.id}.rate_out", vertex.rate_out
        yield f"vertex.{vertex.id}.busy", vertex.busy
        yield f"vertex.{vertex.id}.queued", vertex.queued
        yield f"vertex.{vertex.id}.state_bytes", vertex.state_bytes
