"""Python processes of Spark that do not answer in time, on a machine with too much to do: they are started again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from headrace.errors import HostFault

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

#: So many starts are tried, with so many seconds between them.
TRIES = 3
_PAUSE = 2.0
_NO_ANSWER = "Python worker failed to connect back"


def is_unanswered(error: BaseException | None) -> bool:
    """Return whether Spark gave up because a Python process did not answer."""
    return error is not None and _NO_ANSWER in str(error)


def unanswered(attempt: int) -> HostFault | None:
    """Return the fault if so many starts got no answer; None, and a warning, if another is to be tried."""
    if attempt < TRIES:
        _LOG.warning("a Python process of Spark did not answer in time; starting again (try %d of %d)", attempt, TRIES)
        return None
    return HostFault(
        f"Spark cannot start: its Python processes did not answer in time, {TRIES} times in a row",
        hint="free processor and memory for Headrace, or let it use fewer cores; then run the same command again. "
        "If the machine is idle, a firewall or a security program may block connections to 127.0.0.1",
    )


def retried(start: Callable[[], _T], pause: Callable[[float], None] = time.sleep) -> _T:
    """Return what a start gives; if Python processes do not answer, start again."""
    for attempt in range(1, TRIES + 1):
        try:
            return start()
        except Exception as error:
            if not is_unanswered(error):
                raise
            fault = unanswered(attempt)
            if fault is not None:
                raise fault from error
            pause(_PAUSE * attempt)
    raise AssertionError("the last try returns or raises")
