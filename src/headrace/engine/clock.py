"""The only module that reads the system's clock for anything that can influence a result."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time in microseconds since 1970, UTC."""

    def now(self) -> int: ...


class SystemClock:
    """Wall time."""

    def now(self) -> int:
        return time.time_ns() // 1000
