"""Whether a session can be used: not after it was stopped, and not in a process that was forked from its own.

A forked process has none of the threads of Polars and of Spark's client, and shares their locks and sockets. There a
session would wait for ever, or write what its parent writes.
"""

from __future__ import annotations

import os

from headrace.errors import HostFault

_FORKED = (
    "start processes with multiprocessing.get_context('spawn'), and make a session in each that uses one; "
    "threads may share a session"
)
_first: int | None = None  # the process that made the first session


class Life:
    """The life of one session, in the process that made it."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self.is_over = False

    @property
    def is_here(self) -> bool:
        """Return whether this process made the session."""
        return os.getpid() == self._process

    def check(self) -> None:
        """Raise a fault if the session cannot change anything any more."""
        if not self.is_here:
            raise HostFault(
                f"this session belongs to process {self._process}, from which this one was forked", hint=_FORKED
            )
        if self.is_over:
            raise HostFault(
                "this session has been stopped", hint="make another one; with the same checkpoint it continues"
            )


def check_process() -> None:
    """Raise a fault if this process was forked from one that had a session; otherwise remember that it has one."""
    global _first
    if _first is None:
        _first = os.getpid()
    if _first != os.getpid():
        raise HostFault(f"this process was forked from process {_first}, which has had a session", hint=_FORKED)
