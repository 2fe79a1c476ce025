"""How fast streams come and how long micro-batches take, from looks at counters that only grow."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.analysis.facts import SERVICE
from headrace.runtime.statistics import BatchTimes, Statistics

#: Looks closer together tell nothing new, and older ones nothing of what is now (seconds).
_NEAR, _OLD = 1.0, 60.0
#: A line is not drawn through fewer micro-batches than this, nor if their sizes deviate by less than this share.
_FEW, _EVEN = 10, 0.1


@dataclass(frozen=True, slots=True)
class Measured:
    """Tuples a second by stream and side stream; seconds to read a tuple (None: cannot be told), and of a micro-batch besides."""

    rates: dict[str, float]
    reading: float | None = None
    elsewhere: float = 0.0


@dataclass(frozen=True, slots=True)
class _Look:
    at: float
    streams: dict[str, tuple[int, int, int]]
    times: BatchTimes


class Gauge:
    """Remembers looks of the last minute, and at least one earlier; times in seconds of any clock that only grows."""

    def __init__(self, began: float) -> None:
        self._looks = [_Look(began, {}, BatchTimes())]

    def look(self, now: float, seen: Statistics, cores: int = 1) -> Measured:
        """What was seen since the oldest look that is remembered."""
        streams = {name: (stream.tuples, stream.late, stream.bad) for name, stream in list(seen.streams.items())}
        latest = _Look(now, streams, seen.times)
        while len(self._looks) > 1 and now - self._looks[1].at >= _OLD:
            self._looks.pop(0)
        first = self._looks[0]
        if now - self._looks[-1].at >= _NEAR:
            self._looks.append(latest)
        return Measured(_rates(first, latest), *_costs(latest.times.since(first.times), cores)) if now > first.at else Measured({})


def _rates(first: _Look, latest: _Look) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, counts in latest.streams.items():
        if counts[0]:
            came = [after - before for after, before in zip(counts, first.streams.get(name, (0, 0, 0)), strict=True)]
            for side, number in zip((name, f"{name}.late", f"{name}.bad"), came, strict=True):
                found[side] = number / (latest.at - first.at)
    return found


def _costs(times: BatchTimes, cores: int) -> tuple[float | None, float]:
    """Fit a line through what micro-batches took beside their operators: per tuple read, and in any case.

    Where all were about as large, or larger ones took no longer, the line tells nothing, and reading is assumed to take what it usually does.
    """
    if not times.batches:
        return None, 0.0
    rest = times.seconds - times.busy / cores
    spread = times.batches * times.tuples_squared - times.tuples**2
    common = times.batches * (times.tuples_seconds - times.tuples_busy / cores) - times.tuples * rest
    if times.batches >= _FEW and spread > (_EVEN * times.tuples) ** 2 and 0 < common / spread <= rest / times.tuples:
        reading = common / spread
        return reading * cores, (rest - reading * times.tuples) / times.batches
    return None, max(0.0, rest - times.tuples * SERVICE["scan"] / cores) / times.batches
