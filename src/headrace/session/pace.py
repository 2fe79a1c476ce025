"""How fast streams come and how long micro-batches take, from looks at counters that only grow."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.analysis.facts import SERVICE
from headrace.runtime.statistics import Statistics

#: Looks closer together tell nothing new, and older ones nothing of what is now (seconds).
_NEAR, _OLD = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Tuples a second of every stream that has brought any and of what was set aside of it; seconds of a micro-batch beside operators and reading."""

    rates: dict[str, float]
    elsewhere: float = 0.0


@dataclass(frozen=True, slots=True)
class _Look:
    at: float
    streams: dict[str, tuple[int, int, int]]
    batches: int = 0
    seconds: float = 0.0
    busy: float = 0.0


class Looks:
    """Remembers looks of the last minute, and at least one earlier; times in seconds of any clock that only grows."""

    def __init__(self, began: float) -> None:
        self._looks = [_Look(began, {})]

    def look(self, now: float, seen: Statistics, cores: int = 1) -> Pace:
        """The pace since the oldest look that is remembered."""
        streams = {name: (stream.tuples, stream.late, stream.bad) for name, stream in list(seen.streams.items())}
        busy = sum(vertex.busy_ns for vertex in list(seen.vertices.values())) / 1e9
        latest = _Look(now, streams, seen.batches, seen.total_ms / 1e3, busy)
        while len(self._looks) > 1 and now - self._looks[1].at >= _OLD:
            self._looks.pop(0)
        first = self._looks[0]
        if now - self._looks[-1].at >= _NEAR:
            self._looks.append(latest)
        return Pace(_rates(first, latest), _elsewhere(first, latest, cores)) if now > first.at else Pace({})


def _rates(first: _Look, latest: _Look) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, counts in latest.streams.items():
        if counts[0]:
            came = [after - before for after, before in zip(counts, first.streams.get(name, (0, 0, 0)), strict=True)]
            for side, number in zip((name, f"{name}.late", f"{name}.bad"), came, strict=True):
                found[side] = number / (latest.at - first.at)
    return found


def _elsewhere(first: _Look, latest: _Look, cores: int) -> float:
    """Of the mean micro-batch; how long reading takes is not measured, so it is assumed."""
    batches = latest.batches - first.batches
    if not batches:
        return 0.0
    read = sum(counts[0] - first.streams.get(name, (0, 0, 0))[0] for name, counts in latest.streams.items())
    work = latest.busy - first.busy + read * SERVICE["scan"]
    return max(0.0, (latest.seconds - first.seconds - work / cores) / batches)
