"""Lets a Python worker of Spark collect garbage now and then instead of after every task, as Spark's daemon does.

A collection costs 10-20 ms with Arrow and Polars loaded, so what is imported is excluded from it after the first task.
Python's own thresholds do not suffice: they let garbage grow with the number of objects that a worker holds.

Memory that was freed goes back to the operating system at the same times: glibc and Arrow would keep it for later, some
6 to 8 MB of each process, and over hours more and more as it gets scattered. That takes about a millisecond. Driver and
planning process give it back after every so many micro-batches.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import types
from typing import Any

_DAEMON = "pyspark.daemon"
#: Garbage is collected, and memory given back, after so many tasks or micro-batches.
TASKS = 16
_TRIM: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc


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


def give_back() -> None:
    """Give memory back to the operating system that the allocators of C and Arrow keep although nothing uses it."""
    if (arrow := sys.modules.get("pyarrow")) is not None:
        arrow.default_memory_pool().release_unused()
    if _TRIM is not None:
        _TRIM(0)


class _Collector:
    """Counts the tasks of a worker: it is called after each of them."""

    def __init__(self) -> None:
        self.tasks = 0

    def __call__(self, *_: int) -> int:
        self.tasks += 1
        if self.tasks == 1:
            gc.freeze()
        if self.tasks % TASKS:
            return 0
        collected = gc.collect()
        give_back()
        return collected
