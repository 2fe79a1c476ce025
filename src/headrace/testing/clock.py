"""A clock that moves when it is told to."""

from __future__ import annotations


class VirtualClock:
    """Time in microseconds, under the test's control."""

    def __init__(self, now: int = 0) -> None:
        self._now = now

    def now(self) -> int:
        return self._now

    def advance(self, by: int) -> int:
        """Let `by` microseconds pass; return the new time."""
        if by < 0:
            raise ValueError(f"time does not go back: {by} microseconds")
        self._now += by
        return self._now

    def sleep_until(self, instant: int) -> None:
        """Pass the time up to an instant at once; nothing if it is over."""
        self._now = max(self._now, instant)
