"""Ctrl-C while the program is still being loaded: it ends the process at once, without a traceback of the imports."""

from __future__ import annotations

import signal
import threading


def end_at_once() -> None:
    """Let SIGINT end the process, unless somebody has asked for something else, as shells do for background jobs."""
    _change(signal.default_int_handler, signal.SIG_DFL)


def raise_again() -> None:
    """Let SIGINT raise KeyboardInterrupt, as Python does by itself."""
    _change(signal.SIG_DFL, signal.default_int_handler)


def _change(before: object, after: object) -> None:
    is_main = threading.current_thread() is threading.main_thread()  # only it may choose handlers
    if is_main and signal.getsignal(signal.SIGINT) == before:
        signal.signal(signal.SIGINT, after)  # type: ignore[arg-type]
