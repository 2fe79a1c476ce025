"""A user-defined aggregate that leaves marks in the common folder, which tell where a bucket ran, and can be held.

`hold/ADDRESS` holds bucket tasks on that machine until the file is gone, or another is in its place. `held/ADDRESS`
says that one is held.
`load/SECONDS` lets each task take so much longer.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

from pyspark import TaskContext


class Mark(NamedTuple):
    """A bucket task that completed a window."""

    batch: int
    partition: int
    attempt: int
    address: str


_last: Mark | None = None


class Count:
    """Counts values."""

    def zero(self) -> int:
        return 0

    def add(self, state: int, values: list[float]) -> int:
        return state + len(values)

    def merge(self, state: int, other: int) -> int:
        return state + other

    def finish(self, state: int) -> int:
        _pass()
        return state


def marks(common: Path) -> list[Mark]:
    """Return all marks, by micro-batch."""
    names = [path.name.split("-") for path in (common / "marks").glob("*")]
    return sorted(Mark(int(batch), int(part), int(attempt), address) for batch, part, attempt, address in names)


def _pass() -> None:
    """Leave a mark at the first window of a task, and wait there if the machine is to be held."""
    global _last
    context = TaskContext.get()
    if context is None:
        return  # not on a cluster
    batch, address = context.getLocalProperty("streaming.sql.batchId"), os.environ["SPARK_LOCAL_IP"]
    mark = Mark(int(batch or 0), context.partitionId(), context.taskAttemptId(), address)
    if mark == _last:
        return
    _last = mark
    common = Path(os.environ["HEADRACE_TEST_COMMON"])
    _touch(common / "marks" / "-".join(map(str, mark)))
    for load in (common / "load").glob("*"):
        time.sleep(float(load.name))
    hold = common / "hold" / address
    if (holding := _text(hold)) is not None:
        _touch(common / "held" / address)
        while _text(hold) == holding:
            time.sleep(0.01)


def _touch(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.touch()


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None
