"""A bench that is interrupted keeps what it has measured."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Cut(BaseException):
    """The bench was told to end."""


@contextmanager
def until_cut(figures: dict[str, Any]) -> Iterator[None]:
    """Run the body until it ends, fails, or SIGINT or SIGTERM comes; then note that figures are missing."""

    def cut(number: int, frame: FrameType | None) -> None:
        raise Cut(signal.Signals(number).name)

    before = {number: signal.signal(number, cut) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except Cut as reason:
        figures["notes"].append(f"cut by {reason}: what comes after the last row was not measured")
    except Exception as error:
        traceback.print_exc()
        figures["rows"].append({"case": f"{type(error).__name__}: {error}", "ours": None, "verdict": "failed"})
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
