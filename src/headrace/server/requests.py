"""Counts of requests, for metrics."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.server.route import Route

#: Upper bounds of the classes of durations, in seconds.
BOUNDS = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)


class Requests:
    """How many requests each route had, with which answer, and how long they took."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.answers: Counter[tuple[str, str, int]] = Counter()
        self.seconds: dict[tuple[str, str], list[float]] = {}  # counts by class, then the rest, then the sum

    def count(self, route: Route, status: int, seconds: float) -> None:
        """Count a request."""
        with self._lock:
            self.answers[route.path, route.method, status] += 1
            counts = self.seconds.setdefault((route.path, route.method), [0.0] * (len(BOUNDS) + 2))
            place = next((at for at, bound in enumerate(BOUNDS) if seconds <= bound), len(BOUNDS))
            counts[place] += 1
            counts[-1] += seconds
