"""Starts Python workers for Spark without a full garbage collection after every task.

Spark's own daemon collects after each task, which costs 10-20 ms with Arrow and Polars loaded: more than the task itself in a small micro-batch.
Collection still happens when Python's own thresholds ask for it.
"""

from __future__ import annotations

import gc
import os
import types

import pyspark.daemon

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # one task, one core
_quiet = types.SimpleNamespace(**{name: getattr(gc, name) for name in dir(gc) if not name.startswith("_")})
_quiet.collect = lambda *_: 0
pyspark.daemon.gc = _quiet  # type: ignore[attr-defined]

if __name__ == "__main__":
    pyspark.daemon.manager()
