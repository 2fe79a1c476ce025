"""The newest timestamp before a split, where several tasks read one lane.

A tuple is late if it lies more than the skew behind the newest before it in its lane, so a task must know the newest
timestamp of the splits before its own, which other tasks read at the same time. Each task leaves that of its splits in
a file once it has read them, and holds its tuples back until it has those of the others. The files save time only: what
is missing after a while is found by reading that split, and gives the same.
"""

from __future__ import annotations

import re
import time as clock
from pathlib import Path

from headrace.storage import files

#: The pause between two looks for a file, in seconds.
_PAUSE = 0.002
#: The least time to wait for another task if waiting makes sense at all, in seconds.
_LEAST = 0.1
_NONE = b"none"
_NUMBER = re.compile(rb"-?\d{1,18}")


class LaneTimes:
    """The newest timestamps of splits that tasks have read, by micro-batch and name.

    `patience` says how long to wait for another task, in multiples of the time that reading it here would take. Tasks
    that run one after the other need none.
    """

    def __init__(self, directory: Path | None, patience: float = 0.0) -> None:
        self._directory = directory
        self.patience = patience
        self.waited_ns = 0  # so far

    def tell(self, time: int, name: str, newest: int | None) -> None:
        """Leave the newest timestamp of a split for other tasks of the micro-batch; None if it has no tuple."""
        if self._directory is not None:
            data = _NONE if newest is None else str(newest).encode()
            files.replace(self._directory / f"{time}.{name}", data, durable=False)

    def ask(self, time: int, name: str, reading: float) -> tuple[bool, int | None]:
        """Return whether another task has told the newest timestamp of a split that takes so long to read, and it."""
        if self._directory is None:
            return False, None
        began = clock.perf_counter_ns()
        deadline = clock.monotonic() + self.patience * max(reading, _LEAST)
        while (data := files.read_if_exists(self._directory / f"{time}.{name}")) is None:
            if clock.monotonic() >= deadline:
                break
            clock.sleep(_PAUSE)
        self.waited_ns += clock.perf_counter_ns() - began
        if data is None or data == _NONE:
            return data is not None, None
        # it was not forced to disk; a split can be read here as well
        return (True, int(data)) if _NUMBER.fullmatch(data) else (False, None)


def forget_notes(directory: Path, upto: int) -> None:
    """Delete all files that tasks of micro-batches up to a time have left."""
    times = ((name, name.split(".", 1)[0]) for name in files.names(directory))
    names = [name for name, time in times if time.removeprefix("-").isdigit() and int(time) <= upto]
    files.remove(*(directory / name for name in names), durable=False)
