"""A bench that is interrupted keeps what it has measured."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Cut(BaseException):
    """The bench was told to end."""


@contextmanager
def until_cut(figures: dict[str, Any]) -> Iterator[None]:
    """Run the body until it ends or SIGINT or SIGTERM comes; then note that figures are missing."""

    def cut(number: int, frame: FrameType | None) -> None:
        raise Cut(signal.Signals(number).name)

    before = {number: signal.signal(number, cut) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except Cut as reason:
        figures["notes"].append(f"cut by {reason}: what comes after the last row was not measured")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
