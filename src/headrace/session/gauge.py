"""How fast streams come, from looks at counters that only grow."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.runtime.statistics import Statistics

#: Looks closer together tell nothing new, and older ones nothing of what is now (seconds).
_NEAR, _OLD = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class _Look:
    at: float
    streams: dict[str, tuple[int, int, int]]


class Gauge:
    """Remembers looks of the last minute, and at least one earlier; times in seconds of any clock that only grows."""

    def __init__(self, began: float) -> None:
        self._looks = [_Look(began, {})]

    def look(self, now: float, seen: Statistics) -> dict[str, float]:
        """Tuples a second by stream and side stream, since the oldest look that is remembered."""
        latest = _Look(now, {name: (stream.tuples, stream.late, stream.bad) for name, stream in list(seen.streams.items())})
        while len(self._looks) > 1 and now - self._looks[1].at >= _OLD:
            self._looks.pop(0)
        first = self._looks[0]
        if now - self._looks[-1].at >= _NEAR:
            self._looks.append(latest)
        return _rates(first, latest) if now > first.at else {}


def _rates(first: _Look, latest: _Look) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, counts in latest.streams.items():
        if counts[0]:
            came = [after - before for after, before in zip(counts, first.streams.get(name, (0, 0, 0)), strict=True)]
            for side, number in zip((name, f"{name}.late", f"{name}.bad"), came, strict=True):
                found[side] = number / (latest.at - first.at)
    return found
