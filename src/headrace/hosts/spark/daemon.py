"""Starts Python workers for Spark: without a full garbage collection after every task, and from compiled modules.

Spark's own daemon collects after each task. That costs 10-20 ms with Arrow and Polars loaded, more than the task itself
in a small micro-batch; `hosts.spark.collecting` collects less often. Spark also puts a zip of its Python sources first
on the path, which every worker would compile again; the installed package, if it is the same, has them compiled.

On a cluster, Spark's own daemon runs: ours would have to be importable before Spark unpacks what a program sends along.
There, the first task of a worker sees to it.

`HEADRACE_WORKER_MEMORY`, in megabytes, is a hard limit on the memory of each worker. Files that it maps, such as large
state, do not count.
"""

from __future__ import annotations

import os
import sys

from headrace.hosts.spark.python_path import without_zips

sys.path[:] = without_zips(sys.path)
os.environ.setdefault("POLARS_MAX_THREADS", "1")  # one task, one core

import resource  # noqa: E402

import pyspark.daemon  # noqa: E402

from headrace.hosts.spark.collecting import collect_less  # noqa: E402

collect_less(pyspark.daemon)

if "HEADRACE_WORKER_MEMORY" in os.environ:
    limit = int(os.environ["HEADRACE_WORKER_MEMORY"]) << 20
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # Arrow's own pool would reserve a gigabyte at once
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))  # of the daemon, and so of the workers that it forks

if __name__ == "__main__":
    pyspark.daemon.manager()
