"""Lets a Python worker of Spark do without the garbage collection that Spark's daemon makes after every task.

It costs 10-20 ms with Arrow and Polars loaded. Python still collects when its own thresholds are reached.
"""

from __future__ import annotations

import gc
import sys
import types

_DAEMON = "pyspark.daemon"


def collect_less(daemon: types.ModuleType | None = None) -> None:
    """Give the daemon a `gc` that does not collect; without an argument, the daemon that this worker was forked from.

    That one runs as the main module of the process. Nothing happens in any other process.
    """
    if daemon is None:
        main = sys.modules["__main__"]
        if getattr(getattr(main, "__spec__", None), "name", None) != _DAEMON:
            return
        daemon = main
    if getattr(daemon, "gc", None) is gc:
        quiet = types.SimpleNamespace(**{name: getattr(gc, name) for name in dir(gc) if not name.startswith("_")})
        quiet.collect = lambda *_: 0
        setattr(daemon, "gc", quiet)  # noqa: B010  not an exported name
