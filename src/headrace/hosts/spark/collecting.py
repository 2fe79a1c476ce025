"""Lets a Python worker of Spark collect garbage now and then instead of after every task, as Spark's daemon does.

A collection costs 10-20 ms with Arrow and Polars loaded, so what is imported is excluded from it after the first task.
Python's own thresholds do not suffice: they let garbage grow with the number of objects that a worker holds.
"""

from __future__ import annotations

import gc
import sys
import types

_DAEMON = "pyspark.daemon"
#: Garbage is collected after so many tasks.
TASKS = 16


def collect_less(daemon: types.ModuleType | None = None) -> None:
    """Give the daemon a `gc` that collects seldom; without an argument, the daemon that this worker was forked from.

    That one runs as the main module of the process. Nothing happens in any other process.
    """
    if daemon is None:
        main = sys.modules["__main__"]
        if getattr(getattr(main, "__spec__", None), "name", None) != _DAEMON:
            return
        daemon = main
    if getattr(daemon, "gc", None) is gc:
        seldom = types.SimpleNamespace(**{name: getattr(gc, name) for name in dir(gc) if not name.startswith("_")})
        seldom.collect = _Collector()
        setattr(daemon, "gc", seldom)  # noqa: B010  not an exported name


class _Collector:
    """Counts the tasks of a worker: it is called after each of them."""

    def __init__(self) -> None:
        self.tasks = 0

    def __call__(self, *_: int) -> int:
        self.tasks += 1
        if self.tasks == 1:
            gc.freeze()
        return gc.collect() if self.tasks % TASKS == 0 else 0
