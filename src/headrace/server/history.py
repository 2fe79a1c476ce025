"""Figures over time, in rings: every second for 15 minutes, every 10 seconds for 6 hours.

A series is named by what it is of: `load`, `stream.bids.rate`, `query.best.latency_ms`, `promise.best.latency`,
`vertex.join-7c1e.busy`.

The rings are written to the checkpoint every half minute and at the end, so that the time before a crash can be looked
at after it. That is a convenience: a file that is damaged, or of another version, is left out.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from headrace.errors import HostFault
from headrace.server.figures import Figures
from headrace.server.problems import Fault
from headrace.server.views.deployment import HistoryView, Series
from headrace.server.views.figures import Beat
from headrace.storage import sealed

_LOG = logging.getLogger(__name__)
#: Seconds of a step, and how many steps are kept.
RINGS = ((1, 900), (10, 2160))
#: So many series at most; those of operators that came later than that are left out.
MOST = 4000
#: The file in the checkpoint, how many series it holds at most, and after how many seconds it is written again.
FILE, MOST_KEPT, EVERY = "history.bin", 1000, 30.0


class _KeptRing(Struct, frozen=True):
    """A ring as it is stored: times from the oldest to the newest, and a row of values for each name."""

    step: int
    times: bytes
    names: tuple[str, ...]
    values: bytes


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

    def kept(self) -> _KeptRing:
        """Return the ring as it is stored; if it has too many series, those of operators are left out first."""
        order = self.order(0)
        names = sorted(self.rows, key=lambda name: name.startswith("vertex."))[:MOST_KEPT]
        values = b"".join(self.rows[name][order].tobytes() for name in names)
        return _KeptRing(self.step, self.times[order].tobytes(), tuple(names), values)

    def restore(self, kept: _KeptRing, now: float) -> None:
        """Go on after what was stored, unless it is of the future; raise ValueError if it does not fit."""
        times = np.frombuffer(kept.times, dtype=np.int64)
        values = np.frombuffer(kept.values, dtype=np.float32).reshape(len(kept.names), len(times))
        if not len(times) or int(times.max()) > now:
            return
        recent = times > now - self.step * self.length
        places = (times[recent] // self.step) % self.length
        self.times[places] = times[recent]
        for name, row in zip(kept.names, values, strict=True):
            self.rows[name] = np.full(self.length, np.nan, dtype=np.float32)
            self.rows[name][places] = row[recent]
        self.last = int(times.max()) // self.step

    def order(self, since: float) -> npt.NDArray[np.int64]:
        order = np.argsort(self.times, kind="stable")
        return order[(self.times[order] > 0) & (self.times[order] >= since)]


class History:
    """All rings; the thread of the beats writes, and any thread reads."""

    def __init__(self, checkpoint: Path | None = None) -> None:
        self._rings = [_Ring(step, length) for step, length in RINGS]
        self._lock = threading.Lock()
        self._file = None if checkpoint is None else checkpoint / FILE
        self._written = time.monotonic()
        self._read()

    def take(self, beat: Beat, figures: Figures | None) -> None:
        """Take the figures of a beat."""
        now = time.time()
        if all(int(now // ring.step) <= ring.last for ring in self._rings):
            return
        values = dict(_values(beat, figures))
        with self._lock:
            for ring in self._rings:
                ring.put(now, values)
        if time.monotonic() - self._written >= EVERY:
            self.write()

    def write(self) -> None:
        """Write the rings to the checkpoint."""
        if self._file is None:
            return
        self._written = time.monotonic()
        with self._lock:
            kept = [ring.kept() for ring in self._rings]
        try:
            sealed.replace(self._file, msgspec.msgpack.encode(kept))
        except OSError as error:
            _LOG.warning("the history of figures cannot be written: %s", error)

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

    def _read(self) -> None:
        try:
            data = None if self._file is None else sealed.read_if_exists(self._file)
            kept = [] if data is None else msgspec.msgpack.decode(data, type=list[_KeptRing])
            for ring in self._rings:
                for stored in kept:
                    if stored.step == ring.step:
                        ring.restore(stored, time.time())
        except (OSError, ValueError, HostFault) as error:
            _LOG.warning("the history of figures begins again, since what was stored cannot be read: %s", error)


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
